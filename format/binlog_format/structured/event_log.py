"""Logs whose entries are no transactions of a database: `EventLog`; what follows and writes them needs no more of them.

Events of such a log mean nothing without the metadata that was written before them: reading goes on with a `LogState`.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from binlog_format.errors import UnsupportedError
from binlog_format.gtids.gtid_set import NO_GTIDS
from binlog_format.log.log import Log
from binlog_format.position import Place
from binlog_format.structured.block import LogBlock
from binlog_format.structured.metadata import EventSource, LogState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.block import Block, Table
    from binlog_format.gtids.gtid import Gtid
    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_format.kernels import Bytes
    from binlog_format.log_format import GtidStart, Heads
    from binlog_format.position import Position

__all__ = ["EventLog", "EventSource", "LogBlock", "LogState"]


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
        self, start: Position | None = None, end: Position | None = None, state: LogState | None = None
    ) -> Iterator[LogBlock]:
        """Read the entries in [*start*, *end*), in the order of files and bytes.

        Args:
            start: Default: `start_position()`.
            end: Default: the end of the log when that place is reached.
            state: What is in force at *start*; None: what `state_at` gives, which reads all that lies before.

        Raises:
            CorruptError: `BAD_ENTRY`.
        """

    @abstractmethod
    def state_at(self, position: Position) -> LogState:
        """The metadata in force at *position*; reads all metadata that still exists before it."""

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
        from binlog_format.structured.times import find_event_time  # compiled code takes a moment to load

        return find_event_time(self, seconds)

    def heads(self, start: Position, end: Position | None) -> Iterator[Heads]:
        """Raises `UnsupportedError`."""
        del start, end
        raise self._no("transactions")

    def blocks(self, start: Position | None = None, end: Position | None = None) -> Iterator[Block]:
        """Raises `UnsupportedError`."""
        del start, end
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
