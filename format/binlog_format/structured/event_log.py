"""Logs whose entries are no transactions of a database: `EventLog`; what follows and writes them needs no more of them.

Events of such a log mean nothing without the metadata that was written before them: reading goes on with a `LogState`.

`LogBlock`: a run of whole entries of one file as one byte buffer, and the tables that point into it.

Times of events, by the clock syncs in force: `event_times`, `find_event_time`; of one event, `ns_of`.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from binlog_format.errors import StartError, UnsupportedError
from binlog_format.gtids.gtid_set import NO_GTIDS
from binlog_format.log.log import Log
from binlog_format.position import Place, Position, position_of
from binlog_format.structured.layout import NS_PER_SECOND
from binlog_format.structured.metadata import ClockSync, EventSource, LogState
from binlog_format.structured.text.time_kernels import Clocks, fill_times, wall_ns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from binlog_format.block import Block, Table
    from binlog_format.errors import CorruptError
    from binlog_format.gtids.gtid import Gtid
    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_format.kernels import Bytes, Int64s, Mask
    from binlog_format.log_format import GtidStart, Heads
    from binlog_format.structured.file_scan import OnDamage
    from binlog_format.structured.metadata import WriterProp


@dataclass(frozen=True, slots=True, repr=False)
class LogBlock:
    """Whole entries of one file; at least one.

    Attributes:
        events: `LOG_EVENT_DTYPE`, in file order.
        sources: Those in force before the block or in it that its events refer to. An id that is defined anew in the
            block has several rows.
        writers: The same; those of equal id and name are one row, whatever their batches.
        clock_syncs: The same.
        file_offset: Byte of `data[0]` in the file.
        state_after: What is in force there.
    """

    data: Bytes
    events: Table
    sources: tuple[EventSource, ...]
    writers: tuple[WriterProp, ...]
    clock_syncs: tuple[ClockSync, ...]
    file_no: int
    file_offset: int
    path: str
    next_position: Position
    state_after: LogState

    def __repr__(self) -> str:
        return (
            f"<LogBlock of {self.path} from byte {self.file_offset:,} to {self.next_position}, "
            f"{len(self.events):,} events, {len(self.data):,} bytes>"
        )

    def place(self, byte: int) -> Place:
        """Place of *byte* of `data` in the file, for messages."""
        return Place(self.path, byte=self.file_offset + byte)


class FoundDamage(NamedTuple):
    """The first place from a start on that cannot be read.

    Attributes:
        go_on: Where entries seem to follow; the end of the file where none do.
        event_count: Events before it, from the start on.
        state: What is in force there.
    """

    error: CorruptError
    position: Position
    go_on: Position
    event_count: int
    state: LogState


__all__ = ["EventLog", "EventSource", "FoundDamage", "LogBlock", "LogState"]


class EventLog(Log):
    """A log of events that stand alone: each is a group of its own, without a GTID.

    Of its places there are no GTIDs; whoever asks for row changes or transactions gets an `UnsupportedError`, `FORMAT`.
    """

    @property
    def events(self) -> EventLog:
        """The log itself."""
        return self

    @abstractmethod
    def entries(
        self,
        start: Position | None = None,
        end: Position | None = None,
        state: LogState | None = None,
        *,
        on_damage: OnDamage | None = None,
    ) -> Iterator[LogBlock]:
        """Read the entries in [*start*, *end*), in the order of files and bytes.

        Args:
            start: Default: `start_position()`.
            end: Default: the end of the log when that place is reached.
            state: What is in force at *start*; None: what `state_at` gives, which reads all that lies before.
            on_damage: Told of what cannot be read, and of the byte where reading goes on; None: it is raised.
        """

    @abstractmethod
    def state_at(self, position: Position) -> LogState:
        """The metadata in force at *position*; reads all metadata that still exists before it."""

    @abstractmethod
    def first_damage(self, start: Position, state: LogState | None = None) -> FoundDamage | None:
        """Find the first damage from *start* on, where *state* is in force (None: looked for); None: there is none."""

    def gtid_position_at(self, position: Position) -> GtidPoint:
        """None: there are no GTIDs."""
        del position
        return NO_GTIDS

    def listed_gtids(self, place: Position) -> tuple[Gtid, ...] | None:
        """None: there are no GTIDs."""
        del place
        return None

    def position_of(self, gtids: GtidPoint) -> GtidStart:
        """Raises `UnsupportedError`."""
        del gtids
        raise self._no("GTIDs")

    def position_of_time(self, seconds: int) -> Position:
        """Position of the first event that happened then, or later; see `find_event_time`."""
        return find_event_time(self, seconds)

    def heads(self, start: Position, end: Position | None) -> Iterator[Heads]:
        """Raises `UnsupportedError`."""
        del start, end
        raise self._no("transactions")

    def blocks(
        self, start: Position | None = None, end: Position | None = None, *, skips_purged: bool = False
    ) -> Iterator[Block]:
        """Raises `UnsupportedError`."""
        del start, end, skips_purged
        raise self._no("row changes")

    def read_extents(self, extents: Table) -> Bytes:
        """Raises `UnsupportedError`."""
        del extents
        raise self._no("row changes")

    def _no(self, what: str) -> UnsupportedError:
        return UnsupportedError(
            "FORMAT",
            f"this is a {self.format_name} log: it has events of a program, no {what}",
            at=Place(self.path),
            hint="Read it with option view=logs, or print it with binlog-stream bread",
        )


_FREQUENCY_MAX = (1 << 63) - 1
"""The library takes frequencies as signed numbers."""


def ns_of(clock: int, clock_sync: ClockSync) -> int | None:
    """Nanoseconds since 1970 UTC of a clock value; None: there is no clock sync."""
    if not 0 < clock_sync.frequency <= _FREQUENCY_MAX:
        return None
    with np.errstate(over="ignore"):
        value, sync_value, sync_ns = (np.uint64(number) for number in (clock, clock_sync.clock, clock_sync.ns))
        return int(wall_ns(value, sync_value, clock_sync.frequency, sync_ns))


def event_times(block: LogBlock) -> tuple[Int64s, Mask]:
    """Compute the times of the events of *block*.

    Returns:
        Nanoseconds since 1970 UTC, and where there are any: not before the first sync, and with none of a frequency
        that cannot be.
    """
    ns, has_time = np.empty(len(block.events), dtype=np.int64), np.empty(len(block.events), dtype=np.bool_)
    with np.errstate(over="ignore"):
        fill_times(block.events, clocks_of(block.clock_syncs), ns, has_time)
    return ns, has_time


def carried_times(ns: Int64s, has_time: Mask, before: int) -> Int64s:
    """*ns* with the last time before it where there is none; *before*: that of the first events without one."""
    if has_time.all():
        return ns
    last = np.maximum.accumulate(np.where(has_time, np.arange(len(ns)), -1))
    return np.where(last >= 0, ns[last], before)


def clocks_of(clock_syncs: Sequence[ClockSync]) -> Clocks:
    """Clock syncs as kernels take them; there is always one."""
    syncs = clock_syncs or (ClockSync(),)
    return Clocks(
        clocks=np.array([sync.clock for sync in syncs], dtype=np.uint64),
        frequencies=np.array([sync.frequency for sync in syncs], dtype=np.uint64).view(np.int64),
        ns=np.array([sync.ns for sync in syncs], dtype=np.uint64),
        offsets=np.array([sync.tz_offset for sync in syncs], dtype=np.int64),
    )


def find_event_time(log: EventLog, seconds: int) -> Position:
    """Position of the first event, in the order of the log, that happened at *seconds* since 1970 UTC or later.

    No event before it did; earlier ones of other writers may follow. Reads the log from its start.
    """
    for block in log.entries():
        ns, has_time = event_times(block)
        rows = np.flatnonzero(has_time & (ns >= seconds * NS_PER_SECOND))
        if len(rows):
            byte = block.file_offset + int(block.events["start"][rows[0]])
            return position_of(block.file_no, byte)
    raise StartError("TIMESTAMP_NOT_FOUND", "all events of the log happened before that time")
