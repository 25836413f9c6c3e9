"""Results of a check of a log: `Finding`; `LogCheck` is such a check, and each format has its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from binlog_format.errors import BinlogError
    from binlog_format.position import Place, Position
    from binlog_format.source_file import Directory

    OnProgress = Callable[[int, int], None]
    """Called with the bytes checked and the bytes there are to check."""

NOT_YET = "NOT_YET"
"""Data begins that does not end on disk, as at the end of a live log."""
NOTE = "NOTE"
"""Unusual, but no damage."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that a check finds.

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


class CheckScope(NamedTuple):
    """The part of a log to check.

    Attributes:
        directory: Where the files are.
        only: Name of the one file to check, or a pattern of names; None: all.
        start: Check from here on; None: from the start.
        end: Check up to here; None: to the end.
        on_progress: Told how far it is.
    """

    directory: Directory
    only: str | None = None
    start: Position | None = None
    end: Position | None = None
    on_progress: OnProgress | None = None


class LogCheck(ABC):
    """One check of a log."""

    def __init__(self, scope: CheckScope) -> None:
        self._directory, self._only, self._start, self._end, self._on_progress = scope
        self._done = 0  # bytes, of files before the one that is being checked
        self._total = 0

    @abstractmethod
    def findings(self) -> Iterator[Finding]:
        """Everything found, file by file.

        Raises:
            StartError: Nothing is there, or not where the check should begin.
        """

    def _progress(self, done: int) -> None:
        """Report that *done* bytes have been checked."""
        if self._on_progress is not None:
            self._on_progress(min(done, self._total), self._total)
