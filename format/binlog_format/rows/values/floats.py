"""FLOAT and DOUBLE to Arrow: `FLOATS`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows.arrow_arrays import fixed_array, validity
from binlog_format.rows.column_types import Family, check_gathered
from binlog_format.rows.values.value_kernels import gather_4, gather_8

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.events.table_map import Column, TableLayout
    from binlog_format.kernels import Bytes
    from binlog_format.rows.decoding import Decoding

    Int32s = NDArray[np.int32]


def _float_type(layout: TableLayout, index: int, decoding: Decoding) -> pa.DataType:
    return pa.float32() if layout.columns[index].type is ColumnType.FLOAT else pa.float64()


def _floats(column: Column, data: Bytes, offsets: Int32s, decoding: Decoding) -> pa.Array:
    if column.type is ColumnType.FLOAT:
        singles = np.empty(len(offsets), dtype=np.uint32)
        check_gathered(gather_4(data, offsets, singles))
        return fixed_array(pa.float32(), singles, validity(offsets))
    doubles = np.empty(len(offsets), dtype=np.uint64)
    check_gathered(gather_8(data, offsets, doubles))
    return fixed_array(pa.float64(), doubles, validity(offsets))


FLOATS = Family(_float_type, _floats)
