"""Tables that the scans of a log share, one scan at a time: `Scratch`; a MySQL log's sources: `GtidSources`."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.block import BLOCK_SIZE, EVENT_DTYPE, GROUP_DTYPE
from binlog_format.classic.layout import GroupKind
from binlog_format.events.gtid_layout import SOURCE_KEY_SIZE, UUID_SIZE
from binlog_format.events.mysql_gtid_kernels import rehash_sources
from binlog_format.gtids.gtid import GtidSource
from binlog_format.kernels import empty_bytes

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.kernels import Bytes, Int32s, Int64s

_EVENT_ROWS = 1 << 17
_GROUP_ROWS = 1 << 16
"""Rows of the scratch tables: more than 2 MiB of the smallest events can fill."""
_ROOM = 64
"""Sources that there is room for at first; a log has a handful."""


@dataclass
class GroupWalk:
    """Progress of a scan in a group that is not complete, so that the next look continues there.

    Attributes:
        key: The file, its time, and the byte where the group starts.
        next_offset: Byte in the file of the first event not seen.
        open_group: Row of the group; None before its first event.
    """

    key: tuple[int, int, int] | None = None
    next_offset: int = 0
    open_group: Table | None = None
    kind: int = GroupKind.TRANSACTION


class Scratch:
    """Tables that the scans of a log share: the kernel fills them, for one scan at a time.

    Args:
        read_size: Bytes to read at a time.
        sources: What the log's `gtid_source` counts.
    """

    def __init__(self, read_size: int = BLOCK_SIZE, sources: GtidSources | None = None) -> None:
        self.read_size = read_size
        self.sources = GtidSources() if sources is None else sources
        self.walk = GroupWalk()

    # Made at the first scan, as many logs are opened for a look at their files; without zeros, which take milliseconds.

    @cached_property
    def groups(self) -> Table:
        """Event groups."""
        return np.empty(_GROUP_ROWS, dtype=GROUP_DTYPE)

    @cached_property
    def events(self) -> Table:
        """Events."""
        return np.empty(_EVENT_ROWS, dtype=EVENT_DTYPE)


class GtidSources:
    """The sources that `gtid_source` counts in the group tables of one log; sources are only ever added.

    Attributes:
        keys: See `read_mysql_gtid`, as `slots` and `counts`.
        slots: Hash table.
        counts: How many sources are known, and the one found last.
    """

    def __init__(self) -> None:
        self.keys: Bytes = empty_bytes(_ROOM * SOURCE_KEY_SIZE)
        self.slots: Int32s = np.full(4 * _ROOM, -1, dtype=np.int32)
        self.counts: Int64s = np.zeros(2, dtype=np.int64)
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
