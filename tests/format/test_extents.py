"""Joining bytes that lie apart."""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format import extents as extents_module
from binlog_format.block import EXTENT_DTYPE
from binlog_format.errors import DataLossError
from binlog_format.extent_kernels import gather
from binlog_format.extents import read_extents
from binlog_format.kernels import as_bytes, empty_bytes
from tests.format.classic.logs import MemoryDirectory

RNG = np.random.default_rng(5)
FILES = MemoryDirectory({str(n): RNG.integers(0, 256, 1000, dtype=np.uint8).tobytes() for n in range(3)})


@given(
    st.lists(st.tuples(st.integers(0, 2), st.integers(0, 900), st.integers(0, 100)), max_size=30),
    st.sampled_from([1, 100, 1 << 20]),
    st.sampled_from([0, 50, 1 << 20]),
)
def test_read_extents_joins_in_the_given_order(rows: list[tuple[int, int, int]], run_size: int, gap: int) -> None:
    """Whatever lies how far apart, overlaps, or goes backwards; with any limits of what is read at a time."""
    table = np.array([(0, *row) for row in rows], dtype=EXTENT_DTYPE)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(extents_module, "_RUN_SIZE_MAX", run_size)
        patch.setattr(extents_module, "_GAP_MAX", gap)
        data = read_extents(table, lambda number: closing(FILES.open(str(number))))
    assert data.tobytes() == b"".join(FILES.files[str(no)][start : start + size] for no, start, size in rows)


def test_read_extents_names_a_file_that_is_too_short() -> None:
    table = np.array([(0, 1, 990, 20)], dtype=EXTENT_DTYPE)
    with pytest.raises(DataLossError, match="ends at byte 0x3e8, expected data up to 0x3f2"):
        read_extents(table, lambda number: closing(FILES.open(str(number))))


@pytest.mark.parametrize(("start", "size", "target"), [(-1, 2, 0), (9, 2, 0), (0, -1, 0), (0, 2, -1), (0, 2, 5)])
def test_gather_refuses_what_is_out_of_bounds(start: int, size: int, target: int) -> None:
    column = [np.array([n], dtype=np.int64) for n in (start, size, target)]
    assert not gather(as_bytes(bytes(10)), column[0], column[1], empty_bytes(6), column[2])
