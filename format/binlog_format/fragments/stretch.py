"""Bytes out of blocks that are kept for later, and where they lie in the files: `SavedBytes`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from binlog_format.block import copied
from binlog_format.extent_kernels import gather
from binlog_format.extents import clipped_extents
from binlog_format.kernels import empty_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from binlog_format.block import Block, Table
    from binlog_format.kernels import Bytes

    Int64s = NDArray[np.int64]


class SavedBytes(NamedTuple):
    """Bytes saved from a block.

    Attributes:
        data: The bytes.
        extents: `EXTENT_DTYPE`, of all of them.
    """

    data: Bytes
    extents: Table

    def part(self, first: int, end: int) -> SavedBytes:
        """The bytes [first, end), at least one; they are not copied."""
        edges = np.array([first], dtype=np.int64), np.array([end], dtype=np.int64)
        extents = clipped_extents(self.extents, len(self.data), *edges, np.zeros(1, dtype=np.int64))
        return SavedBytes(self.data[first:end], extents)


def taken(block: Block, starts: Int64s, sizes: Int64s) -> SavedBytes:
    """A copy of ranges of a block's bytes, one after the other; each has at least one byte."""
    targets = np.cumsum(sizes) - sizes
    data = empty_bytes(int(sizes.sum()))
    done = gather(block.data, starts, sizes, data, targets)
    assert done, "an event table points outside of its block"
    return SavedBytes(data, clipped_extents(block.extents, len(block.data), starts, starts + sizes, targets))


def joined(stretches: Sequence[SavedBytes]) -> SavedBytes:
    """All of them, one after the other; at least one."""
    if len(stretches) == 1:
        return stretches[0]
    start = 0
    tables = []
    for stretch in stretches:
        extents = copied(stretch.extents)
        extents["data_start"] += start
        start += len(stretch.data)
        tables.append(extents)
    return SavedBytes(np.concatenate([stretch.data for stretch in stretches]), np.concatenate(tables))
