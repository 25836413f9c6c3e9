"""DECIMAL to Arrow: `DECIMALS`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.kernels import empty_bytes
from binlog_format.rows.arrow_arrays import fixed_array, text_array, validity
from binlog_format.rows.column_types import (
    DECIMAL_GROUP_DIGITS,
    BadValueError,
    Family,
    check_text_size,
    decimal_size,
)
from binlog_format.rows.values.decimal_kernels import gather_decimals, gather_small_decimals, write_decimals

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.events.table_map import Column, TableLayout
    from binlog_format.kernels import Bytes
    from binlog_format.rows.decoding import Decoding

    Int32s = NDArray[np.int32]
    Int64s = NDArray[np.int64]

_DECIMAL128_DIGITS = 38
_INT64_DIGITS = 18


def _decimal_type(layout: TableLayout, index: int, _decoding: Decoding) -> pa.DataType:
    metadata = layout.columns[index].metadata
    precision, scale = metadata & 0xFF, metadata >> 8
    return pa.decimal128(precision, scale) if precision <= _DECIMAL128_DIGITS else pa.string()


def _groups(whole: int, fraction: int) -> Int64s:
    """Size in bytes and ten to the number of digits of each group, in the order in which they are stored."""
    whole_groups, whole_rest = divmod(whole, DECIMAL_GROUP_DIGITS)
    fraction_groups, fraction_rest = divmod(fraction, DECIMAL_GROUP_DIGITS)
    digits = [whole_rest] + [DECIMAL_GROUP_DIGITS] * (whole_groups + fraction_groups) + [fraction_rest]
    return np.array([(decimal_size(count), 10**count) for count in digits if count], dtype=np.int64)


def _decimals(column: Column, data: Bytes, offsets: Int32s, _decoding: Decoding) -> pa.Array:
    precision, scale = column.metadata & 0xFF, column.metadata >> 8
    groups = _groups(precision - scale, scale)
    width = int(groups[:, 0].sum())
    if precision > _DECIMAL128_DIGITS:
        return _texts(data, offsets, precision, precision - scale, groups)
    words = np.empty((len(offsets), 2), dtype=np.int64)
    if precision <= _INT64_DIGITS:
        bad_index = gather_small_decimals(data, offsets, width, groups, words)
    else:
        bad_index = gather_decimals(data, offsets, width, groups, words.view(np.uint64))
    if bad_index >= 0:
        raise _no_digits(bad_index)
    return fixed_array(pa.decimal128(precision, scale), words, validity(offsets))


def _texts(data: Bytes, offsets: Int32s, precision: int, whole: int, groups: Int64s) -> pa.Array:
    size_max = len(offsets) * (precision + 3)  # sign, point, a zero before the point
    check_text_size(size_max)
    out = empty_bytes(size_max)
    out_offsets = np.empty(len(offsets) + 1, dtype=np.int32)
    width = int(groups[:, 0].sum())
    bad_index = write_decimals(data, offsets, width, groups, whole, empty_bytes(precision), out_offsets, out)
    if bad_index >= 0:
        raise _no_digits(bad_index)
    return text_array(pa.string(), out_offsets, out[: out_offsets[-1]], validity(offsets))


def _no_digits(index: int) -> BadValueError:
    return BadValueError(index, "it has groups of digits that are no digits")


DECIMALS = Family(_decimal_type, _decimals)
