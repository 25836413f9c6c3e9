"""Selection of events of a structured log: `EventFilter`; most is decided once per source, before any argument."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_format.errors import OptionError
from binlog_format.structured.layout import Severity
from binlog_format.views.filters import split_expressions

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from binlog_format.kernels import Int64s, Mask
    from binlog_format.structured.metadata import EventSource

SEVERITY_NAMES = {int(severity): severity.name.lower() for severity in Severity}
_SEVERITY_NUMBERS = {name: number for number, name in SEVERITY_NAMES.items()}
SEVERITY_MAX = (1 << 16) - 1


def severity_name(severity: int) -> str:
    """Name of a severity; the number of one that has no name."""
    return SEVERITY_NAMES.get(severity, str(severity))


def severity_number(text: str) -> int:
    """The severity of that name, in any case, or number. Raises `ValueError`: there is none."""
    if text.isascii() and text.isdecimal() and int(text) <= SEVERITY_MAX:
        return int(text)
    number = _SEVERITY_NUMBERS.get(text.lower())
    if number is None:
        raise ValueError(f"expected {', '.join(_SEVERITY_NUMBERS)}, or a number up to {SEVERITY_MAX}, got {text!r}")
    return number


def shown_text(text: bytes) -> str:
    """Text of a log, which knows no encoding, as columns have it: what is not UTF-8 is U+FFFD."""
    return text.decode("utf-8", "replace")


def shown_texts(texts: pa.BinaryArray) -> pa.StringArray:
    """The same for a column."""
    try:
        return texts.cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([shown_text(text) for text in texts.to_pylist()], pa.string())


@dataclass(frozen=True, slots=True)
class SourceRules:
    """Sources that an option or a setting selects; all given rules must hold.

    Attributes:
        min_severity: The least severity, as a name or a number; None: any.
        categories: Regular expressions for the whole category, separated by commas; None: any.
        source_files: The same for the source file.
        formats: One regular expression for the whole format string; None: any.
    """

    min_severity: str | None = None
    categories: str | None = None
    source_files: str | None = None
    formats: str | None = None

    def check(self, spelled: Callable[[str], str] = str) -> None:
        """See that they can be. *spelled*: what a field is called where the user gave it."""
        for name, read in (
            ("min_severity", self._least),
            ("categories", lambda: _expressions(self.categories)),
            ("source_files", lambda: _expressions(self.source_files)),
            ("formats", lambda: _expression(self.formats)),
        ):
            try:
                read()
            except (ValueError, re.error) as error:
                hint = None if name == "min_severity" else "It is matched with the whole text"
                raise OptionError(
                    "INVALID_VALUE", f'option {spelled(name)}: "{getattr(self, name)}": {error}', hint=hint
                ) from error

    def accepts(self, source: EventSource) -> bool:
        """True if events of *source* are wanted."""
        if source.severity < self._least():
            return False
        for expressions, text in (
            (_expressions(self.categories), source.category),
            (_expressions(self.source_files), source.file),
        ):
            if expressions and not any(expression.fullmatch(shown_text(text)) for expression in expressions):
                return False
        expression = _expression(self.formats)
        return expression is None or expression.fullmatch(shown_text(source.format)) is not None

    def _least(self) -> int:
        return 0 if self.min_severity is None else severity_number(self.min_severity)


ALL_SOURCES = SourceRules()


def is_named_by(source: EventSource, text: str) -> bool:
    """True if *text* names *source*: by its id, by `file:line` (with the file's folders or without), by its format."""
    if text in (str(source.id), shown_text(source.format)):
        return True
    file, _, line = text.rpartition(":")
    path = shown_text(source.file)
    return bool(file) and line == str(source.line) and (path == file or path.endswith((f"/{file}", f"\\{file}")))


@functools.lru_cache
def _expressions(text: str | None) -> tuple[re.Pattern[str], ...]:
    return tuple(re.compile(expression, re.DOTALL) for expression in split_expressions(text or ""))


@functools.lru_cache
def _expression(text: str | None) -> re.Pattern[str] | None:
    return None if text is None else re.compile(text, re.DOTALL)


Texts = frozenset[str]


@dataclass(frozen=True, slots=True)
class EventFilter:
    """Selection of a log's events; all given conditions must hold.

    Attributes:
        source: What names them, as for `is_named_by`; None: nothing does.
        severities: Names of severities, as `severity_name` gives them; None: any.
        severity_least: The least number of a severity.
        severity_most: The largest one.
        categories: Categories; None: any.
        files: Source files; None: any.
        formats: Format strings; None: any.
        functions: Functions; None: any.
        first_ns: Events at that time or later, nanoseconds since 1970 UTC; None: whenever.
        last_ns: Events at that time or earlier. Where one of the two is given, events without a time are left out.
    """

    rules: SourceRules = ALL_SOURCES
    source: str | None = None
    severities: Texts | None = None
    severity_least: int = 0
    severity_most: int = SEVERITY_MAX
    categories: Texts | None = None
    files: Texts | None = None
    formats: Texts | None = None
    functions: Texts | None = None
    first_ns: int | None = None
    last_ns: int | None = None

    def accepts(self, source: EventSource) -> bool:
        """True if events of *source* are wanted at any time."""
        if not self.severity_least <= source.severity <= self.severity_most:
            return False
        if self.source is not None and not is_named_by(source, self.source):
            return False
        exact = (
            (self.severities, severity_name(source.severity)),
            (self.categories, shown_text(source.category)),
            (self.files, shown_text(source.file)),
            (self.formats, shown_text(source.format)),
            (self.functions, shown_text(source.function)),
        )
        return all(names is None or text in names for names, text in exact) and self.rules.accepts(source)

    def wanted(self, sources: Sequence[EventSource]) -> Mask:
        """`accepts` of each of *sources*."""
        return np.array([self.accepts(source) for source in sources], dtype=np.bool_)

    @property
    def limits_time(self) -> bool:
        """True if the time of events matters."""
        return self.first_ns is not None or self.last_ns is not None

    def in_time(self, ns: Int64s, has_time: Mask) -> Mask:
        """Mask of the events whose time is wanted."""
        keep = has_time.copy()
        if self.first_ns is not None:
            keep &= ns >= self.first_ns
        if self.last_ns is not None:
            keep &= ns <= self.last_ns
        return keep


ALL_EVENTS = EventFilter()
