"""What every log can do, whatever its format: `Log`; `opening.open_log(path)` gives one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from binlog_format.gtids.gtid import GtidPosition
from binlog_format.gtids.gtid_set import GtidSet, check_kind
from binlog_format.position import Position

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    import numpy as np
    import pyarrow as pa

    from binlog_format.block import Block, Table
    from binlog_format.gtids.domain_starts import Taken
    from binlog_format.gtids.gtid import Gtid, GtidSource
    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_format.kernels import Bytes
    from binlog_format.rows.decoding import Decoding
    from binlog_format.transactions.xa import PreparedXa, XaStep

BLOCK_SIZE = 2 << 20
"""Bytes read for a block: blocks of 2 MiB and what is made of them stay in the processor's cache."""


@dataclass(frozen=True, slots=True)
class LogFile:
    """What one file of a log is.

    Attributes:
        file_no: Number in the file's name.
        name: File name.
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
class Span:
    """What lies between a start and `end`, found without decoding rows.

    Attributes:
        end: Where the next read starts; after the last whole event group (or other whole record).
        groups: Event groups in the span.
        size: Bytes that the span takes in the files.
        gtids: Last GTID of each domain in the span; of a MySQL log the set of all.
        last_timestamp: Of the last group's first event, seconds since 1970 UTC; None without groups.
        xa: What the groups do to XA transactions whose rows are elsewhere (`classic`), in their order.
    """

    end: Position
    groups: int
    size: int
    gtids: GtidPoint
    last_timestamp: int | None
    xa: tuple[XaStep, ...] = ()


@dataclass(frozen=True, slots=True)
class GtidStart:
    """Where reading goes on after a GTID position or set.

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
    """Some groups, without their events joined.

    Attributes:
        groups: `GROUP_DTYPE`: places, GTIDs, times, `begins` and `ends`; other columns are undefined.
        next_position: Where reading goes on.
        sources: MySQL: what `gtid_source` counts.
    """

    groups: Table
    next_position: Position
    sources: Sequence[GtidSource] = ()

    def position(self, row: int) -> Position:
        """Of a group; of the row after the last one, where reading goes on."""
        if row >= len(self.groups):
            return self.next_position
        group = self.groups[row]
        return Position(int(group["file_no"]), int(group["page"]), int(group["chunk"]))


class Bound(StrEnum):
    """How far reading may go.

    Attributes:
        VISIBLE: Up to the last whole group on disk. After a crash the server may take back some of them.
        SEALED: Only files that the server can no longer take back: `innodb` file N once N+2 is there.
    """

    VISIBLE = "visible"
    SEALED = "sealed"


class Log(ABC):
    """The binlog files of one server, in one format.

    A log may be live: what is not on disk yet is not an error; readers stop before it, and a later call goes on there.
    Objects of this class are not for several threads at once; open one for each.
    """

    format_name: ClassVar[str]
    is_indexed: ClassVar[bool] = False
    """Whether the log itself records, without a scan, where its data ends and which GTIDs lie before a file."""

    path: str
    bound: Bound = Bound.VISIBLE

    @abstractmethod
    def files(self) -> list[LogFile]:
        """The files that are there now, by number."""

    def file_sizes(self, first: int, stop: int) -> dict[int, int]:
        """Bytes on disk of the files with numbers in [*first*, *stop*), by number; files are not looked into."""
        return {file.file_no: file.size for file in self.files() if first <= file.file_no < stop}

    @abstractmethod
    def size_before(self, position: Position) -> int:
        """Bytes of its file up to *position*, or up to the end of its page; nothing is looked for at *position*."""

    def begins_server_run(self, file_no: int) -> bool | None:
        """Whether a start of the server began the file; None: the heads of files do not tell."""
        del file_no
        return None

    @abstractmethod
    def start_position(self) -> Position:
        """The earliest position that is still there."""

    @abstractmethod
    def gtid_position_at(self, position: Position) -> GtidPoint:
        """The last GTID of each domain before *position*, as far as the log itself records; of a MySQL log the set."""

    def position_of(self, gtids: GtidPoint) -> GtidStart:
        """Where reading goes on after *gtids*: no group before it is needed.

        MariaDB: after a GTID comes what follows it in its domain in the log, whatever its number.

        Raises:
            DataLossError: `GTID_PURGED`: groups that come after *gtids* are not in the log any more.
            OptionError: `INVALID_VALUE`: the log has GTIDs of the other vendor.
        """
        first = self.start_position()
        before = self.gtid_position_at(first)
        check_kind(before, gtids)
        from binlog_format.gtids.gtid_search import GtidSearch, start_after_set  # compiled code, as below

        if isinstance(before, GtidSet):
            return start_after_set(self, gtids if isinstance(gtids, GtidSet) else GtidSet({}))
        return GtidSearch(self).start(gtids if isinstance(gtids, GtidPosition) else GtidPosition({}))

    @abstractmethod
    def file_starts(self) -> list[Position]:
        """Where files begin that something has been written into, ascending."""

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
        """Where else in the file that begins at *start* lists of GTIDs can be, ascending."""
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
        """Whether reading can begin at *position*, which is in a file that has been begun, not after the end."""

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
            start: Where to begin.
            end: Groups from there on do not count; default: the end of the log.
            size_max: Bytes.
        """

    @abstractmethod
    def split(self, start: Position, end: Position, count: int) -> list[Position]:
        """Up to *count* - 1 positions between *start* and *end*, ascending, that cut the span into similar parts.

        Reading all parts gives exactly the groups of the whole, in the same order.
        """

    @abstractmethod
    def blocks(self, start: Position | None = None, end: Position | None = None) -> Iterator[Block]:
        """Read the groups whose position is in [*start*, *end*), in commit order.

        Args:
            start: Default: `start_position()`.
            end: Default: the end of the log when that place is reached.

        Raises:
            CorruptError: Bytes on disk cannot be right.
            DataLossError: A file in the middle is missing, or *start* has been purged.
        """

    def committed_blocks(
        self, start: Position | None = None, end: Position | None = None, *, prepared: Iterable[PreparedXa] = ()
    ) -> Iterator[Block]:
        """The groups of `blocks` as consumers of rows want them: plain events, and of committed changes alone.

        Compressed events and transactions are expanded, rows that their own group takes back are left out, and rows of
        a prepared XA transaction come with its XA COMMIT.

        Args:
            start: Default: `start_position()`.
            end: Default: the end of the log when that place is reached.
            prepared: XA transactions that lie before *start* and have not ended there (`classic`), as far as they are
                known; the log before *start* is searched for others when their XA COMMIT comes.

        Raises:
            CorruptError: As `blocks`.
            DataLossError: As `blocks`; `XA_PREPARE_MISSING`: an XA COMMIT whose rows are not in reach.
        """
        from binlog_format.transactions.committed import committed  # compiled code, as below

        return committed(self, start, end, prepared)

    def changes(
        self,
        *,
        tables: str | None = None,
        exclude_tables: str | None = None,
        table: str | None = None,
        start: Position | str | None = None,
        end: Position | str | None = None,
        decoding: Decoding | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Read changed rows, in commit order: the view `changes`.

        Args:
            tables: Regular expressions on `database.table`, separated by commas; default: all tables.
            exclude_tables: The same, for what to leave out.
            table: One table by name; the images are then typed structs, not JSON texts.
            start: A position, or GTIDs (`0-1-575`) after which to start; default: the start of the log.
            end: A position to stop before, or GTIDs to stop after; default: the end of the log.
            decoding: How rows become values, where the log leaves it open; default: `DEFAULT_DECODING`.

        Raises:
            OptionError: `INVALID_VALUE`: *table* names no database.
            StartError: *start* or *end* is not in the log; see `ReadRange.of`.
        """
        from binlog_format.rows.decoding import DEFAULT_DECODING
        from binlog_format.views.changes import ChangesView  # compiled code; not every use of a log needs it
        from binlog_format.views.read_range import ReadRange
        from binlog_format.views.table_filter import TableFilter, check_table_name

        check_table_name("table", table)
        part = ReadRange.of(self, start, end)
        view = ChangesView(
            table=table,
            tables=TableFilter(tables, exclude_tables),
            groups=part.groups,
            decoding=DEFAULT_DECODING if decoding is None else decoding,
        )
        return view.batches(part.blocks(self))

    @abstractmethod
    def read_extents(self, extents: Table) -> Bytes:
        """Join the bytes of *extents* (`EXTENT_DTYPE`) into one buffer."""

    def ends_committed(self, group: np.void) -> bool:
        """Whether a group that is larger than a block is known to end in an XID event: all of it has been committed.

        Cheap where the format allows it.

        Args:
            group: A row of a block's group table.
        """
        del group
        return False

    @abstractmethod
    def close(self) -> None:
        """Let all files go."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.path!r}, bound={str(self.bound)!r})"

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
