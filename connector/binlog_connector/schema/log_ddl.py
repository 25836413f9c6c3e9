"""Statements in a log: `ddl_statements(block)`, `table_statements(block)` and `all_statements(block)` find them.

The first file of the server run that wrote a file: `ServerRuns(log).of(file_no)`.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.operations import ChangeRows
from binlog_connector.schema.parsing.ddl import DDL_WORDS, TRUNCATE
from binlog_connector.schema.parsing.row_statements import NO_ROWS_WORDS
from binlog_connector.schema.parsing.server_texts import is_server_text
from binlog_connector.schema.parsing.session import (
    SET,
    UTF8MB4,
    StatementSession,
    decode_statement,
    first_word,
    other_text,
)
from binlog_format.errors import CorruptError
from binlog_format.events.layout import GTID_FLAG_STANDALONE, EventType
from binlog_format.events.query import is_account_statement, parse_incident, parse_query, parse_query_status
from binlog_format.events.query_layout import QUERY_DATABASE_SIZE_OFFSET, QUERY_FIXED_SIZE, QUERY_STATUS_SIZE_OFFSET
from binlog_format.gtids.gtid_history import gtid_text
from binlog_format.position import Position
from binlog_format.rows.declared.declared_types import Moment
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from binlog_connector.schema.table_names import SessionId
    from binlog_format.block import Block
    from binlog_format.events.query import QueryEvent, QueryStatus
    from binlog_format.kernels import Mask
    from binlog_format.log.log import Log
    from binlog_format.transactions.control_statements import ControlStatements

DELETE = "DELETE"

# What may come before the first keyword of a statement.
_BEFORE = b" \t\r\n\f\v/-#("


def _pairs(words: frozenset[str], before: bytes = _BEFORE) -> Mask:
    # By the first two letters of the words.
    table = np.zeros(1 << 16, dtype=np.bool_)
    for start in {word[:2] for word in words}:
        for first in (start[0], start[0].lower()):
            for second in (start[1], start[1].lower()):
                table[ord(first) << 8 | ord(second)] = True
    for byte in before:
        table[byte << 8 : (byte + 1) << 8] = True
    return table


# `SET STATEMENT ... FOR` comes before any of them.
_MAY_BEGIN_DDL = _pairs(DDL_WORDS | {SET})
"""Statements that may be DDL, by their first two bytes, the first one high."""
_MAY_BEGIN_ANY = _pairs(DDL_WORDS | {TRUNCATE, SET})
_MAY_CHANGE_ROWS = ~_pairs(frozenset({"BEGIN", "COMMIT", "ROLLBACK", "SAVEPOINT", "XA"}), before=b"")
"""Statements that may change rows: the frequent ones that do not are left out; unknown words are not."""

_ACCOUNT_WORDS = DDL_WORDS | {"SET", "CHANGE", ""}
"""First words of statements that may be about accounts."""

_TEXT_TYPES = (EventType.QUERY, EventType.EXECUTE_LOAD_QUERY)


def _types(*types: EventType) -> Mask:
    table = np.zeros(256, dtype=np.bool_)
    table[list(types)] = True
    return table


_QUERY_TYPES = _types(EventType.QUERY)
# In an `.ibb` log a Format_description event stands where the server was started; files of others begin with one.
_STATEMENT_TYPES = _types(*_TEXT_TYPES, EventType.INCIDENT, EventType.FORMAT_DESCRIPTION)


@dataclass(frozen=True, slots=True, order=True)
class DdlStatement:
    """A DDL statement as it is in a log.

    Attributes:
        position: Of its event group.
        event_no: Number in the group.
        database: The session's current one.
        server_charset: Default for new databases; None: the log does not record it.
        server_version: Of that server, as comments of statements have it (100119); None: not known.
        commit_time: When it began, seconds since 1970 UTC.
        microseconds: Beyond those; None: the log does not record it.
        time_zone: Of the session; None: the log does not record it.
        explicit_timestamps: `explicit_defaults_for_timestamp`; None: the log does not record it.
        gtid: Of its event group; None: it has none.
        thread_id: Of the session, on the server that ran it; None: of any, which has no temporary tables.
        server_run: Number of the file with which a start of the server that wrote the log began, the last one before
            the statement: temporary tables do not outlive a run. 0: not known.
        event_type: `EventType`: QUERY, EXECUTE_LOAD_QUERY; INCIDENT: no statement, *text* is the server's message;
            FORMAT_DESCRIPTION: no statement, the server started here.
        may_be_undone: Its own transaction takes some of its changes back, or goes on after the block.
        error_code: That it ended with on the server; 0: it did all that it says.
        fills_table: Its event group has the rows of CREATE TABLE ... SELECT, and the server wrote *text* (MariaDB).
        other_text: The same bytes read as UTF-8, where the client has another character set, and they can be read so: a
            text that was prepared before the client changed it is. Or with `NOT_HELD` for letters that the character
            set of `collation_connection` lacks, to which literals are converted. None: neither.
        rows: Of a statement that changes rows and is not DDL, what `row_statements` read, where *text* may be its
            beginning alone; None: *text* is whole.
    """

    position: Position
    event_no: int
    text: str
    database: str = ""
    sql_mode: int = 0
    server_charset: str | None = None
    vendor: Vendor = Vendor.MARIADB
    commit_time: int = 0
    microseconds: int | None = None
    time_zone: str | None = None
    explicit_timestamps: bool | None = None
    gtid: str | None = None
    thread_id: int | None = None
    server_id: int = 0
    server_run: int = 0
    event_type: int = EventType.QUERY
    may_be_undone: bool = False
    error_code: int = 0
    server_version: int | None = None
    fills_table: bool = False
    other_text: str | None = None
    rows: ChangeRows | None = field(default=None, compare=False)

    @property
    def session(self) -> StatementSession:
        """Session settings for reading the statement."""
        return StatementSession(
            self.database,
            self.sql_mode,
            self.server_charset,
            self.vendor,
            self.time_zone,
            self.explicit_timestamps,
            self.server_version,
            self.fills_table,
            self.other_text,
        )

    @property
    def session_id(self) -> SessionId:
        """Session that ran it, which has temporary tables of its own."""
        return self.server_id, self.thread_id

    @property
    def place(self) -> tuple[Position, int]:
        """Position of its event group, and number of its event there."""
        return self.position, self.event_no

    @property
    def moment(self) -> Moment:
        """Time of the statement."""
        return Moment(self.commit_time, self.microseconds, self.time_zone)

    def to_row(self) -> dict[str, object]:
        """Convert to a value of `binlog_format.views.tables.STATEMENT_TYPE`; `from_row` reads it."""
        row: dict[str, object] = {name: getattr(self, name) for name in _FIELDS}
        row |= {"position": asdict(self.position), "vendor": self.vendor.value}
        if self.rows is not None:
            names = None if self.rows.names is None else [name._asdict() for name in self.rows.names]
            row["rows"] = {"names": names, "calls": list(self.rows.calls), "adds": self.rows.adds}
        return row

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> DdlStatement:
        """Read what `to_row` gave, a mapping or a row of Spark's."""
        values = {name: row[name] for name in _FIELDS}
        place, rows = values["position"], values["rows"]
        values["position"] = Position.of(place)
        values["vendor"] = Vendor(values["vendor"])
        if rows is not None:
            names = rows["names"]
            tables = None if names is None else tuple(TableName(name["database"], name["table"]) for name in names)
            values["rows"] = ChangeRows(tables, tuple(rows["calls"]), rows["adds"])
        return cls(**values)


_FIELDS = tuple(declared.name for declared in fields(DdlStatement))


def ddl_statements(block: Block) -> Iterator[DdlStatement]:
    """The DDL in a block of plain events, in order; of a two-phase ALTER its COMMIT alone."""
    return (statement for _, _, statement in _statements(block, DDL_WORDS, _MAY_BEGIN_DDL))


def is_ddl(statement: DdlStatement) -> bool:
    """True if `ddl_statements` gives this statement."""
    if statement.rows is not None or statement.event_type not in _TEXT_TYPES:
        return False
    return first_word(statement.text, statement.session) in DDL_WORDS


def table_statements(block: Block) -> Iterator[tuple[int, str, DdlStatement]]:
    """DDL and TRUNCATE in a block of plain events: row of the event, first keyword after settings, statement."""
    return _statements(block, DDL_WORDS | {TRUNCATE}, _MAY_BEGIN_ANY)


def all_statements(block: Block, server_runs: ServerRuns | None = None) -> Iterator[tuple[int, str, DdlStatement]]:
    """Statements of a block that are no row events, in order: row of the event, first keyword, statement.

    Left out is what changes neither tables nor rows (`NO_ROWS_WORDS`, comments alone). A block of a log in row format
    has little more than DDL, and costs a look at the types of its events.

    Args:
        block: Of plain events.
        server_runs: Of the log, for `DdlStatement.server_run`; None: that is not asked for.
    """
    control_statements: ControlStatements | None = None
    for row, word, statement in _statements(block, None, _MAY_CHANGE_ROWS):
        if server_runs is not None:
            statement = replace(statement, server_run=server_runs.of(statement.position.file_no))
        if word == DELETE:
            # Compiled code, for logs that are not ROW.
            from binlog_format.transactions.control_statements import read_control_statements

            control_statements = control_statements or read_control_statements(block)
            statement = replace(statement, may_be_undone=_may_be_undone(block, row, control_statements))
        yield row, word, statement


def statements_between(log: Log, start: Position, end: Position) -> Iterator[DdlStatement]:
    """`all_statements` from *start* to before *end*; files that were purged are passed over."""
    from binlog_format.transactions.expansion import expanded  # compiled code takes a moment to load

    if start < end:
        server_runs = ServerRuns(log)
        for block in expanded(log.blocks(start, end, skips_purged=True)):
            yield from (statement for _, _, statement in all_statements(block, server_runs))


def _may_be_undone(block: Block, row: int, control_statements: ControlStatements) -> bool:
    from binlog_format.transactions.control_statements import StatementKind, is_kind

    number = int(block.events["group"][row])
    group = block.groups[number]
    if not (group["begins"] and group["ends"]):
        return True
    kinds = (StatementKind.ROLLBACK, StatementKind.ROLLBACK_TO)
    return any(is_kind(control, *kinds) for control in control_statements.of_group(number))


def _statements(block: Block, words: frozenset[str] | None, may_begin: Mask) -> Iterator[tuple[int, str, DdlStatement]]:
    """Statements that begin with one of *words*; None: with any but `NO_ROWS_WORDS`, and what is no statement.

    Those about accounts are none of them: no reader needs them, and they contain passwords.
    """
    types = _QUERY_TYPES if words is not None else _STATEMENT_TYPES
    for row in _candidates(block, types, may_begin):
        event = block.events[row]
        start, size, event_type = int(event["start"]), int(event["size"]), int(event["type"])
        content = block.data[start : start + size].tobytes()
        if event_type not in _TEXT_TYPES:
            text = parse_incident(content) if event_type == EventType.INCIDENT else ""
            yield row, "", statement_of_event(block, event, text)
            continue
        try:
            query = parse_query(content)
            status = parse_query_status(content)
        except CorruptError as error:
            raise CorruptError(error.subclass, error.reason, at=block.place(start)) from error
        if not status.takes_effect:
            continue
        if _is_of_server(block, event, query.text):
            status = replace(status, client_charset=UTF8MB4, connection_charset=UTF8MB4)
        text = decode_statement(query.text, status.client_charset)
        word = first_word(
            text, StatementSession(sql_mode=status.sql_mode, vendor=block.vendor, server_version=block.server_version)
        )
        if word is None or (word in NO_ROWS_WORDS if words is None else word not in words):
            continue
        if word in _ACCOUNT_WORDS and is_account_statement(text):
            continue
        yield row, word, _statement(block, event, text, query, status)


def _is_of_server(block: Block, event: np.void, text: bytes) -> bool:
    """True if the text of a statement is the server's own, and has letters that are not ASCII.

    Of CREATE TABLE ... SELECT, and of LIKE a temporary table, the server logs a statement of its own, with the columns
    that it found. It is in UTF-8, whatever the client sends, and the event has the session's character sets all the
    same. MariaDB logs CREATE TABLE ... SELECT in a group with the rows, MySQL 8.0.21 and later with two words at its
    end.
    """
    if not text.startswith(b"CREATE") or text.isascii():
        return False
    return _fills_table(block, event, text) or text.endswith(b" START TRANSACTION") or is_server_text(text)


def _fills_table(block: Block, event: np.void, text: bytes) -> bool:
    group = block.groups[int(event["group"])]
    is_in_group = bool(group["has_gtid"]) and not int(group["gtid_flags"]) & GTID_FLAG_STANDALONE
    return block.vendor is Vendor.MARIADB and is_in_group and text.startswith(b"CREATE")


def _statement(block: Block, event: np.void, text: str, query: QueryEvent, status: QueryStatus) -> DdlStatement:
    group = block.groups[int(event["group"])]
    return DdlStatement(
        Position.of(group),
        int(event["event_no"]),
        text,
        query.database,
        status.sql_mode,
        status.server_charset,
        block.vendor,
        query.timestamp,
        status.microseconds,
        status.time_zone,
        status.explicit_timestamps,
        gtid_text(group, block.gtid_sources),
        query.thread_id,
        int(event["server_id"]),
        0,
        int(event["type"]),
        error_code=query.error_code,
        server_version=block.server_version,
        fills_table=_fills_table(block, event, query.text),
        other_text=other_text(query.text, text, status),
    )


def statement_of_event(block: Block, event: np.void, text: str) -> DdlStatement:
    """An event that has no session: an incident, a start of the server, rows."""
    group = block.groups[int(event["group"])]
    return DdlStatement(
        Position.of(group),
        int(event["event_no"]),
        text,
        vendor=block.vendor,
        commit_time=int(event["timestamp"]),
        gtid=gtid_text(group, block.gtid_sources),
        server_id=int(event["server_id"]),
        event_type=int(event["type"]),
    )


def _candidates(block: Block, types: Mask, may_begin: Mask) -> list[int]:
    """Rows of events of *types*; of Query events those that *may_begin* so, or that are too short."""
    rows = np.flatnonzero(types[block.events["type"]])
    if len(rows) == 0:
        return []
    starts, sizes = block.events["start"][rows], block.events["size"][rows]
    # Others are few, and are all looked at: as those that are too short.
    readable = (sizes >= QUERY_FIXED_SIZE) & (block.events["type"][rows] == EventType.QUERY)
    heads = np.where(readable, starts, starts[0] if readable[0] else 0)
    data = block.data
    if len(data) < QUERY_FIXED_SIZE:
        return [int(row) for row in rows]
    database_sizes = data[heads + QUERY_DATABASE_SIZE_OFFSET].astype(np.int64)
    status_sizes = data[heads + QUERY_STATUS_SIZE_OFFSET].astype(np.int64)
    status_sizes |= data[heads + QUERY_STATUS_SIZE_OFFSET + 1].astype(np.int64) << 8
    texts = QUERY_FIXED_SIZE + status_sizes + database_sizes + 1
    readable &= texts <= sizes
    long_enough = readable & (texts + 2 <= sizes)
    places = np.where(long_enough, starts + texts, 0)
    pairs = data[places].astype(np.int64) << 8 | data[places + 1]
    return [int(row) for row in rows[~readable | (long_enough & may_begin[pairs])]]


class ServerRuns:
    """Looks at heads of files, each one once.

    Args:
        log: Not all have the starts of the server in the heads of files; others have them among their events.
    """

    def __init__(self, log: Log) -> None:
        self._log = log
        self._known: dict[int, int] = {}

    def of(self, file_no: int) -> int:
        """Number of the newest file up to *file_no* that a server start began, or of the log's first; 0: not known."""
        if self._log.begins_server_run(file_no) is None:
            return 0
        passed: list[int] = []
        first = 0 if file_no in self._known else self._log.start_position().file_no
        while file_no not in self._known:
            passed.append(file_no)
            if file_no <= first or self._log.begins_server_run(file_no):
                self._known[file_no] = file_no
            else:
                file_no -= 1
        self._known.update(dict.fromkeys(passed, self._known[file_no]))
        return self._known[file_no]
