"""The servers' character sets in Unicode: `decode_text` for a few texts, `charset_tables` for kernels."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from binlog_format.events import charset_layout as layout

if TYPE_CHECKING:
    from binlog_format.kernels import Int32s

INVALID = -1
LEAD_2 = -2
LEAD_3 = -3
LEAD_2_OR_4 = -4

_LAST_BMP = 0xFFFF
UTF8MB4 = "utf8mb4"


class CharsetTables(NamedTuple):
    """Code points of a character set's characters by their bytes.

    Attributes:
        singles: Shape (256,): code point of a byte; `INVALID`; or that the byte begins a character of more bytes:
            `LEAD_2`, `LEAD_3`, `LEAD_2_OR_4` (four where a digit follows).
        pairs: Shape (65536,), or (0,) without: code point of two bytes, the first one high, or `INVALID`.
        triples: As `pairs`, of the two bytes after a lead of three.
        quads: Code points of GB18030's characters of four bytes in the basic plane, in order, or `INVALID`.
        ascii: Whether the bytes below 0x80 are ASCII.
    """

    singles: Int32s
    pairs: Int32s
    triples: Int32s
    quads: Int32s
    ascii: bool


def is_known(charset: str) -> bool:
    """True if texts in *charset* can be converted."""
    return charset in layout.CODECS or charset in layout.UPPER_HALVES


def decode_text(content: bytes, charset: str) -> str:
    """*content* as the server converts it.

    Raises:
        UnicodeDecodeError: It is no text in *charset*, or *charset* is not known.
    """
    if charset not in layout.CODECS and charset not in layout.UPPER_HALVES:
        raise UnicodeDecodeError(charset, content, 0, len(content), "unknown character set")
    if charset.startswith(("utf", "ucs2")) or charset in ("ascii", "binary"):
        text = content.decode(layout.CODECS[charset])
        if charset in ("utf8mb3", "ucs2") and text and max(text) > chr(_LAST_BMP):
            raise UnicodeDecodeError(charset, content, 0, len(content), "character beyond U+FFFF")
        return text
    return _decode_by_tables(content, charset)


def can_hold(text: str, charset: str) -> bool:
    """True if the server has all characters of *text* in a character set; False where it is not known."""
    if charset in (UTF8MB4, "utf16", "utf16le", "utf32", "binary"):
        return True
    if not is_known(charset) or charset == "ascii":
        return text.isascii()
    if charset in ("utf8", "utf8mb3", "ucs2"):
        return max(text, default="") <= chr(_LAST_BMP)
    points = set(map(ord, text))
    if charset == "gb18030":
        points = {point for point in points if point <= _LAST_BMP}  # it has all beyond
    return points <= _points(charset)


@functools.cache
def _points(charset: str) -> frozenset[int]:
    # Of the characters that the server makes bytes of: for a few bytes it has no character, and a definition has.
    tables = charset_tables(charset)
    known = np.concatenate([tables.singles, tables.pairs, tables.triples, tables.quads])
    return frozenset(known[known >= 0].tolist()) - frozenset(map(ord, layout.NOT_OF_SERVERS.get(charset, "")))


def _decode_by_tables(content: bytes, charset: str) -> str:
    # As the kernel `write_characters` does it, for the labels of a table map.
    tables = charset_tables(charset)
    characters = []
    place = 0
    while place < len(content):
        single = int(tables.singles[content[place]])
        size = 1 if single >= INVALID else -single
        if single == LEAD_2_OR_4:
            size = 4 if content[place + 1 : place + 2].isdigit() else 2
        parts = content[place : place + size]
        point = single if size == 1 else INVALID
        if len(parts) == size == 2:
            point = int(tables.pairs[int.from_bytes(parts, "big")])
        elif len(parts) == size == 3:
            point = int(tables.triples[int.from_bytes(parts[1:], "big")])
        elif len(parts) == size == 4:
            point = ord(parts.decode("gb18030"))
        if point < 0:
            raise UnicodeDecodeError(charset, content, place, place + 1, "no such character")
        characters.append(chr(point))
        place += size
    return "".join(characters)


@functools.cache
def charset_tables(charset: str) -> CharsetTables:
    """The tables of a character set that is neither of a Unicode encoding nor `binary`.

    Built when first asked for; 20 ms for a large one.
    """
    none = np.empty(0, dtype=np.int32)
    pairs = triples = quads = none
    singles = _singles(charset)
    if charset in layout.TWO_BYTE_CHARSETS | layout.EUC_JP_CHARSETS | {"gb18030"}:
        pairs = _pairs(layout.CODECS[charset], b"")
        for lead in np.unique(np.flatnonzero(pairs >= 0) >> 8):
            singles[lead] = LEAD_2
    if charset in layout.EUC_JP_CHARSETS:
        triples = _pairs(layout.CODECS[charset], bytes((layout.EUC_THREE_BYTE_LEAD,)))
        _add_euc(charset, pairs, triples)
        singles[layout.EUC_FIRST : 0xFF] = LEAD_2
        singles[layout.EUC_THREE_BYTE_LEAD] = LEAD_3
    if charset == "gb18030":
        quads = _quads()
        singles[singles == LEAD_2] = LEAD_2_OR_4
        singles[layout.GB18030_LEAD_FIRST : 0xFF] = LEAD_2_OR_4
    for number, character in layout.DIFFERENCES.get(charset, {}).items():
        point = INVALID if character == layout.UNDEFINED else ord(character)
        if number <= 0xFF:
            singles[number] = point
        elif number <= 0xFFFF:
            pairs[number] = point
        else:
            triples[number & 0xFFFF] = point
    same = singles[:0x80].tolist() == list(range(0x80))
    return CharsetTables(singles, pairs, triples, quads, same)


def _singles(charset: str) -> Int32s:
    upper = layout.UPPER_HALVES.get(charset)
    if upper is not None:
        points = [*range(0x80), *(INVALID if c == layout.UNDEFINED else ord(c) for c in upper)]
    else:
        points = [_point(bytes((byte,)), layout.CODECS[charset]) for byte in range(256)]
    return np.array(points, dtype=np.int32)


def _point(content: bytes, codec: str) -> int:
    text = content.decode(codec, "ignore")
    return ord(text) if len(text) == 1 else INVALID


def _pairs(codec: str, lead: bytes) -> Int32s:
    points = np.full(1 << 16, INVALID, dtype=np.int32)
    for first in range(0x81 if not lead else layout.EUC_FIRST, 0xFF):
        for second in range(0x40, 0xFF):
            try:
                text = (lead + bytes((first, second))).decode(codec)
            except UnicodeDecodeError:
                continue
            if len(text) == 1:  # else the first byte is a character of its own
                points[first << 8 | second] = ord(text)
    return points


def _add_euc(charset: str, pairs: Int32s, triples: Int32s) -> None:
    private = layout.EUC_PRIVATE_START
    cells = np.arange(layout.EUC_ROW_SIZE)
    for points in (pairs, triples):
        for row in range(layout.EUC_PRIVATE_ROW, 0xFF):
            points[(row << 8 | layout.EUC_FIRST) + cells] = private + cells
            private += layout.EUC_ROW_SIZE
    if charset != "eucjpms":
        return
    for cell, character in enumerate(layout.EUCJPMS_ROW_13):
        if character != layout.UNDEFINED:
            pairs[0xADA1 + cell] = ord(character)
    place = 0xF3F3
    for character in layout.EUCJPMS_IBM:
        triples[place] = ord(character)
        place = 0xF4A1 if place == 0xF3FE else place + 1


def _quads() -> Int32s:
    count = layout.GB18030_BMP_LEADS * layout.GB18030_SECOND_DIGITS * layout.GB18030_THIRD_COUNT * 10
    points = np.full(count, INVALID, dtype=np.int32)
    for index in range(count):
        rest, fourth = divmod(index, 10)
        rest, third = divmod(rest, layout.GB18030_THIRD_COUNT)
        first, second = divmod(rest, 10)
        points[index] = _point(bytes((0x81 + first, 0x30 + second, 0x81 + third, 0x30 + fourth)), "gb18030")
    return points
