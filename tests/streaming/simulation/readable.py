"""Steps written as JSON lines, the way a person would."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from binlog_lab.innodb_writer.operations_layout import OperationCode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlog_lab.innodb_writer.operations import WriterStep

_WITH_SESSION = {
    OperationCode.BEGIN,
    OperationCode.EVENT,
    OperationCode.SPILL,
    OperationCode.COMMIT,
    OperationCode.ROLLBACK,
    OperationCode.XA_PREPARE,
    OperationCode.SAVEPOINT,
    OperationCode.ROLLBACK_TO,
    OperationCode.STATEMENT_START,
    OperationCode.STATEMENT_ROLLBACK,
    OperationCode.PIECE,
}


def json_lines(steps: Iterable[WriterStep]) -> str:
    """One line for each step, with event bytes in base64."""
    return "".join(json.dumps(_line(step)) + "\n" for step in steps)


def _line(step: WriterStep) -> dict[str, object]:
    operation = step.operation
    line: dict[str, object] = {"op": operation.name.lower()}
    if operation in _WITH_SESSION:
        line["session"] = step.sid
    if operation in (OperationCode.EVENT, OperationCode.PIECE, OperationCode.SPILL):
        line["cache"] = step.cache.name.lower()
    if step.data:
        line["data"] = _base64(step.data)
    if step.gtid is not None:
        line["gtid"] = str(step.gtid)
    if step.xid is not None:
        name = {
            "format_id": step.xid.format_id,
            "gtrid": _base64(step.xid.gtrid),
            "bqual": _base64(step.xid.bqual),
            "base64": True,
        }
        line["two_phase" if operation == OperationCode.COMMIT else "xid"] = name
    if operation in (OperationCode.SAVEPOINT, OperationCode.ROLLBACK_TO):
        line["savepoint"] = step.number
    if operation == OperationCode.XA_PREPARE:
        line["engines"] = step.number
    if operation == OperationCode.SNAPSHOT:
        line |= {"name": step.name, "partial_page": bool(step.number)}
    if operation == OperationCode.PURGE:
        line["before"] = step.number
    if step.gtids is not None:
        line["gtids"] = [str(gtid) for gtid in step.gtids]
    return line


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
