"""Producing with kafka-python: `PythonProducer`, with guards where that client loses messages or waits for ever.

* `send()` takes tens of microseconds for a message: record batches are made here, whole columns at a time, and laid
  into its queues.
* `commit_transaction()` succeeds though batches have expired: what became of each batch is looked at before.
* `flush()` ends with an error when a batch is split, as those are that a topic does not take whole: what is left of
  one is waited for here.
* Nothing bounds what it holds in memory: no more than `WINDOW_SIZE` bytes are under way.
* A transaction that begins while brokers still end the one before is asked for again, after 100 ms whatever the client
  means to wait: after `_ASK_AGAIN_MS` here.
* Ends of transactions, and `close()`, wait without an end where no broker answers: they are done with a timeout.

For all of that parts of it are used that are not public.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from kafka import KafkaProducer, TopicPartition
from kafka.errors import KafkaError, KafkaTimeoutError
from kafka.producer.future import FutureRecordMetadata
from kafka.producer.producer_batch import ProducerBatch
from kafka.record.default_records import DefaultRecordBatchBuilder
from kafka.record.memory_records import MemoryRecordsBuilder

from binlog_connector.kafka.connection import broker_error
from binlog_connector.kafka.producer import BATCH_SIZE, DELIVERY_TIMEOUTS, LINGER_MS, MESSAGE_SIZE_MAX
from binlog_connector.kafka.record_batches import RecordBatch, record_batches
from binlog_connector.kafka.topics import client_failure

if TYPE_CHECKING:
    from binlog_connector.kafka.connection import Connection
    from binlog_connector.kafka.producer import Messages, ProducerSettings
    from binlog_format.errors import BrokerError

_MAGIC = 2
"""The form of record batches that transactions came with."""

_ASK_AGAIN_MS = 5
"""Milliseconds until a request about a transaction is repeated that brokers could not do yet."""

HEADER_SIZE = DefaultRecordBatchBuilder.header_size_in_bytes()
"""Bytes of what the client writes before records."""


class PythonProducer:
    """See `Producer`."""

    def __init__(self, connection: Connection, settings: ProducerSettings) -> None:
        self._timeout = connection.timeout
        self._client: KafkaProducer | None = None
        self._window = _Window(connection.timeout)
        try:
            self._client = KafkaProducer(**_client_settings(connection, settings))
            if settings.transactional_id is not None:
                self._client._sender.config["retry_backoff_ms"] = _ASK_AGAIN_MS
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
            partition_count = len(self._open.partitions_for(messages.topic))
            for batch in record_batches(messages, partition_count, BATCH_SIZE, before=HEADER_SIZE):
                if batch.count == 1 and len(batch.records) > MESSAGE_SIZE_MAX:
                    reason = f"a message of {len(batch.records):,} bytes; no request holds more than 100 MB"
                    raise broker_error("MESSAGE_TOO_LARGE", reason, at=f"topic {messages.topic}")
                self._window.add(self._enqueue(TopicPartition(messages.topic, batch.partition), batch))
        except KafkaError as error:
            raise self._window.failure() or client_failure(_cause(error), messages.topic) from error

    def _enqueue(self, partition: TopicPartition, batch: RecordBatch) -> SentBatch:
        # What send() does with one message.
        client = self._open
        if client._transaction_manager is not None and client._transaction_manager.is_transactional():
            client._transaction_manager.maybe_add_partition_to_transaction(partition)
        accumulator = client._accumulator
        sent = filled_batch(partition, accumulator.config["compression_attrs"], batch)
        with accumulator._tp_lock(partition):
            accumulator._batches[partition].append(sent)
            accumulator._incomplete.add(sent)
        client._sender.wakeup()
        return sent

    def flush(self) -> None:
        """Wait until everything sent is acknowledged."""
        accumulator = self._open._accumulator
        accumulator.begin_flush()  # batches wait for no others
        try:
            self._open._sender.wakeup()
            self._window.finish()
        finally:
            accumulator._flushes_in_progress.decrement()

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
            raise client_failure(_cause(error)) from error

    def close(self) -> None:
        """Close the client."""
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


def _cause(error: KafkaError) -> KafkaError:
    # After a message that was refused all else is refused too, with the reason beside the text.
    return next((reason for reason in error.args if isinstance(reason, KafkaError)), error)


WINDOW_SIZE = 32 << 20
"""Bytes of messages that are not acknowledged, unless one message is larger."""


class _Window:
    # Batches under way, in two halves: the older one is acknowledged before the younger one grows beyond its size.
    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._older: list[SentBatch] = []
        self._younger: list[SentBatch] = []
        self._younger_size = 0

    def add(self, batch: SentBatch) -> None:
        """Take a batch that has been sent; waits, and raises errors of older ones."""
        self._younger.append(batch)
        self._younger_size += batch.records.size_in_bytes()
        if self._younger_size >= WINDOW_SIZE // 2:
            self._check(self._older)
            self._older, self._younger, self._younger_size = self._younger, [], 0

    def finish(self) -> None:
        """See that all batches are acknowledged."""
        self._check(self._older + self._younger)
        self._older, self._younger, self._younger_size = [], [], 0

    def failure(self) -> BrokerError | None:
        """Error of the first batch that is known to have failed; None: no batch is."""
        for batch in self._older + self._younger:
            if (error := batch.failure()) is not None:
                return client_failure(error, batch.topic_partition.topic)
        return None

    def _check(self, batches: list[SentBatch]) -> None:
        for batch in batches:
            try:
                batch.wait(self._timeout)  # since the one before it was acknowledged
            except KafkaError as error:
                raise client_failure(error, batch.topic_partition.topic) from error


class SentBatch(ProducerBatch):  # type: ignore[misc] # without types
    """A batch that is laid whole into the queue of its partition."""

    def __init__(self, partition: TopicPartition, records: MemoryRecordsBuilder) -> None:
        super().__init__(partition, records)
        self._record_futures = self._parts = _Parts(self)

    def wait(self, timeout: float) -> None:
        """Wait until it is acknowledged, in parts if it had to be split; raises its error."""
        whole = self.produce_future
        if not whole.wait(timeout):
            raise KafkaTimeoutError(f"no answer within {timeout:g} s")
        if not whole.is_done:
            self._parts.wait(timeout)
            return
        if whole.failed():
            raise whole.exception
        _, _, error_of_record = whole.value
        if error_of_record is not None:
            raise error_of_record(0)

    def failure(self) -> KafkaError | None:
        """Error of the batch, without waiting; None: it is acknowledged, or under way."""
        whole = self.produce_future
        if not whole.is_done:
            return self._parts.failure()
        if whole.failed():
            return whole.exception
        _, _, error_of_record = whole.value
        return None if error_of_record is None else error_of_record(0)


class _Parts:
    # Futures of a batch's records. They are asked for only when it is split, and only then they begin to exist: all of
    # them at once, since who waits goes on as soon as the first one has become a part's.
    def __init__(self, batch: SentBatch) -> None:
        self._batch = batch
        self._futures: list[FutureRecordMetadata] = []

    def __len__(self) -> int:
        return int(self._batch.record_count)

    def __getitem__(self, number: int) -> FutureRecordMetadata:
        if not self._futures:
            whole, unknown = self._batch.produce_future, (None, None, -1, -1, -1)
            self._futures = [FutureRecordMetadata(whole, place, *unknown) for place in range(len(self))]
        return self._futures[number]

    def wait(self, timeout: float) -> None:
        for future in self._futures:
            future.get(timeout)

    def failure(self) -> KafkaError | None:
        return next((future.exception for future in self._futures if future.failed()), None)


def filled_batch(partition: TopicPartition, compression: int, batch: RecordBatch) -> SentBatch:
    """Build the batch that kafka-python sends, from all its records: it adds their header, and compresses them.

    Args:
        compression: Number of the compression in the attributes of a batch.
        batch: With `HEADER_SIZE` bytes free before the records.
    """
    records = MemoryRecordsBuilder(_MAGIC, compression, BATCH_SIZE)
    records._next_offset = batch.count
    builder = records._builder
    builder._buffer = batch.records
    builder._num_records = batch.count
    builder._last_offset = batch.count - 1
    builder._first_timestamp = builder._max_timestamp = int(time.time() * 1000)
    return SentBatch(partition, records)


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
