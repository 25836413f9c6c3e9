"""Topics of a test's own, what a consumer sees in them, and publishers that number their messages."""

from __future__ import annotations

import time
import uuid
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from kafka import KafkaConsumer, TopicPartition

from binlog_connector.kafka.connection import Connection, is_transient
from binlog_connector.kafka.producer import Messages
from binlog_connector.kafka.publisher import Publisher, PublisherOptions
from binlog_connector.kafka.topics import Topics
from binlog_format.errors import BrokerError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.faults.kafka_broker import KafkaBroker

CLIENTS = ("kafka-python", "confluent-kafka")
PARTITIONS = 3
GROUP_MESSAGES = 40
"""Messages of an event group, the first half of them sent before the second."""

TIMEOUT = 3.0
"""Seconds that a broker gets: it answers within a tenth of one, on a machine with other work within one."""

PATIENT_TIMEOUT = 60.0
"""The same where no answer is missing, however much else the machine does."""

_PATIENCE_SECONDS = 300.0
_USABLE_SECONDS = 60.0


@dataclass
class Case:
    """What a test publishes to, and as whom.

    Attributes:
        client: By which messages go there.
        publishing: For `Publisher`.
        connection: The same.
        topic: With `PARTITIONS` partitions.
    """

    broker: KafkaBroker
    client: str
    connection: Connection
    publishing: PublisherOptions
    topic: str = field(default_factory=lambda: f"topic-{uuid.uuid4().hex}")

    def publisher(self) -> Publisher:
        """One that has started before, or may have."""
        return Publisher(self.connection, self.publishing)


def new_case(broker: KafkaBroker, client: str, connection: Connection | None = None, **publishing: Any) -> Case:
    """A case with topics that exist."""
    name = f"publisher-{uuid.uuid4().hex}"
    how: dict[str, Any] = {"is_first_start": True, "client": client, "patience": 90.0} | publishing
    reached_at = connection or Connection(broker.servers, timeout=TIMEOUT)
    case = Case(broker, client, reached_at, PublisherOptions(name, f"{name}.offsets", **how))
    _create_patiently(Connection(broker.servers), case.topic)
    return case


def _create_patiently(connection: Connection, topic: str) -> None:
    # A broker that another test has frozen or killed may still have to report to its controller.
    deadline = time.monotonic() + _USABLE_SECONDS
    while True:
        try:
            with Topics(connection) as topics:
                return topics.create(topic, partitions=PARTITIONS, settings={})
        except BrokerError as error:
            if not is_transient(error) or time.monotonic() > deadline:
                raise
            time.sleep(0.1)  # the broker tells nobody when it has


def group(case: Case, number: int, *, then: Callable[[], object] = lambda: None) -> Callable[[], Iterator[Messages]]:
    """The messages of an event group, with the numbers `number * GROUP_MESSAGES` and on.

    Args:
        case: For whom.
        then: Done the first time that half of the messages are sent.
    """
    is_first = [True]

    def messages() -> Iterator[Messages]:
        first = number * GROUP_MESSAGES
        half = first + GROUP_MESSAGES // 2
        yield numbered(case.topic, first, half)
        if is_first.pop() if is_first else False:
            then()
        yield numbered(case.topic, half, first + GROUP_MESSAGES)

    return messages


def numbered(topic: str, start: int, end: int) -> Messages:
    """Messages with numbers as values, and keys that put them into different partitions."""
    numbers = range(start, end)
    keys = pa.array([f"key {number % 7}".encode() for number in numbers], pa.binary())
    return Messages(topic, keys, pa.array([str(number).encode() for number in numbers], pa.binary()))


def publish_groups(publisher: Publisher, case: Case, end: int) -> None:
    """Publish the groups after the publisher's offset up to *end*."""
    start = 0 if publisher.offset is None else int(publisher.offset)
    for number in range(start, end):
        publisher.publish(group(case, number), str(number + 1))


def assert_once_in_order(case: Case, groups: int) -> None:
    """A consumer that reads what is committed sees the messages of so many groups, each once, in their order."""
    seen = [[int(record.value) for record in records] for records in consumed(case.broker, case.topic).values()]
    assert all(numbers == sorted(numbers) for numbers in seen)
    assert sorted(number for numbers in seen for number in numbers) == list(range(groups * GROUP_MESSAGES))


def consumed(broker: KafkaBroker, topic: str, *, isolation: str = "read_committed") -> dict[int, list[Any]]:
    """All that is in a topic, by partition; nothing may be left open in it."""
    settings = {"bootstrap_servers": broker.servers, "group_id": None, "auto_offset_reset": "earliest"}
    with_open = KafkaConsumer(**settings)
    reader = KafkaConsumer(**settings, isolation_level=isolation)
    try:
        partitions = [TopicPartition(topic, number) for number in with_open.partitions_for_topic(topic)]
        ends = with_open.end_offsets(partitions)
        reader.assign(partitions)
        found: dict[int, list[Any]] = defaultdict(list)
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while any(reader.position(one) < ends[one] for one in partitions):
            assert time.monotonic() < deadline, f"a transaction stays open in {topic}"
            for one, records in reader.poll(timeout_ms=50).items():
                found[one.partition] += records
        return found
    finally:
        with_open.close()
        reader.close()
