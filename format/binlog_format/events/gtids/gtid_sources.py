"""The sources of a log's GTIDs, numbered as they come up: `GtidSources`."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.events.gtids.mysql_gtid_kernels import rehash_sources
from binlog_format.events.gtids.mysql_gtid_layout import SOURCE_KEY_SIZE, UUID_SIZE
from binlog_format.gtids.gtid import GtidSource
from binlog_format.kernels import empty_bytes

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from binlog_format.kernels import Bytes

_ROOM = 64
"""Sources that there is room for at first; a log has a handful."""


class GtidSources:
    """What `gtid_source` in the group tables of one log counts; sources are only ever added.

    Attributes:
        keys: See `read_mysql_gtid`, as `slots` and `counts`.
        slots: Hash table.
        counts: How many sources are known, and the one found last.
    """

    def __init__(self) -> None:
        self.keys: Bytes = empty_bytes(_ROOM * SOURCE_KEY_SIZE)
        self.slots: NDArray[np.int32] = np.full(4 * _ROOM, -1, dtype=np.int32)
        self.counts: NDArray[np.int64] = np.zeros(2, dtype=np.int64)
        self._known: tuple[GtidSource, ...] = ()

    def known(self) -> tuple[GtidSource, ...]:
        """All sources that have come up, by number."""
        count = int(self.counts[0])
        if count > len(self._known):
            self._known += tuple(self._source(number) for number in range(len(self._known), count))
        return self._known

    def grow(self) -> None:
        """Make room for twice as many."""
        keys = empty_bytes(2 * len(self.keys))
        keys[: len(self.keys)] = self.keys
        self.keys = keys
        old = self.slots
        self.slots = np.full(2 * len(old), -1, dtype=np.int32)
        rehash_sources(self.keys, self.slots, int(self.counts[0]))

    def _source(self, number: int) -> GtidSource:
        key = self.keys[number * SOURCE_KEY_SIZE : (number + 1) * SOURCE_KEY_SIZE].tobytes()
        tag = key[UUID_SIZE:].rstrip(b"\0").decode("ascii")
        return GtidSource(str(uuid.UUID(bytes=key[:UUID_SIZE])), tag)
