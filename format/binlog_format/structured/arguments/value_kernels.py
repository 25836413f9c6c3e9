"""Common parts of the kernels that read arguments: codes of results, sizes, `Failures`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u8, load_u16, load_u32, load_u64
from binlog_format.structured.type_layout import SCALAR_SIZES, TypeKind

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.kernels import Bytes

OK = 0
GROW = 1  # call again from there with more room
SHORT = 2  # the event ends before the value does
BAD_VALUE = 3  # of a type that cannot be read: `BAD_TAG`, `BAD_ENUM`
TOO_DEEP = 4
OUTSIDE = 5  # the event is not in the data

_HALF = np.uint64(32)
_LOW_HALF = np.uint64(0xFFFFFFFF)

SCALAR_SIZE = np.zeros(len(TypeKind), dtype=np.int64)
"""Bytes of a number, by kind; 0: it is none."""
for _kind, _size in SCALAR_SIZES.items():
    SCALAR_SIZE[_kind] = _size

SIGN_SHIFT = np.zeros(len(TypeKind), dtype=np.int64)
"""Bits before the sign of a number, by kind; 0: it has no sign, or takes 64 bits."""
for _kind in (TypeKind.CHAR, TypeKind.INT8, TypeKind.INT16, TypeKind.INT32):
    SIGN_SHIFT[_kind] = 8 * SCALAR_SIZES[_kind] - 1


@kernel
def fail(failure: Table, code: int, node: int, place: int, needed: int, left: int) -> int:
    """Note what cannot be read; *code*."""
    failure["node"][0] = node
    failure["place"][0] = place
    failure["needed"][0] = needed
    failure["left"][0] = left
    return code


@kernel
def load_bits(data: Bytes, kind: int, place: int) -> np.uint64:
    """The bytes of a number of up to 8 bytes."""
    size = SCALAR_SIZE[kind]
    if size == 1:
        return np.uint64(load_u8(data, place))
    if size == 2:
        return np.uint64(load_u16(data, place))
    if size == 4:
        return np.uint64(load_u32(data, place))
    return np.uint64(load_u64(data, place))


@kernel
def load_signed(data: Bytes, kind: int, place: int) -> int:
    """An integer; of `UINT64` its bits."""
    bits = load_bits(data, kind, place)
    high, low = int(np.int64(bits >> _HALF)), int(np.int64(bits & _LOW_HALF))
    if SIGN_SHIFT[kind] == 0:
        return ((high - ((high >> 31) << 32)) << 32) | low
    return low - ((low >> int(SIGN_SHIFT[kind])) << int(SIGN_SHIFT[kind] + 1))


@kernel
def find_enumerator(enumerators: Table, first: int, count: int, value: int) -> int:
    """The row of an enum's value, or -1."""
    values = enumerators["value"]
    low, high = first, first + count
    while low < high:
        middle = (low + high) // 2
        if values[middle] < value:
            low = middle + 1
        else:
            high = middle
    return low if low < first + count and values[low] == value else -1
