"""Load of a snapshot on its server, measured meanwhile: `LoadMeter(session)`, then `result()` -> `SnapshotLoad`."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.errors import ServerError
from binlog_streaming.snapshot.sql_text import log_status_statement

if TYPE_CHECKING:
    from binlog_streaming.server.session import Row, ServerSession

_PERCENTILE = 99
_SAMPLE_SECONDS = 1.0
_MARIADB_HISTORY = "SHOW GLOBAL STATUS LIKE 'Innodb_history_list_length'"
_MYSQL_HISTORY = "SELECT NAME, `COUNT` FROM information_schema.INNODB_METRICS WHERE NAME = 'trx_rseg_history_len'"


@dataclass(frozen=True, slots=True)
class SnapshotLoad:
    """Measured load.

    Attributes:
        connections: Sessions that were open at the same time.
        lock_count: How often locks were held.
        lock_seconds: For how long: 99th percentile, and the longest time.
        log_bytes: Growth of the log; None: it is not known, as the account has no right to see it.
        is_log_shared: `log_bytes` has what others have written meanwhile, too.
        history: Length of the undo history before, and the largest one that was seen; None: it is not known.
    """

    connections: int
    lock_count: int
    lock_seconds: tuple[float, float]
    log_bytes: int | None
    is_log_shared: bool
    history: tuple[int, int] | None


class LoadMeter:
    """Measures from when it is made on.

    Args:
        session: On the server: the one that writes, where something is written.
        connections: Sessions that are open at the same time.
    """

    def __init__(self, session: ServerSession, connections: int = 1) -> None:
        self._session = session
        self._connections = connections
        self._held: list[float] = []
        self._log_start = self._log_place()
        self._history_before = self._history_max = self._history()
        self._sampled = time.monotonic()

    def held(self, seconds: float) -> None:
        """Take in how long locks were held; now and then it looks at the undo history."""
        self._held.append(seconds)
        now = time.monotonic()
        if now - self._sampled > _SAMPLE_SECONDS:
            self._sampled = now
            self.sample()

    def sample(self) -> None:
        """Look at the undo history."""
        now = self._history()
        if now is not None:
            self._history_max = max(now, self._history_max or 0)

    def result(self) -> SnapshotLoad:
        """The load so far."""
        before, most = self._history_before, self._history_max
        held = self._held or [0.0]
        return SnapshotLoad(
            connections=self._connections,
            lock_count=len(self._held),
            lock_seconds=(float(np.percentile(held, _PERCENTILE)), max(held)),
            log_bytes=self._log_bytes(),
            is_log_shared=not self._session.version.is_mariadb,
            history=None if before is None or most is None else (before, most),
        )

    def _history(self) -> int | None:
        return self._number(_MARIADB_HISTORY if self._session.version.is_mariadb else _MYSQL_HISTORY)

    def _number(self, statement: str) -> int | None:
        rows = self._known_rows(statement)
        return int(rows[0][1]) if rows else None

    def _log_place(self) -> tuple[str, int] | None:
        """Bytes that the session has written into the log (MariaDB); file and end of the log (MySQL)."""
        if self._session.version.is_mariadb:
            written = self._number("SHOW SESSION STATUS LIKE 'Binlog_bytes_written'")
            return None if written is None else ("", written)
        rows = self._known_rows(log_status_statement(self._session))
        return (str(rows[0][0]), int(rows[0][1])) if rows else None

    def _log_bytes(self) -> int | None:
        start, end = self._log_start, self._log_place()
        if start is None or end is None:
            return None
        if start[0] == end[0]:
            return end[1] - start[1]
        files = self._known_rows("SHOW BINARY LOGS")
        return None if files is None else sum(int(row[1]) for row in files if str(row[0]) >= start[0]) - start[1]

    def _known_rows(self, statement: str) -> list[Row] | None:
        """Rows of an answer; None: the account may not ask, or the session is lost, which whoever needs it notices."""
        try:
            return self._session.allowed_rows(statement)
        except ServerError:
            if self._session.is_open:
                raise
            return None
