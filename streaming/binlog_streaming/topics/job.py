"""The loop of a job that publishes a log to Kafka: `TopicsJob`.

A step of the tailer becomes one transaction of Kafka: the messages of its event groups, and the offset after them. The
offset is read from Kafka when the job starts, so whatever ends it, it goes on after the last transaction that consumers
see.
"""

from __future__ import annotations

import json
import threading
import time
from contextlib import ExitStack, closing
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from binlog_connector.following.offsets import SourceOffset
from binlog_connector.following.starts import StartMoment
from binlog_connector.following.tailer import STEP_SIZE_MAX, FollowOptions, Tailer
from binlog_connector.kafka.publisher import Publisher
from binlog_connector.kafka.topics import Topics
from binlog_connector.spark.options import SourceOptions
from binlog_format import open_log
from binlog_streaming.prefetch import prefetch
from binlog_streaming.topics.connecting import connection_of, names_of, publishing_of, registry_of
from binlog_streaming.topics.job_log import require_changes
from binlog_streaming.topics.progress import Published, PublishProgress, Records
from binlog_streaming.topics.record import begun_with, check_log, check_same, remember
from binlog_streaming.topics.step_messages import StepMessages

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from binlog_connector.following import tailer as following
    from binlog_connector.following.steps import Step
    from binlog_connector.kafka.connection import Connection
    from binlog_connector.kafka.messages import Messages
    from binlog_streaming.settings.publish_model import KafkaSink, PublishJob
    from binlog_streaming.topics.progress import PublishListener


BATCHES_AHEAD = 2
"""Batches of messages, each of a block of the log, that are made while the producer sends one."""

LOOK_SECONDS = 1.0
"""Seconds between checks for a due heartbeat while a job waits for the log."""


class TopicsJob:
    """One run of a job; `stop` may be called from other threads, and by signals.

    Args:
        job: The settings.
        once: End at what is in the log when this starts.
        listener: Told of each transaction.
        step_size_max: Bytes of the log in a transaction of Kafka, unless one of the log is larger.

    Attributes:
        progress: What has been published.
        connection: To the brokers.

    Raises:
        BinlogError: The schema file, or the record of the job, cannot be used.
    """

    def __init__(
        self,
        job: PublishJob,
        *,
        once: bool = False,
        listener: PublishListener | None = None,
        step_size_max: int = STEP_SIZE_MAX,
    ) -> None:
        self._job = job
        self._once = once
        self._listener = listener
        self._step_size_max = step_size_max
        self._source = SourceOptions.parse({"path": job.source.path, **job.source.options()})
        self._names = names_of(job.sink)
        self._stopped = threading.Event()
        self._publisher: Publisher | None = None
        self._tailer: Tailer | None = None
        self.connection = connection_of(job.sink)
        self._registry = registry_of(job.sink)
        self._topics = JobTopics(self.connection, job.sink)
        self._messages = StepMessages(job, self._names, self._registry, self._topics.partition_count)
        self.progress = PublishProgress()

    def stop(self) -> None:
        """End after the transaction under way."""
        self._stopped.set()
        if self._publisher is not None:
            self._publisher.stop()
        if self._tailer is not None:
            self._tailer.stop()

    def run(
        self, on_start: Callable[[SourceOffset], None] = lambda _: None, on_idle: Callable[[], None] = lambda: None
    ) -> None:
        """Publish until `stop` is called, or the end is reached.

        Args:
            on_start: Told where the log is read from, once everything is ready.
            on_idle: Called whenever nothing new has come for a second.

        Raises:
            BrokerError: Kafka, or the registry, cannot be used; nothing that it has not is lost.
            BinlogError: The log cannot be read, or does not tell all changes.
        """
        record = begun_with(self._job)
        if record is not None:
            check_same(record, self._job)
        with open_log(self._job.source.path, format_name=self._source.format) as log:
            require_changes(log)
        if self._registry is not None:
            self._registry.reach()  # that it cannot be used is reported now, and not at the first change
        publishing = publishing_of(self._job.sink, self._names, is_first_start=record is None)
        with ExitStack() as stack:
            self._publisher = publisher = Publisher(self.connection, publishing)
            stack.enter_context(publisher)
            saved = None if publisher.offset is None else SourceOffset.from_json(json.loads(publisher.offset))
            if record is not None:
                check_log(record, self._job, saved)
            remember(self._job)  # not before: offsets that were never written cannot be lost
            self._tailer = tailer = stack.enter_context(self._open_log(saved))
            if self._stopped.is_set():
                return
            if publisher.offset is None:
                publisher.publish(lambda: (), _text(tailer.offset))  # `latest` is now, also after a kill
            on_start(tailer.offset)
            self._follow(publisher, tailer, on_idle)

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
            ends=self._once,
        )
        return Tailer(self._job.source.path, start, saved=saved, how=how)

    def _follow(self, publisher: Publisher, tailer: Tailer, on_idle: Callable[[], None]) -> None:
        heartbeat_seconds = self._job.sink.heartbeat_seconds
        last = time.monotonic()
        while True:
            step = tailer.step(LOOK_SECONDS)
            if step is not None:
                self._publish(publisher, step)
                last = time.monotonic()
                continue
            if tailer.is_ended:
                return
            on_idle()
            if heartbeat_seconds is not None and time.monotonic() - last >= heartbeat_seconds:
                self._beat(publisher)
                last = time.monotonic()

    def _publish(self, publisher: Publisher, step: Step) -> None:
        started = time.monotonic()
        attempts: list[tuple[Records, Generator[Messages]]] = []

        def messages() -> Generator[Messages]:
            # What still makes those of a former attempt has to end first: both read the same step.
            if attempts:
                attempts[-1][1].close()
            records = Records()
            attempts.append((records, self._made(step, records)))
            return attempts[-1][1]

        try:
            publisher.publish(messages, _text(step.end))
        finally:
            for _, made in attempts[-1:]:
                made.close()
        self._note(step, attempts, started)

    def _made(self, step: Step, records: Records) -> Generator[Messages]:
        with closing(prefetch(self._messages.of(step), BATCHES_AHEAD)) as made:
            for some in made:
                self._topics.ensure(some.topic)
                records.counts[some.topic] += len(some)
                records.sizes[some.topic] += some.size
                yield some
        records.made_at = time.monotonic()

    def _note(self, step: Step, attempts: list[tuple[Records, Generator[Messages]]], started: float) -> None:
        published = Published(
            offset=step.end,
            groups=step.group_count,
            size=step.size,
            last_timestamp=step.last_timestamp,
            records=attempts[-1][0],
            seconds=time.monotonic() - started,
            attempts=len(attempts),
            read_seconds=max(attempts[-1][0].made_at - started, 0.0),
        )
        self.progress.add(published)
        if self._listener is not None:
            self._listener(published)

    def _beat(self, publisher: Publisher) -> None:
        self._topics.ensure(self._names.heartbeat)
        publisher.publish(lambda: [self._messages.heartbeat()], publisher.offset)


def _text(offset: SourceOffset) -> str:
    return json.dumps(offset.to_json())


class JobTopics:
    """Creates topics before the first message to them, where the settings ask for it; may be used by several threads.

    Args:
        connection: To the brokers.
        sink: The settings.
    """

    def __init__(self, connection: Connection, sink: KafkaSink) -> None:
        self._connection = connection
        self._partitions = sink.partitions
        self._replication = -1 if sink.replication is None else sink.replication
        self._settings = {name: str(value) for name, value in sink.topic_settings.items()}
        self._known: set[str] = set()

    def ensure(self, topic: str) -> None:
        """See that *topic* is there, the first time that it is asked for.

        Raises:
            BrokerError: It cannot be created.
        """
        if self._partitions is None or topic in self._known:
            return
        with Topics(self._connection) as topics:
            if topics.partition_count(topic) is None:
                topics.create(
                    topic, partitions=self._partitions, replication=self._replication, settings=self._settings
                )
        self._known.add(topic)

    def partition_count(self, topic: str) -> int:
        """Number of partitions of *topic* now; it is created as `ensure` does.

        Raises:
            BrokerError: `TOPIC_NOT_FOUND`, or what keeps brokers from being used.
        """
        self.ensure(topic)
        with Topics(self._connection) as topics:
            topics.check([topic])
            return topics.partition_count(topic) or 0
