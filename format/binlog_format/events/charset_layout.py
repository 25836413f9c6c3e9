"""Collation numbers of MariaDB and MySQL: `charset_of_collation` gives the character set's name."""

from __future__ import annotations

# Single numbers and inclusive ranges (MariaDB strings/ctype-*.c and mysys/charset-def.c; SHOW COLLATION).
_CHARSETS: dict[str, tuple[int | tuple[int, int], ...]] = {
    "armscii8": (32, 64),
    "ascii": (11, 65),
    "big5": (1, 84),
    "binary": (63,),
    "cp1250": (26, 34, 44, 66, 99),
    "cp1251": (14, 23, (50, 52)),
    "cp1256": (57, 67),
    "cp1257": (29, 58, 59),
    "cp850": (4, 80),
    "cp852": (40, 81),
    "cp866": (36, 68),
    "cp932": (95, 96),
    "dec8": (3, 69),
    "eucjpms": (97, 98),
    "euckr": (19, 85),
    "gb18030": ((248, 250),),
    "gb2312": (24, 86),
    "gbk": (28, 87),
    "geostd8": (92, 93),
    "greek": (25, 70),
    "hebrew": (16, 71),
    "hp8": (6, 72),
    "keybcs2": (37, 73),
    "koi8r": (7, 74),
    "koi8u": (22, 75),
    "latin1": (5, 8, 15, 31, (47, 49), 94),
    "latin2": (2, 9, 21, 27, 77),
    "latin5": (30, 78),
    "latin7": (20, 41, 42, 79),
    "macce": (38, 43),
    "macroman": (39, 53),
    "sjis": (13, 88),
    "swe7": (10, 82),
    "tis620": (18, 89),
    "ucs2": (35, 90, (128, 151), 159, (640, 642), (2560, 2815)),
    "ujis": (12, 91),
    "utf16": (54, 55, (101, 124), (672, 674), (2816, 3071)),
    "utf16le": (56, 62),
    "utf32": (60, 61, (160, 183), (736, 738), (3072, 3327)),
    "utf8mb3": (33, 76, 83, (192, 215), 223, (576, 578), (2048, 2303)),
    "utf8mb4": (45, 46, (224, 247), (255, 323), (608, 610), (2304, 2559)),
}

# MariaDB include/m_ctype.h: MY_NOPAD_ID: the collation of the same order that does not pad with spaces.
_NOPAD_COLLATION = 1024
_NOPAD_COLLATION_END = 2048


def _by_collation() -> dict[int, str]:
    names = {}
    for charset, numbers in _CHARSETS.items():
        for number in numbers:
            first, last = number if isinstance(number, tuple) else (number, number)
            names.update(dict.fromkeys(range(first, last + 1), charset))
    return names


_BY_COLLATION = _by_collation()


def charset_of_collation(collation: int) -> str:
    """Character set of a collation; for an unknown one `collation N`, a name that no character set has."""
    number = collation - _NOPAD_COLLATION if _NOPAD_COLLATION <= collation < _NOPAD_COLLATION_END else collation
    return _BY_COLLATION.get(number, f"collation {collation}")


def _latin1() -> tuple[str, ...]:
    """The server's latin1: code page 1252, its five unused bytes standing for themselves."""
    return tuple(bytes((byte,)).decode("cp1252", "ignore") or chr(byte) for byte in range(256))


LATIN1 = _latin1()
"""Character of each byte of the server's latin1."""
