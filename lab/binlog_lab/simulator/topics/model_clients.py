"""Clients of a model broker, in place of those that the product has: `installed`."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kafka import TopicPartition
from kafka.errors import KafkaError

from binlog_connector.kafka import offset_store, publisher
from binlog_connector.kafka import topics as topics_module
from binlog_connector.kafka.connection import broker_error
from binlog_connector.kafka.topics import client_failure
from binlog_lab.simulator.machine import replaced
from binlog_lab.simulator.topics.model_broker import nothing

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from binlog_connector.kafka.connection import Connection
    from binlog_connector.kafka.producer import Messages, ProducerSettings
    from binlog_format.errors import BrokerError
    from binlog_lab.simulator.topics.model_broker import ModelBroker, StoredMessage

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
