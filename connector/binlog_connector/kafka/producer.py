"""The interface of a Kafka client for a publisher: `Producer`; `clients.open_producer` makes one.

Guarantee for consumers of topics: `Delivery`; for settings, which load no client.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Protocol

from binlog_format.errors import OptionError

if TYPE_CHECKING:
    from binlog_connector.kafka.messages import Messages


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

    Raises:
        OptionError: `INVALID_VALUE`.
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
