"""The default of a column, as a statement declares it: `DeclaredDefault`."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class DefaultKind(StrEnum):
    """Kind of the expression after DEFAULT."""

    NULL = "null"
    TEXT = "text"  # '...', DATE'...', and bytes in a character set
    NUMBER = "number"  # with its sign; TRUE is 1
    BITS = "bits"  # 0x..., b'...': a number where one is wanted
    BYTES = "bytes"  # x'...'
    NOW = "now"  # CURRENT_TIMESTAMP and its other names
    UNKNOWN = "unknown"


class Generated(StrEnum):
    """Way in which a column is computed from others."""

    VIRTUAL = "virtual"
    STORED = "stored"


@dataclass(frozen=True, slots=True)
class DeclaredDefault:
    """A default.

    Attributes:
        kind: See `DefaultKind`.
        text: Of a TEXT what is meant; of a NUMBER what is there; of BITS and BYTES hexadecimal digits, two for a
            byte; of NOW the digits of the fraction of a second; of UNKNOWN why, in a few words; else empty.
        time_zone: Of the session that declared it, where a TIMESTAMP needs it; None: not known.
    """

    kind: DefaultKind
    text: str = ""
    time_zone: str | None = None

    def to_list(self) -> list[str | None]:
        """Convert to a list for JSON; `from_list` reads it."""
        parts: list[str | None] = [self.kind.value, self.text]
        return parts if self.time_zone is None else [*parts, self.time_zone]

    @classmethod
    def from_list(cls, parts: list[str]) -> DeclaredDefault:
        """Read what `to_list` gave.

        Raises:
            ValueError: *parts* are something else.
            TypeError: They are too few or too many.
        """
        kind, *rest = parts
        return cls(DefaultKind(kind), *rest)


@dataclass(frozen=True, slots=True)
class Moment:
    """Time and time zone of a statement.

    Attributes:
        seconds: Since 1970 UTC.
        microseconds: Beyond those; None: the log does not record it.
        time_zone: Of the session: `+02:00`, a name, `SYSTEM`; None: the log does not record it.
    """

    seconds: int
    microseconds: int | None = None
    time_zone: str | None = None
