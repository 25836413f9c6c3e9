"""Operations in their readable form, one JSON object a line: `read_json_steps` (docs/simulate.md)."""

from __future__ import annotations

import struct
from base64 import b64decode
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from binlog_format.gtids.gtid import Gtid
from binlog_lab.event_encoding.event_encoding import DDL_FLAGS, TRANSACTION_FLAGS, encode_gtid
from binlog_lab.innodb_writer.operations import PlacedStep, WriterStep, bad_entry
from binlog_lab.innodb_writer.operations_layout import OperationCode
from binlog_lab.innodb_writer.sessions import Cache, Xid
from binlog_lab.simulation.json_events import Event, EventMakerLine, TableColumnLine, UInt32, UInt64

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_XID_PART_MAX = 64
_CACHES = {"transactional": Cache.TRANSACTIONAL, "statement": Cache.STATEMENT}


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="op"):
    """One line; the tag tells which operation."""


class _SessionLine(_Line, frozen=True):
    session: UInt32 = 0


class BeginLine(_SessionLine, frozen=True, tag="begin"):
    """BEGIN."""


class RollbackLine(_SessionLine, frozen=True, tag="rollback"):
    """ROLLBACK."""


class StatementStartLine(_SessionLine, frozen=True, tag="statement_start"):
    """A statement starts."""


class StatementRollbackLine(_SessionLine, frozen=True, tag="statement_rollback"):
    """Rolls back a statement that has failed."""


class SavepointLine(_SessionLine, frozen=True, tag="savepoint", kw_only=True):
    """SAVEPOINT."""

    savepoint: UInt32


class RollbackToLine(_SessionLine, frozen=True, tag="rollback_to", kw_only=True):
    """ROLLBACK TO SAVEPOINT."""

    savepoint: UInt32


class EventLine(_SessionLine, frozen=True, tag="event", kw_only=True):
    """Event bytes into a cache."""

    event: Event | None = None
    data: bytes | None = None
    cache: Literal["transactional", "statement"] = "transactional"


class PieceLine(_SessionLine, frozen=True, tag="piece", kw_only=True):
    """One out-of-band record."""

    event: Event | None = None
    data: bytes | None = None
    cache: Literal["transactional", "statement"] = "transactional"


class SpillLine(_SessionLine, frozen=True, tag="spill"):
    """Writes the contents of the cache out of band."""

    cache: Literal["transactional", "statement"] = "transactional"


class XidNameLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Name of an XA transaction; with *base64* its parts are bytes in base64."""

    gtrid: str
    bqual: str = ""
    format_id: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)] = 1
    base64: bool = False

    def xid(self) -> Xid:
        """Convert to the writer's type. Raises `ValueError`: a part is too long, or not base64."""
        gtrid, bqual = (
            b64decode(part, validate=True) if self.base64 else part.encode() for part in (self.gtrid, self.bqual)
        )
        if max(len(gtrid), len(bqual)) > _XID_PART_MAX:
            raise ValueError(f"xid: gtrid and bqual have at most {_XID_PART_MAX} bytes each")
        return Xid(self.format_id, gtrid, bqual)


class CommitLine(_SessionLine, frozen=True, tag="commit", kw_only=True):
    """COMMIT."""

    gtid: str
    data: bytes | None = None
    ddl: bool = False
    two_phase: XidNameLine | None = None


class GroupLine(_SessionLine, frozen=True, tag="group", kw_only=True):
    """A whole transaction: begin, an event each, commit."""

    gtid: str
    events: list[Event]
    ddl: bool = False


class XaPrepareLine(_SessionLine, frozen=True, tag="xa_prepare", kw_only=True):
    """XA PREPARE."""

    xid: XidNameLine
    engines: Annotated[int, msgspec.Meta(ge=0, le=255)] = 1


class XaCommitLine(_SessionLine, frozen=True, tag="xa_commit", kw_only=True):
    """XA COMMIT."""

    xid: XidNameLine
    gtid: str
    data: bytes | None = None


class XaRollbackLine(_SessionLine, frozen=True, tag="xa_rollback", kw_only=True):
    """XA ROLLBACK."""

    xid: XidNameLine


class RawCommitLine(_Line, frozen=True, tag="raw_commit"):
    """A commit record without GTID."""

    event: Event | None = None
    data: bytes | None = None


class RestartLine(_Line, frozen=True, tag="restart"):
    """A clean restart."""

    event: Event | None = None
    data: bytes | None = None


class CrashLine(_Line, frozen=True, tag="crash"):
    """A crash, and the start after it."""

    event: Event | None = None
    data: bytes | None = None


class FlushLine(_Line, frozen=True, tag="flush"):
    """FLUSH BINARY LOGS."""

    gtids: list[str] | None = None


class ResetMasterLine(_Line, frozen=True, tag="reset_master"):
    """RESET MASTER."""

    gtids: list[str] = []


class PurgeLine(_Line, frozen=True, tag="purge"):
    """PURGE BINARY LOGS."""

    before: UInt64


class SnapshotLine(_Line, frozen=True, tag="snapshot"):
    """A copy of the directory."""

    name: str
    partial_page: bool = False


class MarkLine(_Line, frozen=True, tag="mark"):
    """Marks that everything up to here is durable."""


class CheckpointLine(_Line, frozen=True, tag="checkpoint"):
    """An InnoDB checkpoint."""


class TableLine(_Line, frozen=True, tag="table"):
    """Declares a table."""

    name: str
    columns: list[TableColumnLine]
    primary_key: list[str] = []


class DefaultsLine(_Line, frozen=True, tag="defaults"):
    """Defaults for the events that follow."""

    server_id: UInt32 | None = None
    timestamp: UInt32 | None = None


_Plain = BeginLine | RollbackLine | StatementStartLine | StatementRollbackLine
_WithData = RawCommitLine | RestartLine | CrashLine
AnyLine = (
    _Plain
    | _WithData
    | SavepointLine
    | RollbackToLine
    | EventLine
    | PieceLine
    | SpillLine
    | CommitLine
    | GroupLine
    | XaPrepareLine
    | XaCommitLine
    | XaRollbackLine
    | FlushLine
    | ResetMasterLine
    | PurgeLine
    | SnapshotLine
    | MarkLine
    | CheckpointLine
    | TableLine
    | DefaultsLine
)


def read_json_steps(path: Path) -> Iterator[PlacedStep]:
    """The operations of a file of JSON lines; empty lines and lines that begin with `#` are skipped.

    Raises:
        CorruptError: `BAD_ENTRY`: a line that is not an operation, or cannot be one.
    """
    decoder = msgspec.json.Decoder(AnyLine)
    maker = _StepMaker()
    end = 0
    with path.open("rb") as file:
        for number, text in enumerate(file, start=1):
            start, end = end, end + len(text)
            if not text.strip() or text.lstrip().startswith(b"#"):
                continue
            where = f"line {number}"
            try:
                steps = maker.steps(decoder.decode(text))
            except (msgspec.MsgspecError, struct.error, ValueError, KeyError, OverflowError) as error:
                raise bad_entry(path.name, start, where, error) from error
            for step in steps:
                yield PlacedStep(start, end, step, where)


class _StepMaker:
    """Makes steps of lines; remembers what earlier lines have declared."""

    def __init__(self) -> None:
        self._events = EventMakerLine()

    def steps(self, line: AnyLine) -> list[WriterStep]:
        """The steps of *line*: none for a declaration, several for a whole group."""
        match line:
            case TableLine():
                self._events.declare(line.name, line.columns, line.primary_key)
                return []
            case DefaultsLine():
                self._events.server_id = self._events.server_id if line.server_id is None else line.server_id
                self._events.timestamp = self._events.timestamp if line.timestamp is None else line.timestamp
                return []
            case GroupLine():
                gtid = Gtid.parse(line.gtid)
                self._events.server_id = gtid.server
                events = [
                    WriterStep(OperationCode.EVENT, line.session, data=self._events.encode(e)) for e in line.events
                ]
                return [WriterStep(OperationCode.BEGIN, line.session), *events, self._commit(line, gtid)]
            case _:
                return [self._step(line)]

    def _step(self, line: AnyLine) -> WriterStep:
        operation = OperationCode[str(line.__struct_config__.tag).upper()]
        match line:
            case SavepointLine() | RollbackToLine():
                return WriterStep(operation, line.session, number=line.savepoint)
            case EventLine() | PieceLine():
                return WriterStep(operation, line.session, _CACHES[line.cache], self._data(line))
            case SpillLine():
                return WriterStep(operation, line.session, _CACHES[line.cache])
            case CommitLine():
                return self._commit(line, Gtid.parse(line.gtid))
            case XaPrepareLine() | XaCommitLine() | XaRollbackLine():
                return self._xa(operation, line)
            case RawCommitLine() | RestartLine() | CrashLine():
                return WriterStep(operation, data=self._data(line, is_needed=isinstance(line, RawCommitLine)))
            case BeginLine() | RollbackLine() | StatementStartLine() | StatementRollbackLine():
                return WriterStep(operation, line.session)
            case _:
                return _of_server(operation, line)

    def _commit(self, line: CommitLine | GroupLine, gtid: Gtid) -> WriterStep:
        two_phase = line.two_phase.xid() if isinstance(line, CommitLine) and line.two_phase is not None else None
        data = line.data if isinstance(line, CommitLine) else None
        if data is None:
            data = self._gtid_event(gtid, ddl=line.ddl)
        return WriterStep(OperationCode.COMMIT, line.session, gtid=gtid, data=data, xid=two_phase)

    def _xa(self, operation: OperationCode, line: XaPrepareLine | XaCommitLine | XaRollbackLine) -> WriterStep:
        xid = line.xid.xid()
        if isinstance(line, XaPrepareLine):
            return WriterStep(operation, line.session, xid=xid, number=line.engines)
        if isinstance(line, XaRollbackLine):
            return WriterStep(operation, line.session, xid=xid)
        gtid = Gtid.parse(line.gtid)
        data = self._gtid_event(gtid, ddl=False) if line.data is None else line.data
        return WriterStep(operation, line.session, xid=xid, gtid=gtid, data=data)

    def _gtid_event(self, gtid: Gtid, *, ddl: bool) -> bytes:
        return encode_gtid(gtid, self._events.timestamp, flags=DDL_FLAGS if ddl else TRANSACTION_FLAGS)

    def _data(self, line: EventLine | PieceLine | _WithData, *, is_needed: bool = True) -> bytes:
        if line.event is not None and line.data is not None:
            raise ValueError("`event` and `data`: only one of them")
        if line.event is not None:
            return self._events.encode(line.event)
        if line.data is None and is_needed:
            raise ValueError("`event` or `data` is missing")
        return line.data or b""


def _of_server(operation: OperationCode, line: AnyLine) -> WriterStep:
    match line:
        case FlushLine():
            return WriterStep(operation, gtids=None if line.gtids is None else tuple(map(Gtid.parse, line.gtids)))
        case ResetMasterLine():
            return WriterStep(operation, gtids=tuple(map(Gtid.parse, line.gtids)))
        case PurgeLine():
            return WriterStep(operation, number=line.before)
        case SnapshotLine():
            return WriterStep(operation, name=line.name, number=int(line.partial_page))
        case _:
            return WriterStep(operation)
