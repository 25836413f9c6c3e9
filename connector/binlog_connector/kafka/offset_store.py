"""A publisher's progress, in Kafka itself: `OffsetStore`, the newest record of a compacted topic.

The record of a transaction is written by the transaction, so messages and offset are there together or not at all.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError

from binlog_connector.kafka.connection import broker_error
from binlog_connector.kafka.producer import Messages
from binlog_connector.kafka.topics import Topics, client_failure, committed_consumer, known_offsets
from binlog_format.errors import BrokerError, UnsupportedError
from binlog_format.position import Place

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafka.consumer.fetcher import ConsumerRecord

    from binlog_connector.kafka.connection import Connection

VERSION = 1
TOPIC_SETTINGS = {"cleanup.policy": "compact", "segment.bytes": str(16 << 20), "min.cleanable.dirty.ratio": "0.1"}
"""Settings of a topic that we create; of an existing topic only the first one is required."""

_PARTITION = 0
_LOOK_BACK = 64
"""Places before the end where the newest record is looked for first; four times as many each further time."""


class OffsetRecord(msgspec.Struct, frozen=True):
    """Record of a transaction in the topic of offsets.

    Attributes:
        session: Of the publisher that committed it; each start is a session.
        number: Of the transaction, counted over all sessions.
        offset: After the last event group that is in the topics; None: none is.
        version: Of this record's form.
    """

    session: str
    number: int
    offset: str | None
    version: int = VERSION


NOTHING = OffsetRecord("", 0, None)
"""Record before the first transaction."""


class OffsetStore:
    """The records of one publisher. *topic*: compacted; publishers may share it."""

    def __init__(self, connection: Connection, topic: str, key: str) -> None:
        self.topic = topic
        self._connection = connection
        self._key = key.encode()

    def messages(self, record: OffsetRecord) -> Messages:
        """Make the messages that store *record* as part of a transaction."""
        keys, values = pa.array([self._key]), pa.array([msgspec.json.encode(record)])
        return Messages(self.topic, keys, values, partition=_PARTITION)

    def ensure(self, *, may_create: bool) -> None:
        """See that the topic is there and keeps each publisher's newest record.

        Args:
            may_create: Create it if it is not there; else that it is not means that it was lost.
        """
        with Topics(self._connection) as topics:
            count = topics.partition_count(self.topic)
            if count is None:
                if not may_create:
                    raise self.lost("the topic is not there")
                topics.create(self.topic, partitions=1, settings=TOPIC_SETTINGS)
                return
            policy = topics.settings(self.topic).get("cleanup.policy")
            if policy != "compact":
                raise BrokerError(
                    "OFFSETS_TOPIC",
                    f"the topic of offsets has cleanup.policy={policy}, which deletes the newest record with time",
                    at=Place(f"topic {self.topic}"),
                    hint="Set its cleanup.policy to compact, or name another topic",
                )

    def newest(self, *, waits: bool) -> OffsetRecord | None:
        """The newest committed record; None: there is none.

        Args:
            waits: For transactions of others that are open in the topic, too: what they hide may be newer. Of this
                publisher's own none may be open. Else only what can be read now counts.
        """
        consumer = committed_consumer(self._connection)
        try:
            return self._find(consumer, waits=waits)
        except KafkaError as error:
            raise client_failure(error, self.topic) from error
        finally:
            consumer.close(autocommit=False)

    def _find(self, consumer: KafkaConsumer, *, waits: bool) -> OffsetRecord | None:
        partition = TopicPartition(self.topic, _PARTITION)
        consumer.assign([partition])
        first = self._offset(consumer.beginning_offsets, partition)
        end = self._log_end(partition) if waits else self._offset(consumer.end_offsets, partition)
        look_back = _LOOK_BACK
        while True:
            start = max(first, end - look_back)
            found = self._last_of_ours(consumer, partition, start, end)
            if found is not None:
                return None if found.value is None else self._decoded(found.value)
            if start <= first:
                return None
            look_back *= 4

    def _offset(
        self, ask: Callable[[list[TopicPartition]], dict[TopicPartition, int]], partition: TopicPartition
    ) -> int:
        return known_offsets(ask, [partition], self._connection)[partition]

    def _log_end(self, partition: TopicPartition) -> int:
        # With read_committed the end is where the first open transaction begins.
        consumer = KafkaConsumer(**self._connection.python_settings(), group_id=None, enable_auto_commit=False)
        try:
            return self._offset(consumer.end_offsets, partition)
        finally:
            consumer.close(autocommit=False)

    def _last_of_ours(
        self, consumer: KafkaConsumer, partition: TopicPartition, start: int, end: int
    ) -> ConsumerRecord | None:
        found = None
        consumer.seek(partition, start)
        deadline = time.monotonic() + self._connection.timeout
        # The end may be that of a transaction, which is no message: only the position shows that all has been read.
        while (position := consumer.position(partition)) < end:
            for record in consumer.poll(timeout_ms=100).get(partition, ()):
                if record.key == self._key and record.offset < end:
                    found = record
            if consumer.position(partition) > position:
                deadline = time.monotonic() + self._connection.timeout
            elif time.monotonic() > deadline:
                reason = f"its end ({end}) cannot be read: at {position} a transaction is open, or no answer comes"
                raise broker_error("TRANSACTION_OPEN", reason, at=f"topic {self.topic}")
        return found

    def _decoded(self, value: bytes) -> OffsetRecord:
        try:
            record = msgspec.json.decode(value, type=OffsetRecord)
        except msgspec.DecodeError as error:
            raise BrokerError(
                "OFFSETS_TOPIC",
                f"the newest record of {self._key.decode()} is not one of a publisher: {error}",
                at=Place(f"topic {self.topic}"),
                hint="Name another topic for the offsets",
            ) from error
        if record.version > VERSION:
            reason = f"the record of {self._key.decode()} has version {record.version}, known is {VERSION}"
            raise UnsupportedError("VERSION", reason, at=Place(f"topic {self.topic}"), hint="Use a later version")
        return record

    def lost(self, what: str) -> BrokerError:
        """The error for a record that should be there."""
        return BrokerError(
            "OFFSETS_LOST",
            f"how far {self._key.decode()} has published is not known any more: {what}",
            at=Place(f"topic {self.topic}"),
            hint="Bring the topic back. Or publish anew under another name, into empty topics",
        )
