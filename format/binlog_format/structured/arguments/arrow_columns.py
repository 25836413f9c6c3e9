"""Found values to Arrow arrays: `column_array`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from binlog_format.rows.arrow_arrays import (
    boolean_array,
    fixed_array,
    mask_array,
    strings_array,
    struct_array,
    unsigned_64_array,
    validity,
)
from binlog_format.rows.column_types import check_gathered
from binlog_format.rows.decoding import Decoding
from binlog_format.rows.values.text import RowValues, text_values
from binlog_format.rows.values.value_kernels import gather_1, gather_2, gather_4, gather_8
from binlog_format.structured.arguments.columns import NO_SLOT, ColumnKind
from binlog_format.structured.arguments.floats import doubles_of_extended
from binlog_format.structured.types.type_layout import COUNT_SIZE, SCALAR_SIZES, TypeKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from binlog_format.kernels import Bytes
    from binlog_format.structured.arguments.columns import ArgumentColumn
    from binlog_format.structured.arguments.places import FoundValues

    Int32s = NDArray[np.int32]
    Numbers = NDArray[Any]

_GATHER: dict[int, Callable[[Bytes, Int32s, Numbers], int]] = {1: gather_1, 2: gather_2, 4: gather_4, 8: gather_8}
_SIGNED = frozenset({TypeKind.CHAR, TypeKind.INT8, TypeKind.INT16, TypeKind.INT32, TypeKind.INT64})
_CHARACTERS = strings_array([chr(byte) if byte < 0x80 else "\ufffd" for byte in range(256)])
_UTF8 = "utf8mb4"
_REPLACING = Decoding(replace_invalid_text=True)


def column_array(column: ArgumentColumn, found: FoundValues) -> pa.Array:
    """The array of a column, as long as the frame of its slot."""
    if column.kind is ColumnKind.STRUCT:
        valid = None if column.slot == NO_SLOT else validity(found.places[column.slot])
        return struct_array(column.type, [column_array(child, found) for child in column.children], valid)
    places = found.places[column.slot]
    if column.kind is ColumnKind.NUMBER:
        return _number_array(column, found.data, places)
    if column.kind is ColumnKind.TEXT:
        return text_values(_UTF8, RowValues(found.data, places, COUNT_SIZE), _REPLACING)
    if column.kind is ColumnKind.ENUM:
        return _enum_array(column, found.data, places)
    if column.kind is ColumnKind.LIST:
        return _list_array(column, places, column_array(column.children[0], found))
    if column.kind is ColumnKind.JSON:
        return found.json.take(fixed_array(pa.int32(), places, validity(places)))
    valid = validity(places)
    return boolean_array(valid, valid)


def _number_array(column: ArgumentColumn, data: Bytes, places: Int32s) -> pa.Array:
    valid = validity(places)
    if column.number is TypeKind.EXTENDED:
        return fixed_array(column.type, doubles_of_extended(data, places), valid)
    numbers = _gathered(column.number, data, places)
    if column.number is TypeKind.BOOL:
        return boolean_array(numbers != 0, valid)
    if column.number is TypeKind.CHAR:
        return _CHARACTERS.take(fixed_array(pa.uint8(), numbers, valid))
    if column.number is TypeKind.UINT64:
        return unsigned_64_array(numbers, valid)
    if column.number in (TypeKind.FLOAT, TypeKind.DOUBLE):
        return fixed_array(column.type, numbers, valid)
    stored = _signed(column.number, numbers).astype(column.type.to_pandas_dtype(), copy=False)
    return fixed_array(column.type, stored, valid)


def _gathered(kind: TypeKind, data: Bytes, places: Int32s) -> Numbers:
    # The bytes of each number, without sign; 0 where there is none.
    size = SCALAR_SIZES[kind]
    numbers = np.empty(len(places), dtype=np.dtype(f"u{size}"))
    check_gathered(_GATHER[size](data, places, numbers))
    return numbers


def _signed(kind: TypeKind, numbers: Numbers) -> Numbers:
    return numbers.view(np.dtype(f"i{numbers.itemsize}")) if kind in _SIGNED else numbers


def _enum_array(column: ArgumentColumn, data: Bytes, places: Int32s) -> pa.Array:
    assert column.labels is not None, "an enum has labels, if none of its values"
    valid = validity(places)
    numbers = _gathered(column.number, data, places)
    values = _signed(column.number, numbers).astype(np.int64)
    rows = np.searchsorted(column.labels.values, values)
    known = np.append(column.labels.values, 0)[rows] == values
    known &= valid & (rows < len(column.labels.values))
    labels = column.labels.texts.take(fixed_array(pa.int32(), rows.astype(np.int32), known))
    if column.number is TypeKind.UINT64:
        stored = unsigned_64_array(numbers, valid)
    else:
        stored = fixed_array(pa.int64(), values, valid)
    return struct_array(column.type, [labels, stored], valid)


def _list_array(column: ArgumentColumn, ends: Int32s, elements: pa.Array) -> pa.Array:
    valid = validity(ends)
    offsets = np.zeros(len(ends) + 1, dtype=np.int32)
    np.maximum.accumulate(np.maximum(ends, 0), out=offsets[1:])
    bitmap = None if valid.all() else mask_array(valid).buffers()[1]
    return pa.Array.from_buffers(column.type, len(ends), [bitmap, pa.py_buffer(offsets)], children=[elements])
