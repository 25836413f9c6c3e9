"""`long double` to double: `doubles_of_extended`; floats as JSON: `float_texts_of`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_format.rows.arrow_arrays import mask_array, numbers_array
from binlog_format.rows.column_types import check_gathered
from binlog_format.rows.json.json_rows import float_texts
from binlog_format.rows.values.value_kernels import gather_2, gather_4, gather_8
from binlog_format.structured.arguments.layout import (
    EXTENDED_BIAS,
    EXTENDED_EXPONENT_MAX,
    EXTENDED_FRACTION_SIZE,
    EXTENDED_SIGN,
)
from binlog_format.structured.types.type_layout import TypeKind

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.block import Table
    from binlog_format.kernels import Bytes

    Doubles = NDArray[np.float64]
    Places = NDArray[np.int32]

_FRACTION_BITS = 64
_DOUBLE_BITS = 53
_DOUBLE_EXPONENT_MIN = -1022


def doubles_of_extended(data: Bytes, places: Places) -> Doubles:
    """The nearest double of each `long double`; 0 where there is none (place below 0)."""
    fractions = np.empty(len(places), dtype=np.uint64)
    ends = np.empty(len(places), dtype=np.uint16)
    check_gathered(gather_8(data, places, fractions))
    check_gathered(gather_2(data, np.where(places < 0, places, places + EXTENDED_FRACTION_SIZE), ends))
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


def _rounded(fractions: NDArray[np.uint64], dropped: NDArray[np.int64]) -> Doubles:
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
    doubles: Doubles = np.empty(len(floats), dtype=np.float64)
    is_single = kinds == TypeKind.FLOAT
    is_extended = kinds == TypeKind.EXTENDED
    check_gathered(gather_8(data, np.where(kinds == TypeKind.DOUBLE, places, -1), doubles.view(np.uint64)))
    if is_extended.any():
        doubles[is_extended] = doubles_of_extended(data, places[is_extended])
    texts = float_texts(numbers_array(doubles))
    if is_single.any():
        singles = np.empty(len(floats), dtype=np.float32)
        check_gathered(gather_4(data, np.where(is_single, places, -1), singles.view(np.uint32)))
        texts = pc.if_else(mask_array(is_single), float_texts(numbers_array(singles)), texts)
    return texts
