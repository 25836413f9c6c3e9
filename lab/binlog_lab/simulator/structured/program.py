"""A program that logs into files of the C++ library's format: `LoggingProgram`; its files: `ProgramLog`."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Self

from binlog_format.position import VIRTUAL_PAGE_SIZE, Position
from binlog_format.structured.layout import Severity
from binlog_format.structured.metadata import ClockSync
from binlog_format.structured.writing import Session, SessionWriter

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from random import Random


FIRST_NS = 1_767_225_600_000_000_000
"""2026-01-01, when this program begins; each event takes a microsecond."""
STEP_NS = 1_000
NAME = "app.blog"


class LoggingProgram:
    """Logs events with numbers in a row, into files that can be rotated; a context manager. *directory*: of the log."""

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


_NOISE_SIZE = 40


class ProgramAct(StrEnum):
    """Kind of an event in the life of a program that logs."""

    LOG = "program logs"
    NO_TIME = "clock 0"
    """An event whose clock shows 0, not the first one of its file."""
    IN_PART = "written in part"
    """The reader sees a write up to any byte; the rest follows."""
    ROTATE = "program rotates"
    RENAME = "renames"
    """Older files get other names, as by logrotate."""
    REMOVE = "removes"
    """Older files go."""
    EMPTY = "opened anew"
    """The program opens its log anew, and what was there is gone."""
    RESTART = "program restarts"
    TEAR = "torn"
    """The program is killed within a write, and begins another file."""
    NOISE = "noise"
    """Bytes that are no entry."""
    RUN = "events are taken"


@dataclass(slots=True)
class ProgramLog:
    """A folder with the files of a program.

    Attributes:
        places: Of each event, by its number, the last byte of its entry.
        known: Numbers of files that the job has seen for certain.
        unseen: Events of files that may have come and gone between two looks of the job, which leaves no trace.
        has_lost: Bytes are gone that somebody may not have read.
        is_damaged: There are bytes that are no whole entry.
        is_whole: The log ends with an event behind which there is no damage, and all of it is written.
    """

    folder: Path
    places: dict[int, Position] = field(default_factory=dict)
    known: set[int] = field(default_factory=set)
    unseen: set[int] = field(default_factory=set)
    has_lost: bool = False
    is_damaged: bool = False
    is_whole: bool = True
    _program: LoggingProgram = field(init=False)
    _rotated: dict[Path, int] = field(default_factory=dict)
    _first: int | None = None
    _unwritten: bytes = b""
    _rename_count: int = 0

    def __post_init__(self) -> None:
        self._program = LoggingProgram(self.folder)

    def close(self) -> None:
        """Close the file."""
        self._program.close()

    def do(self, act: ProgramAct, chance: Random) -> None:
        """Let something happen."""
        acts: dict[ProgramAct, Callable[[Random], None]] = {
            ProgramAct.LOG: self.log,
            ProgramAct.NO_TIME: self._log_without_time,
            ProgramAct.IN_PART: self._log_in_part,
            ProgramAct.ROTATE: self._rotate,
            ProgramAct.RENAME: self._rename,
            ProgramAct.REMOVE: self._remove,
            ProgramAct.EMPTY: self._empty,
            ProgramAct.RESTART: self._restart,
            ProgramAct.TEAR: self._tear,
            ProgramAct.NOISE: self._add_noise,
        }
        self._write_rest()
        acts[act](chance)

    @property
    def _present(self) -> Path:
        return self.folder / NAME

    @property
    def _number(self) -> int:
        """Number of the present file, which has an event: the time of the first one."""
        assert self._first is not None
        return FIRST_NS + self._first * STEP_NS

    def log(self, chance: Random) -> None:
        """Log a few events."""
        for _ in range(chance.randint(1, 12)):
            number = self._program.count
            self._program.log()
            self._first = number if self._first is None else self._first
            self._note_place(number)
        self.is_whole = True

    def _log_without_time(self, chance: Random) -> None:
        if self._first is None:
            self.log(chance)
        self._program.log_without_time()
        self._note_place(self._program.count - 1)

    def _note_place(self, number: int) -> None:
        last = self._present.stat().st_size - 1
        self.places[number] = Position(self._number, last // VIRTUAL_PAGE_SIZE, last % VIRTUAL_PAGE_SIZE)

    def _log_in_part(self, chance: Random) -> None:
        before = self._present.stat().st_size
        self.log(chance)
        content = self._present.read_bytes()
        end = chance.randint(before, len(content))
        self._unwritten = content[end:]
        os.truncate(self._present, end)
        self.is_whole = False

    def _write_rest(self) -> None:
        if self._unwritten:
            self._program.append(self._unwritten)
            self._unwritten, self.is_whole = b"", True

    def _rotate(self, chance: Random) -> None:
        del chance  # nothing is to be chosen
        if self._first is not None:
            self._rotated[self._program.rotate()] = self._number
            self._first = None

    def _rename(self, chance: Random) -> None:
        del chance
        self._rename_count += 1
        for number, path in enumerate(sorted(self._rotated)):
            new = path.with_name(f"{NAME}.old.{self._rename_count}.{number}")
            path.rename(new)
            self._rotated[new] = self._rotated.pop(path)

    def _remove(self, chance: Random) -> None:
        """Remove files that the job has seen: one that comes and goes between two looks leaves no trace."""
        seen = sorted(path for path, number in self._rotated.items() if number in self.known)
        for path in seen[: chance.randint(0, len(seen))]:
            path.unlink()
            del self._rotated[path]
            self.has_lost = True

    def _empty(self, chance: Random) -> None:
        if self._first is not None:
            if self._number not in self.known:
                self.unseen |= set(range(self._first, self._program.count))
            self._program.empty()
            self._first, self.has_lost = None, True
            self.log(chance)

    def _restart(self, chance: Random) -> None:
        del chance
        self._program.restart()

    def _tear(self, chance: Random) -> None:
        if self._first is not None:
            self._program.append(b"\x30\x00\x00\x00" + chance.randbytes(chance.randint(0, 20)))
            self.is_damaged, self.is_whole = True, False
            self._rotate(chance)

    def _add_noise(self, chance: Random) -> None:
        """Damage a file that has an event: before its first one it may give the file another time."""
        if self._first is not None:
            noise = b"\xff\x00\x00\x00" + bytes(60), b"\x02\x00\x00\x00xy", chance.randbytes(_NOISE_SIZE)
            self._program.append(chance.choice(noise))
            self._program.repeat_metadata()
            self.is_damaged, self.is_whole = True, False
