"""One step of a log that is being followed: `Step`, rows and the offset behind them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_connector.following.ends import check_reached
from binlog_connector.following.skipping import taken_in
from binlog_format.errors import CorruptError
from binlog_format.views.group_filter import GroupFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.following.watched import WatchedLog
    from binlog_format.block import Block
    from binlog_format.errors import DataLossError

LOOKS_MAX = 3
"""How often a place that seems damaged is read before it is believed."""


@dataclass(frozen=True, slots=True)
class Step:
    """Whole transactions, and where reading goes on behind them. Valid until the next step is asked for.

    Attributes:
        watched: The log, as it was when the step was planned.
        start: Before it.
        end: Behind it; to be kept with what was made of the rows.
        group_count: Event groups in it. 0: the offset moves over what holds none, to the next file for example.
        size: Bytes of the files that it takes. Of a step that a fixed end cuts, these two may count more.
        last_timestamp: Of its last group, seconds since 1970 UTC; None without groups.
        loss: What is missing right before it, where that is accepted; None: it follows on what was before.
        pause: Waits a moment, for something that may be being written.
    """

    watched: WatchedLog
    start: SourceOffset
    end: SourceOffset
    group_count: int
    size: int
    last_timestamp: int | None
    loss: DataLossError | None
    pause: Callable[[], None]

    @property
    def groups(self) -> GroupFilter:
        """What views have to take of the blocks; nearly always all."""
        return GroupFilter(taken_in(self.watched.log, self.start, self.end.position))

    def blocks(self) -> Iterator[Block]:
        """The committed changes, block by block; large transactions come in several. May be called again.

        Raises:
            CorruptError: It is damaged, and was so each time that it was read.
            DataLossError: The log does not reach as far any more as when the step was planned.
        """
        log, end = self.watched.log, self.end.position
        reached, prepared = self.start.position, self.start.prepared_xa
        looks = 0
        while True:
            is_whole, found = True, None
            try:
                for block in log.committed_blocks(reached, end, prepared=prepared):
                    yield block
                    is_whole = len(block.groups) == 0 or bool(block.groups["ends"][-1])
                    if is_whole and block.next_position > reached:
                        # What is prepared there is not known, and looked for when it is needed.
                        reached, prepared, looks = block.next_position, (), 0
            except CorruptError as error:
                found = error
            if found is None:
                break
            looks += 1
            if looks >= LOOKS_MAX or not is_whole:
                raise found
            self.pause()
        check_reached(log, reached, end)

    def close(self) -> None:
        """Let the files go."""
        self.watched.log.close()
