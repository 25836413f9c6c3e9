"""Events described in words, for operations written by hand: `EventMakerLine.encode` (docs/simulate.md)."""

from __future__ import annotations

import datetime
import re
from base64 import b64decode
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated

import msgspec

from binlog_format.events.layout import EVENT_HEADER_SIZE, EventType
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.messages import count_text
from binlog_lab.event_encoding.event_encoding import (
    Origin,
    QueryContext,
    encode_annotate_rows,
    encode_event,
    encode_format_description,
    encode_query,
    encode_xid,
)
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableEncoder, TableSpec

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from binlog_lab.event_encoding.value_encoding import Value

DEFAULT_TIMESTAMP = 1_700_000_000
"""Fixed, so that the same operations give the same bytes."""

DEFAULT_SERVER_VERSION = "12.3.1-MariaDB-log"

UInt32 = Annotated[int, msgspec.Meta(ge=0, le=2**32 - 1)]
UInt64 = Annotated[int, msgspec.Meta(ge=0)]  # msgspec knows no larger bounds than those of int64
JsonValue = int | float | str | None
JsonRow = list[JsonValue]

_TIME = re.compile(r"(?P<sign>-?)(?P<hours>\d{1,3}):(?P<minutes>\d\d):(?P<seconds>\d\d(?:\.\d{1,6})?)")


class _Event(msgspec.Struct, frozen=True, forbid_unknown_fields=True, tag_field="type"):
    """An event described in words; the tag tells which one."""


class QueryTextLine(_Event, frozen=True, tag="query"):
    """A statement as text."""

    sql: str
    database: str = ""
    thread_id: UInt32 = 1


class XidEndLine(_Event, frozen=True, tag="xid"):
    """The end of a transaction."""

    xid: UInt64


class AnnotationLine(_Event, frozen=True, tag="annotate_rows"):
    """The statement that the next row events come from."""

    sql: str


class FormatDescriptionLine(_Event, frozen=True, tag="format_description"):
    """Events of a server start."""

    server_version: str = DEFAULT_SERVER_VERSION


class PaddingLine(_Event, frozen=True, tag="padding"):
    """An event of *size* bytes that every reader skips, its header included."""

    size: Annotated[int, msgspec.Meta(ge=EVENT_HEADER_SIZE, le=1 << 30)]


class RowsLine(_Event, frozen=True, tag="insert"):
    """A table map and the row events of an INSERT."""

    table: str
    rows: list[JsonRow]


class DeletedRowsLine(_Event, frozen=True, tag="delete"):
    """The same for a DELETE, of rows as they were."""

    table: str
    rows: list[JsonRow]


class UpdatedRowsLine(_Event, frozen=True, tag="update"):
    """The same for an UPDATE: pairs of a row before and after."""

    table: str
    rows: list[tuple[JsonRow, JsonRow]]


Event = (
    QueryTextLine
    | XidEndLine
    | AnnotationLine
    | FormatDescriptionLine
    | PaddingLine
    | RowsLine
    | DeletedRowsLine
    | UpdatedRowsLine
)


class TableColumnLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A column of a declared table."""

    name: str
    type: str
    nullable: bool = False
    charset: str = "utf8mb4"


class EventMakerLine:
    """Makes events of their descriptions.

    Attributes:
        server_id: Of events that belong to no GTID yet.
        timestamp: Of the events, in seconds since 1970.
    """

    def __init__(self) -> None:
        self.server_id = 1
        self.timestamp = DEFAULT_TIMESTAMP
        self._tables: dict[str, TableEncoder] = {}
        self._table_id = 100

    @property
    def origin(self) -> Origin:
        """Writer and time of the next events."""
        return Origin(self.timestamp, self.server_id)

    def declare(self, name: str, columns: Sequence[TableColumnLine], primary_key: Sequence[str]) -> None:
        """Declare a table *name* (`database.table`) for the next events; it gets the next table id."""
        database, dot, table = name.partition(".")
        if not (database and dot and table):
            raise ValueError(f"table {name!r}: expected database.table")
        unknown = set(primary_key) - {column.name for column in columns}
        if unknown or not columns:
            raise ValueError(f"table {name!r}: no column {', '.join(sorted(unknown))}" if unknown else "no columns")
        specs = tuple(ColumnSpec(column.name, column.type, column.nullable, column.charset) for column in columns)
        self._tables[name] = TableEncoder(
            TableSpec(database, table, specs, tuple(primary_key)), len(self._tables) + 100
        )

    def encode(self, event: Event) -> bytes:
        """The bytes of *event*; of row events with the table map before them.

        Raises:
            ValueError: A value does not fit its column.
            KeyError: The table has not been declared.
        """
        match event:
            case QueryTextLine():
                return encode_query(event.sql, self.origin, QueryContext(event.database, event.thread_id))
            case XidEndLine():
                return encode_xid(event.xid, self.origin)
            case AnnotationLine():
                return encode_annotate_rows(event.sql, self.origin)
            case FormatDescriptionLine():
                return encode_format_description(event.server_version, self.timestamp, self.origin)
            case PaddingLine():
                return encode_event(EventType.IGNORABLE, bytes(event.size - EVENT_HEADER_SIZE), self.origin)
            case _:
                return self._encode_rows(event)

    def _encode_rows(self, event: RowsLine | DeletedRowsLine | UpdatedRowsLine) -> bytes:
        encoder = self._tables.get(event.table)
        if encoder is None:
            raise KeyError(f"table {event.table!r}")
        columns = encoder.spec.columns
        events: Iterator[bytes]
        if isinstance(event, UpdatedRowsLine):
            pairs = [(_row(before, columns), _row(after, columns)) for before, after in event.rows]
            events = encoder.update(pairs, self.origin)
        else:
            rows = [_row(row, columns) for row in event.rows]
            make = encoder.insert if isinstance(event, RowsLine) else encoder.delete
            events = make(rows, self.origin)
        return encoder.table_map(self.origin) + b"".join(events)


def _row(row: JsonRow, columns: Sequence[ColumnSpec]) -> list[Value]:
    if len(row) != len(columns):
        raise ValueError(f"a row with {count_text(len(row), 'value')} for {count_text(len(columns), 'column')}")
    return [_value(value, column) for value, column in zip(row, columns, strict=True)]


def _value(value: JsonValue, column: ColumnSpec) -> Value:
    """A JSON value as the column's type wants it."""
    if value is None:
        if not column.nullable:
            raise ValueError(f"column {column.name!r} cannot be null")
        return None
    try:
        return _typed(value, column)
    except (ArithmeticError, TypeError, ValueError) as error:
        raise ValueError(f"column {column.name!r}, {column.sql_type}: {value!r}: {error}") from error


def _typed(value: int | float | str, column: ColumnSpec) -> Value:
    codec = column.codec
    match codec.type_code:
        case ColumnType.NEWDECIMAL:
            return Decimal(str(value))
        case ColumnType.DATE:
            return datetime.date.fromisoformat(_text(value))
        case ColumnType.DATETIME2 | ColumnType.TIMESTAMP2:
            return datetime.datetime.fromisoformat(_text(value))
        case ColumnType.TIME2:
            return _time(_text(value))
        case ColumnType.FLOAT | ColumnType.DOUBLE:
            return float(value)
    if codec.charset is None:
        if not isinstance(value, int):
            raise ValueError("expected a whole number")
        return value
    return _text(value) if codec.is_text else b64decode(_text(value), validate=True)


def _text(value: float | str) -> str:
    if not isinstance(value, str):
        raise TypeError("expected a text")
    return value


def _time(text: str) -> datetime.timedelta:
    match = _TIME.fullmatch(text)
    if match is None:
        raise ValueError("expected [-]HH:MM:SS[.ffffff]")
    seconds = Decimal(match["seconds"])
    span = datetime.timedelta(
        hours=int(match["hours"]), minutes=int(match["minutes"]), microseconds=int(seconds * 1_000_000)
    )
    return -span if match["sign"] else span
