"""A table in ranges of its key, dealt out to sessions: `KeyRanges`."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from binlog_streaming.snapshot.chunk_sql import bound_statement
from binlog_streaming.snapshot.marks import Bounds

if TYPE_CHECKING:
    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.snapshot.source_table import SourceTable

RANGE_BYTES = 64 << 20
"""Approximate size of a range: the cost of its statement is small, and all sessions end at about the same time."""
_RANGE_ROWS_MAX = 1 << 20
_RANGE_ROWS_MIN = 1 << 10


class KeyRanges:
    """The ranges of a table, one for who asks next; together they are all of it. For several threads.

    Args:
        session: Finds where ranges end; at the point that all read.
        table: Without a key it is one range.
        row_size: Bytes of a row, about.
    """

    def __init__(self, session: ServerSession, table: SourceTable, row_size: int) -> None:
        self._session = session
        self._table = table
        self._size = min(max(RANGE_BYTES // max(row_size, 1), _RANGE_ROWS_MIN), _RANGE_ROWS_MAX)
        self._lock = threading.Lock()
        self._after: tuple[str, ...] | None = None
        self._is_done = False

    def next(self) -> Bounds | None:
        """The next range; None: there is none, or others have stopped.

        Raises:
            ServerError: What the server answered.
        """
        with self._lock:
            if self._is_done:
                return None
            bounds = Bounds(self._after, self._through())
            self._after, self._is_done = bounds.through, bounds.through is None
            return bounds

    def stop(self) -> None:
        """Give nobody another range."""
        self._is_done = True

    def _through(self) -> tuple[str, ...] | None:
        key = self._table.key
        if key is None:
            return None
        rows = self._session.rows(bound_statement(self._table, key, self._after, self._size))
        return tuple(_text(value) for value in rows[0]) if rows else None


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
