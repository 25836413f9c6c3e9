"""A job of a life that publishes to a broker in memory: `LivedTopicsJob`; its clients of the broker: `installed`."""

from __future__ import annotations

import json
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kafka import TopicPartition
from kafka.errors import KafkaError

from binlog_connector.kafka import offset_store, publisher
from binlog_connector.kafka import topics as topics_module
from binlog_connector.kafka.connection import broker_error
from binlog_connector.kafka.topics import client_failure
from binlog_format.errors import BinlogError, OptionError
from binlog_lab.simulator.lived_job import LivedJob
from binlog_lab.simulator.machine import replaced
from binlog_lab.simulator.topics.model_broker import nothing
from binlog_lab.simulator.topics.model_registry import REGISTRY_CALLS
from binlog_lab.simulator.topics.topic_verdict import TopicVerdict
from binlog_streaming.jobs.switch import complete_begun, job_to_switch, plan_switch
from binlog_streaming.settings import PublishJob
from binlog_streaming.topics.connecting import PublishedOffset, names_of
from binlog_streaming.topics.job import TopicsJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.kafka.connection import Connection
    from binlog_connector.kafka.producer import Messages, ProducerSettings
    from binlog_format.errors import BrokerError
    from binlog_lab.simulator.scheduler import Conduct
    from binlog_lab.simulator.server import StateAfterGroup
    from binlog_lab.simulator.server_log import Terms
    from binlog_lab.simulator.topics.model_broker import ModelBroker, StoredMessage
    from binlog_lab.simulator.topics.model_registry import ModelRegistry


_OF_OTHER_LOG = "BINLOG_OPTION.INVALID_VALUE"


class LivedTopicsJob(LivedJob[PublishJob]):
    """A job with topics.

    Args:
        registry: Schemas of the messages are there; None: these are JSON.
        size: Bytes of the log in a transaction of Kafka.
    """

    faults = (
        *("", *("kill",) * 3, "power", *("EIO",) * 2, "meanwhile"),
        *(*("reply lost",) * 3, *("late",) * 3, *("late and killed",) * 2, "frozen", "down", "another publisher"),
        "topics lost",
    )
    first_calls = 50
    rare_calls: tuple[str, ...] = ("ask for ends, after", "send, before", "rename")
    rare_faults = (
        *(("kill", "ask for ends, after"), ("EIO", "send, before"), ("power", "commit, before")),
        *(("frozen", "commit"), ("topics lost", "commit"), *(("another publisher", "commit"),) * 2),
    )
    is_atomic = True

    def __init__(
        self, file: Path, terms: Terms, broker: ModelBroker, size: int, registry: ModelRegistry | None
    ) -> None:
        super().__init__(file, terms)
        self.kind = "topics" if registry is None else "topics in Avro"
        self.rare_calls += () if registry is None else REGISTRY_CALLS
        self.name = f"{self.kind}; {size} bytes a transaction"
        self._broker = broker
        self._registry = registry
        self._size = size
        self._names = names_of(self.job.sink)
        self._verdict = TopicVerdict(broker, self._names, terms, registry)
        self._undecided_in: str | None = None  # the log that it left before its first transaction was decided

    def happen(self, kind: str, at: int) -> None:
        """See `LivedJob`."""
        self._broker.at_call[(at + 1) // 2] = self._actions()[kind]  # the disk counts a request and its reply

    def happen_at(self, kind: str, call: str) -> None:
        """See `LivedJob`."""
        self._broker.at_name[call] = self._actions()[kind]

    def _actions(self) -> dict[str, Callable[[], None]]:
        """Faults of the broker, by kind."""
        broker = self._broker
        return {
            "reply lost": broker.lose_reply,
            "late": broker.delay,
            "late and killed": partial(broker.delay, kills=True),
            "frozen": broker.freeze,
            "down": broker.go_down,
            "another publisher": self._run_another,
            "topics lost": broker.lose_topics,
        }

    def run(self, conduct: Conduct) -> str:
        """See `LivedJob`."""
        del conduct  # there are no tasks
        job = TopicsJob(self.job, once=True, step_size_max=self._size)
        job.run()
        return f"{job.progress.transactions} transactions"

    def offsets(self) -> tuple[SourceOffset | None, SourceOffset | None]:
        """See `LivedJob`."""
        (partition,) = self._broker.topics.get(self._names.offsets, (None,))
        if partition is None:
            return None, None
        return _offset(partition.committed()), _offset(partition.not_aborted())

    def check(self, history: Mapping[int, StateAfterGroup], *, began_late: bool) -> None:
        """See `LivedJob`."""
        self._verdict.check(history, self.taken, began_late=began_late)

    @contextmanager
    def installed(self) -> Iterator[None]:
        """See `LivedJob`."""
        with installed(self._broker), nullcontext() if self._registry is None else self._registry.installed():
            yield

    def restart(self) -> None:
        """See `LivedJob`."""
        self._broker.restart()

    def switch_to(self, path: Path, conduct: Conduct) -> None:
        """See `LivedJob`."""
        del conduct
        if not any(self.offsets()):  # there is no place to switch from
            self.move_to(path)
            return
        complete_begun(job_to_switch(str(self._file)))
        try:
            plan = plan_switch(str(self._file), str(path))
        except OptionError:
            if self.offsets()[0] is not None:
                raise
            self._undecided_in = self.job.source.path
            self.move_to(path)  # as the error says: the first transaction is not decided
            return
        if not plan.is_done:
            plan.apply(lambda _: None)
        self._load()

    def is_set_back(self, error: BinlogError) -> bool:
        """See `LivedJob`; a first commit arrived when the job had left for another log."""
        path = self._undecided_in
        if path is None or error.condition != _OF_OTHER_LOG or self.offsets()[0] is None:
            return False
        self._undecided_in = None
        self.move_to(path)
        return True

    def _run_another(self) -> None:
        """The same job is started once more, elsewhere."""
        self._broker.note("got another publisher")
        with suppress(BinlogError):
            TopicsJob(self.job, once=True, step_size_max=self._size).run()


def _offset(records: Sequence[StoredMessage]) -> SourceOffset | None:
    """Offset of the newest record; None: there is none, or it has none."""
    text = json.loads(records[-1].value or b"null")["offset"] if records else None
    return None if text is None else PublishedOffset.parse(text).offset


Answer = TypeVar("Answer")

_UNKNOWN_TOPIC = 3


@contextmanager
def installed(broker: ModelBroker) -> Iterator[None]:
    """Let the clients of this process be those of *broker*."""
    producer = partial(ModelProducer, broker)
    changes: list[tuple[Any, str, Any]] = [
        (topics_module, "explained", partial(_explained, broker)),
        (topics_module, "KafkaAdminClient", lambda **_: ModelAdmin(broker)),
        (topics_module, "KafkaConsumer", partial(ModelConsumer, broker)),
        (offset_store, "KafkaConsumer", partial(ModelConsumer, broker)),
        (publisher, "CLIENTS", dict.fromkeys(publisher.CLIENTS, producer)),
    ]
    with replaced(changes):
        yield


def _explained(broker: ModelBroker, connection: Connection) -> BrokerError | None:
    try:
        broker.call("connect", nothing)
    except KafkaError as error:
        return broker_error("UNREACHABLE", str(error), at=connection.servers)
    return None


class ModelProducer:
    """See `Producer`."""

    def __init__(self, broker: ModelBroker, connection: Connection, settings: ProducerSettings) -> None:
        del connection
        self._broker = broker
        self._name = settings.transactional_id
        self._epoch = 0
        if self._name is not None:
            self._epoch = self._call("init", partial(broker.begin_epoch, self._name))

    def begin(self) -> None:
        """See `Producer`: the broker knows of a transaction with its first messages."""

    def send(self, messages: Messages) -> None:
        """See `Producer`."""
        send = partial(self._broker.append, self._name, self._epoch, messages)
        self._call("send", send, messages.topic)

    def flush(self) -> None:
        """See `Producer`: what was sent is there."""

    def commit(self) -> None:
        """See `Producer`."""
        self._end(commits=True)

    def abort(self) -> None:
        """See `Producer`."""
        self._end(commits=False)

    def close(self) -> None:
        """See `Producer`."""

    def _end(self, *, commits: bool) -> None:
        assert self._name is not None, "there are transactions"
        end = partial(self._broker.end, self._name, self._epoch, commits=commits)
        self._call("commit" if commits else "abort", end)

    def _call(self, name: str, change: Callable[[], Answer], topic: str | None = None) -> Answer:
        try:
            return self._broker.call(name, change, changes=True)
        except KafkaError as error:
            raise client_failure(error, topic) from error


@dataclass(frozen=True, slots=True)
class ModelAdmin:
    """Stands in for `KafkaAdminClient`."""

    broker: ModelBroker

    def describe_topics(self, topics: Sequence[str]) -> list[dict[str, Any]]:
        """One topic."""
        (topic,) = topics
        found = self.broker.call("describe", lambda: self.broker.topics.get(topic))
        return [{"error_code": _UNKNOWN_TOPIC} if found is None else {"error_code": 0, "partitions": found}]

    def describe_configs(self, resources: Sequence[Any], *, config_filter: str) -> dict[str, Any]:
        """Settings of a topic."""
        del config_filter
        topic = resources[0].name
        found = self.broker.call("describe", lambda: self.broker.settings(topic))
        return {"topic": {topic: {name: {"value": value} for name, value in found.items()}}}

    def create_topics(self, topics: dict[str, dict[str, Any]], *, raise_errors: bool) -> dict[str, Any]:
        """Create topics; the broker refuses none."""
        del raise_errors
        for topic, wanted in topics.items():
            create = partial(self.broker.create, topic, wanted["num_partitions"], wanted["configs"])
            self.broker.call("create", create, changes=True)
        return {"topics": [{"name": topic, "error_code": 0, "error_message": None} for topic in topics]}

    def wait_for_topics(self, topics: Sequence[str]) -> None:
        """They are there as soon as they are created."""

    def close(self) -> None:
        """Nothing is open."""


class ModelConsumer:
    """Stands in for `KafkaConsumer`, of one partition."""

    def __init__(self, broker: ModelBroker, *, isolation_level: str = "read_uncommitted", **_: object) -> None:
        self._broker = broker
        self._partition = TopicPartition("", 0)
        self._is_committed = isolation_level == "read_committed"
        self._position = 0

    def assign(self, partitions: Sequence[TopicPartition]) -> None:
        """Nothing is told to the broker."""
        (self._partition,) = partitions

    def beginning_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Everything is kept."""
        return dict.fromkeys(partitions, 0)

    def end_offsets(self, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
        """Ends, as far as this consumer may read."""
        return {one: self._broker.call("ask for ends", partial(self._end, one)) for one in partitions}

    def seek(self, partition: TopicPartition, offset: int) -> None:
        """Go on there."""
        del partition
        self._position = offset

    def position(self, partition: TopicPartition) -> int:
        """The next place that is read."""
        del partition
        return self._position

    def poll(self, *, timeout_ms: int) -> dict[TopicPartition, list[StoredMessage]]:
        """The next messages; without any the time passes."""
        there = self._broker.call("poll", lambda: self._broker.partitions(self._partition.topic))
        partition = there[self._partition.partition]
        start, self._position = self._position, partition.stable_end
        if start == self._position:
            self._broker.clock.sleep(timeout_ms / 1000)
        return {self._partition: partition.committed(start, self._position)}

    def close(self, *, autocommit: bool) -> None:
        """Nothing is open."""
        del autocommit

    def _end(self, partition: TopicPartition) -> int:
        there = self._broker.partitions(partition.topic)[partition.partition]
        end: int = there.stable_end if self._is_committed else there.end
        return end
