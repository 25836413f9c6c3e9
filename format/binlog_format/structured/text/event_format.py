"""The parts of a line: `EventFormat`, and `LinePrograms`, which compiles it for each source.

Formats with `%` and a letter, as the library's reader takes them apart: `split_format`, `DateFormat`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.kernels import as_bytes
from binlog_format.structured.layout import Severity
from binlog_format.structured.text.leaf_kernels import NUMBER_SIZES
from binlog_format.structured.text.line_kernels import (
    CLOCK,
    LITERAL,
    LOCAL_TIME,
    NUMBER,
    TEXT,
    UTC_TIME,
    VALUE,
    WRITER_ID,
    WRITER_NAME,
    Program,
)
from binlog_format.structured.text.time_kernels import DATE_FIELD_SIZE_MAX, DATE_LETTERS, ZONE_NAME
from binlog_format.structured.text.time_kernels import LITERAL as DATE_LITERAL
from binlog_format.structured.type_layout import TypeKind
from binlog_format.structured.type_table import joined_tables, type_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from binlog_format.kernels import Bytes, Int64s
    from binlog_format.structured.metadata import EventSource
    from binlog_format.structured.type_table import TypeTable

PERCENT = ord("%")


def split_format(text: bytes) -> Iterator[tuple[int, bytes]]:
    """The parts of a format, in order.

    Yields:
        A letter and both bytes of the pair `%` and letter; or 0 and what comes between pairs. A `%` at the end is no
        pair.
    """
    start = place = 0
    while place < len(text) - 1:
        if text[place] != PERCENT:
            place += 1
            continue
        if start < place:
            yield 0, text[start:place]
        yield text[place + 1], text[place : place + 2]
        start = place = place + 2
    if start < len(text):
        yield 0, text[start:]


@dataclass(frozen=True, slots=True)
class DateFormat:
    """Format of times, as steps for `put_time`.

    Attributes:
        steps: Shape (steps, 3): what is written; of literals, where they start and end in *literals*.
        literals: Text between fields.
        zone_names: How often the name of the time zone occurs.
        size_max: Most bytes of a time without the names of zones.
    """

    steps: Int64s
    literals: Bytes
    zone_names: int
    size_max: int

    @classmethod
    def of(cls, text: bytes) -> DateFormat:
        """Compile a date format such as `%Y-%m-%d %H:%M:%S.%N`."""
        literals = bytearray()
        steps: list[tuple[int, int, int]] = []
        for letter, part in split_format(text):
            step = DATE_LETTERS.get(letter, DATE_LITERAL)
            if step != DATE_LITERAL:
                steps.append((step, 0, 0))
                continue
            if steps and steps[-1][0] == DATE_LITERAL:
                steps[-1] = (DATE_LITERAL, steps[-1][1], len(literals) + len(part))
            else:
                steps.append((DATE_LITERAL, len(literals), len(literals) + len(part)))
            literals += part
        zone_names = sum(step == ZONE_NAME for step, _, _ in steps)
        size_max = len(literals) + DATE_FIELD_SIZE_MAX * len(steps)
        return cls(np.array(steps, dtype=np.int64).reshape(-1, 3), as_bytes(literals), zone_names, size_max)


DEFAULT_EVENT_FORMAT = b"%S %C [%d] %n %m (%G:%L)\n"
MESSAGE_FORMAT = b"%m"

_ARGUMENT = b"{}"
_SOURCES_MAX = 1 << 16
"""Sources whose programs are kept; a log that defines its sources anew again and again has no end of them."""

_SEVERITIES = {
    Severity.TRACE: b"TRAC",
    Severity.DEBUG: b"DEBG",
    Severity.INFO: b"INFO",
    Severity.WARNING: b"WARN",
    Severity.ERROR: b"ERRO",
    Severity.CRITICAL: b"CRIT",
    Severity.NO_LOGS: b"NOLG",
}
_UNKNOWN_SEVERITY = b"UNKW"

_EVENT_STEPS = {ord("n"): WRITER_NAME, ord("t"): WRITER_ID, ord("r"): CLOCK, ord("d"): LOCAL_TIME, ord("u"): UTC_TIME}
_MESSAGE = ord("m")


@dataclass(frozen=True, slots=True)
class EventFormat:
    """Format of an event as text.

    Attributes:
        text: With placeholders such as `%S` and `%m`.
        severity_styles: By severity, what is written before and after its name.
    """

    text: bytes
    severity_styles: Mapping[int, tuple[bytes, bytes]] | None = None

    @property
    def is_utc(self) -> bool:
        """True if times in messages are UTC: `%u` comes before any `%d`."""
        times = (letter for letter, _ in split_format(self.text) if letter in b"du")
        return next(times, ord("d")) == ord("u")

    def parts(self, source: EventSource) -> Iterator[tuple[int, bytes]]:
        """A step of each part; literals with their text. `VALUE` stands for the next argument."""
        for letter, pair in split_format(self.text):
            if letter == _MESSAGE:
                first, *rest = source.format.split(_ARGUMENT)
                yield LITERAL, first
                for text in rest:
                    yield VALUE, b""
                    yield LITERAL, text
            elif letter in _EVENT_STEPS:
                yield _EVENT_STEPS[letter], b""
            else:
                yield LITERAL, self._of_source(letter, source, pair)

    def _of_source(self, letter: int, source: EventSource, pair: bytes) -> bytes:
        match letter:
            case 0x49:  # %I
                return b"%d" % source.id
            case 0x53:  # %S
                before, after = (self.severity_styles or {}).get(source.severity, (b"", b""))
                return before + severity_name(source.severity) + after
            case 0x43:  # %C
                return source.category
            case 0x4D:  # %M
                return source.function
            case 0x46:  # %F
                return source.file
            case 0x47:  # %G
                return source.file[max(source.file.rfind(b"/"), source.file.rfind(b"\\")) + 1 :]
            case 0x4C:  # %L
                return b"%d" % source.line
            case 0x50:  # %P
                return source.format
            case 0x54:  # %T
                return source.argument_tags
            case 0x25:  # %%
                return b"%"
            case _:
                return pair


def severity_name(severity: int) -> bytes:
    """Name of a severity in four letters."""
    return _SEVERITIES.get(Severity(severity), _UNKNOWN_SEVERITY) if severity in _KNOWN else _UNKNOWN_SEVERITY


_KNOWN = frozenset(int(severity) for severity in Severity)


class LinePrograms:
    """Programs for the sources that have occurred; they are compiled once."""

    def __init__(self, event_format: EventFormat) -> None:
        self._format = event_format
        self._is_utc = event_format.is_utc
        self._begin()

    def program(self, sources: tuple[EventSource, ...]) -> Program:
        """The program for a block with these sources."""
        new = tuple(dict.fromkeys(source for source in sources if source not in self._numbers))
        if new:
            if len(self._numbers) + len(new) > _SOURCES_MAX:
                self._begin()
                new = tuple(dict.fromkeys(sources))
            self._compile(new)
        numbers = np.array([self._numbers[source] for source in sources], dtype=np.int64)
        return Program(self._steps, self._literals, self._bounds, numbers, self._is_utc)

    def _begin(self) -> None:
        self._numbers: dict[EventSource, int] = {}
        self.types: TypeTable = type_table(())
        self._steps = np.empty((0, 3), dtype=np.int64)
        self._literals = as_bytes(b"\0")
        self._bounds = np.zeros(1, dtype=np.int64)

    def _compile(self, sources: tuple[EventSource, ...]) -> None:
        first_source, first_step = len(self.types.first_argument) - 1, len(self._steps)
        self.types = joined_tables([self.types, type_table(tuple(source.argument_tags for source in sources))])
        steps: list[tuple[int, int, int]] = []
        literals = bytearray()
        bounds = []
        for number, source in enumerate(sources, first_source):
            self._numbers[source] = number
            argument, end = self.types.first_argument[number : number + 2].tolist()
            text = bytearray()
            for step, part in self._format.parts(source):
                if step == LITERAL:
                    text += part
                    continue
                if step == VALUE and argument == end:
                    continue  # more placeholders than arguments
                self._put_literal(steps, literals, text)
                if step == VALUE:
                    steps.append(self._argument_step(argument))
                    argument += 1
                else:
                    steps.append((step, 0, 0))
            self._put_literal(steps, literals, text)
            bounds.append(first_step + len(steps))
        self._steps = np.concatenate([self._steps, np.array(steps, dtype=np.int64).reshape(-1, 3)])
        self._literals = np.concatenate([self._literals, as_bytes(literals)])
        self._bounds = np.concatenate([self._bounds, np.array(bounds, dtype=np.int64)])

    def _argument_step(self, argument: int) -> tuple[int, int, int]:
        node = int(self.types.arguments["node"][argument])
        kind = int(self.types.nodes["kind"][node])
        if kind == TypeKind.TEXT:
            return TEXT, node, argument
        return (NUMBER, kind, argument) if NUMBER_SIZES[kind] else (VALUE, node, argument)

    def _put_literal(self, steps: list[tuple[int, int, int]], literals: bytearray, text: bytearray) -> None:
        if text:
            start = len(self._literals) + len(literals)
            steps.append((LITERAL, start, start + len(text)))
            literals += text
            text.clear()
