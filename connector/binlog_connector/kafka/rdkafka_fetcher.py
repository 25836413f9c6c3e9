"""Fetching with confluent-kafka, which is librdkafka: `RdkafkaFetcher`.

The interface that fetches messages: `Fetcher`, with an implementation for each client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition

from binlog_connector.kafka.connection import failure
from binlog_connector.kafka.rdkafka_producer import SILENT
from binlog_format.errors import DataLossError
from binlog_format.position import Place

if TYPE_CHECKING:
    from collections.abc import Mapping

    from binlog_connector.kafka.connection import Connection


POLL_MS = 100
"""Milliseconds that a poll waits for a message."""

FETCH_SIZE = 4 << 20
"""Bytes of one partition that a broker is asked for at a time."""

RECORDS_MAX = 20_000
"""Messages that one poll gives, at most."""

Record = tuple[int, bytes | None, bytes | None]
"""Offset, key and value of a message."""


class FetchedPartition(NamedTuple):
    """One partition of a topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"topic {self.topic}, partition {self.number}"


class Fetcher(Protocol):
    """A consumer of committed messages, of partitions that it is given, from offsets that it is given."""

    def go_on_at(self, offsets: Mapping[FetchedPartition, int]) -> None:
        """Fetch these partitions alone, from there."""

    def position(self, partition: FetchedPartition) -> int:
        """Offset up to which it has been read; control records count too, once nothing follows them."""

    def poll(self) -> dict[FetchedPartition, list[Record]]:
        """The next messages, of each partition in their order; none when none come within `POLL_MS`.

        Raises:
            DataLossError: `MESSAGES_GONE`.
        """

    def close(self) -> None:
        """Close the connections."""


def messages_gone(at: str, reason: str) -> DataLossError:
    """The error for messages that should be in a topic."""
    return DataLossError(
        "MESSAGES_GONE",
        f"messages that were not read are not in the topic any more: {reason}",
        at=Place(at),
        hint="Retention has removed them, or the topic was made anew. The tables lack these changes: begin anew with "
        "another checkpoint and other tables, from topics that hold everything; keep messages longer than any outage",
    )


_GONE = (KafkaError.OFFSET_OUT_OF_RANGE, KafkaError._AUTO_OFFSET_RESET)


class RdkafkaFetcher:
    """See `Fetcher`."""

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
        self._client.assign([TopicPartition(*partition, offset) for partition, offset in offsets.items()])

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
            partition = FetchedPartition(topic, number)
            if problem is None:
                found.setdefault(partition, []).append((offset, message.key(), message.value()))
                self._read_to[partition] = offset + 1
            elif problem.code() == KafkaError._PARTITION_EOF:
                # What ends a transaction is no message: only this tells that it has been passed.
                self._read_to[partition] = max(self._read_to[partition], offset)
            elif problem.code() in _GONE:
                raise messages_gone(str(partition), problem.str())
            elif not problem.retriable():
                raise failure(problem.code(), problem.str(), at=str(partition))
        return found

    def close(self) -> None:
        """See `Fetcher`."""
        self._client.close()
