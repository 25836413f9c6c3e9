"""`StructuredLogHandler`: what a program logs with Python's `logging`, in a structured log.

Messages of Python's `logging` as formats with `{}` and values: `message_of`.
"""

from __future__ import annotations

import logging
import math
import os
import re
import sys
import threading
import time
import weakref
from collections.abc import Mapping
from functools import lru_cache
from numbers import Real
from pathlib import Path
from typing import NamedTuple

from binlog_format.errors import BinlogError
from binlog_format.structured.layout import NS_PER_MICRO, Severity
from binlog_format.structured.writing.logger import PLACEHOLDER, CallSite, CallSites
from binlog_format.structured.writing.rotating_stream import MAX_BYTES, RotatingStream
from binlog_format.structured.writing.session import Session, SessionWriter

_CONVERSION = re.compile(r"%(?:\((?P<key>[^)]*)\))?[-#0 +]*(?:\*|\d*)(?:\.(?:\*|\d*))?[hlL]?(?P<type>.)", re.DOTALL)
_INTEGER_TYPES = frozenset("diu")
_FLOAT_TYPES = frozenset("eEfFgG")
_FORMATS_REMEMBERED = 4096


class _Conversion(NamedTuple):
    """`%s` and its like, and the literal text before it.

    Attributes:
        literal: Before it.
        text: As it is in the message; nothing: the message ends there.
        key: Of its value, where the values are a dict.
        type: Its last letter.
    """

    literal: str
    text: str = ""
    key: str | None = None
    type: str = ""


def message_of(record: logging.LogRecord) -> tuple[str, tuple[object, ...]]:
    """The format and the values of a record's message.

    Numbers keep their types and all their digits: width and precision of `%` conversions have no effect. Other
    conversions than those of numbers and `%s` give text. A message with as many `{}` as values, and no conversion, is
    taken as it is.

    Raises:
        TypeError: Message and values do not fit; `ValueError`, `KeyError`: the same, as for Python's own handlers.
    """
    message, values = str(record.msg), record.args
    if not values:
        return _with_literals([message], [])
    conversions = _conversions(message)
    if len(conversions) == 1 and message.count(PLACEHOLDER) == len(values):
        return message, tuple(values.values()) if isinstance(values, Mapping) else values
    if isinstance(values, Mapping):
        found = [
            values[conversion.key] if conversion.key is not None else values
            for conversion in conversions[:-1]
            if conversion.type != "%"
        ]
    elif any("*" in conversion.text for conversion in conversions):
        return _with_literals([message % values], [])
    else:
        found = list(values)
    wanted = [conversion for conversion in conversions[:-1] if conversion.type != "%"]
    if len(found) != len(wanted):
        raise TypeError(f"{message!r} has {len(wanted)} conversions, but {len(found)} values")
    return _converted(conversions, found)


@lru_cache(_FORMATS_REMEMBERED)
def _conversions(message: str) -> tuple[_Conversion, ...]:
    conversions = []
    end = 0
    for found in _CONVERSION.finditer(message):
        conversions.append(_Conversion(message[end : found.start()], found[0], found["key"], found["type"]))
        end = found.end()
    return (*conversions, _Conversion(message[end:]))


def _converted(conversions: tuple[_Conversion, ...], found: list[object]) -> tuple[str, tuple[object, ...]]:
    literals, values = [""], []
    following = iter(found)
    for conversion in conversions:
        literals[-1] += conversion.literal
        if conversion.type == "%":
            literals[-1] += "%"
        elif conversion.type:
            values.append(_value(conversion, next(following)))
            literals.append("")
    return _with_literals(literals, values)


def _value(conversion: _Conversion, value: object) -> object:
    if conversion.type == "s":
        return value
    if isinstance(value, Real):
        if conversion.type in _INTEGER_TYPES:
            return math.trunc(value)
        if conversion.type in _FLOAT_TYPES:
            return float(value)
    # As text, or the error that Python's own handlers have.
    return re.sub(r"\(.*\)", "", conversion.text, count=1, flags=re.DOTALL) % (value,)


def _with_literals(literals: list[str], values: list[object]) -> tuple[str, tuple[object, ...]]:
    """The format of literal texts with a value after each but the last: `{}` in a text becomes a value, too."""
    all_values: list[object] = []
    for number, literal in enumerate(literals):
        all_values += [PLACEHOLDER] * literal.count(PLACEHOLDER)
        all_values += values[number : number + 1]
    return PLACEHOLDER.join(literals), tuple(all_values)


def text_of(record: logging.LogRecord) -> str:
    """A record's message as text; where its values cannot be put into it, the message and the values beside it."""
    for show in (record.getMessage, lambda: f"{record.msg} {record.args!r}", lambda: str(record.msg)):
        try:
            return show()
        except Exception:
            continue
    return f"a message of the type {type(record.msg).__name__}, which cannot be shown"


WRITE_INTERVAL_S = 0.2
"""Longest time that an event waits in memory, as long as the disk is fast enough."""
QUEUED_MAX = 1 << 26
"""Bytes of events that wait in memory; what comes then is dropped, and counted by an event of its own."""
WRITERS_MAX = 256
"""Threads that a writer is kept for."""
_UNCONVERTED = "{} ({})"
"""Format of a record whose values could not be converted: its text, and the reason."""
_DROPPED = "{} events were dropped: {} bytes waited to be written"
_US_PER_SECOND = 1_000_000
_SEVERITIES = (
    (logging.CRITICAL, Severity.CRITICAL),
    (logging.ERROR, Severity.ERROR),
    (logging.WARNING, Severity.WARNING),
    (logging.INFO, Severity.INFO),
    (logging.DEBUG, Severity.DEBUG),
)


class StructuredLogHandler(logging.Handler):
    """Writes records as events with typed arguments, on a thread of its own: logging never waits for the disk.

    The logger's name is the category, the thread the writer; an exception and a stack are a text argument at the end.
    Nothing is formatted: a formatter has no effect. In a forked child the log is another file, `NAME-PID.EXTENSION`.

    Args:
        path: Of the newest file; see `RotatingStream`, as for *max_bytes* and *backups*.
        max_bytes: Size at which a file is renamed.
        backups: How many renamed files are kept; None: all.
        sync_interval: Seconds after which what was written is forced to the disk; None: the operating system decides.
        queued_max: Bytes of events that wait in memory; events that come then are dropped, and an event counts them.

    Raises:
        StorageError: The file cannot be written, or another process writes it.
        CorruptError: The file that is there is no structured log.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        max_bytes: int = MAX_BYTES,
        backups: int | None = None,
        sync_interval: float | None = None,
        queued_max: int = QUEUED_MAX,
        level: int = logging.NOTSET,
    ) -> None:
        super().__init__(level)
        self._path = Path(path).absolute()
        self._max_bytes = max_bytes
        self._backups = backups
        self._sync_interval = sync_interval
        self._queued_max = queued_max
        self._log: _ProcessLog | None = self._open(self._path)
        _HANDLERS.add(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Queue a record."""
        try:
            if self._log is None:  # a forked child logs for the first time
                self._log = self._open(self._path.with_stem(f"{self._path.stem}-{os.getpid()}"))
            try:
                self._log.add(record, *self._with_attachments(record, *message_of(record)))
            except Exception as error:  # a value's own methods may raise anything; the record is not lost for it
                values = text_of(record), f"{type(error).__name__}: {error}"
                self._log.add(record, *self._with_attachments(record, _UNCONVERTED, values))
                record.getMessage()  # message and values that do not fit are reported, as by Python's own handlers
        except Exception:
            self.handleError(record)

    def flush(self) -> None:
        """Write all that is queued. Raises `StorageError`: the file system has refused; nothing is lost."""
        if self._log is not None:
            self._log.write()

    def close(self) -> None:
        """Write all that is queued, and close the file; at the end of the program `logging` does it.

        Raises:
            StorageError: The file system has refused, and the events in memory are lost.
        """
        super().close()
        log, self._log = self._log, None
        if log is not None:
            log.close()

    def _open(self, path: Path) -> _ProcessLog:
        return _ProcessLog(path, self._max_bytes, self._backups, self._sync_interval, self._queued_max)

    def _with_attachments(
        self, record: logging.LogRecord, format: str, values: tuple[object, ...]
    ) -> tuple[str, tuple[object, ...]]:
        for text in self._attachments(record):
            format, values = format + "\n{}", (*values, text)
        return format, values

    @staticmethod
    def _attachments(record: logging.LogRecord) -> list[str]:
        formatter = logging.Formatter()
        texts = []
        if record.exc_info:
            texts.append(formatter.formatException(record.exc_info))
        elif record.exc_text:  # all that a record has kept that came from another process
            texts.append(record.exc_text)
        if record.stack_info:
            texts.append(formatter.formatStack(record.stack_info))
        return texts

    def _forget_parent(self) -> None:
        if self._log is not None:
            self._log.forget()
            self._log = None


class _ProcessLog:
    """A handler's session, file and thread; they belong to one process."""

    def __init__(
        self, path: Path, max_bytes: int, backups: int | None, sync_interval: float | None, queued_max: int
    ) -> None:
        self._session = Session()
        self._stream = RotatingStream(self._session, path, max_bytes=max_bytes, backups=backups)
        self._sync_interval = sync_interval
        self._queued_max = queued_max
        self._call_sites = CallSites(self._session)
        self._writers: dict[tuple[int | None, str | None], SessionWriter] = {}
        self._dropped = 0
        self._drops = SessionWriter(self._session, name="binlog_stream")
        self._write_lock = threading.Lock()
        self._synced_at = time.monotonic()
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write_again_and_again, name="structured-log", daemon=True)
        self._thread.start()

    def add(self, record: logging.LogRecord, format: str, values: tuple[object, ...]) -> None:
        """Queue an event; `logging` calls it on one thread at a time."""
        if self._session.queued_size >= self._queued_max:
            self._dropped += 1
            return
        if self._dropped:
            self._count_dropped()
        severity = next((found for level, found in _SEVERITIES if record.levelno >= level), Severity.TRACE)
        site = CallSite(severity, record.name, record.funcName or "", record.pathname, record.lineno)
        self._call_sites.add_event(self._writer(record), _clock(record.created), site, format, values)

    def write(self) -> None:
        with self._write_lock:
            self._session.consume(self._stream)
            now = time.monotonic()
            if self._sync_interval is not None and now - self._synced_at >= self._sync_interval:
                self._stream.sync()
                self._synced_at = now

    def close(self) -> None:
        """Write all that is queued, and end the thread."""
        self._is_over.set()
        self._thread.join()
        try:
            if self._dropped:
                self._count_dropped()
            self.write()
            if self._sync_interval is not None:
                self._stream.sync()
        finally:
            self._stream.close()

    def forget(self) -> None:
        """Forget the queue in a forked child: the parent writes it."""
        self._stream.close()

    def _writer(self, record: logging.LogRecord) -> SessionWriter:
        key = record.thread, record.threadName
        writer = self._writers.get(key)
        if writer is None:
            if len(self._writers) == WRITERS_MAX:
                self._writers.pop(next(iter(self._writers))).close()
            writer = SessionWriter(self._session, id=record.thread or 0, name=record.threadName or "")
            self._writers[key] = writer
        return writer

    def _count_dropped(self) -> None:
        site = CallSite(Severity.WARNING, "binlog_stream", "", __file__, 0)
        dropped, self._dropped = self._dropped, 0
        self._call_sites.add_event(self._drops, time.time_ns(), site, _DROPPED, (dropped, self._queued_max))

    def _write_again_and_again(self) -> None:
        has_failed = False
        while not self._is_over.wait(WRITE_INTERVAL_S):
            try:
                self.write()
            except BinlogError as error:
                if not has_failed and logging.raiseExceptions and sys.stderr is not None:
                    sys.stderr.write(f"{error}. Until then events wait in memory, up to {self._queued_max} bytes\n")
                has_failed = True
            else:
                has_failed = False


def _clock(created: float) -> int:
    """Seconds since 1970 as a record has them, which are exact to a microsecond, in nanoseconds."""
    return round(created * _US_PER_SECOND) * NS_PER_MICRO


_HANDLERS: weakref.WeakSet[StructuredLogHandler] = weakref.WeakSet()


def _forget_parents() -> None:
    for handler in _HANDLERS:
        handler._forget_parent()


os.register_at_fork(after_in_child=_forget_parents)
