"""Contents of a batch's messages: `read_batch`.

State of a job that reads topics, in its checkpoint: `TopicTablesState`; `TopicTablesStateFile` keeps it.
"""

from __future__ import annotations

import logging
from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.kafka.fetching import FetchedPartition
from binlog_connector.kafka.record_batches import key_partitions
from binlog_connector.kafka_decode.connect_columns import MessageError
from binlog_connector.kafka_decode.row_changes import TRUNCATE, ReceivedChanges, received_changes
from binlog_connector.schema.definitions import TableName
from binlog_format.errors import DataLossError, UnsupportedError
from binlog_format.position import Place
from binlog_format.rows.arrow_arrays import numbers_array
from binlog_streaming.job_state.checkpoint import STATE_FILES, BatchState, BatchStateFile
from binlog_streaming.settings import TopicTablesJob
from binlog_streaming.settings.choices import Mode  # noqa: TC001 - msgspec looks it up
from binlog_streaming.settings.model import TableRule  # noqa: TC001 - msgspec looks them up

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from binlog_connector.kafka.topic_reader import PartitionMessages
    from binlog_format.kernels import Int64s, Mask, Uint64s

    ChangePlace = tuple[int, ...]
    """file_no, page, chunk, event_no and row_no of a change, and number of its operation: as places sort."""


logger = logging.getLogger(__name__)


class PartitionState(msgspec.Struct, frozen=True, kw_only=True):
    """Progress in a partition.

    Attributes:
        place: Of the last change: file_no, page, chunk, event_no, row_no and number of its operation; None: there was
            none.
        seconds: The latest time of a change, seconds since 1970 UTC.
        gtids: The last number of each source of GTIDs, of all changes; None: earlier versions kept none.
    """

    topic: str
    partition: int
    offset: int
    place: tuple[int, ...] | None = None
    seconds: int = 0
    gtids: dict[str, int] | None = None


class TableState(msgspec.Struct, frozen=True, kw_only=True):
    """A table that has been written.

    Attributes:
        columns: All that it had in messages.
        key_form: Of its last change, as `ReceivedChanges` has it; None: earlier versions kept none.
        place: The last one of a change; empty: earlier versions kept none.
        keys: Columns of the key of its last change; None: earlier versions kept none.
        digits: As `fraction_digits` gives them of its last change; earlier versions kept none.
    """

    database: str
    table: str
    columns: tuple[str, ...]
    modes: tuple[Mode, ...]
    key_form: str | None = None
    place: tuple[int, ...] = ()
    keys: tuple[str, ...] | None = None
    digits: dict[str, int] = msgspec.field(default_factory=dict)


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

    FILE = STATE_FILES[TopicTablesJob]
    KIND = "reads topics"
    MIDDLE = "their topics"

    def __init__(self, job: TopicTablesJob) -> None:
        super().__init__(job, TopicTablesState)

    def _lasting(self, rules: tuple[TableRule, ...]) -> tuple[TableRule, ...]:
        # What is compared changes nothing that is written.
        same: dict[str, Any] = {"evidence": None, "evidence_after": None, "evidence_sample": None}
        return tuple(msgspec.structs.replace(rule, **same) for rule in rules)


@dataclass(frozen=True, slots=True)
class Truncate:
    """A TRUNCATE in one partition; there is one in each partition of its topic.

    Attributes:
        seconds: When it began, seconds since 1970 UTC.
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
    gtids = _Gtids.of([changes.gtids for changes in found])
    order = np.argsort(rows, kind="stable")
    edges = np.searchsorted(rows[order], starts)
    low_of = {run.partition: int(start) for run, start in zip(messages, starts[:-1], strict=True)}
    counts = Counter(partition.topic for partition in before)
    is_new = np.zeros(len(rows), dtype=np.bool_)
    after = {}
    for run, low, high in zip(messages, edges[:-1], edges[1:], strict=True):
        chosen = order[low:high]
        state = before[run.partition]
        named = gtids.taken(chosen)
        is_new[chosen] = _new(run.partition, places[chosen], seconds[chosen], named, state)
        _check_partition(run, rows[chosen[places[chosen, -1] != TRUNCATE]] - low_of[run.partition], counts)
        after[run.partition] = _after(state, run, places[chosen[is_new[chosen]]], seconds[chosen], named)
    return _batch(found, is_new, messages, starts, after)


_HINT = (
    "Topics are read that binlog-stream publish has written with schemas_enable = true and the debezium envelope: name "
    "those alone in source.topics"
)


_GTID = r"^(?P<source>.*)[-:](?P<number>\d+)$"


@dataclass(frozen=True, slots=True)
class _Gtids:
    # Of changes: the source of each GTID, a domain and server or an UUID with its tag, and the number there.
    names: list[str]
    sources: Int64s  # of each change its row in names; below 0: it has no GTID
    numbers: Uint64s

    @classmethod
    def of(cls, texts: Sequence[pa.Array]) -> _Gtids:
        gtids = pa.concat_arrays([pa.array([], pa.string()), *texts]).dictionary_encode()
        parts = pc.extract_regex(gtids.dictionary, _GTID)
        names = parts.field("source").dictionary_encode()
        numbers = np.append(parts.field("number").cast(pa.uint64()).fill_null(0).to_numpy(), np.uint64(0))
        sources = np.append(names.indices.fill_null(-1).to_numpy(), -1)
        rows = gtids.indices.fill_null(-1).to_numpy()
        return cls(names.dictionary.to_pylist(), sources[rows].astype(np.int64), numbers[rows])

    def taken(self, rows: Int64s) -> _Gtids:
        return _Gtids(self.names, self.sources[rows], self.numbers[rows])

    def last(self, before: Mapping[str, int]) -> dict[str, int]:
        # The last number of each source.
        found = {self.names[source]: int(self.numbers[self.sources == source].max()) for source in self._present}
        return {**before, **{name: max(number, before.get(name, 0)) for name, number in found.items()}}

    def unseen(self, before: Mapping[str, int]) -> Mask:
        # Which changes have a GTID after all those of its source that came before.
        unseen = np.zeros(len(self.sources), dtype=np.bool_)
        for source in self._present:
            rows = np.flatnonzero(self.sources == source)
            first = np.uint64(before.get(self.names[source], 0))
            numbers = np.concatenate([[first], self.numbers[rows]])
            unseen[rows] = numbers[1:] > np.maximum.accumulate(numbers)[:-1]
        return unseen

    @property
    def _present(self) -> list[int]:
        return [source for source in np.unique(self.sources).tolist() if source >= 0]


def _new(partition: FetchedPartition, places: Int64s, seconds: Int64s, gtids: _Gtids, before: PartitionState) -> Mask:
    # A change is new when it comes after all that came before it.
    if len(places) == 0:
        return np.zeros(0, dtype=np.bool_)
    first = np.full((1, 6), -1) if before.place is None else np.array([before.place])
    ranks = _ranks(np.concatenate([first, places]))
    highest = np.maximum.accumulate(ranks)
    is_new: Mask = ranks[1:] > highest[:-1]
    if is_new.all():
        return is_new
    # What comes again has been there; what has not, and yet is of an earlier place, is of another log.
    latest = np.maximum.accumulate(np.append(before.seconds, seconds))[:-1]
    was_there = seconds <= latest
    is_told = gtids.sources >= 0
    if before.gtids is None:
        is_told[:] = False
    else:
        was_there &= ~gtids.unseen(before.gtids)
    if not (is_new | was_there).all():
        raise DataLossError(
            "LOG_RESET",
            "changes follow that were made later, or have later GTIDs, at earlier places of a log: it was begun anew, "
            "or is another one",
            at=Place(str(partition)),
            hint="Publish each log under a topic_prefix of its own, and begin these tables anew from its topics",
        )
    untold = int(np.count_nonzero(~is_new & ~is_told))
    if untold:
        logger.warning(
            "%s: %d changes at places that were read already are taken for repeated ones, and no GTIDs show that they "
            "are: if another log is published there, begin these tables anew",
            partition,
            untold,
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


def _after(
    state: PartitionState, messages: PartitionMessages, places: Int64s, seconds: Int64s, gtids: _Gtids
) -> PartitionState:
    return PartitionState(
        topic=state.topic,
        partition=state.partition,
        offset=int(messages.offsets[-1]) + 1,
        place=state.place if len(places) == 0 else tuple(places[-1].tolist()),
        seconds=max(state.seconds, int(seconds.max(initial=0))),
        gtids=None if state.gtids is None else gtids.last(state.gtids),
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
