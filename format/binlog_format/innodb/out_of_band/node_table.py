"""The out-of-band records that a scan has passed: `NodeTable`, so that trees are walked without reading them again."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.innodb.layout import OOB_HEADER_INTS, OOB_HEADER_SIZE_MAX
from binlog_format.innodb.out_of_band.forest_kernels import collect_nodes
from binlog_format.innodb.tables import NODE_DTYPE
from binlog_format.kernels import empty_bytes

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.innodb.tables import Pages

NODES_MAX = 1 << 18
"""Records remembered, in 19 MB: with the server's default cache, those of 8 GB. Older ones are read by their place."""

_NODES_MIN = 1024


class NodeTable:
    """Remembers the last records, rolled back or not; when there are too many, the older half is forgotten.

    Args:
        nodes_max: Records to remember.
    """

    def __init__(self, nodes_max: int = NODES_MAX) -> None:
        self._nodes_max = nodes_max
        self._rows = np.empty(_NODES_MIN, dtype=NODE_DTYPE)
        self._count = 0
        self._is_open = False
        self._head = empty_bytes(OOB_HEADER_SIZE_MAX)
        self._integers = np.empty(OOB_HEADER_INTS, dtype=np.uint64)

    @property
    def rows(self) -> Table:
        """The records, ascending by place: `NODE_DTYPE`."""
        return self._rows[: self._count]

    def collect(self, pages: Pages, chunks: Table) -> None:
        """Take in the records of the next window; windows may overlap.

        Args:
            pages: The window.
            chunks: Its chunks.
        """
        if (wanted := self._count + len(chunks)) > len(self._rows):
            self._make_room(wanted, len(chunks))
        self._count, self._is_open = collect_nodes(
            pages, chunks, self._rows, self._count, self._is_open, self._head, self._integers
        )

    def _make_room(self, wanted: int, added: int) -> None:
        kept = self.rows if wanted <= self._nodes_max else self.rows[-(self._nodes_max // 2) :]
        rows = np.empty(max(min(2 * wanted, self._nodes_max), len(kept) + added), dtype=NODE_DTYPE)
        rows[: len(kept)] = kept
        self._rows, self._count = rows, len(kept)
