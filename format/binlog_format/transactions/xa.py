"""XA transactions in classic logs: `XaId`, `XaStep`, and `PreparedXa`, one that is prepared and has not ended.

The name of an XA transaction as SQL has it: `parse_xid`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlog_format.position import Position


def _part_form(number: int) -> bytes:
    forms = (
        rb"[xX]'(?P<hex%d>(?:[0-9a-fA-F]{2})*+)'",
        rb"0x(?P<zero_x%d>(?:[0-9a-fA-F]{2})++)",
        rb"'(?P<single%d>(?:[^'\\]++|''|\\.)*+)'",
        rb"\"(?P<double%d>(?:[^\"\\]++|\"\"|\\.)*+)\"",
    )
    return b"(?:" + b"|".join(form % number for form in forms) + b")"


_XID = re.compile(
    rb"\s*+" + _part_form(0) + rb"(?:\s*+,\s*+" + _part_form(1) + rb"(?:\s*+,\s*+(?P<format>[0-9]{1,20}))?)?", re.DOTALL
)
_ESCAPE = re.compile(rb"\\(.)|''|\"\"", re.DOTALL)
_DEFAULT_FORMAT_ID = 1


def parse_xid(text: bytes) -> tuple[tuple[bytes, bytes, int], bytes] | None:
    """Read `gtrid[, bqual[, format_id]]` at the start of *text*.

    Returns:
        The three parts, and what follows them; None: it is not there.
    """
    match = _XID.match(text)
    if match is None:
        return None
    format_id = int(match["format"] or _DEFAULT_FORMAT_ID)
    return (_part(match, "0"), _part(match, "1"), format_id & 0xFFFFFFFF), text[match.end() :]


def _part(match: re.Match[bytes], number: str) -> bytes:
    for name in ("hex", "zero_x"):
        digits = match[name + number]
        if digits is not None:
            return bytes.fromhex(digits.decode())
    for name, quote in (("single", b"'"), ("double", b'"')):
        text = match[name + number]
        if text is not None:
            return _unescaped(text, quote)
    return b""


def _unescaped(text: bytes, quote: bytes) -> bytes:
    return _ESCAPE.sub(lambda found: found[1] or quote, text)


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
    """One step of an XA transaction, in the order of the log. *position*: of the group that does it."""

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
