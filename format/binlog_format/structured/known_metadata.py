"""The sources and writers that a scan has come upon, and the tables in which its kernel finds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from binlog_format.kernels import as_bytes, empty_bytes
from binlog_format.structured.layout import SIZE_STRUCT, WRITER_KEY_OFFSET, WRITER_NAME_SIZE_OFFSET
from binlog_format.structured.metadata import EventSource, WriterProp
from binlog_format.structured.scan_kernels import enter_sources, enter_writers

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from binlog_format.kernels import Bytes, Int32s, Int64s

_ROOM = 64
"""Sources or writers that there is room for at first."""

_SLOTS_PER_NUMBER = 4
"""Slots of the hash tables per number: in sparse tables most look-ups take one step."""

_WRITERS_MAX = 1 << 16
"""Writers remembered: a program that starts threads for years has no end of them."""

_Item = TypeVar("_Item", bound="np.int32 | np.int64 | np.uint8")


class IdTable:
    """Ids of sources, as kernels look for them.

    Args:
        source_ids: All different.

    Attributes:
        ids: By number; see `find_source`.
        slots: See `find_source`.
    """

    def __init__(self, source_ids: Iterable[int]) -> None:
        self.ids: Int64s = np.fromiter(source_ids, dtype=np.int64)
        self.slots = _free_slots(max(_ROOM, len(self.ids)))
        enter_sources(self.ids, self.slots, 0, len(self.ids))


class KnownSources:
    """Sources by number: those in force, and some that have been replaced.

    Attributes:
        ids: See `scan_entries`, as `slots`, `rows` and `used`.
    """

    ids: Int64s
    slots: Int32s
    rows: Int32s
    used: Int32s
    _known: list[EventSource]

    def __init__(self, sources: Iterable[EventSource]) -> None:
        self._in_force = {source.id: source for source in sources}
        self._snapshot: dict[int, EventSource] | None = None
        self._begin()

    def in_force(self) -> dict[int, EventSource]:
        """The sources in force by id; never changed."""
        if self._snapshot is None:
            self._snapshot = dict(self._in_force)
        return self._snapshot

    def define(self, source: EventSource) -> None:
        """Define *source* for its id from here on; defining the same source again changes nothing."""
        if self._in_force.get(source.id) == source:
            return
        self._in_force[source.id] = source
        self._snapshot = None
        number = len(self._known)
        self._known.append(source)
        if number == len(self.ids):
            self.ids, self.used = _grown(self.ids, 0), _grown(self.used, 0)
            self.rows = _grown(self.rows, -1)
            self.slots = _free_slots(len(self.ids))
            enter_sources(self.ids, self.slots, 0, number)
        self.ids[number] = source.id
        enter_sources(self.ids, self.slots, number, number + 1)

    def used_in_block(self, count: int) -> tuple[EventSource, ...]:
        """The first *count* of `used`."""
        return tuple(self._known[number] for number in self.used[:count].tolist())

    def begin_block(self) -> None:
        """Forget what the block before referred to, and now and then the sources that have been replaced."""
        if len(self._known) > 2 * len(self._in_force) + _ROOM:
            self._begin()
        self.rows[: len(self._known)] = -1

    def _begin(self) -> None:
        self._known = list(self._in_force.values())
        room = max(_ROOM, len(self._known))
        self.ids = np.zeros(room, dtype=np.int64)
        self.ids[: len(self._known)] = [source.id for source in self._known]
        self.rows = np.full(room, -1, dtype=np.int32)
        self.used = np.zeros(room, dtype=np.int32)
        self.slots = _free_slots(room)
        enter_sources(self.ids, self.slots, 0, len(self._known))


class KnownWriters:
    """Writers by number; those of equal id and name are one, without a batch size.

    Attributes:
        keys: See `scan_entries`, as `bounds`, `slots`, `rows` and `used`.
    """

    keys: Bytes
    bounds: Int64s
    slots: Int32s
    rows: Int32s
    used: Int32s
    _known: list[WriterProp]

    def __init__(self, writer: WriterProp) -> None:
        self._begin(writer)

    def number_of(self, writer: WriterProp) -> int:
        """Its number; it becomes known. The kernel has looked for it before."""
        number = len(self._known)
        key = _key(writer)
        if number == len(self.rows):
            self.rows, self.used = _grown(self.rows, -1), _grown(self.used, 0)
            self.bounds = _grown(self.bounds, 0)
            self.slots = _free_slots(len(self.rows))
            enter_writers(self.keys, self.bounds, self.slots, 0, number)
        start = int(self.bounds[number])
        while start + len(key) > len(self.keys):
            self.keys = _grown(self.keys, 0)
        self._known.append(WriterProp(writer.id, writer.name))
        self.keys[start : start + len(key)] = key
        self.bounds[number + 1] = start + len(key)
        enter_writers(self.keys, self.bounds, self.slots, number, number + 1)
        return number

    def used_in_block(self, count: int) -> tuple[WriterProp, ...]:
        """The first *count* of `used`."""
        return tuple(self._known[number] for number in self.used[:count].tolist())

    def begin_block(self, current: int) -> int:
        """Forget what the block before referred to; gives the number that the current writer has from here on."""
        if len(self._known) > _WRITERS_MAX:
            self._begin(self._known[current])
            return 0
        self.rows[: len(self._known)] = -1
        return current

    def _begin(self, writer: WriterProp) -> None:
        self._known = []
        self.keys = empty_bytes(_ROOM * _ROOM)
        # One more: where the last one ends.
        self.bounds = np.zeros(_ROOM + 1, dtype=np.int64)
        self.rows = np.full(_ROOM, -1, dtype=np.int32)
        self.used = np.zeros(_ROOM, dtype=np.int32)
        self.slots = _free_slots(_ROOM)
        self.number_of(writer)


def _key(writer: WriterProp) -> Bytes:
    end = WRITER_NAME_SIZE_OFFSET + SIZE_STRUCT.size + len(writer.name)
    return as_bytes(writer.entry()[WRITER_KEY_OFFSET:end])


def _free_slots(room: int) -> Int32s:
    """Make empty slots, a power of two of them, as `find_source` needs them."""
    return np.full(1 << (_SLOTS_PER_NUMBER * room - 1).bit_length(), -1, dtype=np.int32)


def _grown(array: NDArray[_Item], fill: int) -> NDArray[_Item]:
    grown = np.full(2 * len(array), fill, dtype=array.dtype)
    grown[: len(array)] = array
    return grown
