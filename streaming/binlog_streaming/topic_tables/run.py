"""The loop of a job that keeps tables in step with topics: `TopicTablesRun`."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import msgspec

from binlog_connector.kafka.failures import broker_error
from binlog_connector.kafka.reading.fetcher import FetchedPartition, messages_gone
from binlog_connector.kafka.reading.topic_reader import TopicReader
from binlog_format.errors import BrokerError
from binlog_format.position import Place
from binlog_format.views.table_filter import TableFilter
from binlog_streaming.job_state.progress import BatchProgress, Progress
from binlog_streaming.settings import Begin
from binlog_streaming.topic_tables.batch import read_batch
from binlog_streaming.topic_tables.state import PartitionState, TopicTablesStateFile
from binlog_streaming.topic_tables.writing import write_batch
from binlog_streaming.topics.connecting import connection_of

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from binlog_streaming.job_state.progress import BatchListener
    from binlog_streaming.settings import TopicTablesJob
    from binlog_streaming.topic_tables.batch import TopicBatch, Truncate

BATCH_MESSAGES_MAX = 250_000
BATCH_SIZE_MAX = 128 << 20
"""Bytes of values in a batch, unless a fetch brings more."""

LOOK_SECONDS = 1.0
"""Seconds that a look for messages waits for one."""

NEW_TOPICS_SECONDS = 10.0
"""Seconds between looks for new topics and partitions."""

TRUNCATE_SECONDS = 60.0
"""Seconds that a TRUNCATE waits for its messages in the other partitions."""


class TopicTablesRun:
    """One run of a job; `stop` may be called from other threads, and by signals.

    Args:
        job: The settings.
        once: End at what is in the topics when this starts.
        listener: Told of each batch.
        batch_messages_max: Messages in a batch, about.
        truncate_seconds: As `TRUNCATE_SECONDS`.
        client: As `TopicReader` takes it.

    Attributes:
        progress: What has been written.
        query_id: What the tables know the job by.

    Raises:
        BinlogError: The checkpoint, or the settings, cannot be used.
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
        self._job = job
        self._once = once
        self._listener = listener
        self._batch_messages_max = batch_messages_max
        self._truncate_seconds = truncate_seconds
        self._client = client
        self._wanted = TableFilter(job.source.topics)
        self._file = TopicTablesStateFile(job)
        self._stopped = threading.Event()
        self._read_to: dict[FetchedPartition, PartitionState] = {}
        self._held: dict[FetchedPartition, Truncate] = {}
        self._held_since = 0.0
        self.progress = Progress()
        self.query_id = self._file.state.query_id

    @property
    def offset(self) -> None:
        """None: it reads no log."""

    def stop(self) -> None:
        """End after the batch under way."""
        self._stopped.set()

    def run(self, on_start: Callable[[], None] = lambda: None) -> None:
        """Write messages into the tables until `stop` is called, or the end is reached.

        Args:
            on_start: Called once everything is ready.

        Raises:
            BinlogError: What ended it; the tables and the checkpoint stay as good as before.
        """
        with TopicReader(connection_of(self._job.source), self._client) as reader:
            if self._file.is_new:
                self._file.begin(self._file.state)  # tables are made in its name
            self._prepare(reader)
            on_start()
            self._repeat(reader)
            self._follow(reader)

    def waiting(self) -> dict[FetchedPartition, tuple[int, int]]:
        """Offset at which reading would continue in each partition, and its end; nothing is written.

        Raises:
            BinlogError: As `run`, before the first message.
        """
        with TopicReader(connection_of(self._job.source), self._client) as reader:
            self._prepare(reader)
            ends = {one: end for one, (_, end) in reader.ranges(self._read_to).items()}
        return {one: (state.offset, ends[one]) for one, state in self._read_to.items()}

    def _prepare(self, reader: TopicReader) -> None:
        states = self._file.state.partitions
        self._read_to = {FetchedPartition(one.topic, one.partition): one for one in states}
        self._look_for_topics(reader)

    def _repeat(self, reader: TopicReader) -> None:
        """Do the batch again that was under way when the last process ended."""
        state = self._file.state
        if not state.ends:
            return
        started = time.monotonic()
        batch = read_batch(reader.read_ranges(state.ranges), self._read_to)
        self._write(batch, {one: end for one, (_, end) in state.ranges.items()}, started)

    def _follow(self, reader: TopicReader) -> None:
        ends = {one: end for one, (_, end) in reader.ranges(self._read_to).items()}
        self._go_on(reader)
        looked = time.monotonic()
        while not self._stopped.is_set():
            if not self._once and time.monotonic() - looked >= NEW_TOPICS_SECONDS:
                looked = time.monotonic()
                if self._look_for_topics(reader):
                    self._go_on(reader)
            took = self._take_truncate(reader) or self._take_rows(reader)
            if took:
                continue
            self._check_held()
            if self._once and not self._held and all(reader.position(one) >= end for one, end in ends.items()):
                return

    def _take_rows(self, reader: TopicReader) -> bool:
        messages = reader.read(self._batch_messages_max, BATCH_SIZE_MAX, LOOK_SECONDS)
        if not messages:
            return False
        started = time.monotonic()
        batch = read_batch(messages, self._read_to)
        ends = {one: state.offset for one, state in batch.partitions.items()}
        if batch.truncates:
            # Rows before it in other partitions have to come first.
            firsts = {one: some[0] for one, some in batch.truncates.items()}
            self._held |= firsts
            self._held_since = time.monotonic()
            ends |= {one: first.offset for one, first in firsts.items()}
            before = [one.before(ends[one.partition]) for one in messages]
            batch = read_batch([one for one in before if len(one)], self._read_to)
        self._write(batch, ends, started)
        if self._held:
            self._go_on(reader)
        return True

    def _take_truncate(self, reader: TopicReader) -> bool:
        for topic in {one.topic for one in self._held}:
            partitions = [one for one in self._read_to if one.topic == topic]
            held = {(self._held[one].table, self._held[one].place) for one in partitions if one in self._held}
            if len(held) == 1 and all(one in self._held for one in partitions):
                ranges = {one: (self._held[one].offset, self._held[one].offset + 1) for one in partitions}
                started = time.monotonic()
                batch = read_batch(reader.read_ranges(ranges), self._read_to)
                self._write(batch, {one: end for one, (_, end) in ranges.items()}, started)
                for one in partitions:
                    del self._held[one]
                self._go_on(reader)
                return True
        return False

    def _write(self, batch: TopicBatch, ends: Mapping[FetchedPartition, int], started: float) -> None:
        """Write a batch into the tables, between the two times that it is recorded."""
        after, read_seconds = dict(self._read_to), time.monotonic() - started
        for one, end in ends.items():
            after[one] = msgspec.structs.replace(batch.partitions.get(one, after[one]), offset=end)
        if batch.count or batch.truncates:
            state = self._file.state
            is_repeated = bool(state.ends)
            begun = msgspec.structs.replace(
                state,
                batch_id=state.batch_id + (not is_repeated),
                ends=tuple((one.topic, one.number, end) for one, end in sorted(ends.items())),
                partitions=tuple(self._read_to[one] for one in sorted(self._read_to)),
            )
            self._file.begin(begun)
            written = write_batch(self._job, begun, batch)
            partitions = tuple(after[one] for one in sorted(after))
            self._file.finish(msgspec.structs.replace(begun, ends=(), partitions=partitions, tables=written.tables))
            self._tell(
                BatchProgress(
                    batch_id=begun.batch_id,
                    tables=written.progress,
                    seconds=time.monotonic() - started,
                    finished_at=time.time(),
                    bytes_behind=None,
                    read_seconds=read_seconds,
                )
            )
        self._read_to = after

    def _tell(self, batch: BatchProgress) -> None:
        self.progress.add(batch)
        if self._listener is not None:
            self._listener(batch)

    def _go_on(self, reader: TopicReader) -> None:
        reader.go_on_at({one: state.offset for one, state in self._read_to.items() if one not in self._held})

    def _look_for_topics(self, reader: TopicReader) -> bool:
        """See that what is to be read next is there; whether there are new partitions.

        Raises:
            BrokerError: `TOPIC_NOT_FOUND`.
            DataLossError: `MESSAGES_GONE`.
        """
        topics = {topic for topic in reader.topics() if self._wanted.accepts_text(topic)}
        partitions = reader.partitions(topics)
        gone = sorted(set(self._read_to) - set(partitions))
        if gone or not partitions:
            at = str(gone[0]) if gone else f"topics {self._job.source.topics}"
            raise broker_error("TOPIC_NOT_FOUND", "there is no such topic", at=at)
        is_grown = False
        for one, (start, end) in reader.ranges(partitions).items():
            known = self._read_to.get(one)
            if known is None:
                self._check_start(one, start)
                self._read_to[one] = PartitionState(topic=one.topic, partition=one.number, offset=start)
                is_grown = True
            elif not start <= known.offset <= end:
                raise messages_gone(
                    str(one), f"it holds offsets {start} to {end}, and reading goes on at {known.offset}"
                )
        return is_grown

    def _check_start(self, partition: FetchedPartition, start: int) -> None:
        if start and any(rule.begin is not Begin.EMPTY for rule in self._job.tables):
            raise messages_gone(
                str(partition),
                f'it begins at offset {start}; begin = "empty" (in [[tables]]) makes tables of what is left',
            )

    def _check_held(self) -> None:
        if self._held and time.monotonic() - self._held_since > self._truncate_seconds:
            one, truncate = min(self._held.items())
            raise BrokerError(
                "FAILED",
                f"a TRUNCATE of {truncate.table} has not come in all partitions of its topic",
                at=Place(f"{one}, offset {truncate.offset}"),
                hint="binlog-stream publish sends it to each; partitions that were added later lack it. Begin anew "
                "with another checkpoint and other tables, from topics that hold everything",
            )
