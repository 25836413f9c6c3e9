"""The machine's clock as a `ClockSync`."""

from __future__ import annotations

import os
import time

from binlog_format.structured.layout import NS_PER_SECOND
from binlog_format.structured.metadata import ClockSync


def system_clock_sync() -> ClockSync:
    """A clock that shows nanoseconds since 1970 UTC, as `time.time_ns` does, in the time zone of this process."""
    now = time.time_ns()
    local = time.localtime(now // NS_PER_SECOND)
    return ClockSync(now, NS_PER_SECOND, now, local.tm_gmtoff, os.fsencode(local.tm_zone))
