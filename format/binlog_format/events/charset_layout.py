"""Character sets of MariaDB and MySQL: `CHARSET_OF_COLLATION`; how their characters differ from Python's codecs.

`charsets` makes conversions of what is here. The differences were found by letting a server (MariaDB 10.11) convert
every byte and every pair of bytes.
"""

# ruff: noqa: RUF001 (characters that look like others)

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


class _CharsetsByCollation(dict[int, str]):
    def __init__(self) -> None:
        for charset, numbers in _CHARSETS.items():
            for number in numbers:
                first, last = number if isinstance(number, tuple) else (number, number)
                self.update(dict.fromkeys(range(first, last + 1), charset))
                if last < _NOPAD_COLLATION:
                    self.update(dict.fromkeys(range(first + _NOPAD_COLLATION, last + 1 + _NOPAD_COLLATION), charset))

    def __missing__(self, collation: int) -> str:
        return f"collation {collation}"


CHARSET_OF_COLLATION = _CharsetsByCollation()
"""Character set of each collation; for an unknown one `collation N`, a name that no character set has."""


# Name of Python's codec. Not here: character sets that need none, and `_UPPER_HALVES`.
CODECS: dict[str, str] = {
    "ascii": "ascii",
    "big5": "big5",
    "binary": "utf-8",  # labels of ENUM and SET; values stay bytes
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1256": "cp1256",
    "cp1257": "cp1257",
    "cp850": "cp850",
    "cp852": "cp852",
    "cp866": "cp866",
    "cp932": "cp932",
    "dec8": "latin-1",
    "eucjpms": "euc-jp",
    "euckr": "cp949",  # the server has the whole code page 949
    "gb18030": "gb18030",
    "gb2312": "gb2312",
    "gbk": "gbk",
    "greek": "iso8859-7",
    "hebrew": "iso8859-8",
    "hp8": "hp-roman8",
    "koi8r": "koi8-r",
    "koi8u": "koi8-u",
    "latin1": "cp1252",
    "latin2": "iso8859-2",
    "latin5": "iso8859-9",
    "latin7": "iso8859-13",
    "macce": "mac-latin2",
    "macroman": "mac-roman",
    "sjis": "shift_jis",  # not cp932: 0x8160 and six more are other characters there
    "swe7": "ascii",
    "tis620": "tis-620",
    "ucs2": "utf-16-be",
    "ujis": "euc-jp",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "utf8": "utf-8",  # of MariaDB: utf8mb3 or utf8mb4, which a statement that has it does not tell
    "utf8mb3": "utf-8",
    "utf8mb4": "utf-8",
}

TWO_BYTE_CHARSETS = frozenset({"big5", "cp932", "euckr", "gb2312", "gbk", "sjis"})
"""Character sets of one or two bytes a character."""

EUC_JP_CHARSETS = frozenset({"eucjpms", "ujis"})
"""Character sets in which 0x8F begins a character of three bytes."""

UNDEFINED = "\ufffd"
"""Character in `DIFFERENCES` and `UPPER_HALVES` in place of one that the server does not have."""

# Where the server's character is another one than the codec's. A character that only the codec has is left: the server
# would show a question mark for bytes that clients of that character set store and fetch without conversion.
DIFFERENCES: dict[str, dict[int, str]] = {
    # Windows fills the five bytes that code page 1252 leaves open with control characters, and so does the server.
    "latin1": {byte: chr(byte) for byte in (0x81, 0x8D, 0x8F, 0x90, 0x9D)},
    "cp866": {0xFC: "\u207f", 0xFD: "\u00b2"},
    "cp932": dict.fromkeys((0x80, 0xA0, 0xFD, 0xFE, 0xFF), UNDEFINED),  # the codec makes private characters of them
    "greek": {0xA1: "\u02bd", 0xA2: "\u02bc"},
    "hebrew": {0xAF: "\u203e"},
    "koi8u": {0x95: "\u2022"},
    "sjis": {0x815F: "\\"},
    "ujis": {0xA1C0: "\\"},
    "eucjpms": {
        0xA1C1: "\uff5e",
        0xA1C2: "\u2225",
        0xA1DD: "\uff0d",
        0xA1F1: "\uffe0",
        0xA1F2: "\uffe1",
        0xA2CC: "\uffe2",
        0x8FA2B7: "\uff5e",
        0x8FA2C3: "\uffe4",
    },
    "big5": {0xF9D6 + i: character for i, character in enumerate("碁銹裏墻恒粧嫺")},
    "dec8": {
        0xA8: "¤",
        0xD7: "Œ",
        0xDD: "Ÿ",
        0xF7: "œ",
        0xFD: "ÿ",
        **dict.fromkeys(b"\xa4\xa6\xac\xad\xae\xaf\xb4\xb8\xbe\xd0\xde\xf0\xfe\xff", UNDEFINED),
    },
    "swe7": {**dict(zip(b"@[\\]^`{|}~", "ÉÄÖÅÜéäöåü", strict=True)), 0x7F: UNDEFINED},
}

# Characters of these tables that the server itself has not, neither from bytes nor to bytes.
NOT_OF_SERVERS: dict[str, str] = {
    "big5": "\u02cd\u2574\uffe3",
    "cp1256": "\u0679\u0688\u0691\u06a9\u06ba\u06be\u06c1\u06d2",
    "greek": "\u037a\u20ac\u20af",
}

# The bytes 0x80 to 0xFF of character sets that Python has no codec for; below, they are ASCII.
UPPER_HALVES: dict[str, str] = {
    "armscii8": (
        "\u0080\u0081\u0082\u0083\u0084\u0085\u0086\u0087\u0088\u0089\u008a\u008b\u008c\u008d\u008e\u008f"
        "\u0090\u0091\u0092\u0093\u0094\u0095\u0096\u0097\u0098\u0099\u009a\u009b\u009c\u009d\u009e\u009f"
        "\u00a0❁§։)(»«—.՝,-՟…՜՛՞ԱաԲբԳգԴդԵեԶզԷէ"
        "ԸըԹթԺժԻիԼլԽխԾծԿկՀհՁձՂղՃճՄմՅյՆնՇշ"
        "ՈոՉչՊպՋջՌռՍսՎվՏտՐրՑցՒւՓփՔքՕօՖֆ’'"
    ),
    "geostd8": (
        "€\ufffd‚\ufffd„…†‡\ufffd‰\ufffd‹\ufffd\ufffd\ufffd\ufffd"
        "\ufffd‘’“”•–—\ufffd\ufffd\ufffd›\ufffd\ufffd\ufffd\ufffd"
        "\u00a0¡¢£¤¥¦§¨©ª«¬\u00ad®¯°±²³´µ¶·¸¹º»¼½¾¿"
        "აბგდევზჱთიკლმნჲოპჟრსტჳუფქღყშჩცძწ"
        "ჭხჴჯჰჵ\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd"
        "\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd№\ufffd\ufffd"
    ),
    "keybcs2": (
        "ČüéďäĎŤčěĚĹÍľĺÄÁÉžŽôöÓůÚýÖÜŠĽÝŘť"
        "áíóúňŇŮÔšřŕŔ¼¡«»░▒▓│┤╡╢╖╕╣║╗╝╜╛┐"
        "└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀"
        "αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\u00a0"
    ),
}

# eucjpms has 83 characters of NEC and 106 of IBM beyond JIS, as code page 932: in row 13 from 0xADA1 on (with gaps),
# and in three bytes from 0x8FF3F3 on.
EUCJPMS_ROW_13 = (
    "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳ⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩ\ufffd㍉"
    "㌔㌢㍍㌘㌧㌃㌶㍑㍗㌍㌦㌣㌫㍊㌻㎜㎝㎞㎎㎏㏄㎡\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd\ufffd㍻〝"
    "〟№㏍℡㊤㊥㊦㊧㊨㈱㈲㈹㍾㍽㍼≒≡∫∮∑√⊥∠∟⊿∵∩∪\ufffd\ufffd"
)
EUCJPMS_IBM = (
    "ⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩ＇＂㈱№℡炻仼僴凬匇匤﨎"
    "咊坙﨏塚增寬峵嵓﨑德悅愠敎昻晥晴朗栁﨓﨔橫櫢淸淲瀨凞猪甁皂皞益礰"
    "礼神祥福竧靖精綠緖羽荢﨟薰蘒﨡蠇諸譿賴赶﨣﨤逸郞都鄕﨧﨨閒隆﨩霻"
    "靍靑飯飼館馞髙魲鶴黑"
)

# ujis and eucjpms put private characters, U+E000 on, into the last ten rows: first those of two bytes, then of three.
EUC_PRIVATE_ROW = 0xF5
EUC_PRIVATE_START = 0xE000
EUC_ROW_SIZE = 94
EUC_FIRST = 0xA1
EUC_THREE_BYTE_LEAD = 0x8F

# GB18030 in four bytes: 0x81308130 on, in order; from 0x90308130 on U+10000 on.
GB18030_SECOND_DIGITS = 10
GB18030_LEAD_FIRST = 0x81
GB18030_BMP_LEADS = 4
GB18030_THIRD_COUNT = 126
