"""What a job remembers in its checkpoint: `JobState`; `StateFile` keeps it.

A batch is written down before anything of it is in a table, so that it can be done again, with the same number and the
same messages, and once more when all of it is. Between the two lies whatever ended the process.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING

import msgspec

from binlog_connector.crash_points import reached
from binlog_connector.kafka.reading.fetcher import Partition
from binlog_format.errors import OptionError
from binlog_format.position import Place
from binlog_streaming.jobs.state_files import StateFolder
from binlog_streaming.settings.model import Mode, TableRule  # noqa: TC001 - msgspec looks them up
from binlog_streaming.topic_tables.steps import BatchStep

if TYPE_CHECKING:
    from binlog_streaming.settings import TopicTablesJob

STATE_FILE = "topics.json"
VERSION = 1


class PartitionState(msgspec.Struct, frozen=True, kw_only=True):
    """How far a partition has been read.

    Attributes:
        topic: Its topic.
        partition: Its number there.
        offset: Where reading goes on.
        place: Of the last change: file_no, page, chunk, event_no, row_no and number of its operation; None: there was
            none.
        seconds: The latest time of a change, seconds since 1970 UTC.
    """

    topic: str
    partition: int
    offset: int
    place: tuple[int, ...] | None = None
    seconds: int = 0


class TableState(msgspec.Struct, frozen=True, kw_only=True):
    """A table that has been written.

    Attributes:
        database: Of the table.
        table: Its name there.
        columns: All that it had in messages.
        modes: Of its targets.
    """

    database: str
    table: str
    columns: tuple[str, ...]
    modes: tuple[Mode, ...]


class JobState(msgspec.Struct, frozen=True, kw_only=True):
    """How far a job has come, and what must not differ when it starts again.

    Attributes:
        query_id: What the job's tables know it by.
        directory: Of the sink.
        format: Of the tables.
        rules: `[[tables]]`.
        batch_id: Number of the last batch; -1: there was none.
        ends: Offsets after it by partition, while it may not be in the tables; empty: all of it is.
        partitions: Before the last batch while there are *ends*, else after it.
        tables: Those that have been written.
        version: Of the form of this.
    """

    query_id: str
    directory: str
    format: str
    rules: tuple[TableRule, ...]
    batch_id: int = -1
    ends: tuple[tuple[str, int, int], ...] = ()
    partitions: tuple[PartitionState, ...] = ()
    tables: tuple[TableState, ...] = ()
    version: int = VERSION

    @property
    def ranges(self) -> dict[Partition, tuple[int, int]]:
        """What the unfinished batch holds of each partition."""
        starts = {Partition(one.topic, one.partition): one.offset for one in self.partitions}
        ends = {Partition(topic, number): end for topic, number, end in self.ends}
        return {one: (starts[one], end) for one, end in ends.items()}


class StateFile:
    """The state of one job.

    Args:
        job: The settings.

    Raises:
        OptionError: `INVALID_VALUE`: the checkpoint was begun with other settings, or is not of such a job.
        StorageError, AccessError: It cannot be read.
    """

    def __init__(self, job: TopicTablesJob) -> None:
        self._folder = StateFolder(job.checkpoint, job.sink.storage)
        content = self._folder.read(STATE_FILE)
        new = JobState(
            query_id=str(uuid.uuid4()), directory=job.sink.directory, format=str(job.sink.format), rules=job.tables
        )
        self.is_new = content is None
        self.state = new if content is None else self._decoded(content)
        for setting, was, is_now in (
            ("sink.directory", self.state.directory, new.directory),
            ("sink.format", self.state.format, new.format),
            ("tables", self.state.rules, new.rules),
        ):
            if was != is_now:
                raise OptionError(
                    "INVALID_VALUE",
                    f"{setting}: this checkpoint was begun with other settings",
                    at=Place(f"{job.checkpoint}/{STATE_FILE}"),
                    hint="Tables would begin in the middle of their topics: set it back, or start again with a new "
                    "checkpoint and another sink.directory",
                )

    def begin(self, state: JobState) -> None:
        """Before anything of a batch is in a table.

        Raises:
            StorageError, AccessError: It cannot be written.
        """
        self._write(state)
        reached(BatchStep.BEGUN)

    def finish(self, state: JobState) -> None:
        """After all of it is.

        Raises:
            StorageError, AccessError: It cannot be written.
        """
        reached(BatchStep.IN_TABLES)
        self._write(state)
        reached(BatchStep.FINISHED)

    def _write(self, state: JobState) -> None:
        self._folder.write(STATE_FILE, msgspec.json.encode(state))
        self.state = state

    def _decoded(self, content: bytes) -> JobState:
        try:
            return msgspec.json.decode(content, type=JobState)
        except msgspec.DecodeError as error:
            raise OptionError(
                "INVALID_VALUE",
                f"not the checkpoint of a job that reads topics: {error}",
                at=Place(f"{self._folder.directory}/{STATE_FILE}"),
                hint="Name another directory as checkpoint; a new one begins a new job",
            ) from error
