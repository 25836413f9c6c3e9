"""Times that cannot be, by which a clock that is wrong is noticed: `odd_clock`."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

_SECOND_MIN = 315_532_800
"""1980: no program of today logged before."""
_SECONDS_AHEAD_MAX = 24 * 3600


def odd_clock(seconds: Iterable[int]) -> str | None:
    """Words about the first of some times (since 1970 UTC) that cannot be; None: all can."""
    last = time.time() + _SECONDS_AHEAD_MAX
    odd = next((second for second in seconds if not _SECOND_MIN <= second <= last), None)
    if odd is None:
        return None
    told = datetime.fromtimestamp(odd, UTC).isoformat()
    return f"an event has the time {told}: the clock of the program that logs, or its clock sync, is wrong"
