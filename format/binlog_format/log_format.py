"""The interface of a log format: `LogFormat`, and the values that its methods return.

Results of a check of a log: `Finding`; `LogCheck` is such a check, and each format has its own.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from binlog_format.position import Position, byte_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Self

    import numpy as np

    from binlog_format.block import Block, Table
    from binlog_format.errors import BinlogError
    from binlog_format.format_traits import FormatTraits
    from binlog_format.gtids.gtid import Gtid, GtidSource
    from binlog_format.gtids.gtid_set import AnyGtid, GtidPoint, Taken
    from binlog_format.kernels import Bytes
    from binlog_format.position import Place
    from binlog_format.source_file import Directory
    from binlog_format.structured.event_log import EventLog
    from binlog_format.transactions.xa import XaStep

    OnProgress = Callable[[int, int], None]
    """Called with the bytes checked and the bytes there are to check."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """State of one file of a log.

    Attributes:
        size: Size on disk in bytes.
        state: `empty` (pre-allocated, nothing written), `active` (the end of the log is in it) or `full`.
        used_size: Bytes up to the end of the log; equals `size` for a full file.
        header: The format's own header fields by name, plain values; empty for an empty file.
    """

    file_no: int
    name: str
    size: int
    state: str
    used_size: int
    header: dict[str, object]


@dataclass(frozen=True, slots=True)
class FileGtids:
    """GTIDs that a file of a log records, as texts; None: none (yet).

    Attributes:
        first: The last ones of each domain and server before it.
        last: The same at the last place that has such a list, in this file or at the start of the next one.
        last_page: Page of that list, where it is in the file.
    """

    first: str | None = None
    last: str | None = None
    last_page: int | None = None


NO_FILE_GTIDS = FileGtids()


@dataclass(frozen=True, slots=True)
class Span:
    """Contents of the range between a start and `end`, found without decoding rows.

    Attributes:
        end: Where the next read starts; after the last whole event group (or other whole record).
        size: Bytes that the span takes in the files.
        gtids: Last GTID of each domain in the span; of a MySQL log the set of all.
        last_timestamp: Of the last group's first event, seconds since 1970 UTC; None without groups.
        last_gtid: Of the last group; None: it has none.
        xa: What the groups do to XA transactions whose rows are elsewhere (`classic`), in their order.
    """

    end: Position
    groups: int
    size: int
    gtids: GtidPoint
    last_timestamp: int | None
    last_gtid: AnyGtid | None = None
    xa: tuple[XaStep, ...] = ()


@dataclass(frozen=True, slots=True)
class GtidStart:
    """The position to continue at after a GTID position or set.

    Attributes:
        position: The first group that it does not cover. Groups that it covers may follow.
        before: The last GTID of each domain before `position`, as far as the log's own records show it: of a domain
            that they have lost sight of, an older one, or none. Of a MySQL log the set of all.
        taken: Which groups it covers.
    """

    position: Position
    before: GtidPoint
    taken: Taken


class Heads(NamedTuple):
    """Event groups, without their events joined.

    Attributes:
        groups: `GROUP_DTYPE`: places, GTIDs, times, `begins` and `ends`; other columns are undefined.
        sources: MySQL: what `gtid_source` counts.
    """

    groups: Table
    next_position: Position
    sources: Sequence[GtidSource] = ()

    def position(self, row: int) -> Position:
        """Position of a group; of the row after the last one, the position to continue at."""
        if row >= len(self.groups):
            return self.next_position
        group = self.groups[row]
        return Position.of(group)


class Bound(StrEnum):
    """Limit of reading at the log's end.

    Attributes:
        VISIBLE: Up to the last whole group on disk. After a crash the server may take back some of them.
        SEALED: Only files that the server can no longer take back: `innodb` file N once N+2 is there.
    """

    VISIBLE = "visible"
    SEALED = "sealed"


class LogFormat(ABC):
    """The binlog files of one server, as their format tells them.

    A log may be live: what is not on disk yet is not an error; readers stop before it, and a later call goes on there.
    Objects of this class are not for several threads at once; open one for each.
    """

    format_name: ClassVar[str]
    traits: ClassVar[FormatTraits]

    path: str
    bound: Bound = Bound.VISIBLE

    @property
    def events(self) -> EventLog | None:
        """The log as events of a program; None: it has changes of tables (`FormatTraits.has_changes`)."""
        return None

    @abstractmethod
    def files(self) -> list[LogFile]:
        """The files that are there now, by number."""

    def file_sizes(self, first: int, stop: int) -> dict[int, int]:
        """Bytes on disk of the files with numbers in [*first*, *stop*), by number; files are not looked into."""
        return {file.file_no: file.size for file in self.files() if first <= file.file_no < stop}

    def size_before(self, position: Position) -> int:
        """Bytes of its file up to *position*, or up to the end of its page; nothing is looked for at *position*."""
        return byte_of(position)

    def file_gtids(self, files: Sequence[LogFile]) -> list[FileGtids]:
        """GTIDs that each of *files*, results of `files`, records; reads a few places of each."""
        return [NO_FILE_GTIDS for _ in files]

    def begins_server_run(self, file_no: int) -> bool | None:
        """True if the file begins with a start of the server; None: the heads of files do not record it."""
        del file_no
        return None

    @abstractmethod
    def start_position(self) -> Position:
        """The earliest position that is still there."""

    @abstractmethod
    def gtid_position_at(self, position: Position) -> GtidPoint:
        """The last GTID of each domain before *position*, as far as the log itself records; of a MySQL log the set."""

    @abstractmethod
    def file_starts(self) -> list[Position]:
        """Starts of all files that are not empty, ascending."""

    @abstractmethod
    def listed_gtids(self, place: Position) -> tuple[Gtid, ...] | None:
        """The GTIDs that the log itself lists at *place*; in each domain the most recent one comes last.

        Args:
            place: The start of a file: the last ones of each domain and server before it. One of `places_of_lists`:
                those of them that have changed since the file's start, or since the server was restarted.

        Returns:
            None: there is no list.

        Raises:
            UnsupportedError: `FORMAT`: the log is of a MySQL server, whose GTIDs are sets (`gtid_position_at`).
        """

    def places_of_lists(self, start: Position) -> Sequence[Position]:
        """Other places of GTID lists in the file that begins at *start*, ascending."""
        del start
        return ()

    @abstractmethod
    def heads(self, start: Position, end: Position | None) -> Iterator[Heads]:
        """The groups whose position is in [*start*, *end*), in commit order, without their events.

        Args:
            start: Of a group, or of a file, or one of `places_of_lists`.
            end: None: the end of the log.
        """

    @abstractmethod
    def end_position(self) -> Position:
        """The end of the log: where `blocks` ends at present; costs a look at the newest file at most."""

    @abstractmethod
    def can_start_at(self, position: Position) -> bool:
        """True if reading can begin at *position*, in a file that has been begun; False after the end."""

    def position_at_byte(self, name: str, byte: int) -> Position | None:
        """The position of a byte, where the server gives positions so (`classic`); None: there are no such files."""
        del name, byte
        return None

    def server_position(self, position: Position) -> str | None:
        """*position* as the server gives it (`classic`): `mysql-bin.000001:14542`; None: it does not."""
        del position
        return None

    @abstractmethod
    def span(self, start: Position, *, end: Position | None = None, size_max: int | None = None) -> Span:
        """Measure what is there from *start* to the end of the log, or until *size_max* bytes in the files are passed.

        At least one group is taken when there is one. Costs a scan of those bytes, never of what lies before.

        Args:
            end: Groups from there on do not count; default: the end of the log.
            size_max: Bytes.
        """

    @abstractmethod
    def split(self, start: Position, end: Position, count: int) -> list[Position]:
        """Up to *count* - 1 positions between *start* and *end*, ascending, that cut the span into similar parts.

        Reading all parts gives exactly the groups of the whole, in the same order.
        """

    @abstractmethod
    def blocks(
        self, start: Position | None = None, end: Position | None = None, *, skips_purged: bool = False
    ) -> Iterator[Block]:
        """Read the groups whose position is in [*start*, *end*), in commit order.

        Args:
            start: Default: `start_position()`.
            end: Default: the end of the log when that place is reached.
            skips_purged: Leave out groups of which a purged file has events, as if the log began after them; else they
                are an error.
        """

    @abstractmethod
    def read_extents(self, extents: Table) -> Bytes:
        """Join the bytes of *extents* (`EXTENT_DTYPE`) into one buffer."""

    def ends_committed(self, group: np.void) -> bool:
        """True if a group that is larger than a block is known to end in an XID event: all of it has been committed.

        Cheap where the format allows it.
        """
        del group
        return False

    @abstractmethod
    def close(self) -> None:
        """Close all files."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r}, bound={str(self.bound)!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


NOT_YET = "NOT_YET"
"""Data begins that does not end on disk, as at the end of a live log."""
NOTE = "NOTE"
"""Unusual, but no damage."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check finds.

    Attributes:
        condition: Of the error, `BINLOG_CORRUPT.PAGE_CHECKSUM`; `NOT_YET` or `NOTE` for a remark.
        reason: What is wrong, with the values.
        is_error: False: a remark, nothing is wrong.
    """

    condition: str
    at: Place | None
    reason: str
    hint: str | None = None
    is_error: bool = True

    @classmethod
    def of(cls, error: BinlogError) -> Finding:
        """The finding that *error* stands for."""
        return cls(error.condition, error.at, error.reason, error.hint)

    @classmethod
    def remark(cls, condition: str, at: Place | None, reason: str) -> Finding:
        """A remark: `NOT_YET` or `NOTE`."""
        return cls(condition, at, reason, is_error=False)


class CheckScope(NamedTuple):
    """The part of a log to check.

    Attributes:
        only: Name of the one file to check, or a pattern of names; None: all.
        start: Check from here on; None: from the start.
        end: Check up to here; None: to the end.
    """

    directory: Directory
    only: str | None = None
    start: Position | None = None
    end: Position | None = None
    on_progress: OnProgress | None = None


class LogCheck(ABC):
    """One check of a log."""

    def __init__(self, scope: CheckScope) -> None:
        self._directory, self._only, self._start, self._end, self._on_progress = scope
        self._done = 0  # bytes, of files before the one that is being checked
        self._total = 0

    @abstractmethod
    def findings(self) -> Iterator[Finding]:
        """Everything found, file by file.

        Raises:
            StartError: Nothing is there, or not where the check should begin.
        """

    def _progress(self, done: int) -> None:
        if self._on_progress is not None:
            self._on_progress(min(done, self._total), self._total)
