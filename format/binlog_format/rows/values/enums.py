"""ENUM and SET to Arrow: `ENUMS`, `SETS`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.kernels import as_bytes, empty_bytes
from binlog_format.rows.arrow_arrays import fixed_array, text_array, validity
from binlog_format.rows.column_types import (
    TEXT_SIZE_MAX,
    BadValueError,
    Family,
    check_gathered,
    check_text_size,
    unsupported,
)
from binlog_format.rows.values import enum_kernels as kernels
from binlog_format.rows.values.value_kernels import gather_1, gather_2, gather_set

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.events.table_map import Column, TableLayout
    from binlog_format.kernels import Bytes
    from binlog_format.rows.decoding import Decoding

    Int32s = NDArray[np.int32]


def _label_type(layout: TableLayout, index: int, _decoding: Decoding) -> pa.DataType:
    column = layout.columns[index]
    if column.enum_values is None and column.charset is not None:
        # The log has the labels, but not in a character set that is read.
        raise unsupported(layout, index)
    return pa.string()


def _enums(column: Column, data: Bytes, offsets: Int32s, _decoding: Decoding) -> pa.Array:
    if column.metadata >> 8 == 1:
        small = np.empty(len(offsets), dtype=np.uint8)
        check_gathered(gather_1(data, offsets, small))
        values = small.astype(np.int32)
    else:
        large = np.empty(len(offsets), dtype=np.uint16)
        check_gathered(gather_2(data, offsets, large))
        values = large.astype(np.int32)
    numbers = fixed_array(pa.int32(), values, validity(offsets))
    if column.enum_values is None:
        return numbers.cast(pa.string())
    labels = ("", *column.enum_values)  # 0 is the server's mark for a value that was refused
    too_large = np.flatnonzero(values >= len(labels))
    if len(too_large):
        index = int(too_large[0])
        raise BadValueError(index, f"number {int(values[index])} of {len(labels) - 1} labels")
    sizes = np.array([len(label.encode()) for label in labels])
    if int(sizes.max()) * len(values) > TEXT_SIZE_MAX:
        # A label of a server has at most 255 characters; of others a byte of a row can become a gigabyte.
        check_text_size(int(sizes[values[validity(offsets)]].sum()))
    return pa.DictionaryArray.from_arrays(numbers, pa.array(labels, pa.string())).dictionary_decode()


def _sets(column: Column, data: Bytes, offsets: Int32s, _decoding: Decoding) -> pa.Array:
    masks = np.empty(len(offsets), dtype=np.uint64)
    check_gathered(gather_set(data, offsets, column.metadata >> 8, masks))
    valid = validity(offsets)
    if column.enum_values is None:
        return fixed_array(pa.uint64(), masks, valid).cast(pa.string())
    labels = [label.encode() for label in column.enum_values]
    label_offsets = np.cumsum([0, *map(len, labels)]).astype(np.int32)
    out_offsets = np.empty(len(offsets) + 1, dtype=np.int32)
    bad_index = kernels.set_offsets(masks, label_offsets, out_offsets)
    if bad_index >= 0:
        raise BadValueError(bad_index, f"bits {int(masks[bad_index]):#x} of {len(labels)} labels")
    check_text_size(1 << 31 if bad_index == kernels.TOO_LARGE else 0)
    out = empty_bytes(int(out_offsets[-1]))
    kernels.write_sets(masks, label_offsets, as_bytes(b"".join(labels)), out)
    return text_array(pa.string(), out_offsets, out, valid)


ENUMS = Family(_label_type, _enums)
SETS = Family(_label_type, _sets)
