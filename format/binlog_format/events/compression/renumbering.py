"""Numbers of events and tables of groups, where events are replaced by more or fewer of them: `EventNumbers`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.block import copied
from binlog_format.position import Position

if TYPE_CHECKING:
    from binlog_format.block import Block, Table


@dataclass(slots=True)
class EventNumbers:
    """Reads the blocks of a log; knows how many more events the present group has than are stored.

    Attributes:
        more: That many; less than 0: fewer.
    """

    more: int = 0

    def passed(self, block: Block) -> Block:
        """A block in which nothing is replaced; in its first group something may have been before."""
        more = self.more
        if len(block.groups) > 1 or (len(block.groups) and block.groups["begins"][0]):
            self.more = 0
        if more == 0 or len(block.groups) == 0 or block.groups["begins"][0]:
            return block
        events, groups = copied(block.events), copied(block.groups)
        events["event_no"][events["group"] == 0] += more
        groups["event_no"][0] += more
        return replace(block, groups=groups, events=events)

    def number(
        self, block: Block, first: int, end: int, plain: Table, *, is_first: bool = True, is_last: bool = True
    ) -> Table:
        """Number events within their groups.

        Args:
            block: As it is stored.
            first: Row of the first event that is replaced.
            plain: What comes in place of these events; `group` counts the groups of *block* when it is given, and
                those of the result afterwards.
            is_first: *plain* begins with what comes in place of the first event, and
            is_last: ends with what comes in place of the last one.

        Returns:
            The table of the groups that *plain* belongs to.
        """
        stored = block.events
        if stored["event_no"][first] == 0 and is_first:
            self.more = 0
        first_group = int(stored["group"][first])
        groups = copied(block.groups[first_group : int(stored["group"][end - 1]) + 1])
        plain["group"] -= first_group
        firsts = np.searchsorted(plain["group"], np.arange(len(groups)))
        groups["begins"][0] &= is_first and groups["first_event"][0] >= first
        groups["ends"][-1] &= is_last and groups["first_event"][-1] + groups["event_count"][-1] <= end
        # Only the first group can have begun before; it goes on where it was.
        groups["event_no"][0] = stored["event_no"][first] + self.more
        groups["first_event"] = firsts
        groups["event_count"] = np.diff(np.append(firsts, len(plain)))
        groups["size"] = np.add.reduceat(plain["size"], firsts)
        plain["event_no"] = np.arange(len(plain)) + (groups["event_no"] - firsts)[plain["group"]]
        next_stored = int(stored["event_no"][end - 1]) + (1 if is_last else 0)
        self.more = int(plain["event_no"][-1]) + 1 - next_stored
        return groups


def next_position(block: Block, end: int) -> Position:
    """Position to continue after the events before row *end*: the next group, or the group that is cut there."""
    if end == len(block.events):
        return block.next_position
    group = block.groups[int(block.events["group"][end])]
    return Position.of(group)
