"""Table maps and row events of a described table: `TableEncoder(TableSpec(...), table_id)`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.events.layout import EventType
from binlog_format.events.table_map_edits import packed_name, packed_varint
from binlog_format.events.table_map_layout import TABLE_ID_SIZE, MetadataField
from binlog_lab.event_encoding.encoding_layout import (
    ROWS_EVENT_SIZE_MAX,
    ROWS_FLAG_STATEMENT_END,
    ROWS_FLAGS_STRUCT,
    TABLE_MAP_FLAGS,
)
from binlog_lab.event_encoding.event_encoding import Origin, encode_event
from binlog_lab.event_encoding.value_encoding import ValueCodec, codec_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from binlog_lab.event_encoding.value_encoding import Value


@dataclass(frozen=True, slots=True)
class ColumnSpec:
    """A column as a CREATE TABLE has it.

    Attributes:
        sql_type: For example `int unsigned`, `decimal(10,2)`, `varchar(80)`, `enum('a','b')`.
        nullable: Whether it may be NULL.
        charset: Character set, of types that hold characters.
    """

    name: str
    sql_type: str
    nullable: bool = False
    charset: str = "utf8mb4"

    @property
    def codec(self) -> ValueCodec:
        """Codec of its values."""
        return codec_of(self.sql_type, self.charset)

    def definition(self) -> str:
        """Its line in a CREATE TABLE statement."""
        charset = f" CHARACTER SET {self.charset}" if self.codec.is_text else ""
        return f"`{self.name}` {self.sql_type}{charset} {'NULL' if self.nullable else 'NOT NULL'}"


@dataclass(frozen=True, slots=True)
class TableSpec:
    """A table as a CREATE TABLE has it; *primary_key* holds names of columns, in the key's order."""

    database: str
    table: str
    columns: tuple[ColumnSpec, ...]
    primary_key: tuple[str, ...] = ()

    @property
    def full_name(self) -> str:
        """`database.table`."""
        return f"{self.database}.{self.table}"

    @property
    def key_indices(self) -> tuple[int, ...]:
        """The columns of the primary key, as places in `columns`."""
        names = [column.name for column in self.columns]
        return tuple(names.index(name) for name in self.primary_key)

    def create_statement(self) -> str:
        """The CREATE TABLE statement."""
        lines = [
            f"`{column.name}` {column.sql_type}{'' if column.nullable else ' NOT NULL'}" for column in self.columns
        ]
        if self.primary_key:
            lines.append(f"PRIMARY KEY ({', '.join(f'`{name}`' for name in self.primary_key)})")
        return f"CREATE TABLE `{self.database}`.`{self.table}` ({', '.join(lines)}) CHARACTER SET utf8mb4"


class TableEncoder:
    """Writes the events of one table; the table id is what the server gave it.

    Args:
        table_id: Number that binds row events to their table map.
        rows_size_max: Where the rows of a statement are cut into events.
    """

    def __init__(self, spec: TableSpec, table_id: int, *, rows_size_max: int = ROWS_EVENT_SIZE_MAX) -> None:
        self.spec = spec
        self._table_id = table_id.to_bytes(TABLE_ID_SIZE, "little")
        self._rows_size_max = rows_size_max
        self._codecs = [column.codec for column in spec.columns]
        self._packers = [(1 << i, codec.pack) for i, codec in enumerate(self._codecs)]
        count = len(self._codecs)
        self._bitmap_size = (count + 7) // 8
        self._count = packed_varint(count)
        self._present = ((1 << count) - 1).to_bytes(self._bitmap_size, "little")
        self._unused_bits = ((1 << 8 * self._bitmap_size) - 1) ^ ((1 << count) - 1)
        self._table_map_body = self._encode_table_map()

    def table_map(self, origin: Origin) -> bytes:
        """The table map event that precedes the row events of a statement."""
        return encode_event(EventType.TABLE_MAP, self._table_map_body, origin)

    def pack_row(self, row: Sequence[Value]) -> bytes:
        """A row image with all columns."""
        nulls = self._unused_bits
        parts = []
        for value, (bit, pack) in zip(row, self._packers, strict=True):
            if value is None:
                nulls |= bit
            else:
                parts.append(pack(value))
        return nulls.to_bytes(self._bitmap_size, "little") + b"".join(parts)

    def insert(self, rows: Iterable[Sequence[Value]], origin: Origin) -> Iterator[bytes]:
        """The row events of an INSERT; the last one ends the statement."""
        return self._row_events(EventType.WRITE_ROWS_V1, map(self.pack_row, rows), origin)

    def delete(self, rows: Iterable[Sequence[Value]], origin: Origin) -> Iterator[bytes]:
        """The row events of a DELETE of *rows*, as they were."""
        return self._row_events(EventType.DELETE_ROWS_V1, map(self.pack_row, rows), origin)

    def update(self, pairs: Iterable[tuple[Sequence[Value], Sequence[Value]]], origin: Origin) -> Iterator[bytes]:
        """The row events of an UPDATE; *pairs* are rows before and after."""
        images = (self.pack_row(before) + self.pack_row(after) for before, after in pairs)
        return self._row_events(EventType.UPDATE_ROWS_V1, images, origin)

    def _row_events(self, event_type: EventType, images: Iterable[bytes], origin: Origin) -> Iterator[bytes]:
        # As the server: a row that does not fit after the others begins a new event, alone it may be of any size.
        bitmaps = self._present * (2 if event_type == EventType.UPDATE_ROWS_V1 else 1)
        prefix_size = TABLE_ID_SIZE + ROWS_FLAGS_STRUCT.size + len(self._count) + len(bitmaps)
        rows: list[bytes] = []
        size = prefix_size
        for image in images:
            if rows and size + len(image) > self._rows_size_max:
                yield self._row_event(event_type, 0, bitmaps, rows, origin)
                rows, size = [], prefix_size
            rows.append(image)
            size += len(image)
        if rows:
            yield self._row_event(event_type, ROWS_FLAG_STATEMENT_END, bitmaps, rows, origin)

    def _row_event(self, event_type: EventType, flags: int, bitmaps: bytes, rows: list[bytes], origin: Origin) -> bytes:
        prefix = self._table_id + ROWS_FLAGS_STRUCT.pack(flags) + self._count + bitmaps
        return encode_event(event_type, prefix + b"".join(rows), origin)

    def _encode_table_map(self) -> bytes:
        codecs = self._codecs
        nullable = sum(1 << i for i, column in enumerate(self.spec.columns) if column.nullable)
        types = bytes(codec.type_code for codec in codecs)
        metadata = b"".join(codec.metadata for codec in codecs)
        return b"".join(
            [
                self._table_id,
                ROWS_FLAGS_STRUCT.pack(TABLE_MAP_FLAGS),
                packed_name(self.spec.database),
                packed_name(self.spec.table),
                self._count,
                types,
                packed_varint(len(metadata)),
                metadata,
                nullable.to_bytes(self._bitmap_size, "little"),
                _optional_metadata(self.spec, codecs),
            ]
        )


def _optional_metadata(spec: TableSpec, codecs: list[ValueCodec]) -> bytes:
    # All that `binlog_row_metadata=FULL` gives, in the server's order; a field without contents is left out.
    signs = [codec.unsigned for codec in codecs if codec.numeric]
    texts = [codec.charset.collation_id for codec in codecs if codec.charset and codec.enum_values is None]
    enums = [codec for codec in codecs if codec.enum_values is not None]
    enum_texts = [codec.charset.collation_id for codec in enums if codec.charset]
    values = b"".join(
        packed_varint(len(codec.enum_values or ())) + b"".join(_packed_text(value) for value in codec.enum_values or ())
        for codec in enums
    )
    fields = [
        (MetadataField.SIGNEDNESS, _bits_from_the_left(signs)),
        _charset_field(texts, MetadataField.DEFAULT_CHARSET, MetadataField.COLUMN_CHARSET),
        (MetadataField.COLUMN_NAME, b"".join(_packed_text(column.name) for column in spec.columns)),
        _charset_field(
            enum_texts, MetadataField.ENUM_AND_SET_DEFAULT_CHARSET, MetadataField.ENUM_AND_SET_COLUMN_CHARSET
        ),
        (MetadataField.ENUM_STR_VALUE, values),
        (MetadataField.SIMPLE_PRIMARY_KEY, b"".join(packed_varint(i) for i in spec.key_indices)),
    ]
    return b"".join(bytes([tag]) + packed_varint(len(value)) + value for tag, value in fields if value)


def _charset_field(
    collation_ids: list[int], default_tag: MetadataField, column_tag: MetadataField
) -> tuple[MetadataField, bytes]:
    # One collation and the columns that differ from it, when most do not; else the collation of each column.
    if not collation_ids:
        return default_tag, b""
    common, count = Counter(collation_ids).most_common(1)[0]
    if 2 * count <= len(collation_ids):
        return column_tag, b"".join(packed_varint(number) for number in collation_ids)
    others = ((i, number) for i, number in enumerate(collation_ids) if number != common)
    return default_tag, packed_varint(common) + b"".join(
        packed_varint(i) + packed_varint(number) for i, number in others
    )


def _bits_from_the_left(bits: list[bool]) -> bytes:
    padded = bits + [False] * (-len(bits) % 8)
    return bytes(sum(padded[start + i] << (7 - i) for i in range(8)) for start in range(0, len(padded), 8))


def _packed_text(text: str) -> bytes:
    data = text.encode()
    return packed_varint(len(data)) + data
