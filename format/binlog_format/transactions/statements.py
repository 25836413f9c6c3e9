"""Effect of a statement on savepoints and XA in a transaction: `parse_statement`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum

from binlog_format.transactions.xa import XaId, parse_xid


class StatementKind(Enum):
    """Effect of a statement."""

    SAVEPOINT = "SAVEPOINT"
    ROLLBACK_TO = "ROLLBACK TO"
    ROLLBACK = "ROLLBACK"
    XA_START = "XA START"
    XA_END = "XA END"
    XA_COMMIT = "XA COMMIT"  # of a prepared transaction
    XA_COMMIT_ONE_PHASE = "XA COMMIT ONE PHASE"
    XA_ROLLBACK = "XA ROLLBACK"


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement.

    Attributes:
        kind: What it does.
        name: Of the savepoint, in the form in which names are compared.
        xid: Of the XA transaction.
    """

    kind: StatementKind
    name: str = ""
    xid: XaId | None = None


_PLAIN_MAX = 400
"""Bytes looked at for comments; a name is not longer (64 characters)."""

_FLAGS = re.IGNORECASE | re.DOTALL
# A server wrote what is read here, but a file may contain anything: no part of these forms is tried a second time.
_COMMENTS = re.compile(rb"(?:\s++|/\*.*?(?:\*/|\Z)|--[ \t][^\n]*+\n?|#[^\n]*+\n?)++", re.DOTALL)
_COMMENT_SIGNS = (b"/*", b"--", b"#")
_NAME = rb"(?:`(?P<quoted>(?:[^`]++|``)*+)`|\"(?P<ansi>(?:[^\"]++|\"\")*+)\"|(?P<bare>[^\s;`\"']++))\s*+;?\s*+\Z"
_SAVEPOINT = re.compile(rb"SAVEPOINT\b\s*+" + _NAME, _FLAGS)
_ROLLBACK_TO = re.compile(rb"ROLLBACK\b\s*+(?:WORK\b\s*+)?TO\b\s*+(?:SAVEPOINT\b\s*+(?=;*+[^\s;]))?" + _NAME, _FLAGS)
_ROLLBACK = re.compile(rb"ROLLBACK(?:\s++WORK)?\s*+;?\s*+\Z", _FLAGS)
_XA = re.compile(rb"XA\s++(?P<verb>START|BEGIN|END|COMMIT|ROLLBACK)\b", _FLAGS)
_ONE_PHASE = re.compile(rb"\s*+ONE\s++PHASE\b", _FLAGS)
_XA_KINDS = {
    b"START": StatementKind.XA_START,
    b"BEGIN": StatementKind.XA_START,
    b"END": StatementKind.XA_END,
    b"COMMIT": StatementKind.XA_COMMIT,
    b"ROLLBACK": StatementKind.XA_ROLLBACK,
}


def parse_statement(text: bytes) -> Statement | None:
    """Read *text*, the SQL of a Query event; None: it is about neither savepoints nor XA."""
    text = _without_comments(text)
    for kind, form in ((StatementKind.SAVEPOINT, _SAVEPOINT), (StatementKind.ROLLBACK_TO, _ROLLBACK_TO)):
        match = form.match(text)
        if match is not None:
            return Statement(kind, name=_name(match))
    if _ROLLBACK.match(text):
        return Statement(StatementKind.ROLLBACK)
    match = _XA.match(text)
    found = parse_xid(text[match.end() :]) if match is not None else None
    if match is None or found is None:
        return None
    kind = _XA_KINDS[match["verb"].upper()]
    if kind is StatementKind.XA_COMMIT and _ONE_PHASE.match(found[1]):
        kind = StatementKind.XA_COMMIT_ONE_PHASE
    return Statement(kind, xid=XaId(*found[0]))


def _without_comments(text: bytes) -> bytes:
    """*text* with each comment before or between its first words made a blank; quoted names are left alone."""
    if not any(sign in text for sign in _COMMENT_SIGNS):
        return text.strip()
    parts: list[bytes] = []
    place = 0
    while place < len(text) and text[place : place + 1] not in b"`\"'":
        match = _COMMENTS.match(text, place)
        if match is not None:
            parts.append(b" ")
            place = match.end()
        else:
            parts.append(text[place : place + 1])
            place += 1
        if len(parts) > _PLAIN_MAX:
            break
    return (b"".join(parts) + text[place:]).lstrip()


def _name(match: re.Match[bytes]) -> str:
    # Servers compare names without regard to case.
    if match["quoted"] is not None:
        name = match["quoted"].replace(b"``", b"`")
    elif match["ansi"] is not None:
        name = match["ansi"].replace(b'""', b'"')
    else:
        name = match["bare"]
    return name.decode("utf-8", "surrogateescape").casefold()
