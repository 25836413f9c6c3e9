"""Size and time of the next chunk: `Pace`, `RateLimit`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

LOCK_SECONDS = 0.02
"""Wanted duration of the locks of a chunk."""
SIZE_FIRST = 1_000
SIZE_MAX = 50_000
SIZE_BY_TIME_MIN = 1_000
"""Below this the rows are not what takes the time, but the disk or others: smaller chunks only make more of them."""
BYTES_FIRST_MAX = 4 << 20
BYTES_MAX = 64 << 20
"""Largest size of a chunk, by the average size of the table's rows."""
_GROWTH_MAX = 2
_SECONDS_MIN = 1e-6
_SHRINKING = 4
_PAUSES_PER_SECOND = 10
"""Pauses per second with a limited rate: chunks are no larger than the rate allows between two pauses."""


class Pace:
    """Sizes of chunks: as many rows as locks may be held for, fewer where others hold locks.

    Args:
        row_size: Bytes of a row, on average.
        rate: Rows in a second, at most; None: no limit.

    Attributes:
        size: Rows of the next chunk.
        is_waiting: It is of one row, and waits for its lock.
    """

    def __init__(self, row_size: int, rate: int | None = None) -> None:
        self._size_max = max(1, min(SIZE_MAX, BYTES_MAX // max(1, row_size)))
        if rate is not None:
            self._size_max = max(1, min(self._size_max, rate // _PAUSES_PER_SECOND))
        self.size = min(SIZE_FIRST, self._size_max, max(1, BYTES_FIRST_MAX // max(1, row_size)))
        self.is_waiting = False

    def wrote(self, row_count: int, lock_seconds: float) -> None:
        """Take in how long the locks of a chunk were held."""
        self.is_waiting = False
        if row_count < self.size:
            return  # the table's last one, or rows were deleted meanwhile
        fitting = int(row_count * LOCK_SECONDS / max(lock_seconds, _SECONDS_MIN))
        self.size = min(max(fitting, SIZE_BY_TIME_MIN), self.size * _GROWTH_MAX, self._size_max)

    def refused(self) -> None:
        """Note that a chunk was refused for locks of others, or its size; the next one is smaller, or waits."""
        self.is_waiting = self.size == 1
        self.size = max(1, self.size // _SHRINKING)


class RateLimit:
    """Delays a writer that is faster than its limit.

    Args:
        rate: Rows in a second; None: no limit.
        clock: Seconds, from any start.
        sleep: Waits that many seconds.
    """

    def __init__(
        self,
        rate: int | None,
        *,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._rate = rate
        self._clock = clock
        self._sleep = sleep
        self._due = clock()

    def take(self, row_count: int) -> None:
        """Wait until *row_count* rows that were just written are within the rate; unused time is not saved up."""
        if self._rate is None:
            return
        self._due += row_count / self._rate
        now = self._clock()
        if self._due > now:
            self._sleep(self._due - now)
        else:
            self._due = now
