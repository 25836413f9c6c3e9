"""The prepared XA transactions that a batch begins with, and what becomes of them in it: `PreparedHistory`.

Only `classic` logs have any. Offsets carry them, so that a reader knows where the rows are when an XA COMMIT comes. One
that is not known there is searched for in the log: these entries must be right, but need not be complete.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.position import Position
from binlog_format.transactions.xa import PreparedXa, XaId, pending_after

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlog_format.transactions.xa import XaStep

_BETWEEN = ";"
_AT = "@"


@dataclass(frozen=True, slots=True)
class PreparedHistory:
    """Prepared transactions at each place of a range.

    Attributes:
        start: Where the range begins.
        prepared: At its start.
        steps: After it, in order; None: they have not been looked at.
        kept: Prepared at the start, and still so at the end.
    """

    start: Position
    prepared: tuple[PreparedXa, ...] = ()
    steps: tuple[XaStep, ...] | None = None
    kept: tuple[PreparedXa, ...] = ()

    def at(self, position: Position) -> tuple[PreparedXa, ...]:
        """Transactions known to be prepared at *position*."""
        if position == self.start:
            return self.prepared
        if self.steps is None:
            return self.kept
        return pending_after(self.prepared, [step for step in self.steps if step.position < position])


def prepared_to_text(prepared: Iterable[PreparedXa]) -> str:
    """The form that offsets have: `X'6162',X'',1@3:0:1540;...`."""
    return _BETWEEN.join(f"{xa.xid}{_AT}{xa.position}" for xa in prepared)


def prepared_from_text(text: str) -> tuple[PreparedXa, ...]:
    """Read what `prepared_to_text` wrote.

    Raises:
        ValueError: *text* is something else.
    """
    found = []
    for part in text.split(_BETWEEN) if text else []:
        xid, _, position = part.rpartition(_AT)
        found.append(PreparedXa(XaId.parse(xid), Position.parse(position)))
    return tuple(found)
