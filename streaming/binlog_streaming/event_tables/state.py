"""State of a job that reads a structured log: `EventTablesState`; `EventTablesStateFile` has it in a checkpoint."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_connector.following.offsets import SourceOffset
from binlog_streaming.job_state.batch_state import BatchState, BatchStateFile
from binlog_streaming.settings.event_source_model import EventRule  # noqa: TC001 - msgspec looks it up

if TYPE_CHECKING:
    from binlog_streaming.settings import EventTablesJob

Offset = dict[str, int | str]


class EventTablesState(BatchState, frozen=True, kw_only=True):
    """See `BatchState`.

    Attributes:
        start: Offset before the last batch while there is an *end*, else after it; None: none was taken yet.
        end: After it, while it may not be in the tables.
        tables: Those that have been written: their places in the directory.
    """

    rules: tuple[EventRule, ...]
    start: Offset | None = None
    end: Offset | None = None
    tables: tuple[str, ...] = ()


class EventTablesStateFile(BatchStateFile[EventTablesState]):
    """See `BatchStateFile`."""

    FILE = "events.json"
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
            raise self._strange(error) from error
