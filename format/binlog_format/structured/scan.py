"""Cuts bytes of a structured log into entries, block by block: `EntryScanner`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.block import BLOCK_SIZE, Recycler
from binlog_format.position import position_of
from binlog_format.structured.event_log import LogBlock
from binlog_format.structured.file_scan import ENTRIES_IN_A_ROW, Cut, check_size
from binlog_format.structured.known_metadata import IdTable, KnownSources, KnownWriters
from binlog_format.structured.layout import (
    ENTRY_HEAD_SIZE,
    EVENT_SIZE_MIN,
    LOG_EVENT_DTYPE,
    METADATA_BIT,
    SIZE_STRUCT,
    TAG_STRUCT,
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
    scan_entries,
)

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.kernels import Bytes, Int64s

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
