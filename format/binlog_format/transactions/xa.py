"""XA transactions in classic logs: `XaId`, `XaStep`, and `PreparedXa`, one that is prepared and has not ended."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from binlog_format.transactions.xa_text import parse_xid

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlog_format.position import Position


@dataclass(frozen=True, slots=True, order=True)
class XaId:
    """The name that a client gave the transaction; servers write it as `X'gtrid',X'bqual',format_id`."""

    gtrid: bytes
    bqual: bytes
    format_id: int

    def __str__(self) -> str:
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format_id}"

    @classmethod
    def parse(cls, text: str) -> XaId:
        """Read the form that `str()` writes, or another that SQL allows.

        Raises:
            ValueError: *text* is no name of an XA transaction.
        """
        found = parse_xid(text.encode())
        if found is None or found[1].strip():
            raise ValueError(f"XA transaction {text!r}: expected, for example, X'6162',X'',1")
        return cls(*found[0])


@dataclass(frozen=True, slots=True)
class PreparedXa:
    """A prepared XA transaction.

    Attributes:
        xid: Its name; free again when it has ended.
        position: Of the group that holds its rows.
    """

    xid: XaId
    position: Position


class XaKind(StrEnum):
    """Step of an XA transaction in a group."""

    PREPARED = "prepared"
    COMMITTED = "committed"
    ROLLED_BACK = "rolled back"


@dataclass(frozen=True, slots=True)
class XaStep:
    """One step of an XA transaction, in the order of the log.

    Attributes:
        position: Of the group that does it.
        xid: Whose step it is.
        kind: Which one.
    """

    position: Position
    xid: XaId
    kind: XaKind


def pending_after(prepared: Iterable[PreparedXa], steps: Iterable[XaStep]) -> tuple[PreparedXa, ...]:
    """The transactions that are prepared after *steps*, if *prepared* were prepared before; by position."""
    pending = {xa.xid: xa for xa in prepared}
    for step in steps:
        pending.pop(step.xid, None)
        if step.kind is XaKind.PREPARED:
            pending[step.xid] = PreparedXa(step.xid, step.position)
    return tuple(sorted(pending.values(), key=lambda xa: xa.position))
