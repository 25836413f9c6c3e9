"""What part of a log is to be read, as a user says it: `ReadRange.of(log, start, end)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.errors import OptionError, StartError
from binlog_format.gtid_groups import still_waiting
from binlog_format.gtid_set import GtidSet, check_kind, is_gtid_set, parse_gtids
from binlog_format.position import Position
from binlog_format.views.group_filter import GroupFilter

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.block import Block
    from binlog_format.gtid_set import GtidPoint
    from binlog_format.log import Log

EDGE_HINT = (
    "A position is file_no:page:chunk, for example 0:12:3; GTIDs are, for example, 0-1-575,1-2-7 (MariaDB) or "
    "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-77 (MySQL)"
)


@dataclass(frozen=True, slots=True)
class ReadRange:
    """A range between positions, and what is to be left out of it.

    Attributes:
        start: Where reading starts; None: where the log does.
        end: The first position that is not read; None: the end of data.
        skip: Groups up to here are left out.
        until: Groups that this does not cover are left out.
    """

    start: Position | None = None
    end: Position | None = None
    skip: GtidPoint | None = None
    until: GtidPoint | None = None

    @classmethod
    def of(cls, log: Log, start: Position | str | None, end: Position | str | None) -> ReadRange:
        """Understand *start* and *end*: a position, its text, or GTIDs as text (`0-1-575,1-2-7`, or `uuid:1-77`).

        Everything up to the GTIDs of *start* is left out; the GTIDs of *end* are the last ones to be read.

        Raises:
            DataLossError: `GTID_PURGED`: transactions behind *start* are not in the log any more.
            OptionError: `INVALID_VALUE`: neither a position nor GTIDs, or GTIDs of the other vendor.
            StartError: `START_AFTER_END`.
        """
        first, skip = _edge("start", start)
        last, until = _edge("end", end)
        if first is not None and last is not None and last < first:
            raise StartError("START_AFTER_END", f"start {first} lies behind end {last}")
        if until is not None:
            check_kind(log.gtid_position_at(log.start_position()), until)
        if skip is not None:
            first = log.position_of(skip).position
            if last is not None:
                first = min(first, last)  # nothing is left to read then
        return cls(first, last, skip, until)

    @property
    def groups(self) -> GroupFilter:
        """What of the blocks is wanted."""
        return GroupFilter(self.skip, self.until)

    def blocks(self, log: Log) -> Iterator[Block]:
        """The blocks of *log* that hold the range, as consumers of rows want them: `Log.committed_blocks`.

        Reading ends when all GTIDs of `until` have passed.
        """
        return self._up_to_the_last(log, log.committed_blocks(self.start, self.end))

    def stored_blocks(self, log: Log) -> Iterator[Block]:
        """The same as they are stored: `Log.blocks`."""
        return self._up_to_the_last(log, log.blocks(self.start, self.end))

    def _up_to_the_last(self, log: Log, blocks: Iterator[Block]) -> Iterator[Block]:
        waiting = self._awaited(log)
        if waiting is not None and not waiting:
            return
        for block in blocks:
            yield block
            if waiting is not None:
                waiting = still_waiting(waiting, block.groups[block.groups["ends"]], block.gtid_sources)
                if not waiting:
                    return

    def _awaited(self, log: Log) -> GtidPoint | None:
        """The GTIDs with which reading ends; None: it goes on to the end of data."""
        if not isinstance(self.until, GtidSet):
            return self.until
        # A set names what lies before the start too.
        return self.until.without(log.gtid_position_at(self.start or log.start_position()))


def parse_edge(text: str) -> Position | GtidPoint:
    """Read a position, or GTIDs of either vendor.

    Raises:
        ValueError: *text* is neither.
    """
    return parse_gtids(text) if is_gtid_set(text) or ":" not in text else Position.parse(text)


def _edge(name: str, value: Position | str | None) -> tuple[Position | None, GtidPoint | None]:
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
    return (edge, None) if isinstance(edge, Position) else (None, edge or None)
