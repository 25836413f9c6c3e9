"""Places where the write of a table may be cut off, for `reached` and `watched` of `binlog_connector.crash_points`."""

from __future__ import annotations

from enum import StrEnum

from binlog_connector.crash_points import reached, watched

__all__ = ["CrashPoint", "reached", "watched"]


class CrashPoint(StrEnum):
    """Step that a write has just finished; a process may end between any two steps."""

    LOOKED = "looked"
    """The target is known, and does not hold the batch."""
    CREATED = "created"
    """The empty table is there."""
    PARTS_WRITTEN = "parts written"
    """All tasks that share the batch's rows have written theirs, and no reader sees them yet."""
    FILES_WRITTEN = "files written"
    """The batch's files are there, and no reader sees them yet."""
    COMMITTED = "committed"
    """Readers see the batch."""
