"""A program that logs, whose structured log the tests of the connector read: `Program`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from binlog_format.structured.layout import Severity
from binlog_format.structured.metadata import ClockSync
from binlog_format.structured.writing import Session, SessionWriter
from tests.format.structured.logs import event, source

if TYPE_CHECKING:
    from pathlib import Path

FIRST_NS = 1_767_225_600_000_000_000
"""2026-01-01, when this program begins; each event takes a microsecond."""
STEP_NS = 1_000
NAME = "app.blog"


class Program:
    """Logs events with numbers in a row, into files that can be rotated; a context manager.

    Args:
        directory: Of the log.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.count = 0
        self._rotated = 0
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
        self._file = (directory / NAME).open("ab", buffering=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

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


NOISE = {
    "too short": b"\x02\x00\x00\x00xy",
    "zeros": bytes(40),
    "text": b"\x07garbage text of a crashed program\n",
    "after a source that no event has room for": source((1 << 63) + 1).entry() + bytes(40),
}
"""Bytes that are no entry, nor the start of one, and be it that they come after one."""


def damaged_before_first_event(directory: Path, noise: bytes, *, instead_of_start: bool) -> list[int]:
    """Two files, and no event of the second one before *noise*; the events of both."""
    with Program(directory) as program:
        program.log(5)
        program.rotate()
        metadata = (directory / NAME).read_bytes()
        (directory / NAME).write_bytes(noise + metadata if instead_of_start else metadata + noise)
        program.log(5)
        return list(range(program.count))


def damaged_log(directory: Path) -> list[int]:
    """A log with 30 events between four kinds of damage; those that are given where damage is skipped.

    The last event before bytes that are no entry is not: it may have been cut off.
    """
    with Program(directory) as program:
        program.log(10)
        program.append(b"\xff\x00\x00\x00" + bytes(60))  # an entry that claims more than there is, then zeros
        program.session.reconsume_metadata(program._file)
        program.log(10)
        program.append(event(999, FIRST_NS))  # of a source that nobody defined
        program.append(event(1, FIRST_NS, b"\x01"))  # arguments that are too short
        program.session.reconsume_metadata(program._file)
        program.log(5)
        program.rotate()
        program.append(b"\x02\x00\x00\x00xy")  # too short for any entry
        program.log(5)
        return [number for number in range(program.count) if number != 9]
