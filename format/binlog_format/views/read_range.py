"""What part of a log is to be read, as a user says it: `ReadRange.of(log, start, end)`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.errors import OptionError, StartError
from binlog_format.gtid import GtidPosition
from binlog_format.position import Position

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.block import Block
    from binlog_format.log import Log


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
    skip: GtidPosition | None = None
    until: GtidPosition | None = None

    @classmethod
    def of(cls, log: Log, start: Position | str | None, end: Position | str | None) -> ReadRange:
        """Understand *start* and *end*: a position, its text, or a GTID position as text (`0-1-575,1-2-7`).

        Everything up to the GTIDs of *start* is left out; the GTIDs of *end* are the last ones to be read.

        Raises:
            DataLossError: `GTID_PURGED`: transactions behind *start* are not in the log any more.
            OptionError: `INVALID_VALUE`: neither a position nor GTIDs.
            StartError: `START_AFTER_END`.
        """
        first, skip = _edge("start", start)
        last, until = _edge("end", end)
        if first is not None and last is not None and last < first:
            raise StartError("START_AFTER_END", f"start {first} lies behind end {last}")
        if skip is not None:
            first = log.position_of(skip).position
            if last is not None:
                first = min(first, last)  # nothing is left to read then
        return cls(first, last, skip, until)

    def blocks(self, log: Log) -> Iterator[Block]:
        """The blocks of *log* that hold the range; reading ends when all GTIDs of `until` have passed."""
        waiting = dict(self.until.last) if self.until is not None else {}
        for block in log.blocks(self.start, self.end):
            yield block
            for domain, last in list(waiting.items()):
                ended = block.groups["has_gtid"] & block.groups["ends"] & (block.groups["domain"] == domain)
                if (block.groups["seqno"][ended] >= last.seqno).any():
                    del waiting[domain]
            if self.until is not None and not waiting:
                return


def _edge(name: str, value: Position | str | None) -> tuple[Position | None, GtidPosition | None]:
    if value is None or isinstance(value, Position):
        return value, None
    try:
        if ":" in value:
            return Position.parse(value), None
        gtids = GtidPosition.parse(value)
    except ValueError as error:
        raise OptionError(
            "INVALID_VALUE",
            f'option {name}: expected a position or GTIDs, got "{value}": {error}',
            hint="A position is file_no:page:chunk, for example 0:12:3; GTIDs are, for example, 0-1-575,1-2-7",
        ) from error
    return None, gtids if gtids.last else None
