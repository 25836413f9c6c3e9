"""What the page shows, as JSON and in parts, so that only those are sent that have changed: `PageParts`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import msgspec

from binlog_streaming.status.view import status_json

if TYPE_CHECKING:
    from binlog_streaming.status.model import JobStatus, TableStatus
    from binlog_streaming.status.view import JobView

TABLES_MAX = 500
"""Tables on the page: those with problems, and then those that changed last; `/status.json` has all."""


class PageParts:
    """Gives the parts; may be used by several threads.

    Args:
        view: Gives how the job is.
    """

    def __init__(self, view: JobView) -> None:
        self._view = view
        self._lock = threading.Lock()
        self._made: tuple[JobStatus, dict[str, bytes]] | None = None

    def parts(self) -> dict[str, bytes]:
        """JSON of each part, by name."""
        status = self._view.status()
        with self._lock:
            if self._made is None or self._made[0] is not status:
                values = status_json(status)
                tables = status.state.tables
                values["tables"] = sorted(tables, key=_urgency)[:TABLES_MAX]
                values["tables_total"] = len(tables)
                self._made = status, {name: _json(value) for name, value in values.items()}
            return self._made[1]


def whole_status(view: JobView) -> bytes:
    """How a job is, as JSON."""
    return _json(status_json(view.status()))


def _urgency(table: TableStatus) -> tuple[bool, bool, float, str]:
    has_failed = table.snapshot is not None and table.snapshot.problem is not None
    is_well = table.set_aside is None and not has_failed
    return is_well, table.is_complete is not False, -(table.last_commit or 0), table.name


def _json(value: object) -> bytes:
    return msgspec.json.encode(value)
