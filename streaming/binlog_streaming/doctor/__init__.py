"""Search for common mistakes: on the machine, in the log, in a job and on its server.

Findings of an examination: `DoctorFinding`; `examined` turns errors into findings.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from binlog_format.errors import BinlogError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class Health(StrEnum):
    """Meaning of a finding."""

    OK = "ok"
    WARNING = "warning"
    """It works, and may surprise."""
    WRONG = "wrong"
    """It does not work, or loses changes."""


@dataclass(frozen=True, slots=True)
class DoctorFinding:
    """One thing that was looked at.

    Attributes:
        area: `machine`, `log`, `job` or `server`.
        fix: How to put it right; empty: there is nothing to do.
    """

    area: str
    what: str
    health: Health
    found: str
    fix: str = ""


def examined(area: str, what: str, findings: Iterable[DoctorFinding]) -> Iterator[DoctorFinding]:
    """*findings*; an error that ends them is one more."""
    try:
        yield from findings
    except BinlogError as error:
        text = str(error)
        hint = error.hint or ""
        yield DoctorFinding(area, what, Health.WRONG, text.removesuffix(f". {hint}") if hint else text, hint)
