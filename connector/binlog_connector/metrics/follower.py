"""Progress of followers, and the meters of their logs, for `MetricsExporter`: `Follower`.

Amounts per second over the last moments: `Rate`.
"""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from binlog_connector.metrics.lag import Consumed

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.metrics.lag import Lag
    from binlog_format.position import Position


WINDOW_SECONDS = 10.0
SLOT_SECONDS = 0.25
"""Amounts that come closer together are kept as one."""


class Rate:
    """Sums amounts; may be used by several threads.

    Args:
        clock: Seconds that only go forward.

    Attributes:
        total: The sum of all that was added.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._began = clock()
        self._slots: deque[tuple[float, int]] = deque()
        self.total = 0

    def add(self, amount: int) -> None:
        """Count *amount*, done just now."""
        now = self._clock()
        with self._lock:
            self.total += amount
            if self._slots and now - self._slots[-1][0] < SLOT_SECONDS:
                self._slots[-1] = self._slots[-1][0], self._slots[-1][1] + amount
            else:
                self._slots.append((now, amount))
            self._forget(now)

    def per_second(self) -> float:
        """The mean over the last `WINDOW_SECONDS`, or since the beginning when that is less."""
        now = self._clock()
        with self._lock:
            self._forget(now)
            passed = min(max(now - self._began, SLOT_SECONDS), WINDOW_SECONDS)
            return sum(amount for _, amount in self._slots) / passed

    def _forget(self, now: float) -> None:
        while self._slots and self._slots[0][0] < now - WINDOW_SECONDS:
            self._slots.popleft()


@dataclass(slots=True)
class TopicTotals:
    """Messages that a follower has published in Kafka.

    Attributes:
        sizes: Bytes of keys and values by topic.
        committed: Transactions that consumers see.
        aborted: Transactions that were begun and had to be done again.
    """

    records: Counter[str] = field(default_factory=Counter)
    sizes: Counter[str] = field(default_factory=Counter)
    committed: int = 0
    aborted: int = 0


@dataclass(slots=True)
class ArchiveTotals:
    """Files that an archiver has stored.

    Attributes:
        size: Their bytes.
        waiting_since: When the oldest file was last written that the server may purge and that is not archived whole,
            seconds since 1970 UTC; None: there is none.
    """

    file_count: int = 0
    size: int = 0
    waiting_since: float | None = None


@dataclass(slots=True)
class LogProgress:
    """Progress of a follower; the follower sets it, the exporter reads it.

    Attributes:
        consumed: What it has taken; None: nothing is known yet.
        rows: Row changes, or events of a structured log, taken.
        size: Bytes of the log taken.
        transactions: Event groups taken.
        set_aside: Tables that do not go on, while the others do.
        proved: By table how many rows of its targets changes proved, since the job began to record its state.
        bytes_per_row: Bytes of files that were written anew for each changed row, over about a day; by table.
        verified: By table and mode when it was last proved to be the same as on the server, seconds since 1970 UTC.
        topics: What it has published; None: it does not publish.
        archive: What it has archived; None: it does not archive.
    """

    consumed: Consumed | None = None
    rows: Rate = field(default_factory=Rate)
    size: Rate = field(default_factory=Rate)
    transactions: int = 0
    set_aside: tuple[str, ...] = ()
    proved: dict[str, int] = field(default_factory=dict)
    bytes_per_row: dict[str, float] = field(default_factory=dict)
    verified: dict[tuple[str, str], int] = field(default_factory=dict)
    topics: TopicTotals | None = None
    archive: ArchiveTotals | None = None

    def took(self, end: SourceOffset, *, rows: int, size: int, groups: int, last_timestamp: int | None) -> None:
        """A part of the log has been taken.

        Args:
            rows: Row changes, or events, in the part.
            size: Bytes of the part.
            last_timestamp: Of the last group, seconds since 1970 UTC; None: there is none.
        """
        self.rows.add(rows)
        self.size.add(size)
        self.transactions += groups
        known = None if self.consumed is None else self.consumed.timestamp
        self.consumed = Consumed(end, known if last_timestamp is None else last_timestamp)


class Meter(Protocol):
    """Measures a log, as `LagMeter` does."""

    def lag(self, consumed: Callable[[], Consumed]) -> Lag:
        """See `LagMeter.lag`."""

    def size_between(self, start: Position, end: Position) -> int:
        """See `LagMeter.size_between`."""

    def close(self) -> None:
        """See `LagMeter.close`."""


@dataclass(frozen=True, slots=True)
class Follower:
    """A reader that follows a log, as the metrics see it.

    Attributes:
        name: Tells it from others: the label `name` of its metrics.
        meter: Measures its log; None: how much waits is not known.
    """

    name: str
    meter: Meter | None
    progress: LogProgress = field(default_factory=LogProgress)
