"""The interface of a Kafka client for a publisher: `Producer`; `publisher.open_producer` makes one.

Guarantee for consumers of topics: `Delivery`; for settings, which load no client.

Messages for a topic: `Messages`, a table of keys and values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

from binlog_format.errors import OptionError
from binlog_format.position import Place

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa


class Delivery(StrEnum):
    """Guarantee for consumers."""

    EXACTLY_ONCE = "exactly-once"
    AT_LEAST_ONCE = "at-least-once"
    """For brokers without transactions: after an error or a kill, all messages since the last record are sent again."""


BATCH_SIZE = 1_000_000
"""Bytes of a record batch; a topic's default limit is 1,048,588."""

MESSAGE_SIZE_MAX = 100_000_000
"""A broker ends the connection for a request above 104,857,600 bytes (`socket.request.max.bytes`), without a word; up
to this it is the topic's own limit that counts. A producer holds no more than this in memory."""

LINGER_MS = 50
"""Milliseconds that a batch waits for more messages, unless it is full or a transaction ends."""
DELIVERY_TIMEOUTS = 6
"""A message has so many timeouts of the connection to be acknowledged: on a slow network what is held takes its time,
and while some of it is acknowledged nothing is wrong."""

COMPRESSIONS = ("none", "gzip", "zstd")
"""Compressions that both clients support without another package."""


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """Settings of a producer.

    Attributes:
        transactional_id: Of the one producer that may write under this name; None: no transactions.
        transaction_timeout: Seconds after which brokers abort a transaction that has not ended.
        compression: One of `COMPRESSIONS`.
    """

    transactional_id: str | None = None
    transaction_timeout: float = 900.0
    compression: str = "none"

    def __post_init__(self) -> None:
        if self.compression not in COMPRESSIONS:
            reason = f"compression {self.compression}: known are {', '.join(COMPRESSIONS)}"
            raise OptionError("INVALID_VALUE", reason)


class Producer(Protocol):
    """A connection that writes messages, by one thread. After an error only `abort` and `close` may be called.

    A producer with a transactional id is alone with it from the moment it is made: transactions of others are ended.

    All methods raise `BrokerError`. What takes longer than the connection's timeout is one; a commit that raises may
    have been done all the same.
    """

    def begin(self) -> None:
        """Begin a transaction."""

    def send(self, messages: Messages) -> None:
        """Take messages, in their order; waits while too many bytes are not acknowledged."""

    def flush(self) -> None:
        """Wait until everything sent is acknowledged."""

    def commit(self) -> None:
        """End the transaction, if everything sent in it is acknowledged: all of it is visible."""

    def abort(self) -> None:
        """End the transaction: nothing of it is visible."""

    def close(self) -> None:
        """Close the client at once; an open transaction stays open for its timeout. May be called again."""


CHUNK_ROWS = 4096
"""Messages that exist as Python objects at a time, unless they are large."""

CHUNK_SIZE = 4 << 20
"""Bytes of such messages, unless one is larger."""

Headers = list[tuple[str, bytes]]

CLAIM_HEADER = "__binlog_stream.claim"
"""Header of a message whose value is a claim: it tells in which file the value is; no other message has it."""


class ClaimedFile(NamedTuple):
    """A file with the value of a message.

    Attributes:
        size: Its bytes, as the claim tells.
        read: Reads them; may be called by any thread.
    """

    size: int
    read: Callable[[], bytes]


FileOf = Callable[[bytes | None, Place], ClaimedFile]
"""Finds the file that a claim names; the place is that of its message, for errors."""


@dataclass(frozen=True, slots=True)
class Messages:
    """Messages for one topic, in their order.

    Attributes:
        keys: Binary; null where a message has none. Messages with the same key go to the same partition, those without
            a key all go to one.
        values: Binary, as long as *keys*; null is a tombstone.
        headers: Of each message; None: no message has any.
        partition: To which all of them go; None: by their keys.
    """

    topic: str
    keys: pa.Array
    values: pa.Array
    headers: Sequence[Headers] | None = None
    partition: int | None = None

    def __post_init__(self) -> None:
        assert len(self.keys) == len(self.values), "a message is a key and a value"
        assert self.headers is None or len(self.headers) == len(self.values), "each message has its headers"

    def __len__(self) -> int:
        return len(self.values)

    @property
    def size(self) -> int:
        """Bytes of keys and values."""
        return int(self.keys.nbytes + self.values.nbytes)

    def chunks(self) -> Iterator[Messages]:
        """The same messages in parts that are small enough to be made Python objects."""
        if not len(self):
            return
        rows = max(1, min(CHUNK_ROWS, CHUNK_SIZE * len(self) // max(self.size, 1)))
        for start in range(0, len(self), rows):
            part = slice(start, start + rows)
            headers = self.headers and self.headers[part]
            yield Messages(self.topic, self.keys[part], self.values[part], headers, self.partition)
