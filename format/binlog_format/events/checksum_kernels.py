"""CRC-32 of event bytes (zlib's polynomial), sixteen bytes a step: `crc32`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u64

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.kernels import Bytes

_POLYNOMIAL = np.uint32(0xEDB88320)
_SLICES = 16


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
def _fold(word: np.uint64, row: np.uint64) -> np.uint64:
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
def crc32(data: Bytes, start: int, end: int) -> np.uint64:
    """CRC-32 of `data[start:end]`, the value that `zlib.crc32` gives; the caller has checked the bounds."""
    crc = _ONES
    p = start
    while p + 16 <= end:
        crc = _fold(_U(load_u64(data, p)) ^ crc, _U(2048)) ^ _fold(_U(load_u64(data, p + 8)), _U(0))
        p += 16
    if p + 8 <= end:
        crc = _fold(_U(load_u64(data, p)) ^ crc, _U(0))
        p += 8
    while p < end:
        crc = _U(_TABLE[(crc ^ _U(data[p])) & _BYTE]) ^ (crc >> _U(8))
        p += 1
    return crc ^ _ONES
