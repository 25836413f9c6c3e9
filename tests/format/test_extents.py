"""Joining bytes that lie apart."""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format import extents as extents_module
from binlog_format.block import EXTENT_DTYPE
from binlog_format.errors import DataLossError
from binlog_format.extents import read_extents
from binlog_format.kernels import as_bytes, empty_bytes
from binlog_format.memory_kernels import gather, gather_from_file
from binlog_format.source_file import LocalFile
from tests.format.classic.logs import MemoryDirectory
from tests.without_compiler import printed_by

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


@given(
    st.lists(st.tuples(st.integers(0, 900), st.integers(0, 100)), max_size=30), st.sampled_from([0, 50, 500, 1 << 20])
)
def test_what_lies_far_apart_in_a_local_file_is_read_by_itself(rows: list[tuple[int, int]], sparse_from: int) -> None:
    table = np.array([(0, 0, *row) for row in rows], dtype=EXTENT_DTYPE)
    with pytest.MonkeyPatch.context() as patch, tempfile.NamedTemporaryFile() as file:
        file.write(FILES.files["0"])
        file.flush()
        patch.setattr(extents_module, "_SPARSE_FROM", sparse_from)
        data = read_extents(table, lambda _: closing(LocalFile(Path(file.name))))
    assert data.tobytes() == b"".join(FILES.files["0"][start : start + size] for start, size in rows)


def test_a_local_file_that_is_too_short_is_named(tmp_path: Path) -> None:
    """Where bytes are missing tells what reads all of it."""
    (tmp_path / "log").write_bytes(bytes(9000))
    table = np.array([(0, 1, 0, 20), (0, 1, 8990, 20)], dtype=EXTENT_DTYPE)
    with pytest.raises(DataLossError, match=r"log: .*ends at byte 0x2328, expected data up to 0x2332"):
        read_extents(table, lambda _: closing(LocalFile(tmp_path / "log")))


def test_read_extents_names_a_file_that_is_too_short() -> None:
    table = np.array([(0, 1, 990, 20)], dtype=EXTENT_DTYPE)
    with pytest.raises(DataLossError, match="ends at byte 0x3e8, expected data up to 0x3f2"):
        read_extents(table, lambda number: closing(FILES.open(str(number))))


@pytest.mark.parametrize(("start", "size", "target"), [(-1, 2, 0), (9, 2, 0), (0, -1, 0), (0, 2, -1), (0, 2, 5)])
def test_gather_refuses_what_is_out_of_bounds(start: int, size: int, target: int) -> None:
    column = [np.array([n], dtype=np.int64) for n in (start, size, target)]
    assert not gather(as_bytes(bytes(10)), column[0], column[1], empty_bytes(6), column[2])


@pytest.mark.parametrize(
    ("start", "size", "target"), [(-1, 2, 0), (9, 2, 0), (20, 2, 0), (0, -1, 0), (0, 2, -1), (0, 2, 5)]
)
def test_gather_from_file_refuses_what_is_out_of_bounds(start: int, size: int, target: int, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(10))
    column = [np.array([n], dtype=np.int64) for n in (start, size, target)]
    with closing(LocalFile(tmp_path / "file")) as file:
        assert not gather_from_file(file.descriptor, column[0], column[1], empty_bytes(6), column[2])


def test_gather_from_a_file_that_cannot_be_read_gives_nothing(tmp_path: Path) -> None:
    column = [np.array([n], dtype=np.int64) for n in (0, 2, 0)]
    file = LocalFile(tmp_path)  # a folder: it opens
    with closing(file):
        assert not gather_from_file(file.descriptor, column[0], column[1], empty_bytes(6), column[2])


SCRIPT = """
import sys
from contextlib import closing
from pathlib import Path
import numpy as np
from binlog_format.memory_kernels import gather_from_file
from binlog_format.kernels import empty_bytes
from binlog_format.source_file import LocalFile

target = empty_bytes(8)
target[:] = 0
with closing(LocalFile(Path(sys.argv[1]))) as file:
    for rows in ([(3, 2, 0), (9, 4, 2)], [(0, 1, 7), (99, 1, 0)]):
        columns = np.array(rows, dtype=np.int64).T.copy()
        print(gather_from_file(file.descriptor, columns[0], columns[1], target, columns[2]), target.tobytes())
"""


def test_a_file_is_gathered_without_the_compiler(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(bytes(range(65, 85)))
    compiled, plain = printed_by(SCRIPT, tmp_path / "file")
    assert compiled == plain == "True b'DEJKLM\\x00\\x00'\nFalse b'DEJKLM\\x00A'\n"
