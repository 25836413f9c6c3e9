"""DDL in a log: `ddl_statements(block)` and `table_statements(block)` find it in a block of plain events."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import TYPE_CHECKING, Any

import numpy as np

from binlog_connector.schema.charsets import decode_statement
from binlog_connector.schema.ddl import DDL_WORDS
from binlog_connector.schema.lexer import DdlSyntaxError, Lexer
from binlog_connector.schema.session import Session
from binlog_format.errors import CorruptError
from binlog_format.events.layout import EventType
from binlog_format.events.query import parse_query
from binlog_format.events.query_layout import (
    QUERY_DATABASE_SIZE_OFFSET,
    QUERY_FIXED_SIZE,
    QUERY_STATUS_SIZE_OFFSET,
)
from binlog_format.events.query_status import parse_query_status
from binlog_format.gtid_groups import gtid_of
from binlog_format.position import Position
from binlog_format.rows.declared_defaults import Moment
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from numpy.typing import NDArray

    from binlog_format.block import Block

TRUNCATE = "TRUNCATE"
"""First keyword of a statement that empties a table and leaves it as it looks."""

# What may stand before the first keyword of a statement.
_BEFORE = b" \t\r\n\f\v/-#("


def _pairs(words: frozenset[str]) -> NDArray[np.bool_]:
    # By the first two letters of the words.
    table = np.zeros(1 << 16, dtype=np.bool_)
    for start in {word[:2] for word in words}:
        for first in (start[0], start[0].lower()):
            for second in (start[1], start[1].lower()):
                table[ord(first) << 8 | ord(second)] = True
    for byte in _BEFORE:
        table[byte << 8 : (byte + 1) << 8] = True
    return table


_MAY_BEGIN_DDL = _pairs(DDL_WORDS)
"""By the first two bytes of a statement, the first one high."""
_MAY_BEGIN_ANY = _pairs(DDL_WORDS | {TRUNCATE})


@dataclass(frozen=True, slots=True, order=True)
class DdlStatement:
    """A DDL statement as it stands in a log.

    Attributes:
        position: Of its event group.
        event_no: Number in the group.
        text: The statement.
        database: The session's current one.
        sql_mode: Of the session.
        server_charset: Default for new databases; None: the log does not say.
        vendor: Whose server ran it.
        commit_time: When it began, seconds since 1970 UTC.
        microseconds: Beyond those; None: the log does not say.
        time_zone: Of the session; None: the log does not say.
        explicit_timestamps: `explicit_defaults_for_timestamp`; None: the log does not say.
        gtid: Of its event group; None: it has none.
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

    @property
    def session(self) -> Session:
        """How it is to be read."""
        return Session(
            self.database,
            self.sql_mode,
            self.server_charset,
            self.vendor,
            self.time_zone,
            self.explicit_timestamps,
        )

    @property
    def moment(self) -> Moment:
        """When it ran."""
        return Moment(self.commit_time, self.microseconds, self.time_zone)

    def to_row(self) -> dict[str, object]:
        """As a value of `binlog_format.views.tables.STATEMENT_TYPE`; `from_row` reads it."""
        row: dict[str, object] = {field.name: getattr(self, field.name) for field in fields(self)}
        return row | {"position": asdict(self.position), "vendor": self.vendor.value}

    @classmethod
    def from_row(cls, row: Mapping[str, Any]) -> DdlStatement:
        """Read what `to_row` gave, a mapping or a row of Spark's."""
        values = {field.name: row[field.name] for field in fields(cls)}
        place = values["position"]
        values["position"] = Position(place["file_no"], place["page"], place["chunk"])
        values["vendor"] = Vendor(values["vendor"])
        return cls(**values)


def ddl_statements(block: Block) -> Iterator[DdlStatement]:
    """The DDL in a block, in order; of a two-phase ALTER its COMMIT alone.

    Args:
        block: Of plain events.

    Raises:
        CorruptError: `BAD_EVENT`: a Query event is damaged.
    """
    return (statement for _, _, statement in _statements(block, DDL_WORDS, _MAY_BEGIN_DDL))


def table_statements(block: Block) -> Iterator[tuple[int, str, DdlStatement]]:
    """DDL and TRUNCATE in a block, in order: row of the event, first keyword, statement.

    Args:
        block: Of plain events.

    Raises:
        CorruptError: `BAD_EVENT`: a Query event is damaged.
    """
    return _statements(block, DDL_WORDS | {TRUNCATE}, _MAY_BEGIN_ANY)


def _statements(
    block: Block, words: frozenset[str], may_begin: NDArray[np.bool_]
) -> Iterator[tuple[int, str, DdlStatement]]:
    for row in _candidates(block, may_begin):
        event = block.events[row]
        start, size = int(event["start"]), int(event["size"])
        content = block.data[start : start + size].tobytes()
        try:
            query = parse_query(content)
            status = parse_query_status(content)
        except CorruptError as error:
            raise CorruptError(error.subclass, error.reason, at=block.place(start)) from error
        if not status.takes_effect:
            continue
        text = decode_statement(query.text, status.client_charset)
        word = _first_word(text, status.sql_mode, block.vendor)
        if word in words:
            group = block.groups[int(event["group"])]
            gtid = gtid_of(group, block.gtid_sources)
            statement = DdlStatement(
                Position(int(group["file_no"]), int(group["page"]), int(group["chunk"])),
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
                None if gtid is None else str(gtid),
            )
            yield row, word, statement


def _candidates(block: Block, may_begin: NDArray[np.bool_]) -> list[int]:
    """Rows of Query events whose first bytes may be those of DDL, or that are too short for what they say."""
    rows = np.flatnonzero(block.events["type"] == EventType.QUERY)
    if len(rows) == 0:
        return []
    starts, sizes = block.events["start"][rows], block.events["size"][rows]
    readable = sizes >= QUERY_FIXED_SIZE
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


def _first_word(text: str, sql_mode: int, vendor: Vendor) -> str:
    try:
        first = Lexer(text, sql_mode=sql_mode, vendor=vendor).first()
    except DdlSyntaxError:
        return ""  # it begins with a quote
    return "" if first is None else first.word
