"""Amounts per second over the last moments: `Rate`."""

from __future__ import annotations

import threading
import time
from collections import deque
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

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
