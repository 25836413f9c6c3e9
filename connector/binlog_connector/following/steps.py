"""One step of a log that is being followed: `Step`, rows and the offset after them.

Check that a planned range still exists when it is read: `check_range_complete`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from binlog_connector.following.entry_marks import files_within, state_of
from binlog_connector.following.offsets import taken_in
from binlog_format.block import Block
from binlog_format.errors import CorruptError, DataLossError
from binlog_format.structured.event_log import LogBlock
from binlog_format.views.filters import GroupFilter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.following.watched import WatchedLog
    from binlog_format.log.log import Log
    from binlog_format.log_format import Span
    from binlog_format.position import Position


def check_range_complete(log: Log, reached: Position, end: Position) -> None:
    """See that a read which came to *reached* has read everything before *end*.

    What was planned was on disk, so a log that ends earlier is an error.
    """
    # After the last group there may be records that are no groups: only a look tells whether they are there.
    limit = None if log.events is None else end  # what comes after it may be damaged
    if reached < end and log.span(reached, end=limit).end < end:
        raise DataLossError(
            "TRUNCATED_TRANSACTION",
            f"{log.path}: the log ends at {reached} now, but reached {end} when this was planned",
            hint="The server crashed and took transactions back, or the files were cut; see docs/errors.md",
        )


def planned_entries(
    log: Log, blocks: Iterable[LogBlock], files: Iterable[int], start: Position, end: Position
) -> Iterator[LogBlock]:
    """*blocks* of a structured log, and a look whether they are all that was planned.

    Args:
        blocks: The blocks that the log has now from *start* to *end*.
        files: Numbers of the files after that of *start* which had events then: one that is gone leaves no trace.
    """
    missing, reached = set(files), start
    for block in blocks:
        yield block
        missing.discard(block.file_no)
        reached = block.next_position
    if missing:
        raise DataLossError(
            "FILE_PURGED",
            f"{log.path}: a file is gone that was to be read (its number is {min(missing)}): it was removed after this "
            "had been planned",
            hint="Keep rotated files until they have been read",
        )
    check_range_complete(log, reached, end)


def measure(log: Log, start: Position, size_max: int) -> Span:
    """Measure the log after *start*; before damage, only a part of it.

    Raises:
        CorruptError: There is no whole group before the damage.
    """
    while True:
        try:
            return log.span(start, size_max=size_max)
        except CorruptError:
            if size_max <= 1:
                raise
            size_max //= 4


_AnyBlock = TypeVar("_AnyBlock", Block, LogBlock)

LOOKS_MAX = 3
"""Number of times that a place is read before its damage is reported."""


@dataclass(frozen=True, slots=True)
class Step:
    """Whole transactions, and where reading goes on after them. Valid until the next step is asked for.

    Attributes:
        watched: The log, as it was when the step was planned.
        start: Before it.
        end: After it; to be kept with what was made of the rows.
        group_count: Event groups in it. 0: the offset moves over what holds none, to the next file for example.
        size: Bytes of the files that it takes. Of a step that a fixed end cuts, these two may count more.
        last_timestamp: Of its last group, seconds since 1970 UTC; None without groups.
        loss: What is missing right before it, where that is accepted, or what is damaged in it (`CorruptError`) and
            skipped; None: nothing.
        doubt: What may be missing there, see `Decision.doubt`.
        pause: Waits a moment, for something that may be being written.
    """

    watched: WatchedLog
    start: SourceOffset
    end: SourceOffset
    group_count: int
    size: int
    last_timestamp: int | None
    loss: DataLossError | CorruptError | None
    doubt: DataLossError | None
    pause: Callable[[], None]

    @property
    def groups(self) -> GroupFilter:
        """Filter of the groups in the blocks; it takes nearly always all."""
        return GroupFilter(taken_in(self.watched.log, self.start, self.end.position))

    def blocks(self) -> Iterator[Block]:
        """The committed changes, block by block; large transactions come in several. May be called again."""
        log, end = self.watched.log, self.end.position

        def read(start: Position) -> Iterator[Block]:
            # What is prepared elsewhere is not known, and looked for when it is needed.
            prepared = self.start.prepared_xa if start == self.start.position else ()
            return log.committed_blocks(start, end, prepared=prepared)

        return self._read(read, lambda block: len(block.groups) == 0 or bool(block.groups["ends"][-1]))

    def entries(self) -> Iterator[LogBlock]:
        """The entries of a structured log, block by block; may be called again."""
        events, end = self.watched.log.events, self.end.position
        assert events is not None, "who asks for entries follows a log of events"
        state = state_of(self.start.state)

        def read(start: Position) -> Iterator[LogBlock]:
            nonlocal state
            for block in events.entries(start, end, state):
                state = block.state_after
                yield block

        files = files_within(self.end, self.start.position)
        return planned_entries(events, self._read(read, lambda _: True), files, self.start.position, end)

    def _read(
        self, read: Callable[[Position], Iterator[_AnyBlock]], is_whole: Callable[[_AnyBlock], bool]
    ) -> Iterator[_AnyBlock]:
        """Read the step; what seems damaged is read again, from the last place that everything before is taken of."""
        reached, looks = self.start.position, 0
        while True:
            is_taken, found = True, None
            try:
                for block in read(reached):
                    yield block
                    is_taken = is_whole(block)
                    if is_taken and block.next_position > reached:
                        reached, looks = block.next_position, 0
            except CorruptError as error:
                found = error
            if found is None:
                break
            looks += 1
            if looks >= LOOKS_MAX or not is_taken:
                raise found
            self.pause()
        check_range_complete(self.watched.log, reached, self.end.position)

    def close(self) -> None:
        """Close the files."""
        self.watched.log.close()
