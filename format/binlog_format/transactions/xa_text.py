"""The name of an XA transaction as SQL has it: `parse_xid`."""

from __future__ import annotations

import re


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
