"""The loop of a job that publishes a log to Kafka: `TopicsJob`.

A step of the tailer becomes one transaction of Kafka: the messages of its event groups, and the offset after them. The
offset is read from Kafka when the job starts, so whatever ends it, it goes on after the last transaction that consumers
see.
"""

from __future__ import annotations

import time
from contextlib import closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING, ClassVar

from binlog_connector.following.starts import StartMoment
from binlog_connector.following.steps import Step
from binlog_connector.following.tailer import STEP_SIZE_MAX, FollowOptions, Tailer
from binlog_connector.following.watched import WatchedLog
from binlog_connector.kafka.publisher import Publisher
from binlog_connector.kafka.topics import Topics
from binlog_connector.options.source_options import SourceOptions
from binlog_format import open_log
from binlog_format.block import BLOCK_SIZE
from binlog_streaming.job_state.job_run import LOOK_SECONDS, JobRun
from binlog_streaming.prefetch import prefetch
from binlog_streaming.topics.connecting import (
    PublishedOffset,
    connection_of,
    names_of,
    publishing_of,
    registry_of,
)
from binlog_streaming.topics.oversized import OversizedValues
from binlog_streaming.topics.record import (
    Published,
    PublishProgress,
    Records,
    begun_with,
    check_log,
    check_same,
    complete_topics_switch,
    remember,
    require_changes,
    with_message_version,
)
from binlog_streaming.topics.step_messages import StepMessages
from binlog_streaming.topics.take_over import new_start

if TYPE_CHECKING:
    from collections.abc import Generator
    from contextlib import ExitStack

    from binlog_connector.following import tailer as following
    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.kafka.connection import Connection
    from binlog_connector.kafka.producer import Messages
    from binlog_format.position import Position
    from binlog_streaming.settings.publish_model import KafkaSink, PublishJob
    from binlog_streaming.topics.record import PublishListener, PublishRecord


START_PATIENCE = 300.0
"""Seconds for which a job that follows its log waits for brokers that are down when it starts."""
BATCHES_AHEAD = 2
"""Batches of messages, each of a block of the log, that are made while the producer sends one."""


class TopicsJob(JobRun[Step, Published, PublishProgress]):
    """One run of a job.

    Args:
        once: End at what is in the log when this starts.
        step_size_max: Bytes of the log in a transaction of Kafka, unless one of the log is larger.
    """

    is_fenced: ClassVar[bool] = True  # by Kafka: the last of two publishers goes on

    def __init__(
        self,
        job: PublishJob,
        *,
        once: bool = False,
        listener: PublishListener | None = None,
        step_size_max: int = STEP_SIZE_MAX,
    ) -> None:
        job = with_message_version(job)
        super().__init__(job, PublishProgress(), once=once, listener=listener)
        self._job = job
        self._step_size_max = step_size_max
        self._source = SourceOptions.parse({"path": job.source.path, **job.source.options()})
        self._names = names_of(job.sink)
        self._publisher: Publisher | None = None
        self._tailer: Tailer | None = None
        self._record: PublishRecord | None = None
        self._published: PublishedOffset | None = None
        self._heard = 0.0  # when the last message was sent, by the monotonic clock
        self.connection = connection_of(job.sink)
        self._registry = registry_of(job.sink)
        self._topics = JobTopics(self.connection, job.sink)
        self._oversized = OversizedValues.of(job.sink)
        self._messages = StepMessages(job, self._names, self._registry, self._topics.partition_count)

    @property
    def offset(self) -> SourceOffset | None:
        """See `JobRun`."""
        return None if self._tailer is None else self._tailer.offset

    def _interrupt(self) -> None:
        if self._publisher is not None:
            self._publisher.stop()
        if self._tailer is not None:
            self._tailer.stop()

    def _check(self, resources: ExitStack) -> None:
        del resources
        self._record = begun_with(self._job)
        if self._record is not None:
            check_same(self._record, self._job)
        with open_log(self._job.source.path, format_name=self._source.format) as log:
            require_changes(log)
        if self._registry is not None:
            self._registry.reach()  # that it cannot be used is reported now, and not at the first change

    def _begin(self, resources: ExitStack) -> None:
        publishing = publishing_of(
            self._job.sink,
            self._names,
            is_first_start=self._record is None,
            start_patience=0.0 if self.once else START_PATIENCE,
        )
        self._publisher = publisher = Publisher(self.connection, publishing)
        resources.enter_context(publisher)
        complete_topics_switch(self._job, publisher)
        self._record = begun_with(self._job)
        published = None if publisher.offset is None else PublishedOffset.parse(publisher.offset)
        saved = None if published is None else published.offset
        if self._record is not None and saved is not None:  # a job that has published nothing may begin in any log
            check_log(self._record, self._job, saved)
        self._tailer = tailer = resources.enter_context(self._open_log(saved))
        # Not before: offsets that were never written cannot be lost, and a start that cannot be may be set otherwise.
        remember(self._job)
        self._published = published or PublishedOffset(tailer.offset)
        if publisher.offset is None and not self.is_stopped:
            publisher.publish(lambda: (), self._published.text())  # `latest` is now, also after a kill
        self._notify_of_start(tailer.offset)
        self._heard = time.monotonic()

    def _next(self) -> Step | None:
        assert self._tailer is not None, "it has begun"
        return self._tailer.step(LOOK_SECONDS)

    def _is_ended(self) -> bool:
        return self._tailer is not None and self._tailer.is_ended

    def _idle(self) -> None:
        self._beat_if_due()

    def _open_log(self, saved: SourceOffset | None) -> Tailer:
        options = self._source
        start: following.Start
        if isinstance(options.start, StartMoment):
            start = datetime.fromtimestamp(options.start.seconds, UTC)
        else:
            start = options.start
        how = FollowOptions(
            format_name=options.format,
            step_size_max=self._step_size_max,
            fail_on_data_loss=options.fail_on_data_loss,
            ends=self.once,
        )
        path = self._job.source.path
        if saved is None and self._job.source.debezium_offset is not None:
            with WatchedLog(path, options.format) as watched:
                saved = new_start(self._job, watched)
        return Tailer(path, start, saved=saved, how=how)

    def _apply(self, batch: Step) -> Published:
        step, publisher = batch, self._begun_publisher
        started = time.monotonic()
        assert self._published is not None, "it has begun"
        before = self._published.followed_by(step.start)
        self._published = published = before._replace(offset=step.end)
        self._messages.files_before = published.files_before
        attempts: list[tuple[Records, Generator[Messages]]] = []

        def messages() -> Generator[Messages]:
            # What still makes those of a former attempt has to end first: both read the same step.
            if attempts:
                attempts[-1][1].close()
            records = Records()
            attempts.append((records, self._made(step, records, published.order)))
            return attempts[-1][1]

        try:
            publisher.publish(messages, published.text())
        finally:
            for _, made in attempts[-1:]:
                made.close()
        if sum(attempts[-1][0].counts.values()):
            self._heard = time.monotonic()
        self._beat_if_due()  # a log may be busy with tables that are not selected
        return Published(
            offset=step.end,
            groups=step.group_count,
            size=step.size,
            last_timestamp=step.last_timestamp,
            records=attempts[-1][0],
            seconds=time.monotonic() - started,
            attempts=len(attempts),
            read_seconds=max(attempts[-1][0].made_at - started, 0.0),
        )

    def _made(self, step: Step, records: Records, end: Position) -> Generator[Messages]:
        some_made = self._messages.of(step, records)
        if step.size > BLOCK_SIZE:  # of a step of one block nothing is left to be made when there is something to send
            some_made = prefetch(some_made, BATCHES_AHEAD)
        with closing(some_made) as made:
            for messages in made:
                self._topics.ensure(messages.topic)
                oversized = self._oversized
                some = messages if oversized is None else oversized.claimed(messages, end)
                records.counts[some.topic] += len(some)
                records.sizes[some.topic] += some.size
                yield some
        records.made_at = time.monotonic()

    def _notify_of_start(self, offset: SourceOffset) -> None:
        notifications = self._messages.notifications
        if notifications is None or self.is_stopped:
            return
        started = notifications.started(offset)
        self._topics.ensure(started.topic)
        self._begun_publisher.publish(lambda: [started], self._begun_publisher.offset)

    def _beat_if_due(self) -> None:
        seconds = self._job.sink.heartbeat_seconds
        if seconds is None or time.monotonic() - self._heard < seconds:
            return
        publisher = self._begun_publisher
        self._topics.ensure(self._names.heartbeat)
        publisher.publish(lambda: [self._messages.heartbeat()], publisher.offset)
        self._heard = time.monotonic()

    @property
    def _begun_publisher(self) -> Publisher:
        assert self._publisher is not None, "it has begun"
        return self._publisher


class JobTopics:
    """Creates topics before the first message to them, where settings ask for it; may be used by several threads."""

    def __init__(self, connection: Connection, sink: KafkaSink) -> None:
        self._connection = connection
        self._sink = sink
        self._known: set[str] = set()

    def ensure(self, topic: str) -> None:
        """See that *topic* is there, the first time that it is asked for."""
        shape = None if topic in self._known else self._sink.shape_of(topic)
        if shape is None or shape.partitions is None:
            return
        with Topics(self._connection) as topics:
            if topics.partition_count(topic) is None:
                replication = -1 if shape.replication is None else shape.replication
                settings = {name: str(value) for name, value in shape.settings.items()}
                topics.create(topic, partitions=shape.partitions, replication=replication, settings=settings)
        self._known.add(topic)

    def partition_count(self, topic: str) -> int:
        """Number of partitions of *topic* now; it is created as `ensure` does."""
        self.ensure(topic)
        with Topics(self._connection) as topics:
            topics.check([topic])
            return topics.partition_count(topic) or 0
