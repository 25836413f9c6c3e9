"""The loop of `recovery`: `walk_entries`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u32
from binlog_format.structured.layout import ENTRY_HEAD_SIZE

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes


@kernel
def walk_entries(data: Bytes) -> int:
    """Go from entry to entry as long as their sizes are in *data*; the byte after the last, maybe outside of *data*."""
    at = 0
    while at + ENTRY_HEAD_SIZE <= len(data):
        at += ENTRY_HEAD_SIZE + load_u32(data, at)
    return at
