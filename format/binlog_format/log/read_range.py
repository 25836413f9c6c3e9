"""The part of a log that a user wants to read: `ReadRange.of(log, start, end)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.errors import OptionError, StartError
from binlog_format.gtids.gtid_set import is_gtid_set, parse_gtids
from binlog_format.log.places import ServerPosition, check_end, check_start, parse_position, resolve_position
from binlog_format.log.search import check_is_logged, end_of_gtids
from binlog_format.position import Position
from binlog_format.views.group_filter import GroupFilter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.block import Block
    from binlog_format.gtids.domain_starts import Taken
    from binlog_format.gtids.gtid_set import GtidPoint
    from binlog_format.log.log import Log

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
                    hint="Leave it away to read up to the end of the log",
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
    """Read a position, or GTIDs of either vendor.

    Raises:
        ValueError: *text* is neither.
    """
    return parse_gtids(text) if is_gtid_set(text) or ":" not in text else parse_position(text)


def _edge(log: Log, name: str, value: Position | str | None) -> tuple[Position | None, GtidPoint | None]:
    if value is None or isinstance(value, Position):
        return value, None
    try:
        edge = parse_edge(value)
    except ValueError as error:
        raise OptionError(
            "INVALID_VALUE",
            f'option {name}: expected a position or GTIDs, got "{value}": {error}',
            hint=EDGE_HINT,
        ) from error
    if isinstance(edge, Position | ServerPosition):
        return resolve_position(log, name, edge), None
    return None, edge or None
