from __future__ import annotations

import struct

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from binlog_streaming.lake.roaring import MAGIC, DamagedError, decoded, encoded

_PART = st.tuples(st.integers(0, 2**16 - 1), st.integers(0, 2**16 - 1), st.integers(1, 30_000), st.integers(1, 3))
"""Upper bits, first lower bits, how many numbers, and how far one is from the next."""


@given(parts=st.lists(_PART, max_size=5))
def test_sets_come_back(parts: list[tuple[int, int, int, int]]) -> None:
    """Sparse and dense ones: lists and bitmaps."""
    runs = [(upper << 16) + np.arange(first, first + count * step, step) for upper, first, count, step in parts]
    rows = np.unique(np.concatenate([np.empty(0, np.int64), *runs]))
    rows = rows[rows < 2**32]
    assert decoded(encoded(rows)).tolist() == rows.tolist()


def test_bytes_are_those_of_spark() -> None:
    """The rows 1 and 3, as Spark wrote them into a table of the archive."""
    data = bytes.fromhex("d1d339640100000000000000000000003a30000001000000000001001000000001000300")
    assert encoded(np.array([1, 3])) == data
    assert decoded(data).tolist() == [1, 3]


@pytest.mark.parametrize("count", [1, 3, 4, 9], ids=lambda count: f"{count} parts")
def test_runs_are_read(count: int) -> None:
    """With four parts or more it says where each begins; parts with runs and lists in turn, or a bitmap."""
    flags, described, parts, rows = 0, b"", b"", []
    for upper in range(count):
        if upper % 3 == 0:
            flags |= 1 << upper
            part, numbers = struct.pack("<5H", 2, 7, 3, 65000, 535), [*range(7, 11), *range(65000, 65536)]
        elif upper % 3 == 1:
            part, numbers = struct.pack("<2H", 5, 9), [5, 9]
        else:
            numbers = list(range(0, 65536, 2))
            part = b"\x55" * 8192
        described += struct.pack("<2H", upper, len(numbers) - 1)
        parts += part
        rows += [(1 << 32) + (upper << 16) + number for number in numbers]
    bitmap = struct.pack("<I", 12347 | (count - 1) << 16) + flags.to_bytes((count + 7) // 8, "little") + described
    bitmap += b"\0" * (4 * count if count >= 4 else 0) + parts
    data = struct.pack("<IQI", MAGIC, 2, 0) + encoded(np.array([3]))[16:] + struct.pack("<I", 1) + bitmap
    assert decoded(data).tolist() == [3, *rows]


WHOLE = encoded(np.array([1, 3, 70_000, *range(131_072, 140_000)]))


@given(cut=st.integers(0, len(WHOLE) - 1), place=st.integers(0, 60), flipped=st.integers(1, 255))
@example(cut=0, place=15, flipped=0x80)  # the top bit of the upper 32 bits
@example(cut=0, place=16, flipped=0x01)  # a list becomes runs
@example(cut=0, place=22, flipped=0x01)  # 65,536 more parts
@example(cut=0, place=24, flipped=0x01)  # the first part comes after the second one
def test_damaged_bytes_are_an_error_or_another_set(cut: int, place: int, flipped: int) -> None:
    """Nothing worse: a checksum around them tells which it is."""
    with pytest.raises(DamagedError):
        decoded(WHOLE[:cut])
    damaged = bytearray(WHOLE)
    damaged[place] ^= flipped
    try:
        rows = decoded(bytes(damaged))
    except DamagedError:
        return
    assert rows.dtype == np.int64
    assert (np.diff(rows) > 0).all()


def one_bitmap(upper: int, cookie: int, *words: int) -> bytes:
    """A set of one bitmap, whose words of 16 bits after the first four bytes are *words*."""
    return struct.pack(f"<IQII{len(words)}H", MAGIC, 1, upper, cookie, *words)


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (one_bitmap(0x80000000, 12346, 1, 0, 0, 0, 16, 0, 5), "begins with 0x80000000"),
        (one_bitmap(0, 12346, 1, 1, *[0] * 200_000), "65537 parts"),
        (one_bitmap(0, 12346, 1, 0, 0, 1, 16, 0, 5, 5), "do not ascend"),
        (one_bitmap(0, 12347) + b"\1" + struct.pack("<7H", 0, 9, 2, 0, 65535, 0, 65535), "runs overlap"),
        (one_bitmap(0, 12347) + b"\1" + struct.pack("<5H", 0, 9, 1, 65535, 1), "runs overlap"),
    ],
    ids=["negative", "too many parts", "twice", "the same run again", "a run past the end"],
)
def test_damage_says_what_it_is(data: bytes, problem: str) -> None:
    with pytest.raises(DamagedError, match=problem):
        decoded(data)


def test_largest_number_comes_back() -> None:
    assert decoded(one_bitmap(0x7FFFFFFF, 12346, 1, 0, 0xFFFF, 0, 16, 0, 0xFFFF)).tolist() == [2**63 - 1]
