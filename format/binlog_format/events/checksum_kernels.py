"""CRC-32 of event bytes (zlib's polynomial), for kernels: `crc32`.

Where the processor multiplies polynomials (x86: PCLMULQDQ) it does that (`checksum_intrinsics`); elsewhere tables take
sixteen bytes a step. Most events are small, 30 to 400 bytes: what is done once an event counts as much as what is done
for each byte, and only the number of rounds depends on the size.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from binlog_format.kernels import compiled_as, kernel, may_use
from binlog_format.memory_kernels import load_u64

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from binlog_format.kernels import Bytes

    Crc32 = Callable[[Bytes, int, int], np.uint64]

_POLYNOMIAL = np.uint32(0xEDB88320)
_SLICES = 16

# --- with tables ---------------------------------------------------------------------------------------------


def _tables() -> NDArray[np.uint32]:
    # Row k: what a byte contributes to the checksum when k more bytes follow it.
    rows = np.zeros((_SLICES, 256), dtype=np.uint32)
    value = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        value = np.where(value & 1, (value >> 1) ^ _POLYNOMIAL, value >> 1).astype(np.uint32)
    rows[0] = value
    for k in range(1, _SLICES):
        rows[k] = (rows[k - 1] >> 8) ^ rows[0][rows[k - 1] & 0xFF]
    return rows.reshape(-1)


# One row after the other; 16 KiB, which stays in the processor's first cache.
_TABLE = _tables()

_U = np.uint64
_BYTE = np.uint64(0xFF)
_ONES = np.uint64(0xFFFFFFFF)


@kernel
def _look_up(word: np.uint64, row: np.uint64) -> np.uint64:
    # The eight bytes of a word, of which the last is followed by `row / 256` more bytes of the step.
    return (
        _U(_TABLE[row + _U(1792) + (word & _BYTE)])
        ^ _U(_TABLE[row + _U(1536) + ((word >> _U(8)) & _BYTE)])
        ^ _U(_TABLE[row + _U(1280) + ((word >> _U(16)) & _BYTE)])
        ^ _U(_TABLE[row + _U(1024) + ((word >> _U(24)) & _BYTE)])
        ^ _U(_TABLE[row + _U(768) + ((word >> _U(32)) & _BYTE)])
        ^ _U(_TABLE[row + _U(512) + ((word >> _U(40)) & _BYTE)])
        ^ _U(_TABLE[row + _U(256) + ((word >> _U(48)) & _BYTE)])
        ^ _U(_TABLE[row + (word >> _U(56))])
    )


@kernel
def crc32_by_tables(data: Bytes, start: int, end: int) -> np.uint64:
    """`crc32` on any processor."""
    crc = _ONES
    p = start
    while p + 16 <= end:
        crc = _look_up(_U(load_u64(data, p)) ^ crc, _U(2048)) ^ _look_up(_U(load_u64(data, p + 8)), _U(0))
        p += 16
    if p + 8 <= end:
        crc = _look_up(_U(load_u64(data, p)) ^ crc, _U(0))
        p += 8
    while p < end:
        crc = _U(_TABLE[(crc ^ _U(data[p])) & _BYTE]) ^ (crc >> _U(8))
        p += 1
    return crc ^ _ONES


# --- with products of polynomials ----------------------------------------------------------------------------

_PRODUCTS_FROM = 16
"""Bytes from which on they are used."""
_FEATURES = ("pclmul", "ssse3")


def _products() -> object:
    # Loads Numba, a third of a second: only when a kernel is compiled.
    from binlog_format.events.checksum_intrinsics import crc32_by_products

    return crc32_by_products()


@compiled_as(_products)
def _crc32_by_products(data: Bytes, start: int, size: int) -> np.uint64:
    return _plain_crc32(data, start, start + size)


@kernel
def crc32_by_products(data: Bytes, start: int, end: int) -> np.uint64:
    """`crc32` on processors that multiply polynomials."""
    if end - start < _PRODUCTS_FROM:
        return crc32_by_tables(data, start, end)
    return _crc32_by_products(data, start, end - start)


# --- which one -----------------------------------------------------------------------------------------------


def has_products() -> bool:
    """True if `crc32_by_products` can run here."""
    return may_use(*_FEATURES)


def _plain_crc32(data: Bytes, start: int, end: int) -> np.uint64:
    if start < 0 or start > end or end > len(data):
        raise IndexError(f"bytes {start} to {end} of {len(data)}")
    return np.uint64(zlib.crc32(data[start:end].tobytes()))


def _checked(compute: Crc32) -> Crc32:
    """*compute*, compiled, with a check of its bounds."""
    from numba import njit  # a third of a second, see above

    def checked(data: Bytes, start: int, end: int) -> np.uint64:
        if start < 0 or start > end or end > len(data):
            raise IndexError("a kernel computes the checksum of bytes that are not there")
        return compute(data, start, end)

    return cast("Crc32", njit(checked))


def _chosen() -> Crc32:
    from numba.core import config  # a third of a second, see above

    best = crc32_by_products if has_products() else crc32_by_tables
    return _checked(best) if cast("Any", config).BOUNDSCHECK else best


@compiled_as(_chosen)
def crc32(data: Bytes, start: int, end: int) -> np.uint64:
    """CRC-32 of `data[start:end]`, the value that `zlib.crc32` gives; the caller has checked the bounds."""
    return _plain_crc32(data, start, end)
