"""Sets of row numbers as the Delta protocol keeps them (`RoaringBitmapArray`, portable): `encoded`, `decoded`.

Within the 65,536 numbers that share their upper bits, a set is a list of numbers, a bitmap, or a list of runs; runs are
read, and never written. Source: the Delta protocol, "Deletion Vector Format", and the specification of Roaring.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.kernels import Indices

MAGIC = 1681511377
"""Begins an array of bitmaps: a number of 4 bytes, like all in it with the low byte first."""

_HEAD = struct.Struct("<IQ")
"""The magic number, and the number of bitmaps; before each bitmap are the upper 32 bits of its numbers."""
_WORD = struct.Struct("<I")
_COUNT = struct.Struct("<H")

_UPPER_MAX = 2**31 - 1
"""Upper 32 bits of the largest number; the numbers are those of rows, and signed."""
_NO_RUNS = 12346
_WITH_RUNS = 12347
_LIST_MAX = 4096
"""Numbers up to which they are a list of 2 bytes each; 8,192 bytes of bitmap would be more."""
_BITMAP_BYTES = 8192
_OFFSETS_FROM = 4
"""Parts from which on a bitmap with runs records where each of them begins; one without runs always does."""


class DamagedError(ValueError):
    """The bytes are no such set."""


def encoded(rows: Indices) -> bytes:
    """The bytes of a set. *rows*: its numbers, ascending, none twice, each below 2**32."""
    upper, starts, counts = np.unique(rows >> 16, return_index=True, return_counts=True)
    lower = rows.astype("<u2")
    parts = [_part(lower[start : start + count]) for start, count in zip(starts, counts, strict=True)]
    described = np.stack([upper, counts - 1], axis=1).astype("<u2").tobytes()
    begins = 8 + len(described) + 4 * len(parts) + np.cumsum([0, *map(len, parts)])[:-1]
    head = _HEAD.pack(MAGIC, 1) + b"".join(map(_WORD.pack, (0, _NO_RUNS, len(parts))))
    return b"".join([head, described, begins.astype("<u4").tobytes(), *parts])


def decoded(data: bytes) -> Indices:
    """The numbers of a set, ascending. Raises `DamagedError`: *data* is no such set."""
    try:
        magic, count = _HEAD.unpack_from(data)
        if magic != MAGIC:
            raise DamagedError(f"it begins with {magic}, not with {MAGIC}")
        place, found = _HEAD.size, [np.empty(0, np.int64)]
        for _ in range(count):
            (upper,) = _WORD.unpack_from(data, place)
            if upper > _UPPER_MAX:
                raise DamagedError(f"a number begins with {upper:#x}, which is negative")
            rows, place = _bitmap(data, place + 4)
            found.append(rows + (upper << 32))
    except (struct.error, ValueError) as error:
        raise DamagedError(str(error)) from error
    numbers = np.concatenate(found)
    if (np.diff(numbers) <= 0).any():
        raise DamagedError("its numbers do not ascend")
    return numbers


def _part(lower: NDArray[np.uint16]) -> bytes:
    if len(lower) <= _LIST_MAX:
        return lower.tobytes()
    bits = np.zeros(1 << 16, np.bool_)
    bits[lower] = True
    return np.packbits(bits, bitorder="little").tobytes()


def _bitmap(data: bytes, place: int) -> tuple[Indices, int]:
    # Rows below 2**32, and the place after them.
    (cookie,) = _WORD.unpack_from(data, place)
    place += 4
    if cookie & 0xFFFF == _WITH_RUNS:
        count = (cookie >> 16) + 1
        flags = np.frombuffer(data, np.uint8, (count + 7) // 8, place)
        runs = np.unpackbits(flags, count=count, bitorder="little").astype(np.bool_)
        place += len(flags)
        has_offsets = count >= _OFFSETS_FROM
    elif cookie == _NO_RUNS:
        (count,) = _WORD.unpack_from(data, place)
        if count > 1 << 16:
            raise DamagedError(f"a bitmap of {count} parts")
        place += 4
        runs = np.zeros(count, np.bool_)
        has_offsets = True
    else:
        raise DamagedError(f"a bitmap begins with {cookie}")
    described = np.frombuffer(data, "<u2", 2 * count, place).reshape(count, 2).astype(np.int64)
    place += 4 * count * (2 if has_offsets else 1)
    found = [np.empty(0, np.int64)]
    for is_run, (upper, less_one) in zip(runs, described.tolist(), strict=True):
        lower, place = _runs(data, place) if is_run else _numbers(data, place, less_one + 1)
        found.append(lower + (upper << 16))
    return np.concatenate(found), place


def _runs(data: bytes, place: int) -> tuple[Indices, int]:
    (count,) = _COUNT.unpack_from(data, place)
    pairs = np.frombuffer(data, "<u2", 2 * count, place + 2).reshape(count, 2).astype(np.int64)
    lengths = pairs[:, 1] + 1
    # Runs that overlap would make gigabytes of a few bytes.
    if (pairs[1:, 0] < (pairs[:, 0] + lengths)[:-1]).any() or pairs[-1:].sum() >= 1 << 16:
        raise DamagedError("its runs overlap")
    first_of_run = np.repeat(np.cumsum(lengths) - lengths, lengths)
    return np.repeat(pairs[:, 0], lengths) + np.arange(lengths.sum()) - first_of_run, place + 2 + 4 * count


def _numbers(data: bytes, place: int, count: int) -> tuple[Indices, int]:
    if count <= _LIST_MAX:
        return np.frombuffer(data, "<u2", count, place).astype(np.int64), place + 2 * count
    bits = np.unpackbits(np.frombuffer(data, np.uint8, _BITMAP_BYTES, place), bitorder="little")
    return np.flatnonzero(bits), place + _BITMAP_BYTES
