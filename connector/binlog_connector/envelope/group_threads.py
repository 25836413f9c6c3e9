"""Which sessions made the groups of a log, as far as BEGIN records it: `GroupThreads`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_connector.envelope.message_kernels import UNKNOWN_THREAD, find_threads

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.block import Block

    Int64s = NDArray[np.int64]


class GroupThreads:
    """Give it the blocks of one log in their order; a group that comes in pieces needs all its pieces.

    A transaction of MySQL begins with a query event (BEGIN), which names the session. One of MariaDB does not: its
    GTID event takes the place of BEGIN.
    """

    def __init__(self) -> None:
        self._open = UNKNOWN_THREAD  # of the group that goes on in the next block

    def of_groups(self, block: Block) -> Int64s:
        """Of each group of *block* the thread of its first query event; `UNKNOWN_THREAD` without one."""
        threads = np.full(len(block.groups), UNKNOWN_THREAD, dtype=np.int64)
        find_threads(block.data, block.events, threads)
        if len(threads):
            if not block.groups["begins"][0]:
                threads[0] = self._open
            self._open = UNKNOWN_THREAD if block.groups["ends"][-1] else int(threads[-1])
        return threads
