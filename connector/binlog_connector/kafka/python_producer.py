"""Producing with kafka-python: `PythonProducer`, with guards where that client loses messages or waits for ever.

* `commit_transaction()` succeeds though batches have expired: each message's future is looked at before.
* Nothing bounds what it holds in memory: no more than `WINDOW_SIZE` bytes are under way.
* Ends of transactions, and `close()`, wait without an end where no broker answers: they are done by parts of it that
  are not public, with a timeout.
"""

from __future__ import annotations

from itertools import repeat
from typing import TYPE_CHECKING, Any

from kafka import KafkaProducer
from kafka.errors import KafkaError

from binlog_connector.kafka.failures import broker_error
from binlog_connector.kafka.key_partitions import key_partitions
from binlog_connector.kafka.producer import BATCH_SIZE, DELIVERY_TIMEOUTS, LINGER_MS, MESSAGE_SIZE_MAX
from binlog_connector.kafka.topics import client_failure

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafka.future import Future

    from binlog_connector.kafka.connection import Connection
    from binlog_connector.kafka.messages import Messages
    from binlog_connector.kafka.producer import ProducerSettings


class PythonProducer:
    """See `Producer`.

    Args:
        connection: To the brokers.
        settings: How it writes.

    Raises:
        BrokerError: No broker can be used.
    """

    def __init__(self, connection: Connection, settings: ProducerSettings) -> None:
        self._timeout = connection.timeout
        self._client: KafkaProducer | None = None
        self._window = _Window(connection.timeout)
        try:
            self._client = KafkaProducer(**_client_settings(connection, settings))
            if settings.transactional_id is not None:
                self._client.init_transactions()
        except KafkaError as error:
            self.close()
            raise client_failure(error) from error

    def begin(self) -> None:
        """Begin a transaction."""
        try:
            self._open.begin_transaction()
        except KafkaError as error:
            raise client_failure(error) from error

    def send(self, messages: Messages) -> None:
        """Take messages."""
        try:
            for chunk in messages.chunks():
                self._window.add(chunk.topic, self._send(chunk), chunk.size)
        except KafkaError as error:
            raise client_failure(error, messages.topic) from error

    def _send(self, messages: Messages) -> list[Future]:
        client = self._open
        send, topic = client.send, messages.topic
        if messages.partition is None:
            count = len(client.partitions_for(topic))
            partitions: Iterable[int] = key_partitions(messages.keys, count).tolist()
        else:
            partitions = repeat(messages.partition)
        columns = (messages.values.to_pylist(), messages.keys.to_pylist(), messages.headers or repeat(None), partitions)
        return [send(topic, value, key, headers, place) for value, key, headers, place in zip(*columns, strict=False)]

    def flush(self) -> None:
        """Wait until everything sent is acknowledged."""
        try:
            self._open.flush(self._timeout)
            self._window.finish()
        except KafkaError as error:
            raise client_failure(error) from error

    def commit(self) -> None:
        """End the transaction, visible."""
        self.flush()
        self._end(self._open._transaction_manager.begin_commit)

    def abort(self) -> None:
        """End the transaction, invisible."""
        self._window = _Window(self._timeout)
        self._end(self._open._transaction_manager.begin_abort)

    def _end(self, begin: Any) -> None:
        # commit_transaction() and abort_transaction(), but for the timeout.
        try:
            result = begin()
            self._open._sender.wakeup()
            if not result.wait(timeout_ms=self._timeout * 1000):
                raise broker_error("FAILED", f"no answer to the end of a transaction within {self._timeout:g} s")
        except KafkaError as error:
            raise client_failure(error) from error

    def close(self) -> None:
        """Let go of everything."""
        client, self._client = self._client, None
        if client is None:
            return
        # close(timeout=0) flushes first, and where that fails it leaves its thread running.
        client._sender.force_close()
        client._sender.join(self._timeout)
        client.close(timeout=0)

    @property
    def _open(self) -> KafkaProducer:
        assert self._client is not None, "the producer is closed"
        return self._client


WINDOW_SIZE = 32 << 20
"""Bytes of messages that are not acknowledged, unless one message is larger."""


class _Window:
    # Messages under way, in two halves: the older one is acknowledged before the younger one grows beyond its size.
    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._older: list[tuple[str, list[Future]]] = []
        self._younger: list[tuple[str, list[Future]]] = []
        self._younger_size = 0

    def add(self, topic: str, futures: list[Future], size: int) -> None:
        """Take messages that have been sent; waits, and raises what became of older ones."""
        self._younger.append((topic, futures))
        self._younger_size += size
        if self._younger_size >= WINDOW_SIZE // 2:
            self._check(self._older)
            self._older, self._younger, self._younger_size = self._younger, [], 0

    def finish(self) -> None:
        """See that all messages are acknowledged."""
        self._check(self._older + self._younger)
        self._older, self._younger, self._younger_size = [], [], 0

    def _check(self, sent: list[tuple[str, list[Future]]]) -> None:
        for topic, futures in sent:
            for future in futures:
                if not future.succeeded():
                    self._wait(topic, future)

    def _wait(self, topic: str, future: Future) -> None:
        try:
            future.get(timeout=self._timeout)  # since the one before it was acknowledged
        except KafkaError as error:
            raise client_failure(error, topic) from error


def _client_settings(connection: Connection, settings: ProducerSettings) -> dict[str, object]:
    own: dict[str, object] = {
        "acks": "all",
        "batch_size": BATCH_SIZE,
        "linger_ms": LINGER_MS,
        "max_request_size": MESSAGE_SIZE_MAX,
        "max_block_ms": connection.timeout_ms,
        "delivery_timeout_ms": DELIVERY_TIMEOUTS * connection.timeout_ms,
        "request_timeout_ms": connection.timeout_ms,
        "allow_auto_create_topics": False,
        "compression_type": None if settings.compression == "none" else settings.compression,
        "metrics_enabled": False,
    }
    if settings.transactional_id is None:
        # Brokers without transactions may not know idempotence either; one request at a time keeps the order.
        own |= {"enable_idempotence": False, "max_in_flight_requests_per_connection": 1}
    else:
        own |= {
            "transactional_id": settings.transactional_id,
            "transaction_timeout_ms": int(settings.transaction_timeout * 1000),
        }
    return connection.python_settings() | own
