"""Messages into a Kafka broker on this machine: `kafka.producer.confluent.rows_per_s` and `...python...`.

Messages of 450 bytes, in exactly-once transactions of 5,000 with a record of the offset each, acknowledged by the one
broker there is; all of them are counted by a consumer that reads what is committed.
"""

from __future__ import annotations

import contextlib
import itertools
import tempfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
from kafka import KafkaConsumer, TopicPartition

from bench.registry import benchmark, share
from binlog_connector.kafka.connection import Connection
from binlog_connector.kafka.producer import Messages
from binlog_connector.kafka.publisher import Publisher, PublisherOptions
from binlog_connector.kafka.topics import Topics
from binlog_lab.demo.servers.kafka_broker import AS_SHIPPED, KafkaBroker

MESSAGES = 300_000
TRANSACTION_MESSAGES = 5_000
KEY_SIZE, VALUE_SIZE = 20, 430
_TOPIC = "rows"
WARM_UP_TRANSACTIONS = 120
"""Before the clock starts: Java compiles what it runs often."""


@benchmark("kafka.producer.confluent.rows_per_s", unit="messages/s")
def confluent() -> float:
    """Messages of 450 bytes in transactions of 5,000, with confluent-kafka."""
    return _measured("confluent-kafka")


@benchmark("kafka.producer.python.rows_per_s", unit="messages/s")
def python() -> float:
    """The same with kafka-python."""
    return _measured("kafka-python")


def _measured(client: str) -> float:
    transactions = max(1, round(share() * MESSAGES / TRANSACTION_MESSAGES))
    warm_up = max(1, round(share() * WARM_UP_TRANSACTIONS))
    values = pa.array([bytes(VALUE_SIZE)] * TRANSACTION_MESSAGES)
    with contextlib.ExitStack() as stack:
        work = stack.enter_context(tempfile.TemporaryDirectory(prefix="binlog-stream-bench-"))
        broker = stack.enter_context(KafkaBroker(Path(work), java_options=AS_SHIPPED))
        connection = Connection(broker.servers)
        with Topics(connection) as topics:
            topics.create(_TOPIC, partitions=1, settings={})
        publishing = PublisherOptions("bench", "offsets", is_first_start=True, client=client)
        batches = [Messages(_TOPIC, _keys(number), values) for number in range(warm_up + transactions)]
        with Publisher(connection, publishing) as publisher:
            for number, batch in enumerate(batches[:warm_up]):
                publisher.publish(lambda batch=batch: [batch], str(number))  # type: ignore[misc]
            started = time.perf_counter()
            for number, batch in enumerate(batches[warm_up:], warm_up):
                publisher.publish(lambda batch=batch: [batch], str(number))  # type: ignore[misc]
            seconds = time.perf_counter() - started
        assert _committed(broker) == len(batches) * TRANSACTION_MESSAGES
    return transactions * TRANSACTION_MESSAGES / seconds


def _keys(number: int) -> pa.Array:
    first = number * TRANSACTION_MESSAGES
    return pa.array([b"%0*d" % (KEY_SIZE, key) for key in np.arange(first, first + TRANSACTION_MESSAGES).tolist()])


def _committed(broker: KafkaBroker) -> int:
    consumer = KafkaConsumer(bootstrap_servers=broker.servers, group_id=None, isolation_level="read_committed")
    partition = TopicPartition(_TOPIC, 0)
    consumer.assign([partition])
    consumer.seek_to_beginning(partition)
    end = consumer.end_offsets([partition])[partition]
    count = 0
    while consumer.position(partition) < end:
        count += sum(map(len, itertools.chain(consumer.poll(timeout_ms=1000).values())))
    consumer.close()
    return count
