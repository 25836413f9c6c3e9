"""From a column's bytes to its Arrow array: `column_array`; `arrow_type` of a column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.errors import CorruptError
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows.bits import BITS
from binlog_format.rows.column_types import BadValueError, column_name, unsupported
from binlog_format.rows.decimals import DECIMALS
from binlog_format.rows.enums import ENUMS, SETS
from binlog_format.rows.floats import FLOATS
from binlog_format.rows.integers import INTEGERS, YEARS
from binlog_format.rows.temporal import DATES, DATETIMES, TIMES, TIMESTAMPS
from binlog_format.rows.text import TEXTS

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    from numpy.typing import NDArray

    from binlog_format.events.table_map import TableLayout
    from binlog_format.kernels import Bytes
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
    ColumnType.VARCHAR: TEXTS,
    ColumnType.VAR_STRING: TEXTS,
    ColumnType.STRING: TEXTS,
    ColumnType.TINY_BLOB: TEXTS,
    ColumnType.BLOB: TEXTS,
    ColumnType.MEDIUM_BLOB: TEXTS,
    ColumnType.LONG_BLOB: TEXTS,
    ColumnType.ENUM: ENUMS,
    ColumnType.SET: SETS,
}


def arrow_type(layout: TableLayout, column: int) -> pa.DataType:
    """The Arrow type of a column.

    Raises:
        SchemaError: `NO_COLUMN_METADATA`: the log does not say how to understand the bytes.
        UnsupportedError: `COLUMN_TYPE`: a type, or a character set, that is not read.
    """
    family = _FAMILIES.get(layout.columns[column].type)
    if family is None:
        raise unsupported(layout, column)
    return family.arrow_type(layout, column)


def column_array(layout: TableLayout, column: int, data: Bytes, offsets: NDArray[np.int32]) -> pa.Array:
    """The values of a column, of the type that `arrow_type` says.

    Args:
        layout: Of the table.
        column: Index.
        data: What the offsets point into.
        offsets: Where each value starts; below 0 for null.

    Raises:
        CorruptError: `BAD_EVENT`: a value that no server writes.
        SchemaError: As `arrow_type`.
        UnsupportedError: As `arrow_type`; or `ROW_IMAGE`: there is too much at once.
    """
    arrow_type(layout, column)
    try:
        return _FAMILIES[layout.columns[column].type].decode(layout.columns[column], data, offsets)
    except BadValueError as error:
        reason = f"{column_name(layout, column)}: value {error.index}: {error.reason}"
        raise CorruptError("BAD_EVENT", reason) from error
