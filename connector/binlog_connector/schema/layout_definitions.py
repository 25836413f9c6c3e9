"""Definitions from table maps: `definition_from_layout(layout)`, and with what else is known: `merged_definition`.

A table map states types, and which columns can be NULL; with `binlog_row_metadata=FULL` also names, signs, character
sets, labels and the primary key. It never states generated columns, defaults, other keys, partitions, foreign keys.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from binlog_connector.schema.definitions import (
    PRIMARY,
    SEQUENCE_COLUMNS,
    ColumnDefinition,
    KeyDefinition,
    KeyPart,
    TableDefinition,
    TableName,
    is_numeric,
)
from binlog_format.events.table_map_layout import NUMERIC_TYPES, OLD_TEMPORAL_TYPES, ColumnType
from binlog_format.names import folded_name
from binlog_format.rows.declared.completion import (
    ColumnCompletion,
    LayoutCompletion,
    apply_completion,
    contradiction,
    may_be_joined,
)
from binlog_format.rows.declared.declared_types import character_size
from binlog_format.vendor import Vendor
from binlog_format.views.cascading import RowEnds, possible_row_ends

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from binlog_format.events.table_map import Column, TableLayout

_NEVER_OF_TABLES = frozenset({"charset", "engine", "keys", "partitioning", "period", "versioned"})
_NEVER_OF_COLUMNS = frozenset({"default", "generated", "implicit", "invisible", "system_role"})
_DECLARED_SIZES = frozenset({4, 16})
"""Bytes of an INET4, and of a UUID or INET6."""
_VECTOR_ITEM = 4
"""Bytes of each number of a VECTOR, which is a VARBINARY."""
_PLAIN = {
    ColumnType.TINY: "tinyint",
    ColumnType.SHORT: "smallint",
    ColumnType.INT24: "mediumint",
    ColumnType.LONG: "int",
    ColumnType.LONGLONG: "bigint",
    ColumnType.FLOAT: "float",
    ColumnType.DOUBLE: "double",
    ColumnType.YEAR: "year",
    ColumnType.DATE: "date",
    ColumnType.NEWDATE: "date",
    ColumnType.ENUM: "enum",
    ColumnType.SET: "set",
    ColumnType.JSON: "json",
}
_TEMPORAL = {ColumnType.TIME2: "time", ColumnType.DATETIME2: "datetime", ColumnType.TIMESTAMP2: "timestamp"}
_OLD_TEMPORAL = {ColumnType.TIME: "time", ColumnType.DATETIME: "datetime", ColumnType.TIMESTAMP: "timestamp"}
_STRINGS = {
    ColumnType.STRING: "char",
    ColumnType.VARCHAR: "varchar",
    ColumnType.VAR_STRING: "varchar",
    ColumnType.VARCHAR_COMPRESSED: "varchar",
}
_BLOB_SIZES = ("", "tiny", "", "medium", "long")
_GEOMETRIES = (
    "geometry",
    "point",
    "linestring",
    "polygon",
    "multipoint",
    "multilinestring",
    "multipolygon",
    "geometrycollection",
)


def definition_from_layout(layout: TableLayout) -> TableDefinition:
    """Convert a table map to a definition; all that it lacks is unknown.

    Args:
        layout: As it was logged, or with what a schema has added. Integers have no display width in it, floating types
            no digits, and a column without a name has an empty one (`name` is unknown). The primary key may be a unique
            key of columns that are NOT NULL, in a table without one.
    """
    has_names = layout.has_names
    columns = tuple(_column(column, layout.vendor) for column in layout.columns)
    parts = tuple(KeyPart(columns[place].name) for place in layout.primary_key)
    return TableDefinition(
        TableName(layout.database, layout.table),
        columns,
        (KeyDefinition(PRIMARY, unique=True, parts=parts),) if parts and has_names else (),
        unknown=_NEVER_OF_TABLES if has_names else _NEVER_OF_TABLES | {"primary_key"},
    )


def merged_definition(layout: TableLayout, definition: TableDefinition | None) -> TableDefinition:
    """Merge a table map and another source into one definition, attribute by attribute.

    The table map goes first for what it has: it is of the place itself. A column that the other source does not know,
    or knows as another one, has what the table map states of it alone.

    Args:
        definition: The other source's; None: there is none.
    """
    logged = definition_from_layout(layout)
    if definition is None or definition.columns is None or logged.columns is None:
        return logged
    is_whole = len(definition.columns) == len(layout.columns)
    if not layout.has_names and not is_whole:
        return logged
    by_name = {folded_name(column.name): column for column in definition.columns}
    columns = []
    for place, (column, own) in enumerate(zip(layout.columns, logged.columns, strict=True)):
        other = definition.columns[place] if column.name is None else by_name.get(folded_name(column.name))
        if other is None or contradiction(layout, column, other.completion()) is not None:
            columns.append(own)
            is_whole = False
        else:
            columns.append(_merged_column(own, other, joined=may_be_joined(layout)))
    if not is_whole and not layout.has_names:
        return logged
    keys = definition.keys if is_whole else logged.keys
    unknown = definition.unknown if is_whole else definition.unknown | {"keys"}
    return replace(definition, name=logged.name, columns=tuple(columns), keys=keys, unknown=unknown)


def _merged_column(own: ColumnDefinition, other: ColumnDefinition, *, joined: bool) -> ColumnDefinition:
    unknown = set(other.unknown - {"nullable"})
    values: dict[str, object] = {"nullable": own.nullable and (other.completion().nullable or not joined)}
    for name in ("unsigned", "charset", "enum_values"):
        value = getattr(own, name)
        if value is not None:
            values[name] = value
            unknown.discard(name)
    if own.knows("name"):
        values["name"] = own.name
    return replace(other, **values, unknown=frozenset(unknown))  # type: ignore[arg-type]


def _column(column: Column, vendor: Vendor) -> ColumnDefinition:
    unknown = set(_NEVER_OF_COLUMNS)
    if column.visible is not None:
        unknown.discard("invisible")
    unknown.update(_left_open(column))
    declared = column.declared
    if declared is None:
        declared, is_certain = _declared(column, vendor)
        if not is_certain:
            unknown.add("declared")
    return ColumnDefinition(
        column.name or "",
        declared,
        column.nullable,
        column.unsigned if is_numeric(declared.partition("(")[0]) else None,
        column.charset,
        column.enum_values,
        invisible=column.visible is False,
        unknown=frozenset(unknown),
    )


def _left_open(column: Column) -> Iterable[str]:
    """Attributes that a table map has with more metadata."""
    if column.name is None:
        yield "name"
    if column.unsigned is None and column.type in NUMERIC_TYPES:
        yield "unsigned"
    is_labelled = column.type in (ColumnType.ENUM, ColumnType.SET)
    if column.enum_values is None and is_labelled:
        yield "enum_values"
    if column.charset is None and (is_labelled or column.type in _STRINGS or _is_blob(column)):
        yield "charset"


def _declared(column: Column, vendor: Vendor) -> tuple[str, bool]:
    """The declared type, and whether no other one has the same table map."""
    kind, metadata = column.type, column.metadata
    if kind in _PLAIN:
        return _PLAIN[kind], True
    if kind in _TEMPORAL:
        return _TEMPORAL[kind] + (f"({metadata})" if metadata else ""), True
    if kind in _OLD_TEMPORAL:
        return _OLD_TEMPORAL[kind], False  # the digits of the fraction are not in the log
    if kind in _STRINGS:
        return _string(column, vendor)
    if _is_blob(column):
        size = _BLOB_SIZES[metadata] if metadata < len(_BLOB_SIZES) else ""
        # MariaDB: JSON is LONGTEXT in a table map.
        may_be_json = vendor is Vendor.MARIADB and (size, column.charset) == ("long", "utf8mb4")
        is_certain = column.charset is not None and not may_be_json
        return size + ("blob" if column.charset in (None, "binary") else "text"), is_certain
    if kind is ColumnType.NEWDECIMAL:
        return f"decimal({metadata & 0xFF},{metadata >> 8})", True
    if kind is ColumnType.BIT:
        return f"bit({(metadata & 0xFF) + 8 * (metadata >> 8)})", True
    if kind is ColumnType.GEOMETRY:
        return _GEOMETRIES[column.geometry_type or 0], column.geometry_type is not None
    if kind is ColumnType.VECTOR and column.dimensions is not None:
        return f"vector({column.dimensions})", True
    return kind.name.lower(), False


def _string(column: Column, vendor: Vendor) -> tuple[str, bool]:
    name, size = _STRINGS[column.type], column.size_max
    if column.type is ColumnType.VARCHAR_COMPRESSED:
        size -= 1  # a byte that states how it is compressed
    if column.charset is None:
        return f"{name}({size})", False
    if column.charset != "binary":
        return f"{name}({size // character_size(column.charset)})", True
    # MariaDB: UUID, INET6 and INET4 are BINARY(16) and BINARY(4) in a table map, VECTOR(n) is VARBINARY(4 * n).
    may_be_other = size in (4, 16) if name == "char" else size % 4 == 0
    return f"{name.replace('char', 'binary')}({size})", not (vendor is Vendor.MARIADB and may_be_other)


def _is_blob(column: Column) -> bool:
    return column.type in (ColumnType.BLOB, ColumnType.BLOB_COMPRESSED)


def known_columns(layout: TableLayout, completion: LayoutCompletion) -> LayoutCompletion:
    """The columns of *completion* that match the names and types of *layout*, in its order."""
    by_name = {folded_name(column.name): column for column in completion.columns}
    columns = []
    for column in layout.columns:
        name = column.name or ""
        schema_column = by_name.get(folded_name(name))
        if schema_column is None or contradiction(layout, column, schema_column) is not None:
            schema_column = ColumnCompletion(name)
        columns.append(replace(schema_column, name=name))
    is_whole = tuple(column.name for column in completion.columns) == tuple(column.name for column in layout.columns)
    return LayoutCompletion(tuple(columns), hashes=len(layout.hidden), is_sequence=completion.is_sequence and is_whole)


def revealed(layout: TableLayout, declared: Sequence[ColumnDefinition]) -> TableLayout:
    """*layout* with the columns that were taken for hashes by their names, and that a statement has declared."""
    names = {folded_name(column.name) for column in declared}
    count = next((n for n, column in enumerate(layout.hidden) if folded_name(column.name or "") not in names), None)
    count = len(layout.hidden) if count is None else count
    return replace(layout, columns=layout.columns + layout.hidden[:count], hidden=layout.hidden[count:])


def leaves_open(layout: TableLayout) -> bool:
    """True if a table map lacks a name, a sign, labels or a number of digits: facts that a schema can contain.

    Or it has a column that a server adds, by its name: a statement may have declared it after all. Or it has the
    columns of a sequence, which a table may have, too.
    """
    return (
        bool(layout.hidden)
        or not layout.has_names
        or layout.joined
        or tuple(column.name for column in layout.columns) == SEQUENCE_COLUMNS
        or any(
            column.type in OLD_TEMPORAL_TYPES
            or (column.type in NUMERIC_TYPES and column.unsigned is None)
            or (column.type in (ColumnType.ENUM, ColumnType.SET) and column.enum_values is None)
            for column in layout.columns
        )
    )


def may_have_declared_types(layout: TableLayout) -> bool:
    """True if a column may be of a type that its table map does not distinguish from a binary string."""
    return layout.vendor is Vendor.MARIADB and any(
        column.charset == "binary"
        and (
            (column.type is ColumnType.STRING and column.size_max in _DECLARED_SIZES)
            or (column.type is ColumnType.VARCHAR and column.size_max % _VECTOR_ITEM == 0)
        )
        for column in layout.columns
    )


def completed_by(layout: TableLayout, definition: TableDefinition, source: str) -> TableLayout:
    """A layout with all that a definition of its table states. *definition*: of the same table, with columns."""
    assert definition.columns is not None, "it has columns"
    layout, completion = revealed(layout, definition.columns), definition.completion()
    if layout.has_names:
        completion = known_columns(layout, completion)
    return apply_completion(layout, completion.to_json(), source)


def row_ends(layout: TableLayout, definition: TableDefinition | None) -> RowEnds:
    """The columns that tell if a version of a row of a system-versioned table ends.

    Args:
        layout: Of the rows, as they are logged.
        definition: Of the table; None, or one that does not state if rows have versions: it is not certain.
    """
    possible = possible_row_ends(layout)
    if definition is None or not definition.knows("versioned"):
        return possible
    if not definition.versioned:
        return RowEnds((), True)
    names = {folded_name(column.name) for column in definition.columns or () if column.system_role == "end"}
    if layout.has_names:
        found = tuple(i for i, column in enumerate(layout.columns) if folded_name(column.name or "") in names)
    else:
        found = tuple(i for i, column in enumerate(definition.columns or ()) if column.system_role == "end")
    return RowEnds(found, True) if {*found} & {*possible.columns} else possible
