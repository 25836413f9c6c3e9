"""Where archiving may be cut off, for `reached` and `watched` of `binlog_connector.crash_points`."""

from __future__ import annotations

from enum import StrEnum


class ArchiveCrashPoint(StrEnum):
    """What an archiver has just done; between any two of them the process may end."""

    CLAIMED = "claimed"
    """The manifest names this archiver."""
    STORED = "stored"
    """A part is there, and no reader sees it yet."""
    SAVED = "saved"
    """Readers see it."""
    REMOVED = "removed"
    """Parts that the manifest names no more are gone."""
