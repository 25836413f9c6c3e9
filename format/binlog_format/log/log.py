"""The log, whatever its format: `Log`; `opening.open_log(path)` returns one.

Positions as users give them: `parse_position`, `resolve_position`, and whether a log has them: `check_start`.

The part of a log that a user wants to read: `ReadRange.of(log, start, end)`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.errors import OptionError, StartError
from binlog_format.gtids.gtid import GtidPosition
from binlog_format.gtids.gtid_set import GtidSet, check_kind, is_gtid_set, parse_gtids
from binlog_format.log.search import check_is_logged, end_of_gtids
from binlog_format.log_format import LogFormat
from binlog_format.position import Position
from binlog_format.views.filters import GroupFilter

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from binlog_format.block import Block
    from binlog_format.gtids.gtid_set import GtidPoint, Taken
    from binlog_format.log_format import GtidStart
    from binlog_format.rows.decoding import Decoding
    from binlog_format.transactions.xa import PreparedXa


class Log(LogFormat):
    """A log of a format, with what is made of any format's blocks."""

    def gtids_before_start(self) -> tuple[Position, GtidPoint]:
        """The start, and the GTIDs before it: of the next file, if the first one is purged while they are read."""
        while True:
            start = self.start_position()
            gtids = self.gtid_position_at(start)
            if gtids or start == self.start_position():
                return start, gtids

    def position_of(self, gtids: GtidPoint) -> GtidStart:
        """Find the position after *gtids*: no group before it is needed.

        MariaDB: after a GTID comes what follows it in its domain in the log, whatever its number.

        Raises:
            DataLossError: `GTID_PURGED`: groups that come after *gtids* are not in the log any more.
            OptionError: `INVALID_VALUE`: the log has GTIDs of the other vendor.
        """
        _, before = self.gtids_before_start()
        check_kind(before, gtids)
        from binlog_format.gtids.gtid_search import GtidSearch, start_after_set  # compiled code, as below

        if isinstance(before, GtidSet):
            return start_after_set(self, gtids if isinstance(gtids, GtidSet) else GtidSet({}))
        return GtidSearch(self).start(gtids if isinstance(gtids, GtidPosition) else GtidPosition({}))

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
        """
        from binlog_format.rows.decoding import DEFAULT_DECODING
        from binlog_format.views.changes import ChangesView  # compiled code; not every use of a log needs it
        from binlog_format.views.filters import TableFilter, check_table_name

        check_table_name("table", table)
        part = ReadRange.of(self, start, end)
        view = ChangesView(
            table=table,
            tables=TableFilter(tables, exclude_tables),
            groups=part.groups,
            decoding=DEFAULT_DECODING if decoding is None else decoding,
        )
        return view.batches(part.blocks(self))

    def position_of_time(self, seconds: int) -> Position:
        """Position of the first group that was committed at *seconds* since 1970 UTC, or later.

        Raises:
            StartError: `TIMESTAMP_NOT_FOUND`: all groups are older.
        """
        from binlog_format.log.search import find_time  # compiled code, as above

        return find_time(self, seconds)


_SERVER_POSITION = re.compile(r"(?P<name>.+\.\d{6,}):(?P<byte>\d{1,19})")


@dataclass(frozen=True, slots=True)
class ServerPosition:
    """A place in a classic log as its server gives it: `mysql-bin.000001:14542`.

    Attributes:
        byte: In the file; the server calls it `Pos`, `end_log_pos` or `Position`.
    """

    name: str
    byte: int

    def __str__(self) -> str:
        return f"{self.name}:{self.byte}"


def parse_position(text: str) -> Position | ServerPosition:
    """Read `file_no:page:chunk`, or a server's own `mysql-bin.000001:14542`. Raises `ValueError`: *text* is neither."""
    match = _SERVER_POSITION.fullmatch(text.strip())
    return Position.parse(text) if match is None else ServerPosition(match["name"], int(match["byte"]))


def resolve_position(log: Log, name: str, position: Position | ServerPosition) -> Position:
    """The position in *log* that a user means."""
    if isinstance(position, Position):
        return position
    found = log.position_at_byte(position.name, position.byte)
    if found is None:
        example = shown_position(log, log.start_position())
        raise OptionError(
            "INVALID_VALUE",
            f"{name} {position}: {log.path} has no files named like that",
            hint=f"Its positions are like {example}",
        )
    return found


def shown_position(log: Log, position: Position) -> str:
    """A position for messages: ours, and beside it the server's own, where it has one."""
    of_server = log.server_position(position)
    return str(position) if of_server is None else f"{position} ({of_server})"


def check_start(log: Log, name: str, position: Position) -> None:
    """See that reading can begin at a position that a user gave; of a classic log the file is walked up to it.

    What has been purged, and files that are missing, are found by reading.
    """
    starts = {start.file_no: start for start in log.file_starts()}
    if position.file_no in starts and log.can_start_at(position):
        return
    check_end(log, name, position)
    if position.file_no not in starts:
        return
    before, after = _neighbours(log, starts[position.file_no], position)
    near = f"the next one begins at {shown_position(log, after)}"
    if before is not None:
        near = f"the transaction before it begins at {shown_position(log, before)}, {near}"
    raise StartError(
        "POSITION_NOT_FOUND",
        f"{log.path}: {name} {shown_position(log, position)}: no transaction begins there; {near}",
        hint="Take positions from `groups` or `find`",
    )


def check_end(log: Log, name: str, position: Position) -> None:
    """See that the log reaches as far as a position that a user gave. Raises `StartError`: `POSITION_NOT_FOUND`."""
    end = log.end_position()
    if position > end:
        raise StartError(
            "POSITION_NOT_FOUND",
            f"{log.path}: {name}: the log ends at {shown_position(log, end)}, before {shown_position(log, position)}",
            hint="Use a position of this log, for example from `groups` or `find`",
        )


def _neighbours(log: Log, start: Position, position: Position) -> tuple[Position | None, Position]:
    """The last group of a file that begins before *position*, and where the next one does, or the data end."""
    before: Position | None = None
    after = start
    for heads in log.heads(start, None):
        for row in range(len(heads.groups)):
            if heads.position(row) > position:
                return before, heads.position(row)
            before = heads.position(row)
        after = heads.next_position
    return before, after


EDGE_HINT = (
    "A position is file_no:page:chunk, for example 0:12:3, or of a classic log the server's own, for example "
    "mysql-bin.000001:14542; GTIDs are, for example, 0-1-575,1-2-7 (MariaDB) or "
    "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-77 (MySQL)"
)


@dataclass(frozen=True, slots=True)
class ReadRange:
    """A range between positions, and what is to be left out of it.

    Attributes:
        start: Where reading starts; None: where the log does.
        end: The first position that is not read; None: the end of the log.
        skip: Groups that are left out, because they have been taken.
        until: Groups that this does not cover are left out.
    """

    start: Position | None = None
    end: Position | None = None
    skip: Taken | None = None
    until: Taken | None = None

    @classmethod
    def of(cls, log: Log, start: Position | str | None, end: Position | str | None) -> ReadRange:
        """Understand *start* and *end*: a position, its text, or GTIDs as text (`0-1-575,1-2-7`, or `uuid:1-77`).

        What comes up to the GTIDs of *start* is left out; the GTIDs of *end* are the last ones to be read.

        Raises:
            DataLossError: `GTID_PURGED`: transactions after *start* are not in the log any more.
            OptionError: `INVALID_VALUE`: neither a position nor GTIDs, or GTIDs of the other vendor.
            StartError: `START_AFTER_END`; `POSITION_NOT_FOUND`, `GTID_NOT_FOUND`: the log does not have it.
        """
        first, taken = _edge(log, "start", start)
        last, wanted = _edge(log, "end", end)
        skip: Taken | None = None
        until: Taken | None = None
        if first is not None:
            check_start(log, "start", first)
        if taken is not None:
            found = log.position_of(taken)
            check_is_logged(log, "start", taken, found.taken)
            first, skip = found.position, found.taken
        if last is not None:
            check_end(log, "end", last)
        if wanted is not None:
            stop = end_of_gtids(log, wanted)
            if stop.missing:
                raise StartError(
                    "GTID_NOT_FOUND",
                    f"{log.path}: end: {stop.missing} has not been logged",
                    hint="Leave it out to read up to the end of the log",
                )
            last, until = stop.position, stop.taken
        if first is not None and last is not None and last < first:
            if taken is None or wanted is None or wanted.without(taken) or taken.without(wanted):
                raise StartError("START_AFTER_END", f"start {start} comes after end {end}")
            last = first  # the same GTIDs, or some of them
        return cls(first, last, skip, until)

    @property
    def groups(self) -> GroupFilter:
        """Filter of the groups in the blocks."""
        return GroupFilter(self.skip, self.until)

    def blocks(self, log: Log) -> Iterator[Block]:
        """The blocks of *log* that hold the range, as consumers of rows want them: `Log.committed_blocks`."""
        return log.committed_blocks(self.start, self.end)

    def stored_blocks(self, log: Log) -> Iterator[Block]:
        """The same as they are stored: `Log.blocks`."""
        return log.blocks(self.start, self.end)


def parse_edge(text: str) -> Position | ServerPosition | GtidPoint:
    """Read a position, or GTIDs of either vendor. Raises `ValueError`: *text* is neither."""
    return parse_gtids(text) if is_gtid_set(text) or ":" not in text else parse_position(text)


def _edge(log: Log, name: str, value: Position | str | None) -> tuple[Position | None, GtidPoint | None]:
    if value is None or isinstance(value, Position):
        return value, None
    try:
        edge = parse_edge(value)
    except ValueError as error:
        raise OptionError(
            "INVALID_VALUE", f'option {name}: expected a position or GTIDs, got "{value}": {error}', hint=EDGE_HINT
        ) from error
    if isinstance(edge, Position | ServerPosition):
        return resolve_position(log, name, edge), None
    return None, edge or None
