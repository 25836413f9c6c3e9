"""Operations in their readable form, one JSON object a line: `read_json_steps` (docs/simulate.md)."""

from __future__ import annotations

import struct
from base64 import b64decode
from typing import TYPE_CHECKING, Annotated, Literal

import msgspec

from binlog_format.gtids.gtid import Gtid
from binlog_lab.event_encoding.event_encoding import DDL_FLAGS, TRANSACTION_FLAGS, encode_gtid
from binlog_lab.innodb_writer.operations import PlacedStep, Step, bad_entry
from binlog_lab.innodb_writer.operations_layout import Operation
from binlog_lab.innodb_writer.sessions import Cache
from binlog_lab.innodb_writer.xa import Xid
from binlog_lab.simulation.json_events import Event, EventMaker, TableColumn, UInt32, UInt64

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_XID_PART_MAX = 64
_CACHES = {"transactional": Cache.TRANSACTIONAL, "statement": Cache.STATEMENT}


class _Line(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="op"):
    """One line; the tag tells which operation."""


class _SessionLine(_Line, frozen=True):
    session: UInt32 = 0


class Begin(_SessionLine, frozen=True, tag="begin"):
    """BEGIN."""


class Rollback(_SessionLine, frozen=True, tag="rollback"):
    """ROLLBACK."""


class StatementStart(_SessionLine, frozen=True, tag="statement_start"):
    """A statement starts."""


class StatementRollback(_SessionLine, frozen=True, tag="statement_rollback"):
    """It has failed."""


class Savepoint(_SessionLine, frozen=True, tag="savepoint", kw_only=True):
    """SAVEPOINT."""

    savepoint: UInt32


class RollbackTo(_SessionLine, frozen=True, tag="rollback_to", kw_only=True):
    """ROLLBACK TO SAVEPOINT."""

    savepoint: UInt32


class EventLine(_SessionLine, frozen=True, tag="event", kw_only=True):
    """Event bytes into a cache."""

    event: Event | None = None
    data: bytes | None = None
    cache: Literal["transactional", "statement"] = "transactional"


class Piece(_SessionLine, frozen=True, tag="piece", kw_only=True):
    """One out-of-band record."""

    event: Event | None = None
    data: bytes | None = None
    cache: Literal["transactional", "statement"] = "transactional"


class Spill(_SessionLine, frozen=True, tag="spill"):
    """What the cache holds goes out of band."""

    cache: Literal["transactional", "statement"] = "transactional"


class XidName(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Name of an XA transaction; with *base64* its parts are bytes in base64."""

    gtrid: str
    bqual: str = ""
    format_id: Annotated[int, msgspec.Meta(ge=-(2**31), le=2**31 - 1)] = 1
    base64: bool = False

    def xid(self) -> Xid:
        """As the writer wants it.

        Raises:
            ValueError: A part is too long, or not base64.
        """
        gtrid, bqual = (
            b64decode(part, validate=True) if self.base64 else part.encode() for part in (self.gtrid, self.bqual)
        )
        if max(len(gtrid), len(bqual)) > _XID_PART_MAX:
            raise ValueError(f"xid: gtrid and bqual have at most {_XID_PART_MAX} bytes each")
        return Xid(self.format_id, gtrid, bqual)


class Commit(_SessionLine, frozen=True, tag="commit", kw_only=True):
    """COMMIT."""

    gtid: str
    data: bytes | None = None
    ddl: bool = False
    two_phase: XidName | None = None


class Group(_SessionLine, frozen=True, tag="group", kw_only=True):
    """A whole transaction: begin, an event each, commit."""

    gtid: str
    events: list[Event]
    ddl: bool = False


class XaPrepare(_SessionLine, frozen=True, tag="xa_prepare", kw_only=True):
    """XA PREPARE."""

    xid: XidName
    engines: Annotated[int, msgspec.Meta(ge=0, le=255)] = 1


class XaCommit(_SessionLine, frozen=True, tag="xa_commit", kw_only=True):
    """XA COMMIT."""

    xid: XidName
    gtid: str
    data: bytes | None = None


class XaRollback(_SessionLine, frozen=True, tag="xa_rollback", kw_only=True):
    """XA ROLLBACK."""

    xid: XidName


class RawCommit(_Line, frozen=True, tag="raw_commit"):
    """A commit record without GTID."""

    event: Event | None = None
    data: bytes | None = None


class Restart(_Line, frozen=True, tag="restart"):
    """A clean restart."""

    event: Event | None = None
    data: bytes | None = None


class Crash(_Line, frozen=True, tag="crash"):
    """A crash, and the start after it."""

    event: Event | None = None
    data: bytes | None = None


class Flush(_Line, frozen=True, tag="flush"):
    """FLUSH BINARY LOGS."""

    gtids: list[str] | None = None


class ResetMaster(_Line, frozen=True, tag="reset_master"):
    """RESET MASTER."""

    gtids: list[str] = []


class Purge(_Line, frozen=True, tag="purge"):
    """PURGE BINARY LOGS."""

    before: UInt64


class Snapshot(_Line, frozen=True, tag="snapshot"):
    """A copy of the directory."""

    name: str
    partial_page: bool = False


class Mark(_Line, frozen=True, tag="mark"):
    """Everything up to here is durable."""


class Checkpoint(_Line, frozen=True, tag="checkpoint"):
    """An InnoDB checkpoint."""


class Table(_Line, frozen=True, tag="table"):
    """Declares a table."""

    name: str
    columns: list[TableColumn]
    primary_key: list[str] = []


class Defaults(_Line, frozen=True, tag="defaults"):
    """For the events that follow."""

    server_id: UInt32 | None = None
    timestamp: UInt32 | None = None


_Plain = Begin | Rollback | StatementStart | StatementRollback
_WithData = RawCommit | Restart | Crash
AnyLine = (
    _Plain
    | _WithData
    | Savepoint
    | RollbackTo
    | EventLine
    | Piece
    | Spill
    | Commit
    | Group
    | XaPrepare
    | XaCommit
    | XaRollback
    | Flush
    | ResetMaster
    | Purge
    | Snapshot
    | Mark
    | Checkpoint
    | Table
    | Defaults
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
        self._events = EventMaker()

    def steps(self, line: AnyLine) -> list[Step]:
        """The steps of *line*: none for a declaration, several for a whole group."""
        match line:
            case Table():
                self._events.declare(line.name, line.columns, line.primary_key)
                return []
            case Defaults():
                self._events.server_id = self._events.server_id if line.server_id is None else line.server_id
                self._events.timestamp = self._events.timestamp if line.timestamp is None else line.timestamp
                return []
            case Group():
                gtid = Gtid.parse(line.gtid)
                self._events.server_id = gtid.server
                events = [Step(Operation.EVENT, line.session, data=self._events.encode(e)) for e in line.events]
                return [Step(Operation.BEGIN, line.session), *events, self._commit(line, gtid)]
            case _:
                return [self._step(line)]

    def _step(self, line: AnyLine) -> Step:
        operation = Operation[str(line.__struct_config__.tag).upper()]
        match line:
            case Savepoint() | RollbackTo():
                return Step(operation, line.session, number=line.savepoint)
            case EventLine() | Piece():
                return Step(operation, line.session, _CACHES[line.cache], self._data(line))
            case Spill():
                return Step(operation, line.session, _CACHES[line.cache])
            case Commit():
                return self._commit(line, Gtid.parse(line.gtid))
            case XaPrepare() | XaCommit() | XaRollback():
                return self._xa(operation, line)
            case RawCommit() | Restart() | Crash():
                return Step(operation, data=self._data(line, is_needed=isinstance(line, RawCommit)))
            case Begin() | Rollback() | StatementStart() | StatementRollback():
                return Step(operation, line.session)
            case _:
                return _of_server(operation, line)

    def _commit(self, line: Commit | Group, gtid: Gtid) -> Step:
        two_phase = line.two_phase.xid() if isinstance(line, Commit) and line.two_phase is not None else None
        data = line.data if isinstance(line, Commit) else None
        if data is None:
            data = self._gtid_event(gtid, ddl=line.ddl)
        return Step(Operation.COMMIT, line.session, gtid=gtid, data=data, xid=two_phase)

    def _xa(self, operation: Operation, line: XaPrepare | XaCommit | XaRollback) -> Step:
        xid = line.xid.xid()
        if isinstance(line, XaPrepare):
            return Step(operation, line.session, xid=xid, number=line.engines)
        if isinstance(line, XaRollback):
            return Step(operation, line.session, xid=xid)
        gtid = Gtid.parse(line.gtid)
        data = self._gtid_event(gtid, ddl=False) if line.data is None else line.data
        return Step(operation, line.session, xid=xid, gtid=gtid, data=data)

    def _gtid_event(self, gtid: Gtid, *, ddl: bool) -> bytes:
        return encode_gtid(gtid, self._events.timestamp, flags=DDL_FLAGS if ddl else TRANSACTION_FLAGS)

    def _data(self, line: EventLine | Piece | _WithData, *, is_needed: bool = True) -> bytes:
        if line.event is not None and line.data is not None:
            raise ValueError("`event` and `data`: only one of them")
        if line.event is not None:
            return self._events.encode(line.event)
        if line.data is None and is_needed:
            raise ValueError("`event` or `data` is missing")
        return line.data or b""


def _of_server(operation: Operation, line: AnyLine) -> Step:
    match line:
        case Flush():
            return Step(operation, gtids=None if line.gtids is None else tuple(map(Gtid.parse, line.gtids)))
        case ResetMaster():
            return Step(operation, gtids=tuple(map(Gtid.parse, line.gtids)))
        case Purge():
            return Step(operation, number=line.before)
        case Snapshot():
            return Step(operation, name=line.name, number=int(line.partial_page))
        case _:
            return Step(operation)
