"""Messages of topics that were committed: `TopicReader` reads on, or a range again."""

from __future__ import annotations

import math
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
from kafka import KafkaConsumer, TopicPartition
from kafka.errors import KafkaError, OffsetOutOfRangeError

from binlog_connector.kafka.connection import broker_error
from binlog_connector.kafka.fetching import (
    FETCH_SIZE,
    POLL_MS,
    RECORDS_MAX,
    FetchedPartition,
    Fetcher,
    Record,
    messages_gone,
)
from binlog_connector.kafka.producer import CLAIM_HEADER, ClaimedFile
from binlog_connector.kafka.publisher import default_client
from binlog_connector.kafka.topics import Topics, client_failure, committed_consumer, known_offsets
from binlog_format.errors import BrokerError
from binlog_format.position import Place

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from typing import Self

    from kafka.consumer.fetcher import ConsumerRecord

    from binlog_connector.kafka.connection import Connection
    from binlog_connector.kafka.producer import FileOf
    from binlog_format.kernels import Int64s

FILES_AT_ONCE = 8
"""Files with values of messages that are read at a time: object stores take long to answer, and answer many at once."""


@dataclass(frozen=True, slots=True)
class PartitionMessages:
    """Messages of one partition, in their order.

    Attributes:
        offsets: Of each.
        keys: Large binary; null where a message has none.
        values: Large binary; null: a tombstone.
    """

    partition: FetchedPartition
    offsets: Int64s
    keys: pa.Array
    values: pa.Array

    def __len__(self) -> int:
        return len(self.offsets)

    def before(self, offset: int) -> PartitionMessages:
        """The messages with lower offsets."""
        count = int(np.searchsorted(self.offsets, offset))
        return PartitionMessages(self.partition, self.offsets[:count], self.keys[:count], self.values[:count])


class TopicReader:
    """A consumer of committed messages that keeps no offsets in Kafka; a context manager.

    Args:
        file_of: File with the value of a message that has a claim in its place, by the claim and the message's place.
        client: Package that fetches messages; None: as `default_client`. What there is to read,
            kafka-python asks.
    """

    def __init__(self, connection: Connection, file_of: FileOf, client: str | None = None) -> None:
        self._connection = connection
        self._file_of = file_of
        self._reading: tuple[FetchedPartition, ...] = ()
        self._consumer = committed_consumer(
            connection, auto_offset_reset="none", max_partition_fetch_bytes=FETCH_SIZE, max_poll_records=RECORDS_MAX
        )
        self._looking: KafkaConsumer | None = None
        self._fetcher = self._new_fetcher(client)

    def _new_fetcher(self, client: str | None) -> Fetcher:
        if (client or default_client()) == "kafka-python":
            return PythonFetcher(self._consumer)
        from binlog_connector.kafka.rdkafka_clients import RdkafkaFetcher

        return RdkafkaFetcher(self._connection)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._fetcher.close()
        self._consumer.close(autocommit=False)
        if self._looking is not None:
            self._looking.close(autocommit=False)

    def partitions(self, topics: Iterable[str]) -> list[FetchedPartition]:
        """Partitions of those *topics* that exist."""
        return [
            FetchedPartition(topic, number)
            for topic in sorted(topics)
            for number in sorted(self._consumer.partitions_for_topic(topic) or ())
        ]

    def topics(self) -> set[str]:
        """Names of all topics that may be seen."""
        try:
            found: set[str] = self._consumer.topics()
        except KafkaError as error:
            raise client_failure(error) from error
        return found

    def ranges(self, partitions: Iterable[FetchedPartition]) -> dict[FetchedPartition, tuple[int, int]]:
        """The first offset that there is, and the one after the last committed message."""
        wanted = [TopicPartition(*partition) for partition in partitions]
        starts, ends = (
            known_offsets(self._consumer.beginning_offsets, wanted, self._connection),
            known_offsets(self._consumer.end_offsets, wanted, self._connection),
        )
        return {FetchedPartition(*partition): (starts[partition], ends[partition]) for partition in wanted}

    def may_be_compacted(self, topics: Iterable[str]) -> bool:
        """True if a compaction may have removed messages of some of *topics*, or if their settings may not be read."""
        with Topics(self._connection) as asked:
            try:
                return any("compact" in asked.settings(topic).get("cleanup.policy", "") for topic in topics)
            except BrokerError as error:
                if error.subclass != "DENIED":
                    raise
                return True

    def log_ends(self, partitions: Iterable[FetchedPartition]) -> dict[FetchedPartition, int]:
        """The offset after the last message, committed or not."""
        # With read_committed the end is where the first open transaction begins.
        if self._looking is None:
            settings = self._connection.python_settings()
            self._looking = KafkaConsumer(**settings, group_id=None, enable_auto_commit=False)
        wanted = [TopicPartition(*partition) for partition in partitions]
        ends = known_offsets(self._looking.end_offsets, wanted, self._connection)
        return {FetchedPartition(*partition): end for partition, end in ends.items()}

    def go_on_at(self, offsets: Mapping[FetchedPartition, int]) -> None:
        """Read these partitions alone, from there."""
        self._reading = tuple(offsets)
        self._fetcher.go_on_at(offsets)

    def position(self, partition: FetchedPartition) -> int:
        """Offset up to which it has been read; control records count too."""
        return self._fetcher.position(partition)

    def read(self, count_max: int, size_max: int, seconds: float) -> list[PartitionMessages]:
        """The next messages, as many as there are now; none when none have come within so many *seconds*.

        Args:
            count_max: When there are so many, that is enough.
            size_max: The same of the bytes of their values, those in files too.
        """
        found: dict[FetchedPartition, list[Record]] = defaultdict(list)
        count = size = 0
        deadline = time.monotonic() + seconds
        while count < count_max and size < size_max:
            polled = self._fetcher.poll()
            cuts = {}
            for partition, records in polled.items():
                taken, taken_size = with_contents(partition, records, self._file_of, size_max - size)
                found[partition] += taken
                count += len(taken)
                size += taken_size
                if len(taken) < len(records):
                    cuts[partition] = records[len(taken)][0]
            if cuts:
                self.go_on_at({partition: cuts.get(partition, self.position(partition)) for partition in self._reading})
            if not polled and (count or time.monotonic() >= deadline):
                break
        return [_messages(partition, records) for partition, records in sorted(found.items()) if records]

    def read_ranges(self, ranges: Mapping[FetchedPartition, tuple[int, int]]) -> list[PartitionMessages]:
        """The messages from the first to before the second offset of each partition."""
        self.go_on_at({partition: start for partition, (start, _) in ranges.items()})
        found: dict[FetchedPartition, list[Record]] = defaultdict(list)
        deadline = time.monotonic() + self._connection.timeout
        while left := [partition for partition, (_, end) in ranges.items() if self.position(partition) < end]:
            polled = self._fetcher.poll()
            for partition, records in polled.items():
                wanted = [record for record in records if record[0] < ranges[partition][1]]
                found[partition] += with_contents(partition, wanted, self._file_of)[0]
            if polled:
                deadline = time.monotonic() + self._connection.timeout
            elif time.monotonic() > deadline:
                raise broker_error("FAILED", f"its messages do not come up to {ranges[left[0]][1]}", at=str(left[0]))
        return [_messages(partition, records) for partition, records in sorted(found.items()) if records]


def with_contents(
    partition: FetchedPartition, records: Sequence[Record], file_of: FileOf, size_max: float = math.inf
) -> tuple[list[Record], int]:
    """Records with contents in place of claims, and bytes of all values; after *size_max* no file is read."""
    made, files, size = list[Record](), dict[int, ClaimedFile](), 0
    for record in records:
        offset, _, value, headers = record
        if headers and CLAIM_HEADER in dict(headers):
            if size >= size_max:
                break
            files[len(made)] = file = file_of(value, Place(f"{partition}, offset {offset}"))
            size += file.size
        else:
            size += 0 if value is None else len(value)
        made.append(record)
    if files:
        with ThreadPoolExecutor(FILES_AT_ONCE, "binlog-stream-read") as pool:
            for place, content in zip(files, pool.map(lambda file: file.read(), files.values()), strict=True):
                offset, key, _, _ = made[place]
                made[place] = (offset, key, content, None)
    return made, size


class PythonFetcher:
    """Fetches with kafka-python. *consumer*: of committed messages."""

    def __init__(self, consumer: KafkaConsumer) -> None:
        self._consumer = consumer

    def go_on_at(self, offsets: Mapping[FetchedPartition, int]) -> None:
        """See `Fetcher`."""
        self._consumer.assign([TopicPartition(*partition) for partition in offsets])
        for partition, offset in offsets.items():
            self._consumer.seek(TopicPartition(*partition), offset)

    def position(self, partition: FetchedPartition) -> int:
        """See `Fetcher`."""
        return int(self._consumer.position(TopicPartition(*partition)))

    def poll(self) -> dict[FetchedPartition, list[Record]]:
        """See `Fetcher`."""
        try:
            polled: dict[TopicPartition, list[ConsumerRecord]] = self._consumer.poll(timeout_ms=POLL_MS)
        except OffsetOutOfRangeError as error:
            raise messages_gone("a topic", str(error)) from error
        except KafkaError as error:
            raise client_failure(error) from error
        return {
            FetchedPartition(partition.topic, partition.partition): [
                (record.offset, record.key, record.value, record.headers) for record in records
            ]
            for partition, records in polled.items()
        }

    def close(self) -> None:
        """The consumer is the reader's."""


def _messages(partition: FetchedPartition, records: list[Record]) -> PartitionMessages:
    return PartitionMessages(
        partition,
        np.array([offset for offset, _, _, _ in records], dtype=np.int64),
        pa.array([key for _, key, _, _ in records], pa.large_binary()),
        pa.array([value for _, _, value, _ in records], pa.large_binary()),
    )
