"""What a check of a log says: `Finding`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_format.errors import BinlogError
    from binlog_format.position import Place

    OnProgress = Callable[[int, int], None]
    """Called with the bytes checked and the bytes there are to check."""

NOT_YET = "NOT_YET"
"""Something begins that does not end on disk: as it is at the end of a live log."""
NOTE = "NOTE"
"""Unusual, but no damage."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check says.

    Attributes:
        condition: Of the error, `BINLOG_CORRUPT.PAGE_CHECKSUM`; `NOT_YET` or `NOTE` for a remark.
        at: Where.
        reason: What is wrong, with the values.
        hint: What can be done.
        is_error: False: a remark, nothing is wrong.
    """

    condition: str
    at: Place | None
    reason: str
    hint: str | None = None
    is_error: bool = True

    @classmethod
    def of(cls, error: BinlogError) -> Finding:
        """The finding that *error* stands for."""
        return cls(error.condition, error.at, error.reason, error.hint)

    @classmethod
    def remark(cls, condition: str, at: Place | None, reason: str) -> Finding:
        """A remark: `NOT_YET` or `NOTE`."""
        return cls(condition, at, reason, is_error=False)
