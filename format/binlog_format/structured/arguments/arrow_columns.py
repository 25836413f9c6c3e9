"""Found values to Arrow arrays: `column_array`.

`long double` to double: `doubles_of_extended`; floats as JSON: `float_texts_of`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_format.rows.arrow_arrays import (
    boolean_array,
    fixed_array,
    mask_array,
    numbers_array,
    strings_array,
    struct_array,
    unsigned_64_array,
    validity,
)
from binlog_format.rows.column_types import gathered
from binlog_format.rows.decoding import Decoding
from binlog_format.rows.json.json_rows import float_texts
from binlog_format.rows.values.text import RowValues, text_values
from binlog_format.structured.arguments.columns import NO_SLOT, ColumnKind
from binlog_format.structured.arguments.layout import (
    EXTENDED_BIAS,
    EXTENDED_EXPONENT_MAX,
    EXTENDED_FRACTION_SIZE,
    EXTENDED_SIGN,
)
from binlog_format.structured.type_layout import COUNT_SIZE, SCALAR_SIZES, TypeKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.block import Table
    from binlog_format.kernels import Bytes, Int32s, Int64s, Uint64s
    from binlog_format.structured.arguments.columns import ArgumentColumn
    from binlog_format.structured.arguments.source_decoder import FoundValues

    Numbers = NDArray[Any]
    Doubles = NDArray[np.float64]


_FRACTION_BITS = 64
_DOUBLE_BITS = 53
_DOUBLE_EXPONENT_MIN = -1022


def doubles_of_extended(data: Bytes, places: Int32s) -> Doubles:
    """The nearest double of each `long double`; 0 where there is none (place below 0)."""
    fractions = gathered(data, places, np.uint64)
    ends = gathered(data, np.where(places < 0, places, places + EXTENDED_FRACTION_SIZE), np.uint16)
    powers = (ends & EXTENDED_EXPONENT_MAX).astype(np.int64)
    # Bits that a double has no room for go, rounded to even; more of them where it is subnormal.
    exponents = np.maximum(powers, 1) - EXTENDED_BIAS
    too_many = _FRACTION_BITS - _DOUBLE_BITS
    dropped = np.clip(_DOUBLE_EXPONENT_MIN - exponents + too_many, too_many, _FRACTION_BITS)
    with np.errstate(over="ignore"):  # to infinity
        doubles: Doubles = np.ldexp(_rounded(fractions, dropped), exponents - (_FRACTION_BITS - 1) + dropped)
    is_special = powers == EXTENDED_EXPONENT_MAX
    is_infinite = is_special & (fractions << np.uint64(1) == 0)
    doubles[is_special] = np.nan
    doubles[is_infinite] = np.inf
    np.negative(doubles, out=doubles, where=ends & EXTENDED_SIGN != 0)
    return doubles


def _rounded(fractions: Uint64s, dropped: Int64s) -> Doubles:
    # Shifted right by *dropped* bits, 11 to 64, to the nearest whole number, of two the even one.
    last = np.uint64(1) << (dropped - 1).astype(np.uint64)  # of the bits that go, the highest
    kept = fractions >> (dropped - 1).astype(np.uint64) >> np.uint64(1)
    rest = fractions & (last | (last - np.uint64(1)))
    up = (rest > last) | ((rest == last) & (kept & np.uint64(1) == 1))
    rounded: Doubles = (kept + up).astype(np.float64)
    return rounded


def float_texts_of(data: Bytes, floats: Table) -> pa.StringArray:
    """Convert floats to JSON, in the shortest digits; values that are not finite become strings.

    Args:
        data: What *floats* point into.
        floats: `OMITTED_FLOAT_DTYPE`.
    """
    kinds, places = floats["kind"], np.ascontiguousarray(floats["place"])
    is_single = kinds == TypeKind.FLOAT
    is_extended = kinds == TypeKind.EXTENDED
    doubles = gathered(data, np.where(kinds == TypeKind.DOUBLE, places, -1), np.float64)
    if is_extended.any():
        doubles[is_extended] = doubles_of_extended(data, places[is_extended])
    texts = float_texts(numbers_array(doubles))
    if is_single.any():
        singles = gathered(data, np.where(is_single, places, -1), np.float32)
        texts = pc.if_else(mask_array(is_single), float_texts(numbers_array(singles)), texts)
    return texts


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
    numbers = gathered(data, places, f"u{SCALAR_SIZES[column.number]}")
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


def _signed(kind: TypeKind, numbers: Numbers) -> Numbers:
    return numbers.view(np.dtype(f"i{numbers.itemsize}")) if kind in _SIGNED else numbers


def _enum_array(column: ArgumentColumn, data: Bytes, places: Int32s) -> pa.Array:
    assert column.labels is not None, "an enum has labels, if none of its values"
    valid = validity(places)
    numbers = gathered(data, places, f"u{SCALAR_SIZES[column.number]}")
    values = (numbers != 0 if column.number is TypeKind.BOOL else _signed(column.number, numbers)).astype(np.int64)
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
