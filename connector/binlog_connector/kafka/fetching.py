"""The interface that fetches messages: `Fetcher`, with an implementation for each client; it needs none of them."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from binlog_format.errors import DataLossError
from binlog_format.position import Place

if TYPE_CHECKING:
    from collections.abc import Mapping

POLL_MS = 100
"""Milliseconds that a poll waits for a message."""

FETCH_SIZE = 4 << 20
"""Bytes of one partition that a broker is asked for at a time."""

RECORDS_MAX = 20_000
"""Messages that one poll gives, at most."""

RecordHeaders = dict[str, str | bytes | None] | list[tuple[str, str | bytes | None]] | None
Record = tuple[int, bytes | None, bytes | None, RecordHeaders]
"""Offset, key, value and headers of a message."""


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
        """The next messages, of each partition in their order; none when none come within `POLL_MS`."""

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
