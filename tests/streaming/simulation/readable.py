"""Steps written as JSON lines, the way a person would."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING

from binlog_lab.innodb_writer.operations_layout import Operation

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlog_lab.innodb_writer.operations import Step

_WITH_SESSION = {
    Operation.BEGIN,
    Operation.EVENT,
    Operation.SPILL,
    Operation.COMMIT,
    Operation.ROLLBACK,
    Operation.XA_PREPARE,
    Operation.SAVEPOINT,
    Operation.ROLLBACK_TO,
    Operation.STATEMENT_START,
    Operation.STATEMENT_ROLLBACK,
    Operation.PIECE,
}


def json_lines(steps: Iterable[Step]) -> str:
    """One line for each step, with event bytes in base64."""
    return "".join(json.dumps(_line(step)) + "\n" for step in steps)


def _line(step: Step) -> dict[str, object]:
    operation = step.operation
    line: dict[str, object] = {"op": operation.name.lower()}
    if operation in _WITH_SESSION:
        line["session"] = step.sid
    if operation in (Operation.EVENT, Operation.PIECE, Operation.SPILL):
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
        line["two_phase" if operation == Operation.COMMIT else "xid"] = name
    if operation in (Operation.SAVEPOINT, Operation.ROLLBACK_TO):
        line["savepoint"] = step.number
    if operation == Operation.XA_PREPARE:
        line["engines"] = step.number
    if operation == Operation.SNAPSHOT:
        line |= {"name": step.name, "partial_page": bool(step.number)}
    if operation == Operation.PURGE:
        line["before"] = step.number
    if step.gtids is not None:
        line["gtids"] = [str(gtid) for gtid in step.gtids]
    return line


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
