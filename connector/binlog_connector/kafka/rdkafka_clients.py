"""Producing with confluent-kafka, which is librdkafka: `RdkafkaProducer`.

Fetching with confluent-kafka, which is librdkafka: `RdkafkaFetcher`.
"""

from __future__ import annotations

import logging
import time
from itertools import repeat
from typing import TYPE_CHECKING, Any

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka import Producer as Client

from binlog_connector.kafka.connection import broker_error, failure
from binlog_connector.kafka.fetching import FETCH_SIZE, POLL_MS, RECORDS_MAX, FetchedPartition, messages_gone
from binlog_connector.kafka.producer import BATCH_SIZE, DELIVERY_TIMEOUTS, LINGER_MS, MESSAGE_SIZE_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from binlog_connector.kafka.connection import Connection
    from binlog_connector.kafka.fetching import Record
    from binlog_connector.kafka.producer import Messages, ProducerSettings
    from binlog_format.errors import BrokerError


_POLL_SECONDS = 0.05
_QUEUE_SIZE = MESSAGE_SIZE_MAX + (1 << 20)
"""Largest size of the queue; the largest message fits."""

_QUEUE_MESSAGES = 500_000
"""Largest number of queued messages: each takes 200 bytes besides its own."""

_PURGED = (KafkaError._PURGE_QUEUE, KafkaError._PURGE_INFLIGHT)
"""Errors of messages that were sent in a transaction, and left out when it was aborted."""

SILENT = logging.getLogger("binlog_connector.kafka.librdkafka")
SILENT.propagate = False
SILENT.addHandler(logging.NullHandler())
"""librdkafka writes to the standard error output by itself; what matters comes as an error."""


class RdkafkaProducer:
    """See `Producer`."""

    def __init__(self, connection: Connection, settings: ProducerSettings) -> None:
        self._timeout = connection.timeout
        self._failed: BrokerError | None = None
        own = {"on_delivery": self._not_delivered, "error_cb": self._complained}
        self._client: Client | None = self._called(Client, _client_settings(connection, settings) | own)
        if settings.transactional_id is not None:
            try:
                self._called(self._client.init_transactions, self._timeout)
            except BaseException:
                self.close()
                raise

    def begin(self) -> None:
        """Begin a transaction."""
        self._called(self._open.begin_transaction)

    def send(self, messages: Messages) -> None:
        """Take messages."""
        for chunk in messages.chunks():
            try:
                self._send(chunk)
            except KafkaException as error:
                # After a message that was refused all others are refused, in other words: that one is told of by now.
                self._poll(_POLL_SECONDS)
                raise _raised(error, chunk.topic) from error
            self._poll(0)

    def _send(self, messages: Messages) -> None:
        # produce_batch() takes longer, and when the queue is full it leaves out messages and takes those after them.
        produce, topic = self._open.produce, messages.topic
        place = -1 if messages.partition is None else messages.partition
        all_headers: Iterable[Any] = messages.headers or repeat(None)
        columns = (messages.values.to_pylist(), messages.keys.to_pylist(), all_headers)
        for value, key, headers in zip(*columns, strict=False):
            while True:
                try:
                    produce(topic, value, key, place, headers=headers)
                    break
                except BufferError:
                    self._wait_for_room()

    def _wait_for_room(self) -> None:
        before, deadline = len(self._open), self._deadline()
        assert before, "an empty queue takes the largest message"
        enough = before // 2
        while (left := len(self._open)) > enough:
            self._poll(_POLL_SECONDS)
            before, deadline = self._progress(left, before, deadline)

    def flush(self) -> None:
        """Wait until everything sent is acknowledged."""
        before, deadline = len(self._open), self._deadline()
        while left := self._called(self._open.flush, _POLL_SECONDS):
            self._poll(0)
            before, deadline = self._progress(left, before, deadline)
        self._poll(0)

    def commit(self) -> None:
        """End the transaction, visible."""
        self.flush()
        self._called(self._open.commit_transaction, self._timeout)

    def abort(self) -> None:
        """End the transaction, invisible."""
        self._called(self._open.abort_transaction, self._timeout)
        self._failed = None

    def close(self) -> None:
        """Close the client."""
        client, self._client = self._client, None
        if client is not None:
            client.purge(blocking=False)  # else its end waits until all of it has timed out

    def _poll(self, seconds: float) -> None:
        self._called(self._open.poll, seconds)
        if self._failed is not None:
            raise self._failed

    def _called(self, call: Callable[..., Any], *arguments: object) -> Any:
        try:
            return call(*arguments)
        except KafkaException as error:
            raise self._failed or _raised(error) from error

    def _not_delivered(self, error: KafkaError | None, message: Any) -> None:
        # Messages of an aborted transaction are reported when it suits the client, also during the one after it.
        if error is not None and self._failed is None and error.code() not in _PURGED:
            self._failed = failure(error.code(), error.str(), at=f"topic {message.topic()}")

    def _complained(self, error: KafkaError) -> None:
        # What it mends by itself comes here too; only what it cannot mend ends the producer.
        named = failure(error.code(), error.str())
        if named.subclass in {"AUTHENTICATION", "TLS"} or error.fatal():
            self._failed = self._failed or named

    def _progress(self, left: int, before: int, deadline: float) -> tuple[int, float]:
        """Number of messages that are left, and the time by which there must be fewer."""
        if left < before:
            return left, self._deadline()
        if time.monotonic() > deadline:
            raise broker_error("FAILED", f"no message was acknowledged within {self._timeout:g} s")
        return before, deadline

    def _deadline(self) -> float:
        return time.monotonic() + self._timeout

    @property
    def _open(self) -> Client:
        assert self._client is not None, "the producer is closed"
        return self._client


def _raised(error: KafkaException, topic: str | None = None) -> BrokerError:
    reason: KafkaError = error.args[0]
    return failure(reason.code(), reason.str(), at=None if topic is None else f"topic {topic}")


def _client_settings(connection: Connection, settings: ProducerSettings) -> dict[str, Any]:
    own: dict[str, object] = {
        "acks": "all",
        "partitioner": "murmur2",
        "batch.size": BATCH_SIZE,
        "batch.num.messages": 100_000,
        "linger.ms": LINGER_MS,
        "message.max.bytes": MESSAGE_SIZE_MAX,
        "queue.buffering.max.kbytes": _QUEUE_SIZE >> 10,
        "queue.buffering.max.messages": _QUEUE_MESSAGES,
        "message.timeout.ms": _message_timeout_ms(connection, settings),
        "topic.metadata.propagation.max.ms": connection.timeout_ms,
        "allow.auto.create.topics": False,
        "compression.type": settings.compression,
        "delivery.report.only.error": True,
        "logger": SILENT,
    }
    if settings.transactional_id is None:
        # Brokers without transactions may not know idempotence either; one request at a time keeps the order.
        own |= {"enable.idempotence": False, "max.in.flight": 1}
    else:
        own |= {
            "transactional.id": settings.transactional_id,
            "transaction.timeout.ms": int(settings.transaction_timeout * 1000),
        }
    return connection.rdkafka_settings() | own


def _message_timeout_ms(connection: Connection, settings: ProducerSettings) -> int:
    # librdkafka takes none that is longer than that of the transaction.
    return int(min(DELIVERY_TIMEOUTS * connection.timeout, settings.transaction_timeout) * 1000)


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
                found.setdefault(partition, []).append((offset, message.key(), message.value(), message.headers()))
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
