"""What both clients make of messages: the same partitions, orders and contents."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from kafka.errors import ConcurrentTransactionsError
from kafka.partitioner.default import murmur2
from kafka.producer.transaction_manager import AddPartitionsToTxnHandler

from binlog_connector.installing import missing_extra
from binlog_connector.kafka import producer as producer_module
from binlog_connector.kafka.connection import Connection
from binlog_connector.kafka.producer import MESSAGE_SIZE_MAX, Messages, ProducerSettings
from binlog_connector.kafka.publisher import CLIENTS as KNOWN
from binlog_connector.kafka.publisher import open_producer
from binlog_connector.kafka.record_batches import key_partitions
from binlog_format.errors import BrokerError, OptionError
from tests.connector.kafka.topics import CLIENTS, PARTITIONS, PATIENT_TIMEOUT, consumed, new_case

if TYPE_CHECKING:
    from binlog_connector.kafka.producer import Producer
    from tests.faults.kafka_broker import KafkaBroker

_KEYS = [
    None,
    b"",
    b"a",
    b"ab",
    b"abc",
    b"abcd",
    b"abcde",
    "ключ".encode(),
    bytes(range(256)),
    *map(bytes, range(9, 99)),
]


@given(st.lists(st.none() | st.binary(max_size=40)), st.integers(0, 3), st.integers(1, 1000), st.booleans())
def test_partitions_of_keys_are_those_of_other_clients(
    keys: list[bytes | None], skipped: int, count: int, is_large: bool
) -> None:
    array = pa.array(keys, pa.large_binary() if is_large else pa.binary())[skipped:]
    expected = [(murmur2(key or b"") & 0x7FFFFFFF) % count for key in keys[skipped:]]
    assert key_partitions(array, count).tolist() == expected


@pytest.mark.server
@pytest.mark.parametrize("compression", ["none", "zstd"])
def test_both_clients_write_the_same(kafka_broker: KafkaBroker, compression: str) -> None:
    """Values, tombstones, headers, and the partition of each key, or the one that is asked for."""
    values = pa.array(
        [None if number % 5 == 4 and _KEYS[number] else b"value %d" % number for number in range(len(_KEYS))]
    )
    headers = [[("name", b"%d" % number), ("name", b"")][: number % 3] for number in range(len(_KEYS))]
    found = []
    for client in CLIENTS:
        case = new_case(kafka_broker, client, Connection(kafka_broker.servers, timeout=PATIENT_TIMEOUT))
        producer = open_producer(
            case.connection, ProducerSettings(case.publishing.name, compression=compression), client
        )
        producer.begin()
        keys = pa.array(_KEYS, pa.binary())
        producer.send(Messages(case.topic, keys, values))
        producer.send(Messages(case.topic, keys, values, headers=headers))
        producer.send(Messages(case.topic, keys.slice(3, 20), values.slice(3, 20), partition=PARTITIONS - 1))
        producer.send(Messages(case.topic, keys[:0], values[:0]))
        producer.commit()
        producer.close()
        records = consumed(kafka_broker, case.topic)
        found.append(
            {
                place: [(one.key, one.value, [tuple(header) for header in one.headers]) for one in some]
                for place, some in records.items()
            }
        )
    assert found[0] == found[1]
    assert sum(map(len, found[0].values())) == 2 * len(_KEYS) + 20


@pytest.mark.server
@pytest.mark.parametrize("client", CLIENTS)
def test_what_is_aborted_is_not_visible(kafka_broker: KafkaBroker, client: str) -> None:
    case = new_case(kafka_broker, client, Connection(kafka_broker.servers, timeout=PATIENT_TIMEOUT))
    producer = open_producer(case.connection, ProducerSettings(case.publishing.name), client)
    for end in (producer.abort, producer.commit, producer.abort):
        producer.begin()
        producer.send(Messages(case.topic, pa.array([b"key"] * 3), pa.array([end.__name__.encode()] * 3)))
        end()
    producer.close()
    producer.close()
    (records,) = consumed(kafka_broker, case.topic).values()
    assert [record.value for record in records] == [b"commit"] * 3


class _Sleeps:
    """Stands in for `time` where the client sends: what it sleeps is noted."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    def __getattr__(self, name: str) -> object:
        return getattr(time, name)

    def sleep(self, seconds: float) -> None:
        self.seconds.append(seconds)
        time.sleep(seconds)


@pytest.mark.server
def test_a_transaction_that_brokers_are_not_ready_for_is_asked_for_again_soon(
    kafka_broker: KafkaBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answers are changed; what the client waits then is observed, in a part of it that is not public."""
    answered = AddPartitionsToTxnHandler.handle_response
    refusals = 3

    def refused_at_first(self: AddPartitionsToTxnHandler, response: Any) -> None:
        nonlocal refusals
        if refusals:
            refusals -= 1
            for topic in response.results_by_topic_v3_and_below:
                for partition in topic.results_by_partition:
                    partition.partition_error_code = ConcurrentTransactionsError.errno
        answered(self, response)

    sleeps = _Sleeps()
    monkeypatch.setattr(AddPartitionsToTxnHandler, "handle_response", refused_at_first)
    monkeypatch.setattr("kafka.producer.sender.time", sleeps)
    case = new_case(kafka_broker, "kafka-python", Connection(kafka_broker.servers, timeout=PATIENT_TIMEOUT))
    producer = open_producer(case.connection, ProducerSettings(case.publishing.name), "kafka-python")
    producer.begin()
    producer.send(Messages(case.topic, pa.array([b"key"]), pa.array([b"value"])))
    producer.commit()
    producer.close()
    assert sleeps.seconds[:3] == [0.005] * 3
    assert set(sleeps.seconds) == {0.005}
    (records,) = consumed(kafka_broker, case.topic).values()
    assert [record.value for record in records] == [b"value"]


@pytest.mark.server
@pytest.mark.parametrize("client", CLIENTS)
def test_more_than_is_held_in_one_transaction(kafka_broker: KafkaBroker, client: str) -> None:
    case = new_case(kafka_broker, client, Connection(kafka_broker.servers, timeout=PATIENT_TIMEOUT))
    producer = open_producer(case.connection, ProducerSettings(case.publishing.name), client)
    producer.begin()
    count, size = 6, MESSAGE_SIZE_MAX // 4
    for number in range(count):
        values = pa.array([bytes([number]) * 10_000] * (size // 10_000))
        producer.send(Messages(case.topic, pa.array([b"key"] * len(values)), values))
    producer.commit()
    producer.close()
    (records,) = consumed(kafka_broker, case.topic).values()
    assert [record.value[0] for record in records] == [number for number in range(count) for _ in range(size // 10_000)]


@pytest.mark.server
@pytest.mark.parametrize("client", CLIENTS)
def test_no_message_is_larger_than_a_request(kafka_broker: KafkaBroker, client: str) -> None:
    """A broker ends the connection for a larger one, without a word; and one that has room is never waited for."""
    case = new_case(kafka_broker, client, Connection(kafka_broker.servers, timeout=PATIENT_TIMEOUT))
    for size in (MESSAGE_SIZE_MAX + 1, MESSAGE_SIZE_MAX - 100):  # of the second one the topic's limit says the same
        producer = open_producer(case.connection, ProducerSettings(case.publishing.name), client)
        producer.begin()
        with pytest.raises(BrokerError, match=f"MESSAGE_TOO_LARGE.*{case.topic}"):
            _send_and_commit(producer, Messages(case.topic, pa.array([b"key"]), pa.array([bytes(size)])))
        producer.close()


def _send_and_commit(producer: Producer, messages: Messages) -> None:
    producer.send(messages)
    producer.commit()


@given(st.lists(st.integers(0, 3000), max_size=60), st.integers(1, 20), st.integers(100, 10_000))
def test_chunks_are_small_and_whole(sizes: list[int], rows: int, size: int) -> None:
    values = pa.array([bytes(one) for one in sizes], pa.binary())
    keys = pa.array([b"%d" % number for number in range(len(sizes))], pa.binary())
    patch = pytest.MonkeyPatch()
    with patch.context() as context:
        context.setattr(producer_module, "CHUNK_ROWS", rows)
        context.setattr(producer_module, "CHUNK_SIZE", size)
        chunks = list(Messages("topic", keys, values).chunks())
    assert [value for chunk in chunks for value in chunk.values.to_pylist()] == values.to_pylist()
    assert [key for chunk in chunks for key in chunk.keys.to_pylist()] == keys.to_pylist()
    assert all(1 <= len(chunk) <= rows for chunk in chunks)


def test_confluent_kafka_is_used_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    used = []
    for name in KNOWN:
        monkeypatch.setitem(KNOWN, name, lambda *_, name=name: used.append(name))
    open_producer(None, ProducerSettings())  # type: ignore[arg-type]
    monkeypatch.setattr("binlog_connector.kafka.publisher.find_spec", lambda _: None)
    open_producer(None, ProducerSettings())  # type: ignore[arg-type]
    assert used == ["confluent-kafka", "kafka-python"]


def test_the_extra_of_confluent_kafka_is_named() -> None:
    error = missing_extra("confluent_kafka")
    assert isinstance(error, OptionError)
    assert "[rdkafka]" in str(error)


def test_a_compression_that_not_both_clients_have_is_refused() -> None:
    with pytest.raises(OptionError, match="compression lz4: known are none, gzip, zstd"):
        ProducerSettings(compression="lz4")
