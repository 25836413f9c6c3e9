"""Statements of MariaDB and MySQL as tokens: `Lexer(text, ...).tokens()`."""

from __future__ import annotations

import functools
import re
from enum import IntEnum
from typing import TYPE_CHECKING, NamedTuple

from binlog_format.vendor import MARIADB_REVERSED_COMMENTS_SINCE, Vendor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

# sql_mode bits that change how a statement reads (MariaDB sql/sql_class.h: MODE_*; MySQL the same).
MODE_REAL_AS_FLOAT = 1 << 0
MODE_ANSI_QUOTES = 1 << 2
MODE_ORACLE = 1 << 9
MODE_MSSQL = 1 << 10
MODE_MAXDB = 1 << 12
MODE_NO_BACKSLASH_ESCAPES = 1 << 20
MODE_HIGH_NOT_PRECEDENCE = 1 << 29


class TokenKind(IntEnum):
    """Kind of a token."""

    WORD = 1  # a keyword, or a name without quotes
    QUOTED = 2  # a name in quotes
    STRING = 3
    NUMBER = 4
    BYTES = 5  # x'...', b'...', 0x...
    SYMBOL = 6
    END = 7


class Token(NamedTuple):
    """A token.

    Attributes:
        text: Of a QUOTED name and a STRING what is meant, else what is there.
        start: Where it starts in the text of the statement.
        word: The keyword that this may be, in upper case; empty for what cannot be one.
    """

    kind: TokenKind
    text: str
    start: int
    word: str = ""


class DdlSyntaxError(Exception):
    """A statement that is not understood. *at*: where, in the text of the statement."""

    def __init__(self, reason: str, at: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.at = at


# Before a wildcard of LIKE the backslash stays (MariaDB and MySQL, "String Literals").
_ESCAPES = {"%": r"\%", "_": r"\_", "0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED_PATTERN = r"(?:[^{0}\\]++|\\.|{0}{0})*+{0}"
_PLAIN_PATTERN = r"(?:[^{0}]++|{0}{0})*+{0}"
_NAME_CHARACTERS = "0-9A-Za-z_$\u0080-\U0010ffff"
# MySQL's names are utf8mb3: a character that this lacks becomes a question mark, with a warning; MariaDB refuses it.
_NOT_IN_MYSQL_NAMES = re.compile("[\U00010000-\U0010ffff]")

# A version from which on no server executes: `/*!999999\- enable the sandbox mode */` speaks to the client.
_VERSION_OF_NO_SERVER = 900000
_SIX_DIGITS = 100000
# MariaDB sql/sql_lex.cc: versions between 5.7 and 9.99 are MySQL's.
_MYSQL_ALONE = range(50700, 100000)


@functools.cache
def _pattern(sql_mode: int) -> re.Pattern[str]:
    quoted = _PLAIN_PATTERN if sql_mode & MODE_NO_BACKSLASH_ESCAPES else _ESCAPED_PATTERN
    # MariaDB reads [names in brackets] from 10.4.5 on; before it, and in MySQL, they are an error.
    # What follows a name and a point is a name, `shop.2024` and `shop.1e5` too (MariaDB and MySQL: MY_LEX_IDENT_SEP).
    bracketed = r"(?P<bracket>\[(?:[^\]]++|\]\])*+\])|" if sql_mode & MODE_MSSQL else ""
    return re.compile(
        rf"""
        (?P<space>\s++|--(?=[\s\x00-\x1f]|\Z)[^\n]*+|\#[^\n]*+|/\*(?!M?!).*?(?:\*/|\Z))
        |(?P<open>/\*(?P<m>M?)!(?P<reversed>!(?=[0-9]{{6}}))?(?P<version>[0-9]{{5,6}})?)
        |(?P<close>\*/)
        |(?P<point>(?<=[{_NAME_CHARACTERS}])\.(?=[{_NAME_CHARACTERS}]))
        |(?P<part>(?<=[{_NAME_CHARACTERS}]\.)[{_NAME_CHARACTERS}]++)
        |(?P<bytes>[xXbB]'[0-9A-Fa-f]*+'|0(?:x[0-9A-Fa-f]++|b[01]++)(?![{_NAME_CHARACTERS}]))
        |(?P<single>[nN]?'{quoted.format("'")})
        |(?P<double>"{quoted.format('"')})
        |(?P<backtick>`{_PLAIN_PATTERN.format("`")})
        |{bracketed}(?P<number>(?:[0-9]++(?:\.[0-9]*+)?|\.[0-9]++)(?:[eE][+-]?[0-9]++)?(?![{_NAME_CHARACTERS}]))
        |(?P<variable>@@?[{_NAME_CHARACTERS}.]*+)
        |(?P<word>[{_NAME_CHARACTERS}]++)
        |(?P<symbol>.)
        """,
        re.VERBOSE | re.DOTALL,
    )


def _executes(mariadb_alone: bool, version: int, vendor: Vendor | None, server_version: int | None) -> bool:
    """True if a server executes the text in `/*!version ... */`."""
    if vendor is Vendor.MARIADB and not mariadb_alone and version in _MYSQL_ALONE:
        return False
    if vendor is Vendor.MYSQL and mariadb_alone:
        return False
    if server_version is not None:
        return version <= server_version
    return version < (_SIX_DIGITS if vendor is Vendor.MYSQL else _VERSION_OF_NO_SERVER)


class Lexer:
    """Reads a statement from front to back.

    Args:
        sql_mode: Of the session: `MODE_ANSI_QUOTES`, `MODE_NO_BACKSLASH_ESCAPES`, `MODE_MSSQL`.
        vendor: Whose server reads it: what is in `/*! */` may be for one of them alone; None: for both.
        server_version: Of that server: what is in `/*!100119 */` is for servers from 10.1.19 on; None: not known, what
            may be for a server of today is read.
    """

    def __init__(
        self, text: str, *, sql_mode: int = 0, vendor: Vendor | None = None, server_version: int | None = None
    ) -> None:
        self._position = 0
        self._text = text
        self._vendor = vendor
        self._server_version = server_version
        self._ansi_quotes = bool(sql_mode & MODE_ANSI_QUOTES)
        self._backslash = not sql_mode & MODE_NO_BACKSLASH_ESCAPES
        self._match = _pattern(sql_mode & (MODE_NO_BACKSLASH_ESCAPES | MODE_MSSQL)).match
        self._open_comments = 0

    def tokens(self) -> list[Token]:
        """All tokens, with an END after them. Raises `DdlSyntaxError`: a quote without its end."""
        return list(self)

    def __iter__(self) -> Iterator[Token]:
        """The same, one by one: who needs only the head of a long statement does not wait for the rest."""
        while (token := self.first()) is not None:
            yield token
        yield Token(TokenKind.END, "", len(self._text))

    @property
    def position(self) -> int:
        """Character after the last token."""
        return self._position

    def first(self) -> Token | None:
        """The first token from here on, and step over it; None when nothing but spaces and comments is left."""
        while self._position < len(self._text):
            token = self._next()
            if token is not None:
                return token
        return None

    def _next(self) -> Token | None:
        start = self._position
        match = self._match(self._text, start)
        assert match is not None, "any character is a symbol"
        self._position = match.end()
        group, text = match.lastgroup, match.group()
        if group == "space":
            return None
        if match.start("open") >= 0:
            version = int(match.group("version") or 0)
            if match.group("reversed"):
                executes = self._executes_reversed(version, start)
            else:
                executes = _executes(bool(match.group("m")), version, self._vendor, self._server_version)
            self._open(executes)
            return None
        if group == "close" and self._open_comments:
            self._open_comments -= 1
            return None
        return self._token(group or "", text, start)

    def _token(self, group: str, text: str, start: int) -> Token:
        if group == "single":
            return Token(TokenKind.STRING, self._unquoted(text[text.index("'") :], self._backslash), start)
        if group == "double":
            if self._ansi_quotes:
                return Token(TokenKind.QUOTED, self._named(self._unquoted(text, False)), start)
            return Token(TokenKind.STRING, self._unquoted(text, self._backslash), start)
        if group in ("backtick", "bracket"):
            return Token(TokenKind.QUOTED, self._named(self._unquoted(text, False)), start)
        if group == "symbol" and text in "'\"`":
            raise DdlSyntaxError(f"the quote {text} has no end", start)
        if group in ("word", "part"):
            return Token(TokenKind.WORD, self._named(text), start, text.upper())
        kinds = {"number": TokenKind.NUMBER, "bytes": TokenKind.BYTES}
        return Token(kinds.get(group, TokenKind.SYMBOL), text, start)

    def _executes_reversed(self, version: int, at: int) -> bool:
        """True if a server executes the text in `/*!!version ... */`: MariaDB from 13.0 on does before that version."""
        if self._vendor is Vendor.MYSQL:
            raise DdlSyntaxError("a reversed comment of MariaDB", at)
        if self._server_version is not None:
            return self._server_version < version
        if version > MARIADB_REVERSED_COMMENTS_SINCE:
            # Servers that know these comments are at least of the version from which on they are known.
            raise DdlSyntaxError("what is in this comment depends on the server's version", at)
        return False

    def _open(self, executes: bool) -> None:
        if executes:
            self._open_comments += 1
            return
        depth = 1
        for match in re.compile(r"/\*|\*/").finditer(self._text, self._position):
            depth += 1 if match.group() == "/*" else -1
            if depth == 0:
                self._position = match.end()
                return
        self._position = len(self._text)

    def _named(self, text: str) -> str:
        return _NOT_IN_MYSQL_NAMES.sub("?", text) if self._vendor is Vendor.MYSQL else text

    @staticmethod
    def _unquoted(text: str, backslash: bool) -> str:
        quote = text[-1]
        content = text[1:-1].replace(quote * 2, quote)
        if not backslash or "\\" not in content:
            return content
        # `\'` and `''` never overlap in a whole string: a doubled quote after a backslash would have ended it.
        return _ESCAPE.sub(lambda match: _ESCAPES.get(match.group(1), match.group(1)), content)


def without_literals(text: str, *, sql_mode: int) -> str:
    """A statement in one line with `?` in place of texts, numbers and comments, as far as its quotes have an end."""
    lexer = Lexer(text, sql_mode=sql_mode)
    parts: list[str] = []
    end = 0
    try:
        while (token := lexer.first()) is not None:
            is_value = token.kind in (TokenKind.STRING, TokenKind.NUMBER, TokenKind.BYTES)
            gap = " " if parts and token.start > end else ""
            end = lexer.position
            parts.append(f"{gap}{'?' if is_value else text[token.start : end]}")
    except DdlSyntaxError:
        parts.append("...")
    return "".join(parts)


class TokenReader:
    """Reads the tokens of one statement, one after the other, only as far as they are needed.

    Args:
        tokens: With an END as the last one.
    """

    def __init__(self, tokens: Iterable[Token]) -> None:
        self._rest = iter(tokens)
        self._tokens: list[Token] = []
        self._index = 0

    @classmethod
    def of(cls, tokens: Iterable[Token], end: int = 0) -> TokenReader:
        """A reader of a part of a statement. *end*: where it ends, for errors."""
        return cls([*tokens, Token(TokenKind.END, "", end)])

    def peek(self, ahead: int = 0) -> Token:
        """The token that comes, or one some tokens after it; END for ever."""
        while len(self._tokens) <= self._index + ahead:
            self._tokens.append(next(self._rest, None) or self._tokens[-1])
        return self._tokens[self._index + ahead]

    def take(self) -> Token:
        """The token that comes, and step over it."""
        token = self.peek()
        if token.kind is not TokenKind.END:
            self._index += 1
        return token

    def at(self, *words: str) -> bool:
        """True if these keywords come next, in this order."""
        return all(self.peek(ahead).word == word for ahead, word in enumerate(words))

    def at_any(self, *words: str) -> bool:
        """True if one of these keywords comes next."""
        return self.peek().word in words

    def accept(self, *words: str) -> bool:
        """Step over these keywords if they come, in this order."""
        if not self.at(*words):
            return False
        self._index += len(words)
        return True

    def at_symbol(self, symbol: str) -> bool:
        """True if this symbol comes next."""
        token = self.peek()
        return token.kind is TokenKind.SYMBOL and token.text == symbol

    def accept_symbol(self, symbol: str) -> bool:
        """Step over this symbol if it comes."""
        if not self.at_symbol(symbol):
            return False
        self.take()
        return True

    def expect_symbol(self, symbol: str) -> None:
        """Step over this symbol. Raises `DdlSyntaxError`: something else comes."""
        if not self.accept_symbol(symbol):
            raise self.error(f"{symbol!r} expected")

    def at_end(self) -> bool:
        """True if nothing follows."""
        return self.peek().kind is TokenKind.END

    def at_clause_end(self) -> bool:
        """True if a column, a key or an action ends here: at `,` or `)`; partitions follow without a comma."""
        return (
            self.at_end()
            or self.at_symbol(",")
            or self.at_symbol(")")
            or self.at("PARTITION", "BY")
            or self.at("REMOVE", "PARTITIONING")
        )

    def name(self) -> str:
        """A name, with or without quotes. Raises `DdlSyntaxError`: something else comes."""
        token = self.peek()
        if token.kind not in (TokenKind.WORD, TokenKind.QUOTED) or not token.text:
            raise self.error("a name expected")
        return self.take().text

    def number(self) -> int:
        """A whole number. Raises `DdlSyntaxError`: something else comes."""
        token = self.peek()
        if token.kind is not TokenKind.NUMBER or not token.text.isdecimal():
            raise self.error("a number expected")
        return int(self.take().text)

    def group(self) -> list[Token]:
        """Step over `( ... )` and give what is in it. Raises `DdlSyntaxError`: no `(` comes, or it has no end."""
        start = self.peek()
        self.expect_symbol("(")
        content: list[Token] = []
        depth = 1
        while True:
            token = self.take()
            if token.kind is TokenKind.END:
                raise DdlSyntaxError("the ( has no end", start.start)
            if token.kind is TokenKind.SYMBOL:
                depth += {"(": 1, ")": -1}.get(token.text, 0)
                if depth == 0:
                    return content
            content.append(token)

    def skip(self) -> None:
        """Step over one token, or over a whole `( ... )`."""
        if self.at_symbol("("):
            self.group()
        else:
            self.take()

    def error(self, reason: str) -> DdlSyntaxError:
        """Make the error that *reason* was expected at the present token."""
        token = self.peek()
        return DdlSyntaxError(
            f"{reason}, got {token.text[:40]!r}" if token.text else f"{reason}, got the end", token.start
        )
