"""`StructuredLogger`: `log.info("user {} took {} s", name, seconds)` as an event with typed arguments.

`CallSites`: the sources of the places in a program that log, made when they are first reached.
"""

from __future__ import annotations

import re
import sys
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from binlog_format.errors import ArgumentError
from binlog_format.structured.layout import Severity
from binlog_format.structured.writing.argument_tags import TEXT_TAG, tag_of_value
from binlog_format.structured.writing.session import SessionWriter

if TYPE_CHECKING:
    from binlog_format.structured.writing.session import LogSource, Session


PLACEHOLDER = "{}"
_PLACEHOLDER = re.compile(re.escape(PLACEHOLDER))
SOURCES_PER_LINE_MAX = 16
"""A line that has logged so many formats or types (an f-string) logs text from then on, not ever more sources."""


class CallSite(NamedTuple):
    """A place that logs: the fields of its sources that do not depend on what it logs."""

    severity: int
    category: str
    function: str
    file: str
    line: int


class CallSites:
    """Adds events by format and values: type tags are derived from the values."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._lock = threading.Lock()
        self._sources: dict[tuple[CallSite, str, bytes], LogSource] = {}
        self._count_by_line: Counter[tuple[str, int]] = Counter()

    def add_event(
        self, writer: SessionWriter, clock: int, site: CallSite, format: str, args: tuple[object, ...]
    ) -> None:
        """Queue an event; values that have no type, and surplus formats of a line, become one text.

        Args:
            format: With `{}` for each argument.

        Raises:
            ArgumentError: `COUNT`: *format* has another number of `{}`.
        """
        if format.count(PLACEHOLDER) != len(args):
            reason = f"{format!r} has {format.count(PLACEHOLDER)} times {PLACEHOLDER}, but {len(args)} arguments"
            raise ArgumentError("COUNT", reason)
        if not self._add_typed(writer, clock, site, format, args):
            values = iter(args)
            text = _PLACEHOLDER.sub(lambda _: str(next(values)), format)
            source = self._source(site, PLACEHOLDER, TEXT_TAG)
            writer.add_event(source or self._make(site, PLACEHOLDER, TEXT_TAG), clock, text)

    def _add_typed(
        self, writer: SessionWriter, clock: int, site: CallSite, format: str, args: tuple[object, ...]
    ) -> bool:
        try:
            source = self._source(site, format, b"".join(map(tag_of_value, args)))
            if source is not None:
                writer.add_event(source, clock, *args)
        except ArgumentError:  # also where a dataclass has other values than its annotations promise
            return False
        return source is not None

    def _source(self, site: CallSite, format: str, tags: bytes) -> LogSource | None:
        source = self._sources.get((site, format, tags))
        if source is None and self._count_by_line[site.file, site.line] < SOURCES_PER_LINE_MAX:
            return self._make(site, format, tags)
        return source

    def _make(self, site: CallSite, format: str, tags: bytes) -> LogSource:
        with self._lock:
            source = self._sources.get((site, format, tags))
            if source is None:
                source = self._session.add_source(format, tags, **site._asdict())
                self._sources[site, format, tags] = source
                self._count_by_line[site.file, site.line] += 1
            return source


class StructuredLogger:
    """Logs under one category; each thread has a writer, with its id and name.

    Argument types are derived from the values (docs/structured-logs.md#from-python). Times are those of `time.time_ns`,
    which is the clock of a session unless it was given another one.

    Args:
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
        """Log with the severity `INFO`. *format*: with `{}` for each argument."""
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
