"""Contents of a batch's messages: `read_batch`.

State of a job that reads topics, in its checkpoint: `TopicTablesState`; `TopicTablesStateFile` keeps it.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec
import numpy as np
import pyarrow as pa

from binlog_connector.kafka.fetching import FetchedPartition
from binlog_connector.kafka.record_batches import key_partitions
from binlog_connector.kafka_decode.connect_columns import MessageError
from binlog_connector.kafka_decode.row_changes import TRUNCATE, ReceivedChanges, received_changes
from binlog_connector.schema.definitions import TableName
from binlog_format.errors import DataLossError, UnsupportedError
from binlog_format.position import Place
from binlog_format.rows.arrow_arrays import numbers_array
from binlog_streaming.job_state.checkpoint import BatchState, BatchStateFile
from binlog_streaming.settings.choices import Mode  # noqa: TC001 - msgspec looks it up
from binlog_streaming.settings.model import TableRule  # noqa: TC001 - msgspec looks them up

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from binlog_connector.kafka.topic_reader import PartitionMessages
    from binlog_streaming.settings import TopicTablesJob

    Int64s = NDArray[np.int64]
    Mask = NDArray[np.bool_]
    ChangePlace = tuple[int, ...]
    """file_no, page, chunk, event_no and row_no of a change, and number of its operation: as places sort."""


class PartitionState(msgspec.Struct, frozen=True, kw_only=True):
    """Progress in a partition.

    Attributes:
        partition: Its number there.
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
        columns: All that it had in messages.
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
        starts = {
            FetchedPartition(partition.topic, partition.partition): partition.offset for partition in self.partitions
        }
        ends = {FetchedPartition(topic, number): end for topic, number, end in self.ends}
        return {partition: (starts[partition], end) for partition, end in ends.items()}


class TopicTablesStateFile(BatchStateFile[TopicTablesState]):
    """See `BatchStateFile`."""

    FILE = "topics.json"
    KIND = "reads topics"
    MIDDLE = "their topics"

    def __init__(self, job: TopicTablesJob) -> None:
        super().__init__(job, TopicTablesState)


@dataclass(frozen=True, slots=True)
class Truncate:
    """A TRUNCATE in one partition; there is one in each partition of its topic.

    Attributes:
        seconds: When it began, seconds since 1970 UTC.
        gtid: Of its transaction.
    """

    table: TableName
    place: ChangePlace
    seconds: int
    gtid: str | None
    offset: int


@dataclass(frozen=True, slots=True)
class TopicBatch:
    """Messages, read.

    Attributes:
        changes: Of rows; none of them twice.
        truncates: Of each partition that has some, in their order.
        partitions: Where reading goes on after these messages, and what was seen, by partition.
        messages: That these were read from.
    """

    changes: tuple[ReceivedChanges, ...]
    truncates: Mapping[FetchedPartition, tuple[Truncate, ...]]
    partitions: Mapping[FetchedPartition, PartitionState]
    messages: tuple[PartitionMessages, ...]

    @property
    def count(self) -> int:
        """Changes of rows."""
        return sum(len(change.rows) for change in self.changes)


def read_batch(messages: Sequence[PartitionMessages], before: Mapping[FetchedPartition, PartitionState]) -> TopicBatch:
    """Read *messages*; changes that come again, as at-least-once producers send them, are skipped.

    Args:
        messages: Of each partition at most one run, which begins where the partition was read up to.
        before: What was seen of the partitions: all of each topic.

    Raises:
        DataLossError: `LOG_RESET`: changes of another log follow.
    """
    starts = np.cumsum([0, *map(len, messages)])
    try:
        keys, values = (
            pa.concat_arrays([getattr(message, name) for message in messages] or [pa.array([], pa.large_binary())])
            for name in ("keys", "values")
        )
        found = list(received_changes(keys, values))
    except MessageError as error:
        owner = int(np.searchsorted(starts, error.row, side="right")) - 1
        place = Place(f"{messages[owner].partition}, offset {messages[owner].offsets[error.row - starts[owner]]}")
        raise UnsupportedError("MESSAGE", error.reason, at=place, hint=_HINT) from error
    rows = np.concatenate([np.zeros(0, np.int64), *(changes.rows for changes in found)])
    places = np.concatenate(
        [np.zeros((0, 6), np.int64), *(np.column_stack([changes.places, changes.ops]) for changes in found)]
    )
    seconds = np.concatenate([np.zeros(0, np.int64), *(changes.seconds for changes in found)])
    order = np.argsort(rows, kind="stable")
    edges = np.searchsorted(rows[order], starts)
    low_of = {run.partition: int(start) for run, start in zip(messages, starts[:-1], strict=True)}
    counts = Counter(partition.topic for partition in before)
    is_new = np.zeros(len(rows), dtype=np.bool_)
    after = {}
    for run, low, high in zip(messages, edges[:-1], edges[1:], strict=True):
        chosen = order[low:high]
        state = before[run.partition]
        is_new[chosen] = _new(run.partition, places[chosen], seconds[chosen], state)
        _check_partition(run, rows[chosen[places[chosen, -1] != TRUNCATE]] - low_of[run.partition], counts)
        after[run.partition] = _after(state, run, places[chosen[is_new[chosen]]], seconds[chosen])
    return _batch(found, is_new, messages, starts, after)


_HINT = (
    "Topics are read that binlog-stream publish has written with schemas_enable = true and the debezium envelope: name "
    "those alone in source.topics"
)


def _new(partition: FetchedPartition, places: Int64s, seconds: Int64s, before: PartitionState) -> Mask:
    # A change is new when it comes after all that came before it.
    if len(places) == 0:
        return np.zeros(0, dtype=np.bool_)
    first = np.full((1, 6), -1) if before.place is None else np.array([before.place])
    ranks = _ranks(np.concatenate([first, places]))
    highest = np.maximum.accumulate(ranks)
    is_new: Mask = ranks[1:] > highest[:-1]
    # What comes again has been there; what has not, and yet is of an earlier place, is of another log.
    latest = np.maximum.accumulate(np.append(before.seconds, seconds))[:-1]
    strange = ~is_new & (seconds > latest)
    if strange.any():
        raise DataLossError(
            "LOG_RESET",
            "changes follow that were made later, at earlier places of a log: it was begun anew, or is another one",
            at=Place(str(partition)),
            hint="Publish each log under a topic_prefix of its own, and begin these tables anew from its topics",
        )
    return is_new


def _check_partition(messages: PartitionMessages, rows: Int64s, counts: Mapping[str, int]) -> None:
    # Changes of one row are in order where they are in one partition.
    expected = key_partitions(messages.keys.take(numbers_array(rows)), counts[messages.partition.topic])
    wrong = np.flatnonzero(expected != messages.partition.number)
    if len(wrong):
        raise UnsupportedError(
            "MESSAGE",
            f"a message with this key belongs to partition {expected[wrong[0]]} of {counts[messages.partition.topic]}: "
            "changes of a row may be in two partitions, in no order",
            at=Place(f"{messages.partition}, offset {messages.offsets[rows[wrong[0]]]}"),
            hint="The topic got more partitions when there were messages in it, or its producer chooses partitions in "
            "a way of its own. Publish anew, into topics that have all partitions from the start",
        )


def _ranks(places: Int64s) -> Int64s:
    # Numbers that sort as places do; equal ones have the same.
    order = np.lexsort(places.T[::-1])
    ordered = places[order]
    differs = np.zeros(len(order), dtype=np.int64)
    differs[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    ranks = np.empty(len(order), dtype=np.int64)
    ranks[order] = np.cumsum(differs)
    return ranks


def _after(state: PartitionState, messages: PartitionMessages, places: Int64s, seconds: Int64s) -> PartitionState:
    return PartitionState(
        topic=state.topic,
        partition=state.partition,
        offset=int(messages.offsets[-1]) + 1,
        place=state.place if len(places) == 0 else tuple(places[-1].tolist()),
        seconds=max(state.seconds, int(seconds.max(initial=0))),
    )


def _batch(
    found: Sequence[ReceivedChanges],
    is_new: Mask,
    messages: Sequence[PartitionMessages],
    starts: Int64s,
    after: Mapping[FetchedPartition, PartitionState],
) -> TopicBatch:
    changes, truncates = [], defaultdict(list)
    first = 0
    for received in found:
        kept = is_new[first : first + len(received.rows)]
        first += len(received.rows)
        truncated = kept & (received.ops == TRUNCATE)
        for row in np.flatnonzero(truncated).tolist():
            owner = int(np.searchsorted(starts, received.rows[row], side="right")) - 1
            truncates[messages[owner].partition].append(
                Truncate(
                    TableName(received.layout.database, received.layout.table),
                    (*received.places[row].tolist(), TRUNCATE),
                    int(received.seconds[row]),
                    received.gtids[row].as_py(),
                    int(messages[owner].offsets[received.rows[row] - starts[owner]]),
                )
            )
        rows = np.flatnonzero(kept & ~truncated)
        if len(rows):
            changes.append(received if len(rows) == len(received.rows) else received.taken(rows))
    ordered = {
        partition: tuple(sorted(some, key=lambda truncate: truncate.offset)) for partition, some in truncates.items()
    }
    return TopicBatch(tuple(changes), ordered, after, tuple(messages))
