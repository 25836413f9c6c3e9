"""CRC-32 against zlib's, in each way that it can be computed."""

from __future__ import annotations

import random
import zlib
from typing import TYPE_CHECKING, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from numba.core import config

from binlog_format.events import checksum_intrinsics
from binlog_format.events.checksum_kernels import crc32, crc32_by_products, crc32_by_tables, has_products
from binlog_format.kernels import as_bytes, kernel

if TYPE_CHECKING:
    import numpy as np

    from binlog_format.events.checksum_kernels import Crc32
    from binlog_format.kernels import Bytes

SETTINGS: Any = cast("Any", config)


@kernel
def _chosen(data: Bytes, start: int, end: int) -> np.uint64:
    return crc32(data, start, end)


WAYS = [crc32, _chosen, crc32_by_tables, *([crc32_by_products] if has_products() else [])]
"""In Python and without the compiler: the one that takes zlib's, and the tables."""


@pytest.mark.parametrize("compute", WAYS)
@given(data=st.binary(max_size=400), before=st.integers(0, 40), after=st.integers(0, 40))
def test_crc32_is_that_of_zlib(compute: Crc32, data: bytes, before: int, after: int) -> None:
    """For every size and alignment, whatever stands around."""
    buffer = as_bytes(b"\xa5" * before + data + b"\x5a" * after)
    assert int(compute(buffer, before, before + len(data))) == zlib.crc32(data)


@pytest.mark.parametrize("compute", WAYS)
def test_crc32_is_that_of_zlib_for_each_number_of_rounds(compute: Crc32) -> None:
    """Each size up to a few rounds of the widest step, and some large ones; ending with the buffer, too."""
    assert _wrong_sizes(compute, range(700)) == []


def _wrong_sizes(compute: Crc32, small: range) -> list[int]:
    data = random.Random(1).randbytes(1 << 16)
    buffer = as_bytes(data)
    wrong = []
    for size in (*small, 1023, 1024, 4095, 10_001, 1 << 16):
        for start in {0, len(data) - size}:
            if int(compute(buffer, start, start + size)) != zlib.crc32(data[start : start + size]):
                wrong.append(size)
    return wrong


@pytest.mark.parametrize("compute", WAYS)
def test_every_flipped_bit_changes_the_checksum(compute: Crc32) -> None:
    """Of an event of a common size, in each of its bytes."""
    buffer = as_bytes(random.Random(2).randbytes(81))
    right = int(compute(buffer, 0, 81))
    for bit in range(8 * 81):
        buffer[bit // 8] ^= 1 << bit % 8
        assert int(compute(buffer, 0, 81)) != right
        buffer[bit // 8] ^= 1 << bit % 8


@pytest.mark.skipif(
    not (SETTINGS.DISABLE_JIT or SETTINGS.BOUNDSCHECK), reason="bounds are the caller's in compiled code"
)
@pytest.mark.parametrize(("start", "end"), [(-1, 4), (0, 11), (5, 4), (11, 11)])
def test_crc32_refuses_bytes_that_are_not_there(start: int, end: int) -> None:
    """Where bounds are checked, so that tests of kernels find what reads past its input."""
    with pytest.raises(IndexError):
        _chosen(as_bytes(b"0123456789"), start, end)


@pytest.mark.skipif(not has_products(), reason="this processor does not multiply polynomials")
def test_processors_without_wide_registers_compute_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compiled anew as for one that has registers of 16 bytes alone."""
    monkeypatch.setattr(checksum_intrinsics, "_WIDE_FEATURES", ("none",))
    by_products = cast("Crc32", checksum_intrinsics.crc32_by_products())

    def compute(data: Bytes, start: int, end: int) -> np.uint64:
        return by_products(data, start, end - start)

    narrow: Any = njit(compute)
    assert _wrong_sizes(narrow, range(16, 700)) == []
    products = [line for line in "".join(narrow.inspect_asm().values()).splitlines() if "pclmul" in line]
    assert products
    assert [line for line in products if "ymm" in line] == []
