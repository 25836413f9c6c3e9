"""Cuts bytes of a structured log into entries, block by block: `EntryScanner`.

The sources and writers that it has come upon, in tables in which its kernel finds them: `KnownSources`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

import numpy as np

from binlog_format.block import BLOCK_SIZE, Recycler
from binlog_format.kernels import as_bytes, empty_bytes
from binlog_format.position import position_of
from binlog_format.structured.event_log import LogBlock
from binlog_format.structured.file_scan import ENTRIES_IN_A_ROW, Cut, check_size
from binlog_format.structured.layout import (
    ENTRY_HEAD_SIZE,
    EVENT_SIZE_MIN,
    LOG_EVENT_DTYPE,
    METADATA_BIT,
    SIZE_STRUCT,
    TAG_STRUCT,
    WRITER_KEY_OFFSET,
    WRITER_NAME_SIZE_OFFSET,
)
from binlog_format.structured.metadata import (
    ClockSync,
    EventSource,
    LogState,
    ShortEntryError,
    WriterProp,
    read_metadata,
)
from binlog_format.structured.scan_kernels import (
    CLOCK_SYNC,
    IN_FORCE_SIZE,
    SOURCES_USED,
    WRITER,
    WRITER_ENTRY,
    WRITERS_USED,
    EntryScan,
    EntryStop,
    enter_sources,
    enter_writers,
    scan_entries,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray

    from binlog_format.block import Table
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


_EVENT_ENTRY_MIN = ENTRY_HEAD_SIZE + EVENT_SIZE_MIN
_ROWS_MAX = BLOCK_SIZE // _EVENT_ENTRY_MIN + 1
"""Largest number of rows of an event table; a block that is larger than others has few and large events."""


class EntryScanner:
    """Cuts a log's bytes into entries, and knows the metadata in force at the place that it has come to.

    Args:
        state: In force where the bytes begin; default: nothing is.
        is_missing_ok: Pass over events of sources that have not been defined.

    Attributes:
        is_missing_ok: As given; it may be changed on the way.
    """

    entries_in_a_row = ENTRIES_IN_A_ROW

    def __init__(self, state: LogState | None = None, *, is_missing_ok: bool = False) -> None:
        self.is_missing_ok = is_missing_ok
        begin = LogState() if state is None else state
        self._sources = KnownSources(begin.sources.values())
        self._writers = KnownWriters(begin.writer)
        self._writer = begin.writer
        self._clock_syncs = [begin.clock_sync]
        self._in_force: Int64s = np.zeros(IN_FORCE_SIZE, dtype=np.int64)
        self._tables = Recycler(LOG_EVENT_DTYPE)

    @property
    def state(self) -> LogState:
        """The metadata in force after all that has been cut."""
        return LogState(self._sources.in_force(), self._writer, self._clock_syncs[-1])

    def cut(self, data: Bytes, *, file_no: int, file_offset: int, path: str) -> Cut[LogBlock]:
        """Cut *data* up to the first entry that is not whole, or cannot be taken; entries before it are taken.

        To go on, give the bytes from there on: more of them after `INCOMPLETE`, others after a damaged entry.

        Args:
            data: Entries; it is kept in the block.
            file_offset: Byte of `data[0]` in the file.
        """
        self._begin_block()
        events: Table = self._tables.take(min(len(data) // _EVENT_ENTRY_MIN, _ROWS_MAX) + 1)
        found = self._scan(data, events)
        self._note_writer(data)
        block = None
        if found.at:
            block = LogBlock(
                data=data[: found.at],
                events=events[: found.row],
                sources=self._sources.used_in_block(int(self._in_force[SOURCES_USED])),
                writers=self._writers.used_in_block(int(self._in_force[WRITERS_USED])),
                clock_syncs=tuple(self._clock_syncs[: self._used_clock_syncs(events, found.row)]),
                file_no=file_no,
                file_offset=file_offset,
                path=path,
                next_position=position_of(file_no, file_offset + found.at),
                state_after=self.state,
            )
        return Cut(block, EntryStop(found.stop), found.at, found.needed, found.left)

    def source_ids(self, missing: int | None = None) -> IdTable:
        """Ids of the possible sources of events here; *missing* counts as one."""
        known = self._sources.in_force()
        return IdTable(known if missing is None else [*known, missing])

    def check_incomplete(self, start: bytes, size: int) -> tuple[EntryStop, int, int] | None:
        """See `Cutter`."""
        known = self._sources.in_force()
        if size >= TAG_STRUCT.size <= len(start) - ENTRY_HEAD_SIZE:
            (tag,) = TAG_STRUCT.unpack_from(start, ENTRY_HEAD_SIZE)
            if tag < METADATA_BIT and tag not in known:
                return EntryStop.UNKNOWN_SOURCE, tag, 0
        return check_size(start, size)

    def _begin_block(self) -> None:
        self._sources.begin_block()
        self._in_force[WRITER] = self._writers.begin_block(int(self._in_force[WRITER]))
        del self._clock_syncs[:-1]
        self._in_force[[CLOCK_SYNC, SOURCES_USED, WRITERS_USED]] = 0
        self._in_force[WRITER_ENTRY] = -1

    def _scan(self, data: Bytes, events: Table) -> EntryScan:
        at, row = 0, 0
        while True:
            sources, writers = self._sources, self._writers  # their tables change when they grow
            found = scan_entries(
                data,
                at,
                len(data),
                events,
                row,
                self.is_missing_ok,
                self._in_force,
                sources.ids,
                sources.slots,
                sources.rows,
                sources.used,
                writers.keys,
                writers.bounds,
                writers.slots,
                writers.rows,
                writers.used,
            )
            if found.stop != EntryStop.METADATA:
                return found
            at, row = found.at, found.row
            payload = _payload(data, at)
            try:
                self._take(payload, at, is_clock_used=self._used_clock_syncs(events, row) == len(self._clock_syncs))
            except ShortEntryError as error:
                return EntryScan(EntryStop.SHORT, at, row, error.needed, error.left)
            at += ENTRY_HEAD_SIZE + len(payload)

    def _take(self, payload: bytes, at: int, *, is_clock_used: bool) -> None:
        entry = read_metadata(payload)
        if isinstance(entry, EventSource):
            self._sources.define(entry)
        elif isinstance(entry, WriterProp):
            self._in_force[WRITER] = self._writers.number_of(entry)
            self._in_force[WRITER_ENTRY] = at
        elif isinstance(entry, ClockSync) and entry != self._clock_syncs[-1]:
            if not is_clock_used:
                self._clock_syncs.pop()
            self._clock_syncs.append(entry)
            self._in_force[CLOCK_SYNC] = len(self._clock_syncs) - 1

    @staticmethod
    def _used_clock_syncs(events: Table, row: int) -> int:
        """Number of the block's clock syncs to which its first *row* events refer."""
        return int(events["clock_sync"][row - 1]) + 1 if row else 0

    def _note_writer(self, data: Bytes) -> None:
        entry = int(self._in_force[WRITER_ENTRY])
        if entry >= 0:
            writer = read_metadata(_payload(data, entry))
            assert isinstance(writer, WriterProp)
            self._writer = writer


def _payload(data: Bytes, at: int) -> bytes:
    """Payload of the entry at *at*, which is complete."""
    (size,) = SIZE_STRUCT.unpack_from(data.data, at)
    return data[at + ENTRY_HEAD_SIZE : at + ENTRY_HEAD_SIZE + size].tobytes()
