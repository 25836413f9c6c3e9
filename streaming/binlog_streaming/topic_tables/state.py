"""State of a job that reads topics, in its checkpoint: `TopicTablesState`; `TopicTablesStateFile` keeps it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

from binlog_connector.kafka.reading.rdkafka_fetcher import FetchedPartition
from binlog_streaming.job_state.batch_state import BatchState, BatchStateFile
from binlog_streaming.settings.choices import Mode  # noqa: TC001 - msgspec looks it up
from binlog_streaming.settings.model import TableRule  # noqa: TC001 - msgspec looks them up

if TYPE_CHECKING:
    from binlog_streaming.settings import TopicTablesJob


class PartitionState(msgspec.Struct, frozen=True, kw_only=True):
    """Progress in a partition.

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


class TopicTablesState(BatchState, frozen=True, kw_only=True):
    """See `BatchState`.

    Attributes:
        ends: Offsets after the last batch by partition, while it may not be in the tables; empty: all of it is.
        partitions: Before the last batch while there are *ends*, else after it.
        tables: Those that have been written.
    """

    rules: tuple[TableRule, ...]
    ends: tuple[tuple[str, int, int], ...] = ()
    partitions: tuple[PartitionState, ...] = ()
    tables: tuple[TableState, ...] = ()

    @property
    def ranges(self) -> dict[FetchedPartition, tuple[int, int]]:
        """Ranges of the unfinished batch, by partition."""
        starts = {FetchedPartition(one.topic, one.partition): one.offset for one in self.partitions}
        ends = {FetchedPartition(topic, number): end for topic, number, end in self.ends}
        return {one: (starts[one], end) for one, end in ends.items()}


class TopicTablesStateFile(BatchStateFile[TopicTablesState]):
    """See `BatchStateFile`."""

    FILE = "topics.json"
    KIND = "reads topics"
    MIDDLE = "their topics"

    def __init__(self, job: TopicTablesJob) -> None:
        super().__init__(job, TopicTablesState)
