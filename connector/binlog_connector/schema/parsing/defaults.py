"""Expressions after DEFAULT in a statement: `parse_default`."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from binlog_connector.schema.parsing.lexer import MODE_HIGH_NOT_PRECEDENCE, MODE_ORACLE, Token, TokenKind, TokenReader
from binlog_connector.schema.parsing.session import BINARY, charset_name
from binlog_format.events.charsets import decode_text
from binlog_format.rows.declared.declared_types import GEOMETRIES, DeclaredDefault, DefaultKind
from binlog_format.rows.json.json_document import key_order
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from binlog_connector.schema.parsing.session import StatementSession

EXPRESSION = DeclaredDefault(DefaultKind.UNKNOWN, "an expression")
SYSTEM_TIME = DeclaredDefault(DefaultKind.UNKNOWN, "a time of system versioning")
IMPLICIT_TIMESTAMP = DeclaredDefault(
    DefaultKind.UNKNOWN, "a TIMESTAMP without a default, and explicit_defaults_for_timestamp is not ON"
)
TIME_TYPES = frozenset({"date", "datetime", "timestamp", "time"})
_NULL = DeclaredDefault(DefaultKind.NULL)
_LITERALS = frozenset({DefaultKind.TEXT, DefaultKind.BITS, DefaultKind.BYTES})
_MOMENT = re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})[ T](\d{1,2}):(\d{1,2}):(\d{1,2})(?:\.(\d{1,6}))?", re.ASCII)
_TIME = re.compile(r"(-?)(\d{1,3}):(\d{1,2}):(\d{1,2})\.(\d{1,6})", re.ASCII)
_TYPED = {
    "DATE": re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2})", re.ASCII),
    "TIMESTAMP": re.compile(r"(\d{4})-(\d{1,2})-(\d{1,2}) (\d{1,2}):(\d{1,2}):(\d{1,2})(\.\d{1,6})?", re.ASCII),
    "TIME": re.compile(r"(-?)(\d{1,3}):(\d{1,2}):(\d{1,2})(\.\d{1,6})?", re.ASCII),
}
"""Literals of a type, in spellings that all servers read alike."""
_SECOND = timedelta(seconds=1)
_NOW = frozenset({"CURRENT_TIMESTAMP", "NOW", "LOCALTIME", "LOCALTIMESTAMP"})
_NO_TEXT = re.compile("[\ufffd\ud800-\udfff]")
_LOCAL = frozenset({"LOCALTIME", "LOCALTIMESTAMP"})
_TODAY = frozenset({"CURRENT_DATE", "CURDATE"})
_WHOLE_NOW = DeclaredDefault(DefaultKind.UNKNOWN, "CURRENT_TIMESTAMP without the fraction that the column has")
_DATE_OF_NOW = DeclaredDefault(DefaultKind.UNKNOWN, "CURRENT_DATE for another type")
_TRUTHS = {"TRUE": "1", "FALSE": "0"}
_JSON_CALLS = frozenset({"JSON_OBJECT", "JSON_ARRAY"})
_JSON_WORDS = {"NULL": None, "TRUE": True, "FALSE": False}
_JSON_NUMBER = re.compile(r"\d{1,18}", re.ASCII)
_JSON_TEXT = re.compile(r"[ !#-\[\]-~]+", re.ASCII)
"""Texts that no server writes with a backslash; an empty one may be NULL."""


def parse_default(reader: TokenReader, session: StatementSession) -> tuple[DeclaredDefault, tuple[str, ...]]:
    """Read a default, from after its keyword, and the words of one in parentheses that is an expression.

    The words are as those of `ColumnDefinition.expression`.

    Raises:
        DdlSyntaxError: A `(` has no end.
    """
    if not reader.at_symbol("("):
        return _simple(reader, session), ()
    tokens = reader.group()
    inner = TokenReader.of(_bared(tokens))
    default = _simple(inner, session)
    if not inner.at_end() or (session.doubles_backslashes and "\\" in default.text):
        default = EXPRESSION
    return default, expression_words(tokens, session) if default.kind is DefaultKind.UNKNOWN else ()


def is_ignored(literal: DeclaredDefault, type_name: str, session: StatementSession) -> bool:
    """True if the server leaves a column of this type without the literal that follows DEFAULT.

    It does so with an empty one where the session is not strict; all else after DEFAULT is an error for such a type.
    """
    is_empty = not literal.text and literal.kind in _LITERALS
    has_no_default = type_name.endswith(("text", "blob", "json")) or type_name in GEOMETRIES
    return is_empty and has_no_default and session.ignores_empty_defaults


def expression_words(tokens: list[Token], session: StatementSession) -> tuple[str, ...]:
    """`ColumnDefinition.expression`; none where the session's mode gives texts or functions another meaning."""
    texts = [token.text for token in tokens if token.kind is TokenKind.STRING]
    changes_texts = session.doubles_backslashes and any("\\" in text for text in texts)
    # CONCAT, SUBSTR, TRIM and others are Oracle's then, and NOT binds as `!` does.
    is_unusual = session.sql_mode & (MODE_ORACLE | MODE_HIGH_NOT_PRECEDENCE)
    if changes_texts or is_unusual or (session.empty_text_is_null and "" in texts):
        return ()
    return tuple(f"'{token.text}" if token.kind is TokenKind.STRING else token.text for token in tokens)


def held_time(default: DeclaredDefault, type_name: str, digits: int, session: StatementSession) -> DeclaredDefault:
    """A default of a date or time with as many digits of a second as its column has; a date without a time of day.

    Live on MariaDB 10.11 and MySQL 9.7: the column holds what it would if the text were stored in it.
    """
    if (default is _WHOLE_NOW and not digits) or (default is _DATE_OF_NOW and type_name == "date"):
        return DeclaredDefault(DefaultKind.NOW, "0")
    is_time = type_name == "time"
    match = (_TIME if is_time else _MOMENT).fullmatch(default.text.strip())
    if default.kind is not DefaultKind.TEXT or match is None or session.cuts_fractions is None:
        return default
    micros = int((match[match.lastindex or 0] if "." in default.text else "0").ljust(6, "0"))
    unit = 10 ** (6 - digits)
    micros = (micros if session.cuts_fractions else micros + unit // 2) // unit * unit
    if is_time:
        seconds = (int(match[2]) * 60 + int(match[3])) * 60 + int(match[4]) + micros // 1_000_000
        whole = f"{match[1]}{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        return replace(default, text=f"{whole}.{micros % 1_000_000:06}")
    try:
        moment = datetime(*(int(match[number]) for number in range(1, 7))) + micros // 1_000_000 * _SECOND  # type: ignore[arg-type] # noqa: DTZ001
    except (ValueError, OverflowError):
        return default
    if type_name == "date":
        return replace(default, text=f"{moment.year:04}-{moment.month:02}-{moment.day:02}")
    return replace(default, text=f"{moment.isoformat(' ')}.{micros % 1_000_000:06}")


def _bared(tokens: list[Token]) -> list[Token]:
    """Remove the parentheses around all of *tokens*; others are no literal in any case."""
    first, last = 0, len(tokens)
    while last - first > 1 and tokens[first].text == "(" and tokens[last - 1].text == ")":
        first, last = first + 1, last - 1
    return tokens[first:last]


def _simple(reader: TokenReader, session: StatementSession) -> DeclaredDefault:
    token = reader.peek()
    if token.kind is TokenKind.STRING:
        return _text(_texts(reader), session)
    if token.kind is TokenKind.BYTES:
        return _bytes(reader.take().text, session)
    if token.kind is TokenKind.NUMBER:
        return DeclaredDefault(DefaultKind.NUMBER, reader.take().text)
    if token.kind is TokenKind.SYMBOL and token.text in "+-" and reader.peek(1).kind is TokenKind.NUMBER:
        sign = reader.take().text.replace("+", "")
        return DeclaredDefault(DefaultKind.NUMBER, sign + reader.take().text)
    return _worded(reader, session)


def _worded(reader: TokenReader, session: StatementSession) -> DeclaredDefault:
    word = reader.take().word
    following = reader.peek().kind
    if word == "NULL":
        return _NULL
    if word in _TRUTHS:
        return DeclaredDefault(DefaultKind.NUMBER, _TRUTHS[word])
    if word in _NOW:
        now = _now(reader)
        is_whole = word in _LOCAL and session.localtime_is_whole and now == DeclaredDefault(DefaultKind.NOW, "0")
        return _WHOLE_NOW if is_whole else now
    if word in _TODAY and (not reader.at_symbol("(") or not reader.group()):
        return _DATE_OF_NOW
    if word in _TYPED and following is TokenKind.STRING:
        return _typed(word, _texts(reader))
    if word.startswith("_") and following is TokenKind.STRING:
        text = _texts(reader)
        return _introduced(charset_name(word[1:], session), text, session.vendor) if text else _text(text, session)
    if word.startswith("_") and following is TokenKind.BYTES:
        reader.take()  # MariaDB takes the bytes of such a default for text now and then: `_latin1 x'e9'` is `xE9`
        return EXPRESSION
    if word in _JSON_CALLS and reader.at_symbol("(") and session.vendor is not None:
        return _json_default(word, reader, session.vendor)
    while reader.accept_symbol("."):
        reader.take()
    if reader.at_symbol("("):
        reader.group()
    return EXPRESSION


def _text(text: str, session: StatementSession) -> DeclaredDefault:
    if not text and session.empty_text_is_null:
        return _NULL
    # U+FFFD and surrogates stand for bytes that are no text in the character set of the statement.
    if _NO_TEXT.search(text):
        return EXPRESSION
    return DeclaredDefault(DefaultKind.TEXT, text)


def _json_default(word: str, reader: TokenReader, vendor: Vendor) -> DeclaredDefault:
    """Default of JSON_OBJECT(...) or JSON_ARRAY(...), as the server prints it, if plain literals are all that is in it.

    Live on MariaDB 10.11 and 11.8, which keep the order of keys, and MySQL 9.7, which sorts them.
    """
    try:
        return DeclaredDefault(DefaultKind.TEXT, json.dumps(_json_call(word, reader, vendor)))
    except ValueError:
        return EXPRESSION


def _json_call(word: str, reader: TokenReader, vendor: Vendor) -> dict[str, object] | list[object]:
    inner = TokenReader.of(reader.group())
    values: list[object] = []
    while not inner.at_end():
        if values and not inner.accept_symbol(","):
            raise ValueError
        values.append(_json_value(inner, vendor))
    if word == "JSON_ARRAY":
        return values
    members = {key: value for key, value in zip(values[::2], values[1::2], strict=True) if isinstance(key, str)}
    if 2 * len(members) != len(values):
        raise ValueError
    ordered = sorted(members, key=lambda key: key_order(key.encode())) if vendor is Vendor.MYSQL else members
    return {key: members[key] for key in ordered}


def _json_value(reader: TokenReader, vendor: Vendor) -> object:
    if reader.peek().kind is TokenKind.STRING:
        text = _texts(reader)
        if _JSON_TEXT.fullmatch(text) is None:
            raise ValueError
        return text
    sign = -1 if reader.accept_symbol("-") else 1
    token = reader.take()
    if token.kind is TokenKind.NUMBER and _JSON_NUMBER.fullmatch(token.text):
        return sign * int(token.text)
    if sign > 0 and token.word in _JSON_CALLS and reader.at_symbol("("):
        return _json_call(token.word, reader, vendor)
    if sign < 0 or token.word not in _JSON_WORDS:
        raise ValueError
    if token.word in _TRUTHS and vendor is Vendor.MARIADB:
        return int(_TRUTHS[token.word])
    return _JSON_WORDS[token.word]


def _typed(word: str, text: str) -> DeclaredDefault:
    """Default of DATE'...', TIME'...' or TIMESTAMP'...', as the server prints such a value."""
    match = _TYPED[word].fullmatch(text)
    if match is None:
        return EXPRESSION
    if word == "TIME":
        sign, *parts, fraction = match.groups("")
        return DeclaredDefault(DefaultKind.TEXT, sign + ":".join(part.zfill(2) for part in parts) + fraction)
    date = "-".join(part.zfill(2) for part in match.group(1, 2, 3))
    if word == "DATE":
        return DeclaredDefault(DefaultKind.TEXT, date)
    time = ":".join(part.zfill(2) for part in match.group(4, 5, 6))
    return DeclaredDefault(DefaultKind.TEXT, f"{date} {time}{match[7] or ''}")


def _texts(reader: TokenReader) -> str:
    # 'a' 'b' is one text.
    parts = []
    while reader.peek().kind is TokenKind.STRING:
        parts.append(reader.take().text)
    return "".join(parts)


def _now(reader: TokenReader) -> DeclaredDefault:
    digits = "0"
    if reader.at_symbol("("):
        tokens = reader.group()
        if len(tokens) > 1 or any(token.text not in tuple("0123456") for token in tokens):
            return EXPRESSION
        digits = tokens[0].text if tokens else "0"
    return DeclaredDefault(DefaultKind.NOW, digits)


def _bytes(text: str, session: StatementSession) -> DeclaredDefault:
    """Default of `x'..'`, `b'..'`, `0x..` or `0b..`; on MySQL all of them are numbers where one is wanted."""
    digits = text.partition("'")[2].rstrip("'") if "'" in text else text[2:]
    kind = DefaultKind.BITS
    if "b" in text[:2].casefold():
        size = 2 * -(-len(digits) // 8)  # with its leading zeros: b'0000000001' is two bytes
        digits = f"{int(digits, 2):0{size}x}" if digits and set(digits) <= {"0", "1"} else ""
    elif "'" in text and session.vendor is not Vendor.MYSQL:
        kind = DefaultKind.BYTES
    return DeclaredDefault(kind, digits.zfill(len(digits) + len(digits) % 2).lower())


def _introduced(charset: str, text: str, vendor: Vendor | None) -> DeclaredDefault:
    # The bytes of the statement are in this character set: of those that have ASCII, that much is plain.
    try:
        same = text.isascii() and decode_text(text.encode(), charset) == text
    except UnicodeDecodeError:
        return EXPRESSION
    if same and charset == BINARY and vendor is not Vendor.MARIADB:
        return DeclaredDefault(DefaultKind.BYTES, text.encode().hex())  # MySQL: also in a column of wide characters
    return DeclaredDefault(DefaultKind.TEXT, text) if same else EXPRESSION
