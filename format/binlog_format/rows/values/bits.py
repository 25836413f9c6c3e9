"""BIT to Arrow: `BITS`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.rows.arrow_arrays import boolean_array, fixed_array, unsigned_64_array, validity
from binlog_format.rows.column_types import BadValueError, Family, check_gathered
from binlog_format.rows.values.value_kernels import gather_bits

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.events.table_map import Column, TableLayout
    from binlog_format.kernels import Bytes
    from binlog_format.rows.decoding import Decoding

    Int32s = NDArray[np.int32]


def _bit_count(column: Column) -> int:
    return (column.metadata & 0xFF) + 8 * (column.metadata >> 8)


def _bit_type(layout: TableLayout, index: int, decoding: Decoding) -> pa.DataType:
    count = _bit_count(layout.columns[index])
    if count == 64:
        return pa.decimal128(20, 0)
    return pa.bool_() if count == 1 else pa.int64()


def _bits(column: Column, data: Bytes, offsets: Int32s, decoding: Decoding) -> pa.Array:
    count = _bit_count(column)
    values = np.empty(len(offsets), dtype=np.uint64)
    check_gathered(gather_bits(data, offsets, (count + 7) // 8, values))
    valid = validity(offsets)
    if count == 64:
        return unsigned_64_array(values, valid)
    too_large = np.flatnonzero(values >> np.uint64(count))
    if len(too_large):
        raise BadValueError(int(too_large[0]), f"{int(values[too_large[0]]):#x} has more than {count} bits")
    if count == 1:
        return boolean_array(values.astype(np.bool_), valid)
    return fixed_array(pa.int64(), values, valid)


BITS = Family(_bit_type, _bits)
