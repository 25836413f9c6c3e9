"""The time that the proof of one table may take, here and in the server's statements: `TimeLimit`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from binlog_format.errors import ServerError

if TYPE_CHECKING:
    from binlog_streaming.prove.comparison import OnProgress, ProofProgress
    from binlog_streaming.server.session import ServerSession


class TimeUpError(Exception):
    """The time of a table is over."""


class TimeLimit:
    """Ends the proof of one table after some time. *seconds*: how long it may take; None: as long as it needs."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._end = None if seconds is None else time.monotonic() + seconds

    @property
    def is_over(self) -> bool:
        """True if the time is over."""
        return self._end is not None and time.monotonic() >= self._end

    def begin(self, session: ServerSession) -> None:
        """Let no statement of a session take longer."""
        if self._seconds is not None:
            self._set(session, self._seconds)

    def check(self) -> None:
        """Go on only within the time. Raises `TimeUpError`: it is over."""
        if self.is_over:
            raise TimeUpError

    def checked(self, on_progress: OnProgress) -> OnProgress:
        """The same function, which goes on only within the time: see `check`."""

        def tell(progress: ProofProgress) -> None:
            self.check()
            on_progress(progress)

        return tell

    def end(self, session: ServerSession) -> None:
        """Let statements of a session take as long as they need; a session that was lost has none."""
        if self._seconds is not None and session.is_open:
            self._set(session, 0)

    def text(self, error: Exception) -> str:
        """Reason why a table was not compared, after *error*."""
        if isinstance(error, TimeUpError) or (isinstance(error, ServerError) and self.is_over):
            return f"it was not done within {self._seconds:,} s (--table-timeout)"
        return str(error)

    @staticmethod
    def _set(session: ServerSession, seconds: float) -> None:
        if session.version.is_mariadb:
            session.execute("SET SESSION max_statement_time = %s", seconds)
        else:
            session.execute("SET SESSION max_execution_time = %s", int(seconds * 1000))
