"""State of a job that reads a structured log: `EventTablesState`; `EventTablesStateFile` has it in a checkpoint.

What such a job could not read: `Gap`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec

from binlog_connector.following.offsets import SourceOffset
from binlog_format.errors import OptionError
from binlog_streaming.job_state.checkpoint import OTHER_CHECKPOINT, STATE_FILES, BatchState, BatchStateFile
from binlog_streaming.settings import EventTablesJob
from binlog_streaming.settings.source_models import EventRule  # noqa: TC001 - msgspec looks at annotations

if TYPE_CHECKING:
    from binlog_format.errors import BinlogError


Offset = dict[str, int | str]


class Gap(msgspec.Struct, frozen=True, kw_only=True):
    """Events that are in no table, because the log does not have them any more, or they cannot be read.

    Attributes:
        condition: Name of the error that would have ended the job.
        certain: Something is missing; False: that cannot be known.
        start: The place up to which the log had been read, as text.
        go_on: The place where reading goes on.
        events: Number of events that were left out; None: not known.
        found_at: When it was found, seconds since 1970 UTC.
    """

    condition: str
    reason: str
    certain: bool
    start: str
    go_on: str
    events: int | None = None
    found_at: float


def gap_of(error: BinlogError, start: str, go_on: str, *, is_certain: bool = True, events: int | None = None) -> Gap:
    """The gap that *error* names, between two places."""
    return Gap(
        condition=error.condition,
        reason=f"{error.at}: {error.reason}" if error.at is not None else error.reason,
        certain=is_certain,
        start=start,
        go_on=go_on,
        events=events,
        found_at=time.time(),
    )


class EventTablesState(BatchState, frozen=True, kw_only=True):
    """See `BatchState`.

    Attributes:
        start: Offset before the last batch while there is an *end*, else after it; None: none was taken yet.
        end: After it, while it may not be in the tables.
        tables: Those that have been written: their places in the directory.
        gaps: What the last batch lacks; once all of it is in the tables, they are rows of the table of gaps.
    """

    rules: tuple[EventRule, ...]
    start: Offset | None = None
    end: Offset | None = None
    tables: tuple[str, ...] = ()
    gaps: tuple[Gap, ...] = ()


class EventTablesStateFile(BatchStateFile[EventTablesState]):
    """See `BatchStateFile`."""

    FILE = STATE_FILES[EventTablesJob]
    KIND = "reads a structured log"
    MIDDLE = "the log"

    def __init__(self, job: EventTablesJob) -> None:
        super().__init__(job, EventTablesState)

    @property
    def start(self) -> SourceOffset | None:
        """`EventTablesState.start`."""
        return self._offset(self.state.start)

    @property
    def end(self) -> SourceOffset | None:
        """`EventTablesState.end`."""
        return self._offset(self.state.end)

    def _offset(self, offset: Offset | None) -> SourceOffset | None:
        try:
            return None if offset is None else SourceOffset.from_json(offset)
        except ValueError as error:
            title = f"not the checkpoint of a job that {self.KIND}"
            raise OptionError("INVALID_VALUE", f"{title}: {error}", at=self._place, hint=OTHER_CHECKPOINT) from error
