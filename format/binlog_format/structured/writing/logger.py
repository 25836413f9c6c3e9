"""`StructuredLogger`: `log.info("user {} took {} s", name, seconds)` as an event with typed arguments."""

from __future__ import annotations

import sys
import threading
import time
from typing import TYPE_CHECKING

from binlog_format.structured.layout import Severity
from binlog_format.structured.writing.call_sites import CallSite, CallSites
from binlog_format.structured.writing.session_writer import SessionWriter

if TYPE_CHECKING:
    from binlog_format.structured.writing.session import Session


class StructuredLogger:
    """Logs under one category; each thread has a writer, with its id and name.

    Argument types are derived from the values (docs/structured-logs.md#from-python). Times are those of `time.time_ns`,
    which is the clock of a session unless it was given another one.

    Args:
        session: Where the events go.
        category: What part of the program it is for.
    """

    def __init__(self, session: Session, category: str = "main") -> None:
        self._session = session
        self._category = category
        self._call_sites = CallSites(session)
        self._of_thread = threading.local()

    def trace(self, format: str, *args: object) -> None:
        """Log with the severity `TRACE`, as all of these methods with that of their name."""
        self._log(Severity.TRACE, format, args)

    def debug(self, format: str, *args: object) -> None:
        """Log with the severity `DEBUG`."""
        self._log(Severity.DEBUG, format, args)

    def info(self, format: str, *args: object) -> None:
        """Log with the severity `INFO`.

        Args:
            format: With `{}` for each argument.
            args: Any values.

        Raises:
            ArgumentError: `COUNT`: *format* has another number of `{}`.
        """
        self._log(Severity.INFO, format, args)

    def warning(self, format: str, *args: object) -> None:
        """Log with the severity `WARNING`."""
        self._log(Severity.WARNING, format, args)

    def error(self, format: str, *args: object) -> None:
        """Log with the severity `ERROR`."""
        self._log(Severity.ERROR, format, args)

    def critical(self, format: str, *args: object) -> None:
        """Log with the severity `CRITICAL`."""
        self._log(Severity.CRITICAL, format, args)

    def _log(self, severity: Severity, format: str, args: tuple[object, ...]) -> None:
        caller = sys._getframe(2)
        code = caller.f_code
        site = CallSite(severity, self._category, code.co_name, code.co_filename, caller.f_lineno)
        self._call_sites.add_event(self._writer(), time.time_ns(), site, format, args)

    def _writer(self) -> SessionWriter:
        writer: SessionWriter | None = getattr(self._of_thread, "writer", None)
        if writer is None:
            thread = threading.current_thread()
            writer = SessionWriter(self._session, id=threading.get_native_id(), name=thread.name)
            self._of_thread.writer = writer
        return writer
