"""A clock that goes on when it is told to: `FakeClock`."""

from __future__ import annotations


class FakeClock:
    """Stands in for `time.monotonic`. *now*: seconds; a test sets it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        """Stands in for `time.sleep`."""
        assert seconds >= 0
        self.now += seconds
