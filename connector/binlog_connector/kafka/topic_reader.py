"""Messages of topics that were committed: `TopicReader` reads on, or a range again."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError, OffsetOutOfRangeError

from binlog_connector.kafka.failures import broker_error
from binlog_connector.kafka.topics import Topics, client_failure
from binlog_format.errors import DataLossError
from binlog_format.position import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from types import TracebackType
    from typing import Self

    from kafka.consumer.fetcher import ConsumerRecord
    from numpy.typing import NDArray

    from binlog_connector.kafka.connection import Connection

POLL_MS = 100
_FETCH_SIZE = 4 << 20
_POLL_RECORDS_MAX = 20_000


class Partition(NamedTuple):
    """One partition of a topic."""

    topic: str
    number: int

    def __str__(self) -> str:
        return f"topic {self.topic}, partition {self.number}"


@dataclass(frozen=True, slots=True)
class PartitionMessages:
    """Messages of one partition, in their order.

    Attributes:
        partition: Where they are.
        offsets: Of each.
        keys: Large binary; null where a message has none.
        values: Large binary; null: a tombstone.
    """

    partition: Partition
    offsets: NDArray[np.int64]
    keys: pa.Array
    values: pa.Array

    def __len__(self) -> int:
        return len(self.offsets)

    def before(self, offset: int) -> PartitionMessages:
        """Those with lower offsets."""
        count = int(np.searchsorted(self.offsets, offset))
        return PartitionMessages(self.partition, self.offsets[:count], self.keys[:count], self.values[:count])


class TopicReader:
    """A consumer of committed messages that keeps no offsets in Kafka; a context manager.

    Args:
        connection: To the brokers.

    Raises:
        BrokerError: What keeps brokers from being used.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        try:
            self._consumer = KafkaConsumer(
                **connection.python_settings(),
                isolation_level="read_committed",
                auto_offset_reset="none",
                enable_auto_commit=False,
                group_id=None,
                allow_auto_create_topics=False,
                max_partition_fetch_bytes=_FETCH_SIZE,
                max_poll_records=_POLL_RECORDS_MAX,
            )
        except KafkaError as error:
            with Topics(connection):  # says why
                raise client_failure(error) from error

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._consumer.close(autocommit=False)

    def partitions(self, topics: Iterable[str]) -> list[Partition]:
        """Of those *topics* that there are."""
        return [
            Partition(topic, number)
            for topic in sorted(topics)
            for number in sorted(self._consumer.partitions_for_topic(topic) or ())
        ]

    def topics(self) -> set[str]:
        """Names of all topics that may be seen.

        Raises:
            BrokerError: They cannot be asked for.
        """
        try:
            found: set[str] = self._consumer.topics()
        except KafkaError as error:
            raise client_failure(error) from error
        return found

    def ranges(self, partitions: Iterable[Partition]) -> dict[Partition, tuple[int, int]]:
        """The first offset that there is, and the one after the last committed message.

        Raises:
            BrokerError: They cannot be asked for.
        """
        wanted = [TopicPartition(*one) for one in partitions]
        starts, ends = (
            self._asked(self._consumer.beginning_offsets, wanted),
            self._asked(self._consumer.end_offsets, wanted),
        )
        return {Partition(one.topic, one.partition): (starts[one], ends[one]) for one in wanted}

    def _asked(
        self, ask: Callable[[list[TopicPartition]], dict[TopicPartition, int]], wanted: list[TopicPartition]
    ) -> dict[TopicPartition, int]:
        deadline = time.monotonic() + self._connection.timeout
        while True:
            try:
                return ask(wanted)
            except KafkaError as error:
                raise client_failure(error) from error
            except KeyError as error:
                # A leader that has just become one may not know yet, and the client is not ready for that.
                if time.monotonic() > deadline:
                    raise broker_error(
                        "FAILED", "the broker knows no offsets", at=f"topic {wanted[0].topic}"
                    ) from error
                time.sleep(POLL_MS / 1000)

    def go_on_at(self, offsets: Mapping[Partition, int]) -> None:
        """Read these partitions alone, from there."""
        self._consumer.assign([TopicPartition(*one) for one in offsets])
        for one, offset in offsets.items():
            self._consumer.seek(TopicPartition(*one), offset)

    def position(self, partition: Partition) -> int:
        """Up to where it has been read; what is no message counts."""
        return int(self._consumer.position(TopicPartition(*partition)))

    def read(self, count_max: int, size_max: int, seconds: float) -> list[PartitionMessages]:
        """The next messages, as many as there are now; none when none have come within so many *seconds*.

        Args:
            count_max: When there are so many, that is enough.
            size_max: The same of the bytes of their values.
            seconds: To wait for the first one.

        Raises:
            DataLossError: `MESSAGES_GONE`.
            BrokerError: What keeps brokers from being used.
        """
        found: dict[Partition, list[ConsumerRecord]] = defaultdict(list)
        count = size = 0
        deadline = time.monotonic() + seconds
        while count < count_max and size < size_max:
            polled = self._polled()
            for one, records in polled.items():
                found[Partition(one.topic, one.partition)] += records
                count += len(records)
                size += sum(len(record.value) for record in records if record.value is not None)
            if not polled and (count or time.monotonic() >= deadline):
                break
        return [_messages(partition, records) for partition, records in sorted(found.items())]

    def read_ranges(self, ranges: Mapping[Partition, tuple[int, int]]) -> list[PartitionMessages]:
        """The messages from the first to before the second offset of each partition.

        Raises:
            DataLossError: `MESSAGES_GONE`.
            BrokerError: What keeps brokers from being used; `FAILED`: they do not come.
        """
        self.go_on_at({one: start for one, (start, _) in ranges.items()})
        found: dict[Partition, list[ConsumerRecord]] = defaultdict(list)
        deadline = time.monotonic() + self._connection.timeout
        while left := [one for one, (_, end) in ranges.items() if self.position(one) < end]:
            polled = self._polled()
            for tp, records in polled.items():
                one = Partition(tp.topic, tp.partition)
                found[one] += [record for record in records if record.offset < ranges[one][1]]
            if polled:
                deadline = time.monotonic() + self._connection.timeout
            elif time.monotonic() > deadline:
                raise broker_error("FAILED", f"its messages do not come up to {ranges[left[0]][1]}", at=str(left[0]))
        return [_messages(partition, records) for partition, records in sorted(found.items()) if records]

    def _polled(self) -> dict[TopicPartition, list[ConsumerRecord]]:
        try:
            polled: dict[TopicPartition, list[ConsumerRecord]] = self._consumer.poll(timeout_ms=POLL_MS)
        except OffsetOutOfRangeError as error:
            raise messages_gone("a topic", str(error)) from error
        except KafkaError as error:
            raise client_failure(error) from error
        return polled


def messages_gone(at: str, reason: str) -> DataLossError:
    """The error for messages that should be in a topic."""
    return DataLossError(
        "MESSAGES_GONE",
        f"messages that were not read are not in the topic any more: {reason}",
        at=Place(at),
        hint="Retention has removed them, or the topic was made anew. The tables lack these changes: begin anew with "
        "another checkpoint and other tables, from topics that hold everything; keep messages longer than any outage",
    )


def _messages(partition: Partition, records: list[ConsumerRecord]) -> PartitionMessages:
    return PartitionMessages(
        partition,
        np.array([record.offset for record in records], dtype=np.int64),
        pa.array([record.key for record in records], pa.large_binary()),
        pa.array([record.value for record in records], pa.large_binary()),
    )
