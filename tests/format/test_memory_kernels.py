"""Loads and copies of compiled code."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_format.kernels import as_bytes, kernel
from binlog_format.memory_kernels import load_u8, prefetch

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes


@kernel
def _ask(data: Bytes, index: int) -> int:
    prefetch(data, index)
    return load_u8(data, 0)


@pytest.mark.parametrize("index", [0, 2, 3, -1, 1 << 46, -(1 << 62)])
def test_any_byte_may_be_asked_for(index: int) -> None:
    assert _ask(as_bytes(b"abc"), index) == ord("a")
