"""Fetching with confluent-kafka, which is librdkafka: `RdkafkaFetcher`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from binlog_connector.kafka.failures import failure
from binlog_connector.kafka.rdkafka_producer import SILENT
from binlog_connector.kafka.reading.fetcher import (
    FETCH_SIZE,
    POLL_MS,
    RECORDS_MAX,
    FetchedPartition,
    Record,
    messages_gone,
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    from binlog_connector.kafka.connection import Connection

_GONE = (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET)


class RdkafkaFetcher:
    """See `Fetcher`.

    Args:
        connection: To the brokers.
    """

    def __init__(self, connection: Connection) -> None:
        own = {
            "group.id": "binlog-stream",  # the client wants one; nothing is kept under it
            "isolation.level": "read_committed",
            "auto.offset.reset": "error",
            "enable.auto.commit": False,
            "enable.auto.offset.store": False,
            "enable.partition.eof": True,
            "allow.auto.create.topics": False,
            "max.partition.fetch.bytes": FETCH_SIZE,
            "fetch.max.bytes": 16 * FETCH_SIZE,
            "queued.max.messages.kbytes": 16 * FETCH_SIZE >> 10,
        }
        self._client = Consumer({**connection.rdkafka_settings(), **own}, logger=SILENT)
        self._read_to: dict[FetchedPartition, int] = {}

    def go_on_at(self, offsets: Mapping[FetchedPartition, int]) -> None:
        """See `Fetcher`."""
        self._read_to = dict(offsets)
        self._client.assign([TopicPartition(*one, offset) for one, offset in offsets.items()])

    def position(self, partition: FetchedPartition) -> int:
        """See `Fetcher`."""
        return self._read_to[partition]

    def poll(self) -> dict[FetchedPartition, list[Record]]:
        """See `Fetcher`."""
        found: dict[FetchedPartition, list[Record]] = {}
        try:
            polled = self._client.consume(RECORDS_MAX, POLL_MS / 1000)
        except KafkaException as error:
            raise failure(error.args[0].code(), error.args[0].str()) from error
        for message in polled:
            topic, number, offset = message.topic(), message.partition(), message.offset()
            problem = message.error()
            if topic is None or number is None or offset is None:
                assert problem is not None, "a message has a place"
                if not problem.retriable():
                    raise failure(problem.code(), problem.str())
                continue
            one = FetchedPartition(topic, number)
            if problem is None:
                found.setdefault(one, []).append((offset, message.key(), message.value()))
                self._read_to[one] = offset + 1
            elif problem.code() == KafkaError._PARTITION_EOF:
                # What ends a transaction is no message: only this tells that it has been passed.
                self._read_to[one] = max(self._read_to[one], offset)
            elif problem.code() in _GONE:
                raise messages_gone(str(one), problem.str())
            elif not problem.retriable():
                raise failure(problem.code(), problem.str(), at=str(one))
        return found

    def close(self) -> None:
        """See `Fetcher`."""
        self._client.close()
