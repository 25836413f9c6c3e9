"""A program that logs into files of the C++ library's format: `LoggingProgram`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Self

from binlog_format.structured.layout import Severity
from binlog_format.structured.metadata import ClockSync
from binlog_format.structured.writing import Session, SessionWriter

if TYPE_CHECKING:
    from pathlib import Path

FIRST_NS = 1_767_225_600_000_000_000
"""2026-01-01, when this program begins; each event takes a microsecond."""
STEP_NS = 1_000
NAME = "app.blog"


class LoggingProgram:
    """Logs events with numbers in a row, into files that can be rotated; a context manager.

    Args:
        directory: Of the log.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.count = 0
        self._rotated = 0
        self._begin()
        self._file = (directory / NAME).open("ab", buffering=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _begin(self) -> None:
        self.session = Session(ClockSync(FIRST_NS, 1_000_000_000, FIRST_NS, 0, b"UTC"))
        self._writers = [SessionWriter(self.session, id=number, name=f"writer {number}") for number in (1, 2)]
        add = self.session.add_source
        self.item = add("item {} of {}", "i[c", category="shop", function="sell", file="src/shop.cpp", line=10)
        self.failure = add(
            "failed: code={}",
            "i",
            severity=Severity.ERROR,
            category="net",
            function="send",
            file="src/net.cpp",
            line=20,
        )

    def log(self, count: int = 1) -> None:
        """Log so many events, every tenth of which is an error, and write them to the file."""
        for _ in range(count):
            writer = self._writers[self.count // 3 % 2]
            clock = FIRST_NS + self.count * STEP_NS
            if self.count % 10 == 9:
                writer.add_event(self.failure, clock, self.count)
            else:
                writer.add_event(self.item, clock, self.count, "hundreds")
            self.count += 1
        self.session.consume(self._file)

    def log_with(self, *more: object) -> None:
        """Log one error, with more arguments."""
        self._writers[0].add_event(self.failure, FIRST_NS + self.count * STEP_NS, self.count, *more)
        self.count += 1
        self.session.consume(self._file)

    def log_without_time(self) -> None:
        """Log one event whose clock shows 0."""
        self._writers[0].add_event(self.item, 0, self.count, "hundreds")
        self.count += 1
        self.session.consume(self._file)

    def append(self, data: bytes) -> None:
        """Write bytes to the file."""
        self._file.write(data)

    def rotate(self) -> Path:
        """Rename the file and begin another one; where the first one is now."""
        self._file.close()
        self._rotated += 1
        old = self.directory / f"{NAME}.{self._rotated}"
        (self.directory / NAME).rename(old)
        self._file = (self.directory / NAME).open("ab", buffering=0)
        self.session.reconsume_metadata(self._file)
        return old

    def repeat_metadata(self) -> None:
        """Write clocks and sources once more, as after damage."""
        self.session.reconsume_metadata(self._file)

    def empty(self) -> None:
        """Open the log anew: what was there is gone."""
        os.truncate(self.directory / NAME, 0)
        self.repeat_metadata()

    def restart(self) -> None:
        """Go on in the same file as another process, with clocks and sources of its own."""
        self._begin()
