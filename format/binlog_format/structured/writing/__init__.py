"""Writes structured logs: `Session` and `SessionWriter`, a file that rotates, and a handler for Python's `logging`.

Here alone the package has locks, a thread and a clock: these are what programs log with.
"""

from __future__ import annotations

from binlog_format.structured.writing.argument_tags import tags_of_types
from binlog_format.structured.writing.logger import StructuredLogger
from binlog_format.structured.writing.logging_handler import StructuredLogHandler
from binlog_format.structured.writing.rotating_stream import RotatingStream
from binlog_format.structured.writing.session import LogSource, LogStream, Session, SessionWriter, system_clock_sync

__all__ = [
    "LogSource",
    "LogStream",
    "RotatingStream",
    "Session",
    "SessionWriter",
    "StructuredLogHandler",
    "StructuredLogger",
    "system_clock_sync",
    "tags_of_types",
]
