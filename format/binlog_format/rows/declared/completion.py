"""Facts about a table beyond its table map, from a schema: `LayoutCompletion`, applied by `apply_completion`.

A table map made from a schema alone: `declared_layout`; of one column, `column_of`.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import TYPE_CHECKING

from binlog_format.errors import SchemaError
from binlog_format.events.table_map import Column, TableLayout
from binlog_format.events.table_map_layout import TABLE_BODY_OFFSET, ColumnType, can_be_hash
from binlog_format.names import folded_name
from binlog_format.rows.column_types import DEFINITION_HINT
from binlog_format.rows.declared.declared_types import DeclaredDefault, Generated, character_size, fits, split_declared
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


_SIZED = frozenset({ColumnType.STRING, ColumnType.VARCHAR, ColumnType.VAR_STRING, ColumnType.VARCHAR_COMPRESSED})
_COLUMNS_KEPT = 1024
"""Columns whose types are kept: each batch has the same ones, and the search for one type takes 0.3 ms."""


@dataclass(frozen=True, slots=True)
class ColumnCompletion:
    """Facts about one column, from a schema.

    Attributes:
        declared: Type name and numbers in lower case, as the server spells them (`int(11)`, `datetime(3)`, `uuid`);
            None: nothing is known of the column but its name.
        unsigned: Of a numeric column; None for others.
        charset: Of a text, ENUM or SET column, `binary` for binary strings; None for others, and where the schema
            does not state which one the table got.
        enum_values: Texts of an ENUM or SET column.
        default: What follows DEFAULT; None: nothing, or nothing is known of the column but its name.
        generated: It is computed from other columns.
        comment: COMMENT; empty: none, or nothing is known of the column but its name.
        sources: Of a VIRTUAL column: names of the logged columns of which it is computed; None: not known.
        nullable: False: it cannot be NULL.
        expression: Of a generated column: the words of its expression; empty: not known.
        zerofill: Of a numeric column: as a text it has zeros before it.
    """

    name: str
    declared: str | None = None
    unsigned: bool | None = None
    charset: str | None = None
    enum_values: tuple[str, ...] | None = None
    default: DeclaredDefault | None = None
    generated: Generated | None = None
    comment: str = ""
    sources: tuple[str, ...] | None = None
    nullable: bool = True
    expression: tuple[str, ...] = ()
    zerofill: bool = False


@dataclass(frozen=True, slots=True)
class LayoutCompletion:
    """Facts about a table, from a schema; its columns are in the order of the table map.

    Attributes:
        columns: All columns, those too that SELECT * hides.
        keys: Column indices of each key without prefixes of NULL-able columns that identifies rows, the best first:
            the first one whose columns cannot be NULL is the primary key.
        hashes: Unique keys for which MariaDB may add a hidden column (`events.table_map_layout.declared_count`).
        is_sequence: See `TableLayout.is_sequence`.
    """

    columns: tuple[ColumnCompletion, ...]
    keys: tuple[tuple[int, ...], ...] = ()
    hashes: int = 0
    is_sequence: bool = False

    def to_json(self) -> str:
        """Compact text that `from_json` reads; equal for equal completions."""
        content: dict[str, object] = {"columns": list(map(_column_entry, self.columns)), "keys": self.keys}
        if self.hashes:
            content["hashes"] = self.hashes
        if self.is_sequence:
            content["sequence"] = True
        return json.dumps(content, ensure_ascii=False, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> LayoutCompletion:
        """Read what `to_json` wrote. Raises `ValueError`: *text* is something else."""
        try:
            content = json.loads(text)
            columns = tuple(
                ColumnCompletion(
                    entry["name"],
                    entry.get("type"),
                    entry.get("unsigned"),
                    entry.get("charset"),
                    tuple(entry["values"]) if "values" in entry else None,
                    DeclaredDefault.from_list(entry["default"]) if "default" in entry else None,
                    Generated(entry["generated"]) if "generated" in entry else None,
                    entry.get("comment", ""),
                    tuple(entry["sources"]) if "sources" in entry else None,
                    entry.get("nullable", True),
                    tuple(entry.get(_EXPRESSION, ())),
                    entry.get("zerofill", False),
                )
                for entry in content["columns"]
            )
            keys = tuple(tuple(key) for key in content["keys"])
            return cls(columns, keys, content.get("hashes", 0), content.get("sequence", False))
        except (KeyError, TypeError, AttributeError) as error:
            raise ValueError(f"not the completion of a layout: {text[:100]}") from error


def _column_entry(column: ColumnCompletion) -> dict[str, object]:
    entry: dict[str, object] = {"name": column.name}
    if column.declared is not None:
        entry["type"] = column.declared
    if column.unsigned is not None:
        entry["unsigned"] = column.unsigned
    if column.charset is not None:
        entry["charset"] = column.charset
    if column.enum_values is not None:
        entry["values"] = column.enum_values
    if column.default is not None:
        entry["default"] = column.default.to_list()
    if column.generated is not None:
        entry["generated"] = column.generated.value
    if column.comment:
        entry["comment"] = column.comment
    if column.sources is not None:
        entry["sources"] = column.sources
    if not column.nullable:
        entry["nullable"] = False
    if column.expression:
        entry[_EXPRESSION] = column.expression
    if column.zerofill:
        entry["zerofill"] = True
    return entry


_EXPRESSION = "expression"


def may_be_computed(layout: TableLayout) -> bool:
    """True if the expression of a generated column is known."""
    return f'"{_EXPRESSION}":' in layout.completion


def apply_completion(layout: TableLayout, text: str, source: str = "the schema") -> TableLayout:
    """*layout* with what its table map leaves open.

    Where the table map contains something, it stays: character sets, texts of ENUM and SET, the primary key.

    Args:
        layout: As `parse_table_map` gave it.
        text: `LayoutCompletion.to_json`; empty changes nothing.

    Raises:
        SchemaError: `COLUMN_COUNT_MISMATCH`; `COLUMN_MISMATCH`: a column has another name, type or sign in the table
            map. Then nothing of the completion can be trusted: it is that of another table, or of another time.
        ValueError: *text* is not a completion.
    """
    if not text:
        return layout
    completion = LayoutCompletion.from_json(text)
    layout, is_given = _declared(layout, completion), not source.startswith(DDL_SOURCE)
    if len(completion.columns) != len(layout.columns):
        raise SchemaError(
            "COLUMN_COUNT_MISMATCH",
            f"{layout.full_name}: the log has {len(layout.columns)} columns, {source} has {len(completion.columns)}: "
            + _both_lists(layout, completion),
            hint=_HINT if is_given else DEFINITION_HINT,
        )
    for number, (column, schema_column) in enumerate(zip(layout.columns, completion.columns, strict=True)):
        why = contradiction(layout, column, schema_column)
        if why is not None:
            raise SchemaError(
                "COLUMN_MISMATCH",
                f"{layout.full_name}: column {number + 1}: {why}: {source} is not that of the table in the "
                f"log: {_both_lists(layout, completion)}",
                hint=_HINT if is_given else DEFINITION_HINT,
            )
    joined = may_be_joined(layout)
    columns = tuple(
        replace(
            column,
            nullable=column.nullable and (schema_column.nullable or not joined),
            name=schema_column.name if column.name is None else column.name,
            unsigned=schema_column.unsigned if column.unsigned is None else column.unsigned,
            charset=schema_column.charset if column.charset is None else column.charset,
            enum_values=schema_column.enum_values if column.enum_values is None else column.enum_values,
            declared=schema_column.declared,
        )
        for column, schema_column in zip(layout.columns, completion.columns, strict=True)
    )
    content = layout.table_map[TABLE_BODY_OFFSET:] + text.encode()
    return replace(
        layout,
        columns=columns,
        primary_key=layout.primary_key or _primary_key(columns, completion),
        digest=hashlib.sha256(content).hexdigest()[:16],
        completion=text,
        is_sequence=completion.is_sequence,
    )


def _declared(layout: TableLayout, completion: LayoutCompletion) -> TableLayout:
    """*layout* with the columns of *completion*, where the rest may be hashes of long unique keys."""
    columns, count = (*layout.columns, *layout.hidden), len(completion.columns)
    rest = columns[count:]
    if layout.vendor is Vendor.MARIADB and len(rest) <= completion.hashes and all(map(can_be_hash, rest)):
        return replace(layout, columns=columns[:count], hidden=rest)
    return layout


DDL_SOURCE = "the DDL"
"""Start of the source of a completion that comes from statements in the log."""
_HINT = (
    "Give a schema file that was true where the reading starts, or start after the change; "
    "binlog_row_metadata=FULL on the server makes schemas needless"
)


def contradiction(layout: TableLayout, column: Column, schema_column: ColumnCompletion) -> str | None:
    """Reason why *column* of *layout* cannot be the column that *schema_column* describes; None: it can."""
    if column.name is not None and folded_name(column.name) != folded_name(schema_column.name):
        return f"the log calls it {column.name!r}, the schema {schema_column.name!r}"
    labels = None if schema_column.enum_values is None else len(schema_column.enum_values)
    declared = schema_column.declared
    if declared is not None and not fits(column, declared, schema_column.charset, labels, layout.vendor):
        return f"the log has {_logged(column)}, the schema {_in_schema(schema_column)}"
    if column.unsigned is not None and schema_column.unsigned is not None and column.unsigned != schema_column.unsigned:
        return f"the log has {_logged(column)}, the schema {_in_schema(schema_column)}"
    return None


def may_be_joined(layout: TableLayout) -> bool:
    """True if columns that are marked as NULL-able may not be so: see `TableLayout.joined`."""
    return layout.joined or all(column.nullable for column in (*layout.columns, *layout.hidden))


def _primary_key(columns: Sequence[Column], completion: LayoutCompletion) -> tuple[int, ...]:
    for key in completion.keys:
        if not any(columns[column].nullable for column in key):
            return key
    return ()


def _both_lists(layout: TableLayout, completion: LayoutCompletion) -> str:
    logged = ", ".join(_logged(column) for column in layout.columns)
    in_schema = ", ".join(_in_schema(column) for column in completion.columns)
    return f"log: [{logged}]; schema: [{in_schema}]"


def _logged(column: Column) -> str:
    text = column.type.name
    if column.type in _SIZED:
        text += f"({column.size_max} bytes)"
    elif column.type in (ColumnType.NEWDECIMAL, ColumnType.BIT):
        first, second = column.metadata & 0xFF, column.metadata >> 8
        text += f"({first},{second})" if column.type is ColumnType.NEWDECIMAL else f"({first + 8 * second})"
    elif column.type in (ColumnType.ENUM, ColumnType.SET):
        text += f"({column.metadata >> 8} bytes)"
    elif column.metadata:
        text += f"({column.metadata})"
    if column.unsigned:
        text += " UNSIGNED"
    return text if column.name is None else f"{column.name} {text}"


def _in_schema(schema_column: ColumnCompletion) -> str:
    return f"{schema_column.name} {schema_column.declared or '?'}{' unsigned' if schema_column.unsigned else ''}"


def declared_layout(database: str, table: str, completion: LayoutCompletion, vendor: Vendor) -> TableLayout:
    """The layout with which rows of a table will come that was declared so.

    It has no table map; its digest is empty. Types are those that servers write today.
    """
    try:
        columns = tuple(column_of(column, vendor) for column in completion.columns)
    except SchemaError as error:
        raise SchemaError(
            "NO_COLUMN_METADATA",
            f"{database}.{table}: {error.reason}, and the log has no rows of the table",
            hint="Start the query when the table has rows, or without the option table",
        ) from error
    key = completion.keys[0] if completion.keys else ()
    return TableLayout(database, table, columns, key, "", b"", vendor, completion.to_json())


@lru_cache(maxsize=_COLUMNS_KEPT)
def column_of(schema_column: ColumnCompletion, vendor: Vendor, *, nullable: bool = True) -> Column:
    """A column as a table map has it.

    Args:
        vendor: Whose server writes the log. Types are those that servers write today; a COMPRESSED column is one of the
            same type that is not.
    """
    declared = schema_column.declared or ""
    labels = None if schema_column.enum_values is None else len(schema_column.enum_values)
    fitting = []
    for type_, metadata in _candidates(declared, schema_column.charset, labels):
        column = Column(
            name=schema_column.name,
            type=type_,
            metadata=metadata,
            nullable=nullable,
            unsigned=schema_column.unsigned,
            charset=_charset(type_, declared, schema_column.charset),
            enum_values=schema_column.enum_values,
            declared=declared,
        )
        if fits(column, declared, schema_column.charset, labels, vendor):
            fitting.append(column)
    # A type that is not known (a plugin's) fits everything, a known one no two numbers.
    if fitting and not {ColumnType.TINY, ColumnType.SHORT} <= {column.type for column in fitting}:
        return fitting[0]
    raise SchemaError(
        "NO_COLUMN_METADATA", f"column {schema_column.name}: the type {declared or 'nothing'} is not known here"
    )


def _charset(type_: ColumnType, declared: str, charset: str | None) -> str | None:
    if type_ not in (ColumnType.BLOB, ColumnType.VARCHAR, ColumnType.STRING, ColumnType.ENUM, ColumnType.SET):
        return None
    name, _ = split_declared(declared)
    if name == "json":
        return "utf8mb4"
    return charset if name.endswith(("char", "text")) or name in ("enum", "set") else "binary"


def _candidates(declared: str, charset: str | None, labels: int | None) -> Iterator[tuple[ColumnType, int]]:
    # The newest way to write a type first; `fits` tells which one is right on whose server.
    _, numbers = split_declared(declared)
    first = numbers[0] if numbers else 0
    characters = first or 1
    size = characters * character_size(charset or "binary")
    label_size = 1 if labels is None or labels < 1 << 8 else 2
    set_size = ((labels or 1) + 7) // 8
    yield ColumnType.TINY, 0
    yield ColumnType.SHORT, 0
    yield ColumnType.INT24, 0
    yield ColumnType.LONG, 0
    yield ColumnType.LONGLONG, 0
    yield ColumnType.FLOAT, 4
    yield ColumnType.DOUBLE, 8
    yield ColumnType.YEAR, 0
    yield ColumnType.DATE, 0
    yield ColumnType.ENUM, ColumnType.ENUM | label_size << 8
    yield ColumnType.SET, ColumnType.SET | (8 if set_size > 4 else set_size) << 8
    yield ColumnType.TIME2, first
    yield ColumnType.DATETIME2, first
    yield ColumnType.TIMESTAMP2, first
    precision, scale = (*numbers, 0)[:2] if numbers else (10, 0)
    yield ColumnType.NEWDECIMAL, (precision | scale << 8) & 0xFFFF
    yield ColumnType.BIT, characters % 8 | (characters // 8) << 8
    for prefix in (1, 2, 3, 4):
        yield ColumnType.BLOB, prefix
    yield ColumnType.GEOMETRY, 4
    yield ColumnType.JSON, 4
    yield ColumnType.VECTOR, 4
    for string_size in (size, 16, 4):
        yield ColumnType.STRING, _string_metadata(string_size)
    for varchar_size in (size, 4 * characters):
        yield ColumnType.VARCHAR, varchar_size
    if numbers == (0,):
        yield ColumnType.STRING, _string_metadata(0)
        yield ColumnType.VARCHAR, 0


def _string_metadata(size: int) -> int:
    # Sizes over 255 borrow two bits of the type byte, inverted (MariaDB sql/field.cc: Field_string).
    high = (size & 0x300) >> 4
    return ((ColumnType.STRING ^ high) & 0xFF) | (size & 0xFF) << 8
