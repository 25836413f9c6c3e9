"""Jobs that publish a recorded workload, and what a consumer finds in their topics."""

from __future__ import annotations

import itertools
import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from binlog_connector.following.starts import Edge
from binlog_connector.following.tailer import STEP_SIZE_MAX, FollowOptions, Tailer
from binlog_format.gtids.gtid import Gtid
from binlog_lab.demo.live_writer import Recorder
from binlog_lab.demo.proof.topics import compare_topics, read_topic
from binlog_lab.demo.shop import ALTERATIONS
from binlog_lab.demo.workload import Workload
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter
from binlog_streaming.settings import PublishJob, parse_any_job
from binlog_streaming.topics.connecting import names_of
from binlog_streaming.topics.job import TopicsJob
from binlog_streaming.topics.record import Records
from binlog_streaming.topics.step_messages import StepMessages

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from binlog_connector.envelope.avro.avro_encoding import SchemaIds
    from binlog_lab.demo.actions import Action
    from binlog_lab.demo.proof.expected_rows import ExpectedTable
    from binlog_lab.demo.servers.kafka_broker import KafkaBroker
    from binlog_lab.demo.shop import Alteration

STEP_SIZE = 64 << 10
FILE_SIZE = 256 << 10
FIRST_SECOND = 1_790_000_000


@dataclass(frozen=True, slots=True)
class Recording:
    """A log of many small files with the workload in it, altered tables and rolled back transactions too.

    Attributes:
        expected_tables: What its tables hold in the end.
    """

    directory: Path
    expected_tables: Sequence[ExpectedTable]


class LogWriting:
    """The workload's log while it is written, part by part; a context manager."""

    def __init__(
        self, directory: Path, changes: int, seed: int = 7, *, alterations: Sequence[Alteration] = ALTERATIONS
    ) -> None:
        self.directory = directory
        self._workload = Workload(changes, seed=seed, first_gtid=Gtid(0, 1, 100), alterations=alterations)
        self._actions: Iterator[Action] = self._workload.actions()
        seconds = itertools.count(FIRST_SECOND * 20)
        self._writer = BinlogWriter(directory, WriterOptions(max_binlog_size=FILE_SIZE, sync=False))
        self._recorder = Recorder(self._writer, server_id=1, clock=lambda: next(seconds) / 20)

    def __enter__(self) -> LogWriting:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def write(self, actions: int | None = None) -> bool:
        """Write so many actions of sessions, or all that are left; whether any were left."""
        some = list(itertools.islice(self._actions, actions))
        for action in some:
            self._recorder.record(action)
        self._writer.checkpoint()
        return bool(some)

    def recording(self) -> Recording:
        """What is in the log, when all has been written."""
        return Recording(self.directory, self._workload.expected_tables(self._recorder.committed_at))


def recorded(directory: Path, changes: int, *, alterations: Sequence[Alteration] = ALTERATIONS) -> Recording:
    """The whole workload in a log."""
    with LogWriting(directory, changes, alterations=alterations) as writing:
        writing.write()
        return writing.recording()


def publish_job(folder: Path, log: Path, broker: KafkaBroker, *, client: str = "auto", more: str = "") -> PublishJob:
    """A job of its own, whose topics are new, and decoded by `read_topic`; with a TRUNCATE unless *more* skips it."""
    if "skipped_operations" not in more:
        more = f"skipped_operations = []\n{more}"
    job = parse_any_job(
        f"""
checkpoint = "state"
[source]
path = "{log}"
[sink]
kind = "kafka"
bootstrap_servers = "{broker.servers}"
topic_prefix = "t{uuid.uuid4().hex[:12]}"
client = "{client}"
partitions = 3
decimal_handling = "string"
unsigned_bigint_handling = "precise"
time_precision = "microseconds"
{more}
""",
        file=folder / "job.toml",
    )
    assert isinstance(job, PublishJob)
    return job


def messages_made(
    job: PublishJob, registry: SchemaIds | None = None, *, step_size_max: int = STEP_SIZE_MAX
) -> Iterator[dict[str, Any]]:
    """The messages of a job for all that is in its log, without brokers: `topic`, `key`, `value` and `headers`."""
    made = StepMessages(job, names_of(job.sink), registry, lambda _: 1)
    how = FollowOptions(ends=True, step_size_max=step_size_max)
    with Tailer(job.source.path, Edge.EARLIEST, how=how) as tailer:
        while (step := tailer.step()) is not None:
            for messages in made.of(step, Records()):
                headers = messages.headers or [[]] * len(messages)
                rows = zip(messages.keys.to_pylist(), messages.values.to_pylist(), headers, strict=True)
                for key, value, named in rows:
                    yield {
                        "topic": messages.topic,
                        "key": _text(key),
                        "value": _text(value),
                        "headers": [{"name": header, "value": _text(text)} for header, text in named],
                    }


def _text(content: bytes | None) -> str | None:
    return None if content is None else content.decode(errors="surrogateescape")


def publish(job: PublishJob) -> TopicsJob:
    """Publish what is in the log now, in small transactions."""
    running = TopicsJob(job, once=True, step_size_max=STEP_SIZE)
    running.run()
    return running


def assert_topics_hold(
    job: PublishJob, recording: Recording, decode: Callable[[bytes], Any] = msgspec.json.decode
) -> None:
    """The topics give exactly the workload's tables: each change is there once, in the order of the log."""
    servers, prefix = job.sink.bootstrap_servers, job.sink.topic_prefix
    for comparison in compare_topics(servers, prefix, recording.expected_tables, decode):
        assert comparison.is_equal, comparison
        assert comparison.expected > 0
    for truth in recording.expected_tables:
        assert len(list(read_topic(servers, f"{prefix}.{truth.name}", decode))) == changes_in(truth)


def changes_in(truth: ExpectedTable) -> int:
    """Messages that its changes give, without tombstones: a changed key gives two, a row image each."""
    assert truth.changes is not None
    rows = truth.changes.select([*truth.key, "_change_type"]).to_pylist()
    count, before = 0, None
    for row in rows:
        kind, key = row["_change_type"], tuple(row[name] for name in truth.key)
        if kind == "update_preimage":
            before = key
        else:
            count += 2 if kind == "update_postimage" and key != before else 1
    return count
