"""Conversion of a column's bytes to an Arrow array: `column_array`; `arrow_type` of a column.

Arrow types of a table's columns: `arrow_schema(layout)`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from binlog_format.errors import SchemaError
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows.column_types import NO_METADATA_HINT, BadValueError, column_name, unsupported
from binlog_format.rows.declared.declared_types import split_declared
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding
from binlog_format.rows.json.json_columns import JSONS
from binlog_format.rows.json.variant_layout import JSON_FIELD
from binlog_format.rows.values.numbers import BITS, DECIMALS, FLOATS, INTEGERS, YEARS
from binlog_format.rows.values.special_types import GEOMETRIES, INET4S, INET6S, UUIDS, VECTORS
from binlog_format.rows.values.temporal import DATES, DATETIMES, TIMES, TIMESTAMPS
from binlog_format.rows.values.text import COMPRESSED, ENUMS, SETS, TEXTS

if TYPE_CHECKING:
    from binlog_format.events.table_map import TableLayout
    from binlog_format.kernels import Bytes, Int32s
    from binlog_format.rows.column_types import Family

_FAMILIES: dict[ColumnType, Family] = {
    ColumnType.TINY: INTEGERS,
    ColumnType.SHORT: INTEGERS,
    ColumnType.INT24: INTEGERS,
    ColumnType.LONG: INTEGERS,
    ColumnType.LONGLONG: INTEGERS,
    ColumnType.YEAR: YEARS,
    ColumnType.BIT: BITS,
    ColumnType.FLOAT: FLOATS,
    ColumnType.DOUBLE: FLOATS,
    ColumnType.NEWDECIMAL: DECIMALS,
    ColumnType.DATE: DATES,
    ColumnType.NEWDATE: DATES,
    ColumnType.DATETIME2: DATETIMES,
    ColumnType.TIMESTAMP2: TIMESTAMPS,
    ColumnType.TIME2: TIMES,
    ColumnType.DATETIME: DATETIMES,
    ColumnType.TIMESTAMP: TIMESTAMPS,
    ColumnType.TIME: TIMES,
    ColumnType.VARCHAR: TEXTS,
    ColumnType.VAR_STRING: TEXTS,
    ColumnType.STRING: TEXTS,
    ColumnType.TINY_BLOB: TEXTS,
    ColumnType.BLOB: TEXTS,
    ColumnType.MEDIUM_BLOB: TEXTS,
    ColumnType.LONG_BLOB: TEXTS,
    ColumnType.BLOB_COMPRESSED: COMPRESSED,
    ColumnType.VARCHAR_COMPRESSED: COMPRESSED,
    ColumnType.JSON: JSONS,
    ColumnType.ENUM: ENUMS,
    ColumnType.SET: SETS,
    ColumnType.GEOMETRY: GEOMETRIES,
    ColumnType.VECTOR: VECTORS,
}

# Types that are binary strings to the log: by its type, and the declared one.
_DECLARED_FAMILIES: dict[tuple[ColumnType, str], Family] = {
    (ColumnType.STRING, "uuid"): UUIDS,
    (ColumnType.STRING, "inet4"): INET4S,
    (ColumnType.STRING, "inet6"): INET6S,
    (ColumnType.VARCHAR, "vector"): VECTORS,
}


def arrow_type(layout: TableLayout, column: int, decoding: Decoding = DEFAULT_DECODING) -> pa.DataType:
    """The Arrow type of a column, as *decoding* wants it.

    Raises:
        SchemaError: `NO_COLUMN_METADATA`: the log does not state how to understand the bytes.
    """
    return _family(layout, column).arrow_type(layout, column, decoding)


def column_array(
    layout: TableLayout, column: int, data: Bytes, offsets: Int32s, *, decoding: Decoding = DEFAULT_DECODING
) -> pa.Array:
    """The values of a column, of the type that `arrow_type` gives.

    Args:
        data: What the offsets point into.
        offsets: Where each value starts; below 0 for null.
    """
    family = _family(layout, column)
    family.arrow_type(layout, column, decoding)
    try:
        return family.decode(layout.columns[column], data, offsets, decoding)
    except BadValueError as error:
        raise error.named(column_name(layout, column), is_defined=bool(layout.completion)) from error


def _family(layout: TableLayout, index: int) -> Family:
    column = layout.columns[index]
    if column.declared is not None:
        family = _DECLARED_FAMILIES.get((column.type, split_declared(column.declared)[0]))
        if family is not None:
            return family
    family = _FAMILIES.get(column.type)
    if family is None:
        raise unsupported(layout, index)
    return family


__all__ = ["arrow_schema", "arrow_type"]


def arrow_schema(layout: TableLayout, decoding: Decoding = DEFAULT_DECODING) -> pa.Schema:
    """Names and types of all columns that are shown, as `Images.column` gives them; JSON has `JSON_FIELD`.

    Every field can be null: a column may be absent from a row image, and zero dates are null.
    """
    if layout.problem is not None:
        raise layout.problem
    layout = decoding.shown(layout)
    fields = []
    for index, column in enumerate(layout.columns):
        if column.name is None:
            raise SchemaError(
                "NO_COLUMN_METADATA",
                f"{layout.full_name}: the log does not record what the columns are called",
                hint=NO_METADATA_HINT,
            )
        # MariaDB has text in its log, and only a definition tells.
        is_json = column.type is ColumnType.JSON or column.declared == "json"
        metadata = JSON_FIELD if is_json else None
        fields.append(pa.field(column.name, arrow_type(layout, index, decoding), metadata=metadata))
    return pa.schema(fields)
