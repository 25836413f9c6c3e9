"""Table map events: `parse_table_map` gives a `TableLayout`, what the log records about a table's columns."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from binlog_format.errors import CorruptError, UnsupportedError
from binlog_format.events.charset_layout import CHARSET_OF_COLLATION
from binlog_format.events.charsets import decode_text
from binlog_format.events.layout import EVENT_TYPE_OFFSET, EventType
from binlog_format.events.table_map_edits import with_bits_of_years, with_metadata
from binlog_format.events.table_map_layout import (
    CHARACTER_TYPES,
    COLUMN_COUNT_MAX,
    NUMERIC_TYPES,
    STRING_TYPE_BITS,
    TABLE_BODY_OFFSET,
    TYPE_METADATA_SIZES,
    TYPED_ARRAY_SIZE_BYTES,
    TYPED_VARCHAR_METADATA_SIZE,
    VARINT_1_BYTE_MAX,
    VARINT_SIZES,
    ColumnType,
    MetadataField,
    declared_count,
)
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from binlog_format.errors import BinlogError


@dataclass(frozen=True, slots=True)
class Column:
    """One column, as far as the log records it.

    Attributes:
        name: None without `binlog_row_metadata=FULL`.
        type: Type code; the real type for ENUM and SET, which the log wraps into STRING.
        metadata: The two bytes of type metadata, the first one in the low byte.
        unsigned: Of a numeric column; None where the log does not record it (`binlog_row_metadata=NO_LOG`).
        charset: Server's name of the character set of a text, ENUM or SET column, `binary` for binary strings; None
            for other types and where the log does not record it.
        enum_values: Texts of an ENUM or SET column; None where the log does not record them, or in a character set that
            is not read.
        declared: Type as the table was declared with, in lower case (`uuid`, `inet6`, `datetime(3)`, `json`), where a
            schema contains it; the log never does.
        visible: False for INVISIBLE columns; None where the log does not record it (MariaDB never does).
        geometry_type: Of a geometry column (0 any, 1 point, ... 7 collection, as in WKB); None where the log does not
            record it.
        dimensions: Numbers in a value of a VECTOR column of MySQL, at most; None where the log does not record it.
    """

    name: str | None
    type: ColumnType
    metadata: int
    nullable: bool
    unsigned: bool | None = None
    charset: str | None = None
    enum_values: tuple[str, ...] | None = None
    declared: str | None = None
    visible: bool | None = None
    geometry_type: int | None = None
    dimensions: int | None = None

    @property
    def size_max(self) -> int:
        """Longest value of a VARCHAR or STRING column in bytes."""
        if self.type is not ColumnType.STRING:
            return self.metadata
        type_byte, low = self.metadata & 0xFF, self.metadata >> 8
        return low | ((type_byte & STRING_TYPE_BITS) ^ STRING_TYPE_BITS) << 4


@dataclass(frozen=True, slots=True)
class TableLayout:
    """A table's columns at the time when rows were logged.

    Attributes:
        columns: All columns that statements know, in order.
        primary_key: Column indices, in key order; empty when none is known.
        digest: 16 hex digits; equal for equal layouts, whatever number the server gave the table.
        table_map: A table map event of it, header and body without checksum; `parse_table_map` gives this layout back,
            but for what a schema has said.
        completion: What a schema has said beyond the table map, as JSON (`rows.completion`); empty: nothing.
        problem: Why the table map cannot be read; `columns` is empty then. To be raised by who wants this table.
        logged: The layout of the row events, where rules show the table otherwise (`Decoding.rules`); None: this one.
        hidden: Columns after these that row events have and no statement knows (`table_map_layout.declared_count`).
        joined: The table is the inner side of an outer join in its statement: the table map marks all columns as
            NULL-able then, whatever they are (sql/table.h: `maybe_null`). A primary key that is marked so shows it.
        is_sequence: By its definition it is no table: MariaDB logs the one row of a sequence as if it were inserted,
            each time that the row has changed.
    """

    database: str
    table: str
    columns: tuple[Column, ...]
    primary_key: tuple[int, ...]
    digest: str
    table_map: bytes
    vendor: Vendor = Vendor.MARIADB
    completion: str = ""
    problem: BinlogError | None = field(default=None, compare=False)
    logged: TableLayout | None = None
    hidden: tuple[Column, ...] = ()
    joined: bool = False
    is_sequence: bool = False

    @property
    def has_names(self) -> bool:
        """True if the log contains the names of the columns."""
        return all(column.name is not None for column in self.columns)

    @property
    def full_name(self) -> str:
        """`database.table`."""
        return f"{self.database}.{self.table}"


@dataclass(slots=True)
class _Cursor:
    """Reads a part of the event, which errors call *what*, from front to back."""

    content: bytes
    what: str
    _next: int = 0

    @property
    def remaining(self) -> int:
        return len(self.content) - self._next

    def take(self, size: int) -> bytes:
        if size > self.remaining:
            raise self.error(f"{size} bytes expected at byte {self._next}, {self.remaining} left")
        start, self._next = self._next, self._next + size
        return self.content[start : self._next]

    def varint(self) -> int:
        first = self.take(1)[0]
        if first <= VARINT_1_BYTE_MAX:
            return first
        if first not in VARINT_SIZES:
            raise self.error(f"byte {self._next - 1}: {first:#x} starts no number")
        return int.from_bytes(self.take(VARINT_SIZES[first]), "little")

    def varints(self) -> list[int]:
        numbers = []
        while self.remaining:
            numbers.append(self.varint())
        return numbers

    def text(self) -> bytes:
        return self.take(self.varint())

    def name(self) -> str:
        """A name of 1 length byte with 0x00 after it."""
        name = self.decoded(self.take(self.take(1)[0]), "utf-8")
        if self.take(1) != b"\0":
            raise self.error(f"no 0x00 after the name {name!r}")
        return name

    def decoded(self, text: bytes, codec: str) -> str:
        try:
            return text.decode(codec)
        except UnicodeDecodeError as error:
            raise self.error(f"name {text!r} is not {codec}") from error

    def error(self, reason: str) -> CorruptError:
        return CorruptError("BAD_EVENT", f"table map event: {self.what}: {reason}")


def parse_table_map(event: bytes, vendor: Vendor = Vendor.MARIADB, server_version: int | None = None) -> TableLayout:
    """Read a table map event.

    Args:
        event: Header and body, without checksum.
        vendor: Whose server wrote it: geometry columns have a character set in MariaDB's metadata only.
        server_version: See `Block`; None: it is one that `TableLayout.table_map` has.
    """
    body = _Cursor(event, "body")
    database, table = _names(body)
    count = body.varint()
    if count > COLUMN_COUNT_MAX:
        raise body.error(f"{count} columns, at most {COLUMN_COUNT_MAX} are possible")
    codes = body.take(count)
    types = _column_types(codes, _Cursor(body.text(), "type metadata"), f"{database}.{table}")
    null_bits = body.take((count + 7) // 8)
    fields, metadata_start = {}, len(event) - body.remaining
    while body.remaining:
        kind = body.take(1)[0]
        fields[kind] = body.text()
    signedness = fields.get(MetadataField.SIGNEDNESS)
    if signedness is not None and vendor is Vendor.MYSQL:
        bits = with_bits_of_years(signedness, [type_ for type_, _ in types], server_version)
        if bits != signedness:
            edited = {**fields, MetadataField.SIGNEDNESS: bits}
            fields = {kind: content for kind, content in edited.items() if content is not None}
            event = with_metadata(event[:metadata_start], fields)
    details = _Details(types, fields, vendor)
    columns = tuple(
        Column(
            name=details.names[index] if details.names else None,
            type=type_,
            metadata=metadata,
            nullable=bool(null_bits[index >> 3] >> (index & 7) & 1),
            unsigned=details.unsigned.get(index),
            charset=details.charsets.get(index),
            enum_values=details.texts.get(index),
            visible=details.visible.get(index),
            geometry_type=details.geometry_types.get(index),
            dimensions=details.dimensions.get(index),
        )
        for index, (type_, metadata) in enumerate(types)
    )
    shown = declared_count(columns) if vendor is Vendor.MARIADB else len(columns)
    key = details.primary_key
    joined = any(columns[index].nullable for index in key)
    if joined:
        columns = tuple(
            replace(column, nullable=False) if index in key else column for index, column in enumerate(columns)
        )
    hidden = columns[shown:]
    return TableLayout(
        database, table, columns[:shown], key, _digest(event), event, vendor, hidden=hidden, joined=joined
    )


def unread_layout(event: bytes, vendor: Vendor, problem: BinlogError) -> TableLayout | None:
    """The layout of a table map event that `parse_table_map` cannot read; None where it does not name its table.

    Args:
        event: Header and body, without checksum.
    """
    try:
        database, table = _names(_Cursor(event, "body"))
    except CorruptError:
        return None
    return TableLayout(database, table, (), (), _digest(event), event, vendor, problem=problem)


def _names(body: _Cursor) -> tuple[str, str]:
    # Names of database and table.
    event_type = body.take(TABLE_BODY_OFFSET)[EVENT_TYPE_OFFSET]
    if event_type != EventType.TABLE_MAP:
        raise body.error(f"the event has type {event_type}")
    return body.name(), body.name()


def _digest(event: bytes) -> str:
    return hashlib.sha256(event[TABLE_BODY_OFFSET:]).hexdigest()[:16]


def _column_types(codes: bytes, metadata: _Cursor, table: str) -> list[tuple[ColumnType, int]]:
    types: list[tuple[ColumnType, int]] = []
    for index, code in enumerate(codes):
        type_ = _column_type(code, index, table)
        if type_ is ColumnType.TYPED_ARRAY:
            element = _column_type(metadata.take(1)[0], index, table)
            varchar = element is ColumnType.VARCHAR
            metadata.take(TYPED_VARCHAR_METADATA_SIZE if varchar else TYPE_METADATA_SIZES.get(element, 0))
            types.append((type_, TYPED_ARRAY_SIZE_BYTES))
            continue
        content = metadata.take(TYPE_METADATA_SIZES.get(type_, 0))
        if type_ is ColumnType.STRING:
            # The real type; bits that hold a part of the size are set again.
            real = content[0] | STRING_TYPE_BITS
            if real in (ColumnType.ENUM, ColumnType.SET) and content[0] == real:
                type_ = ColumnType(real)
            elif real != ColumnType.STRING:
                raise metadata.error(f"column {index} is a STRING of the unknown real type {content[0]}")
        types.append((type_, int.from_bytes(content, "little")))
    if metadata.remaining:
        raise metadata.error(f"{metadata.remaining} bytes too many")
    return types


def _column_type(code: int, index: int, table: str) -> ColumnType:
    try:
        return ColumnType(code)
    except ValueError as error:
        # Without the type, the size of its metadata is unknown, and so is all that follows.
        raise UnsupportedError("COLUMN_TYPE", f"{table}: column {index} has the unknown type {code}") from error


class _Details:
    """Optional metadata by column index; fields of unknown types are ignored."""

    def __init__(self, types: list[tuple[ColumnType, int]], fields: dict[int, bytes], vendor: Vendor) -> None:
        self._cursors = {field: _Cursor(fields[field], field.name) for field in MetadataField if field in fields}
        self._count = len(types)
        numeric = [i for i, (type_, _) in enumerate(types) if type_ in NUMERIC_TYPES]
        character = [i for i, (type_, _) in enumerate(types) if type_ in CHARACTER_TYPES]
        geometry = [i for i, (type_, _) in enumerate(types) if type_ is ColumnType.GEOMETRY]
        enums = [i for i, (type_, _) in enumerate(types) if type_ is ColumnType.ENUM]
        sets = [i for i, (type_, _) in enumerate(types) if type_ is ColumnType.SET]
        vectors = [i for i, (type_, _) in enumerate(types) if type_ is ColumnType.VECTOR]
        self.unsigned = self._bits(numeric, MetadataField.SIGNEDNESS)
        self.visible = self._bits(list(range(len(types))), MetadataField.COLUMN_VISIBILITY)
        self.geometry_types = self._numbers(geometry, MetadataField.GEOMETRY_TYPE)
        self.dimensions = self._numbers(vectors, MetadataField.VECTOR_DIMENSIONALITY)
        texts = sorted(character + (geometry if vendor is Vendor.MARIADB else []))
        self.charsets = self._collations(texts, MetadataField.DEFAULT_CHARSET, MetadataField.COLUMN_CHARSET)
        for column in geometry:
            self.charsets.pop(column, None)
        self.charsets |= self._collations(
            sorted(enums + sets), MetadataField.ENUM_AND_SET_DEFAULT_CHARSET, MetadataField.ENUM_AND_SET_COLUMN_CHARSET
        )
        self.names = self._names()
        self.texts = self._texts(enums, MetadataField.ENUM_STR_VALUE) | self._texts(sets, MetadataField.SET_STR_VALUE)
        self.primary_key = self._primary_key()

    def _bits(self, columns: list[int], field: MetadataField) -> dict[int, bool]:
        cursor = self._cursors.get(field)
        if cursor is None:
            return {}
        bits = cursor.take((len(columns) + 7) // 8)
        return {column: bool(bits[i >> 3] << (i & 7) & 0x80) for i, column in enumerate(columns)}

    def _numbers(self, columns: list[int], field: MetadataField, what: str = "numbers") -> dict[int, int]:
        cursor = self._cursors.get(field)
        if cursor is None:
            return {}
        numbers = cursor.varints()
        if len(numbers) != len(columns):
            raise cursor.error(f"{len(numbers)} {what} for {len(columns)} columns")
        return dict(zip(columns, numbers, strict=True))

    def _collations(self, columns: list[int], default: MetadataField, each: MetadataField) -> dict[int, str]:
        numbers = self._numbers(columns, each, "collations")
        if (cursor := self._cursors.get(default)) is not None:
            numbers = dict.fromkeys(columns, cursor.varint())
            while cursor.remaining:
                index, collation = cursor.varint(), cursor.varint()
                if index >= len(columns):
                    raise cursor.error(f"there is no text column {index}")
                numbers[columns[index]] = collation
        return {column: CHARSET_OF_COLLATION[number] for column, number in numbers.items()}

    def _names(self) -> list[str]:
        cursor = self._cursors.get(MetadataField.COLUMN_NAME)
        if cursor is None:
            return []
        names = []
        while cursor.remaining:
            names.append(cursor.decoded(cursor.text(), "utf-8"))
        if len(names) != self._count:
            raise cursor.error(f"{len(names)} names for {self._count} columns")
        return names

    def _texts(self, columns: list[int], field: MetadataField) -> dict[int, tuple[str, ...]]:
        cursor = self._cursors.get(field)
        if cursor is None:
            return {}
        texts = {}
        for column in columns:
            labels = [cursor.text() for _ in range(cursor.varint())]
            decoded = _decode_labels(labels, self.charsets.get(column))
            if decoded is not None:
                texts[column] = decoded
        return texts

    def _primary_key(self) -> tuple[int, ...]:
        cursor = self._cursors.get(MetadataField.SIMPLE_PRIMARY_KEY)
        if cursor is not None:
            key = cursor.varints()
        else:
            cursor = self._cursors.get(MetadataField.PRIMARY_KEY_WITH_PREFIX)
            if cursor is None:
                return ()
            # A key that is unique by prefixes is unique by the whole columns too.
            key = cursor.varints()[::2]
        if any(column >= self._count for column in key):
            raise cursor.error(f"key columns {key} of {self._count} columns")
        return tuple(key)


def _decode_labels(labels: list[bytes], charset: str | None) -> tuple[str, ...] | None:
    if charset is None and any(b"\0" in label for label in labels):
        return None  # two or four bytes a character
    # MySQL 8.0 logged labels before it logged their character sets: ASCII is in all that have a byte a character.
    try:
        return tuple(decode_text(label, charset or "ascii") for label in labels)
    except UnicodeDecodeError:
        return None
