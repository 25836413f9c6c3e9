"""Progress of a publishing job: `Published` reports on one transaction, `PublishProgress` sums up."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_connector.following.offsets import SourceOffset

    PublishListener = Callable[["Published"], None]


@dataclass(slots=True)
class Records:
    """Messages of one transaction, by topic.

    Attributes:
        counts: How many.
        sizes: Bytes of keys and values.
        made_at: When all had been made, by the monotonic clock; 0: not yet.
    """

    counts: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)
    made_at: float = 0.0


@dataclass(frozen=True, slots=True)
class Published:
    """One transaction of Kafka that consumers see.

    Attributes:
        offset: After its event groups.
        groups: How many these are.
        size: Bytes of the log that they take.
        last_timestamp: Of the last group, seconds since 1970 UTC; None: there is none.
        records: What it brought into the topics.
        seconds: How long it took.
        read_seconds: Of `seconds`, until its messages had been made and passed on.
        attempts: How often it was begun; all but the last time it was not committed.
    """

    offset: SourceOffset
    groups: int
    size: int
    last_timestamp: int | None
    records: Records
    seconds: float
    attempts: int
    read_seconds: float = 0.0


@dataclass(slots=True)
class PublishProgress:
    """Messages that a process has published.

    Attributes:
        transactions: Transactions of Kafka.
        groups: Event groups.
        records: Messages.
    """

    transactions: int = 0
    groups: int = 0
    records: int = 0

    def add(self, one: Published) -> None:
        """One more transaction."""
        self.transactions += 1
        self.groups += one.groups
        self.records += one.records.counts.total()
