"""The loop of a job that keeps tables in step with topics: `TopicTablesRun`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import msgspec

from binlog_connector.kafka.connection import broker_error
from binlog_connector.kafka.fetching import FetchedPartition, messages_gone
from binlog_connector.kafka.topic_reader import TopicReader
from binlog_format.views.filters import TableFilter
from binlog_streaming.job_state.checkpoint import place_errors
from binlog_streaming.job_state.job_run import LOOK_SECONDS, JobRun
from binlog_streaming.job_state.progress import BatchProgress, Progress
from binlog_streaming.settings import Begin
from binlog_streaming.settings.choices import Evidence
from binlog_streaming.tables.evidence_watch import watched_after
from binlog_streaming.topic_tables.barriers import TRUNCATE_SECONDS, Barriers
from binlog_streaming.topic_tables.batch import PartitionState, TopicTablesStateFile, read_batch
from binlog_streaming.topic_tables.writing import check_batch, write_batch
from binlog_streaming.topics.connecting import connection_of
from binlog_streaming.topics.oversized import ClaimedValues

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import ExitStack

    from binlog_streaming.job_state.progress import BatchListener
    from binlog_streaming.settings import TopicTablesJob
    from binlog_streaming.tables.evidence_watch import Watched
    from binlog_streaming.topic_tables.batch import TopicBatch

BATCH_MESSAGES_MAX = 250_000
BATCH_SIZE_MAX = 128 << 20
"""Bytes of values in a batch, those in files too, unless a fetch brings more."""

NEW_TOPICS_SECONDS = 10.0
"""Seconds between looks for new topics and partitions."""


@dataclass(frozen=True, slots=True)
class ReadMessages:
    """A batch, before it is in the tables.

    Attributes:
        ends: Offsets after the messages, by partition.
        started: When reading them began, by the monotonic clock.
        truncated: Partitions whose TRUNCATE this is.
        is_cut: Reading goes on elsewhere than after the messages that were fetched.
        fetched: What of these is read later, too; None: nothing is.
    """

    batch: TopicBatch
    ends: Mapping[FetchedPartition, int]
    started: float
    truncated: tuple[FetchedPartition, ...] = ()
    is_cut: bool = False
    fetched: TopicBatch | None = None


class TopicTablesRun(JobRun[ReadMessages, BatchProgress, Progress]):
    """One run of a job.

    Args:
        once: End at what is in the topics when this starts.
        batch_messages_max: Messages in a batch, about.
        truncate_seconds: As `barriers.TRUNCATE_SECONDS`.
        client: As `TopicReader` takes it.
    """

    def __init__(
        self,
        job: TopicTablesJob,
        *,
        once: bool = False,
        listener: BatchListener | None = None,
        batch_messages_max: int = BATCH_MESSAGES_MAX,
        truncate_seconds: float = TRUNCATE_SECONDS,
        client: str | None = None,
    ) -> None:
        super().__init__(job, Progress(), once=once, listener=listener)
        self._job = job
        self._batch_messages_max = batch_messages_max
        self._truncate_seconds = truncate_seconds
        self._client = client
        self._wanted = TableFilter(job.source.topics)
        self._file = TopicTablesStateFile(job)
        self._opened: TopicReader | None = None
        self._read_to: dict[FetchedPartition, PartitionState] = {}
        self._barriers: Barriers | None = None
        self._looked = 0.0
        self._evidence = Evidence.OFF
        self._watched: dict[str, Watched] = {}
        self._ends: dict[FetchedPartition, int] | None = None

    @property
    def query_id(self) -> str:
        """Id under which the tables know the job."""
        return self._file.state.query_id

    @property
    def offset(self) -> None:
        """None: it reads no log."""

    def waiting(self) -> dict[FetchedPartition, tuple[int, int]]:
        """Offset at which reading would continue in each partition, and its end; nothing is written.

        Raises:
            BinlogError: As `run`, which looks at its places before that (`place_errors`), before it writes.
        """
        source = self._job.source
        claims = ClaimedValues.of(source)
        claims.reach()
        with TopicReader(connection_of(source), claims.file_of, self._client) as reader:
            self._prepare(reader)
            ends = {partition: end for partition, (_, end) in reader.ranges(self._read_to).items()}
            self._opened = reader
            first = self._next()
            if first is not None and not place_errors(self._job):
                check_batch(self._job, self._file.state, first.fetched or first.batch)
        return {partition: (state.offset, ends[partition]) for partition, state in self._read_to.items()}

    def _prepare(self, reader: TopicReader) -> None:
        states = self._file.state.partitions
        self._read_to = {FetchedPartition(state.topic, state.partition): state for state in states}
        self._look_for_topics(reader)
        self._choose_evidence(reader)
        self._barriers = Barriers(reader, self._truncate_seconds)
        self._barriers.follow(self._file.state.tables)

    @property
    def _stops(self) -> Barriers:
        assert self._barriers is not None, "it has begun"
        return self._barriers

    @property
    def _reader(self) -> TopicReader:
        assert self._opened is not None, "it has begun"
        return self._opened

    def _begin(self, resources: ExitStack) -> None:
        source = self._job.source
        reader = TopicReader(connection_of(source), ClaimedValues.of(source).file_of, self._client)
        self._opened = resources.enter_context(reader)
        self._file = TopicTablesStateFile(self._job)  # as whoever had the lock before left it
        if self._file.is_new:
            self._file.begin(self._file.state)  # tables are made in its name
        self._prepare(self._opened)

    def _next(self) -> ReadMessages | None:
        state = self._file.state
        if state.ends:
            started = time.monotonic()
            batch = read_batch(self._reader.read_ranges(state.ranges), self._read_to)
            return ReadMessages(batch, {partition: end for partition, (_, end) in state.ranges.items()}, started)
        if self._ends is None:
            self._ends = {partition: end for partition, (_, end) in self._reader.ranges(self._read_to).items()}
            self._go_on()
            self._looked = time.monotonic()
        elif not self.once and time.monotonic() - self._looked >= NEW_TOPICS_SECONDS:
            self._looked = time.monotonic()
            if self._look_for_topics(self._reader):
                self._choose_evidence(self._reader)
                self._go_on()
        if self._stops.release(self._read_to):
            self._go_on()
        return self._whole_truncate() or self._rows()

    def _is_ended(self) -> bool:
        ends = self._ends or {}
        return (
            self.once
            and not self._stops.held
            and all(self._reader.position(partition) >= end for partition, end in ends.items())
        )

    def _rows(self) -> ReadMessages | None:
        messages = self._reader.read(self._batch_messages_max, BATCH_SIZE_MAX, LOOK_SECONDS)
        if not messages:
            return None
        started = time.monotonic()
        batch = read_batch(messages, self._read_to)
        ends = {partition: state.offset for partition, state in batch.partitions.items()}
        self._stops.hold(batch, self._read_to)
        stops = {partition: self._stops.held[partition].offset for partition in ends if partition in self._stops.held}
        if not stops:
            return ReadMessages(batch, ends, started, is_cut=bool(self._stops.held))
        ends |= stops
        before = [message.before(ends[message.partition]) for message in messages]
        now = read_batch([run for run in before if len(run)], self._read_to)
        return ReadMessages(now, ends, started, is_cut=True, fetched=batch)

    def _whole_truncate(self) -> ReadMessages | None:
        found = self._stops.whole_truncate(self._read_to)
        if not found:
            return None
        ranges = {partition: (stop.offset, stop.offset + 1) for partition, stop in found.items()}
        started = time.monotonic()
        batch = read_batch(self._reader.read_ranges(ranges), self._read_to)
        ends = {partition: end for partition, (_, end) in ranges.items()}
        return ReadMessages(batch, ends, started, truncated=tuple(found), is_cut=True)

    def _apply(self, batch: ReadMessages) -> BatchProgress | None:
        after, read_seconds = dict(self._read_to), time.monotonic() - batch.started
        for partition, end in batch.ends.items():
            after[partition] = msgspec.structs.replace(
                batch.batch.partitions.get(partition, after[partition]), offset=end
            )
        report = None
        if batch.batch.count or batch.batch.truncates or self._file.state.ends:
            report = self._written(batch, after, read_seconds)
        self._read_to = after
        for partition in batch.truncated:
            del self._stops.held[partition]
        if batch.is_cut:
            self._go_on()
        return report

    def _written(
        self, batch: ReadMessages, after: Mapping[FetchedPartition, PartitionState], read_seconds: float
    ) -> BatchProgress:
        """Write a batch into the tables, between the two times that it is recorded."""
        state = self._file.state
        is_repeated = bool(state.ends)
        begun = msgspec.structs.replace(
            state,
            batch_id=state.batch_id + (not is_repeated),
            ends=tuple((partition.topic, partition.number, end) for partition, end in sorted(batch.ends.items())),
            partitions=tuple(self._read_to[partition] for partition in sorted(self._read_to)),
        )
        self._file.begin(begun)
        written = write_batch(self._job, begun, batch.batch, self._evidence, self._watched)
        self._watched = watched_after(self._watched, written.progress)
        partitions = tuple(after[partition] for partition in sorted(after))
        self._file.finish(msgspec.structs.replace(begun, ends=(), partitions=partitions, tables=written.tables))
        self._stops.follow(written.tables)
        return BatchProgress(
            batch_id=begun.batch_id,
            tables=written.progress,
            seconds=time.monotonic() - batch.started,
            finished_at=time.time(),
            bytes_behind=None,
            read_seconds=read_seconds,
        )

    def _go_on(self) -> None:
        self._reader.go_on_at(
            {partition: state.offset for partition, state in self._read_to.items() if partition not in self._stops.held}
        )

    def _look_for_topics(self, reader: TopicReader) -> bool:
        """See that what is to be read next is there; whether there are new partitions."""
        topics = {topic for topic in reader.topics() if self._wanted.accepts_text(topic)}
        partitions = reader.partitions(topics)
        gone = sorted(set(self._read_to) - set(partitions))
        if gone or not partitions:
            at = str(gone[0]) if gone else f"topics {self._job.source.topics}"
            raise broker_error("TOPIC_NOT_FOUND", "there is no such topic", at=at)
        is_grown = False
        for partition, (start, end) in reader.ranges(partitions).items():
            known = self._read_to.get(partition)
            if known is None:
                self._check_start(partition, start)
                self._read_to[partition] = PartitionState(
                    topic=partition.topic, partition=partition.number, offset=start, gtids={}
                )
                is_grown = True
            elif not start <= known.offset <= end:
                raise messages_gone(
                    str(partition), f"it holds offsets {start} to {end}, and reading goes on at {known.offset}"
                )
        return is_grown

    def _choose_evidence(self, reader: TopicReader) -> None:
        # Where a compaction has removed messages, those that are left do not follow each other.
        is_sparse = reader.may_be_compacted({partition.topic for partition in self._read_to})
        self._evidence = Evidence.OFF if is_sparse else Evidence.KEYS

    def _check_start(self, partition: FetchedPartition, start: int) -> None:
        if start and any(rule.begin is not Begin.EMPTY for rule in self._job.tables):
            raise messages_gone(
                str(partition),
                f'it begins at offset {start}; begin = "empty" (in [[tables]]) makes tables of what is left',
            )

    def _idle(self) -> None:
        self._stops.check_patience()
