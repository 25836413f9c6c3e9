"""Session settings that decide how statements are read: `StatementSession`; `session_lexer`, `table_name` use it.

Names of character sets as statements write them: `charset_name`, `charset_of_collation_name`, `parse_default_charset`,
`decode_statement`, `other_text`.

MariaDB's `SET STATEMENT name = value, ... FOR statement`, which is logged as it was written: `skip_settings`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.operations import OF_DATABASE
from binlog_connector.schema.parsing.lexer import (
    MODE_ANSI_QUOTES,
    MODE_NO_BACKSLASH_ESCAPES,
    MODE_ORACLE,
    DdlSyntaxError,
    Lexer,
    TokenKind,
    TokenReader,
)
from binlog_format.events.charsets import can_hold, decode_text, is_known
from binlog_format.vendor import (
    CONVERSIONS_DONE_SINCE,
    MARIADB_COLLATE_DEFAULT_SINCE,
    MARIADB_ORACLE_TYPES_SINCE,
    MARIADB_TEXT_DEFAULTS_SINCE,
    MARIADB_UTF8_BY_MODE_SINCE,
    MARIADB_WHOLE_LOCALTIME_SINCE,
    MYSQL_EMPTY_TEXTS_SINCE,
    MYSQL_EMPTY_TEXTS_WHOLE_UNTIL,
    Vendor,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_format.events.query import QueryStatus


# Bits of sql_mode: MySQL sql/system_variables.h and MariaDB sql/sql_class.h, MODE_*.
MODE_NO_ENGINE_SUBSTITUTION = 1 << 30
_TIME_TRUNCATE_FRACTIONAL = 1 << 32
_TIME_ROUND_FRACTIONAL = 1 << 34
_EMPTY_STRING_IS_NULL = 1 << 32


@dataclass(frozen=True, slots=True)
class StatementSession:
    """Session settings that decide how a statement is read.

    Attributes:
        sql_mode: See `lexer`.
        server_charset: Default for new databases; None: not known.
        vendor: Whose server; None: either (a dump).
        time_zone: In which it reads times; None: not known.
        explicit_timestamps: `explicit_defaults_for_timestamp`; None: not known.
        server_version: As comments of statements have it (100119); None: not known.
        fills_table: See `DdlStatement`.
        other_text: See `DdlStatement`.
    """

    database: str = ""
    sql_mode: int = 0
    server_charset: str | None = None
    vendor: Vendor | None = None
    time_zone: str | None = None
    explicit_timestamps: bool | None = None
    server_version: int | None = None
    fills_table: bool = False
    other_text: str | None = None

    @property
    def cuts_fractions(self) -> bool | None:
        """True if fractional digits that a column lacks are truncated, not rounded; None: unknown."""
        return None if self.vendor is None else cuts_fractions(self.vendor, self.sql_mode)

    @property
    def engine_may_differ(self) -> bool:
        """True if a table may get another engine than the statement names: one that the server lacks, or must not use.

        With NO_ENGINE_SUBSTITUTION the statement fails. A dump has the engines that the tables have.
        """
        return self.vendor is not None and not self.sql_mode & MODE_NO_ENGINE_SUBSTITUTION

    @property
    def utf8_may_be_whole(self) -> bool:
        """True if `utf8` may be utf8mb4."""
        return self._is_mariadb_since(MARIADB_UTF8_BY_MODE_SINCE)

    @property
    def has_oracle_types(self) -> bool:
        """True if names of types mean what they do in Oracle. Servers without such types have the mode's bit too."""
        return bool(self.sql_mode & MODE_ORACLE) and self._is_mariadb_since(MARIADB_ORACLE_TYPES_SINCE)

    @property
    def empty_text_is_null(self) -> bool:
        """True if an empty literal is NULL."""
        return self.vendor is Vendor.MARIADB and bool(self.sql_mode & _EMPTY_STRING_IS_NULL)

    @property
    def ignores_empty_defaults(self) -> bool:
        """True if TEXT, BLOB, JSON and geometries have no literal defaults, and an empty one is none."""
        if self.vendor is Vendor.MARIADB:
            return not self._is_mariadb_since(MARIADB_TEXT_DEFAULTS_SINCE)
        return self.vendor is Vendor.MYSQL

    @property
    def doubles_backslashes(self) -> bool:
        """True if a text in an expression gets twice its backslashes, now and with each later ALTER TABLE.

        MySQL 9.7: it prints the expression with escapes, and reads that without them.
        """
        return self.vendor is Vendor.MYSQL and bool(self.sql_mode & MODE_NO_BACKSLASH_ESCAPES)

    @property
    def localtime_is_whole(self) -> bool:
        """True if LOCALTIME has no fraction of a second, where NOW() has that of its column."""
        return self._is_mariadb_since(MARIADB_WHOLE_LOCALTIME_SINCE)

    @property
    def last_charset_counts(self) -> bool:
        """True if CONVERT TO after DEFAULT CHARACTER SET sets the default, too; else DEFAULT does, wherever it is."""
        return self.vendor is Vendor.MYSQL

    @property
    def collate_default_keeps_charset(self) -> bool:
        """True if COLLATE DEFAULT leaves a table its character set, else it is the database's."""
        return self._is_mariadb_since(MARIADB_COLLATE_DEFAULT_SINCE)

    @property
    def may_skip_conversions(self) -> bool:
        """True if CONVERT TO CHARACTER SET may do nothing, where it is alone in a statement."""
        if self.vendor is None or self.server_version is None:
            return False
        return self.server_version < CONVERSIONS_DONE_SINCE[self.vendor]

    @property
    def sizes_empty_texts(self) -> bool | None:
        """True if TEXT(0) is the smallest text, as TEXT(1) is; False: it is TEXT; None: not known."""
        if self.vendor is Vendor.MARIADB:
            return False
        version = self.server_version
        if self.vendor is None or version is None or MYSQL_EMPTY_TEXTS_WHOLE_UNTIL < version < MYSQL_EMPTY_TEXTS_SINCE:
            return None
        return version >= MYSQL_EMPTY_TEXTS_SINCE

    def _is_mariadb_since(self, version: int) -> bool:
        return self.vendor is Vendor.MARIADB and (self.server_version or version) >= version


def cuts_fractions(vendor: Vendor, sql_mode: int) -> bool:
    """True if a server truncates fractional digits that a column lacks; otherwise it rounds."""
    if vendor is Vendor.MYSQL:
        return bool(sql_mode & _TIME_TRUNCATE_FRACTIONAL)
    return not sql_mode & _TIME_ROUND_FRACTIONAL


def session_lexer(text: str, session: StatementSession) -> Lexer:
    """Tokens of a statement as its session reads them."""
    return Lexer(text, sql_mode=session.sql_mode, vendor=session.vendor, server_version=session.server_version)


def table_name(reader: TokenReader, session: StatementSession) -> TableName:
    """A table's name, with the current database where it has none. Raises `DdlSyntaxError`: something else comes."""
    if reader.accept_symbol("."):  # an old way to say "the current database"
        return TableName(session.database, reader.name())
    first = reader.name()
    if reader.accept_symbol("."):
        return TableName(first, reader.name())
    return TableName(session.database, first)


def column_name(reader: TokenReader) -> str:
    """A column's name without its table's: MariaDB and MySQL before 8.0 take `t.c`, `d.t.c` and `.c` in definitions."""
    reader.accept_symbol(".")
    name = reader.name()
    while reader.accept_symbol("."):
        name = reader.name()
    return name


BINARY = "binary"
UTF8MB4 = "utf8mb4"
NATIONAL = "utf8mb3"
"""Character set of NATIONAL CHAR (both vendors, until now)."""


def charset_name(text: str, session: StatementSession) -> str:
    """The name that the server has for a character set: `UTF8` is utf8mb3; it stays `utf8` where it may be utf8mb4."""
    name = text.lower()
    return "utf8mb3" if name == "utf8" and not session.utf8_may_be_whole else name


def charset_of_collation_name(text: str, session: StatementSession) -> str | None:
    """Character set of a collation; None for one that goes with several (`uca1400_ai_ci`)."""
    name = charset_name(text.partition("_")[0], session)
    return name if name == BINARY or is_known(name) else None


def parse_default_charset(reader: TokenReader, session: StatementSession) -> str | None:
    """`[DEFAULT] CHARACTER SET [=] x` or `[DEFAULT] COLLATE [=] x`: the character set.

    Returns:
        None: no such option comes. Empty: one that sets nothing (a collation of several character sets).
    """
    ahead = 1 if reader.at("DEFAULT") else 0
    word, then = reader.peek(ahead).word, reader.peek(ahead + 1).word
    if word == "CHARSET" or word == "COLLATE":
        steps = ahead + 1
    elif word in ("CHARACTER", "CHAR") and then == "SET":
        steps = ahead + 2
    else:
        return None
    for _ in range(steps):
        reader.take()
    reader.accept_symbol("=")
    if reader.accept("DEFAULT"):
        return "" if word == "COLLATE" and session.collate_default_keeps_charset else OF_DATABASE
    text = reader.take().text if reader.peek().kind is TokenKind.STRING else reader.name()
    return charset_of_collation_name(text, session) or "" if word == "COLLATE" else charset_name(text, session)


def decode_statement(text: bytes, charset: str | None) -> str:
    """A statement as text.

    Args:
        charset: Of the client that sent it; None: UTF-8.

    Returns:
        Where the bytes are no text in *charset*, they are taken for UTF-8, and those that are not that either become
        U+FFFD: keywords are ASCII in every character set that a client can have.
    """
    try:
        return decode_text(text, charset or UTF8MB4)
    except UnicodeDecodeError:
        return text.decode("utf-8", "replace")


_LETTERS_FOR_QUOTES = "swe7"
"""Character set of clients in which some bytes of ASCII, the quote of names among them, are other letters."""
NOT_HELD = "?"
"""Stands for a letter that a character set lacks."""


def other_text(content: bytes, text: str, status: QueryStatus) -> str | None:
    """Another text that a statement may be; see `DdlStatement`. *text*: its *content* in the client's charset."""
    if content.isascii() and status.client_charset != _LETTERS_FOR_QUOTES:
        return None
    connection = status.connection_charset
    is_converted = connection != status.client_charset and ("'" in text or '"' in text)
    if connection is not None and is_converted and not can_hold(text, connection):
        return "".join(letter if can_hold(letter, connection) else NOT_HELD for letter in text)
    try:
        other = content.decode()
    except UnicodeDecodeError:
        # Bytes that are no text, of a statement that was prepared from a binary string.
        other = text.replace("\ufffd", NOT_HELD)
    return None if other == text else other


SET = "SET"
_NAMES = (TokenKind.WORD, TokenKind.QUOTED)


def skip_settings(reader: TokenReader) -> bool:
    """Step over `SET STATEMENT ... FOR`, if it comes; whether `sql_mode` is one of the settings.

    The event has the settings in its own status, as the statement ran with them.
    """
    sets_mode = False
    while reader.accept(SET, "STATEMENT"):
        while not reader.accept("FOR"):
            if reader.at_end():
                raise reader.error("FOR expected")
            token = reader.peek()
            sets_mode |= token.kind in _NAMES and token.text.casefold() == "sql_mode"
            reader.skip()
    return sets_mode


def reading_sessions(text: str, session: StatementSession) -> Sequence[StatementSession]:
    """Sessions with which the server may have read a statement; the first one is *session*, that of its event.

    `SET STATEMENT sql_mode = ...` holds while the statement runs, and is in its event. The quotes in the statement were
    read before, in the mode of the session, which is not in the log (live on MariaDB 10.11: under ANSI_QUOTES
    `SET STATEMENT sql_mode = '' FOR CREATE TABLE "t" ...` makes the table `t`).
    """
    reader = TokenReader(session_lexer(text, session))
    try:
        if not (reader.at(SET, "STATEMENT") and skip_settings(reader)):
            return [session]
    except DdlSyntaxError:
        return [session]
    modes = [session.sql_mode]
    for sign, bit in (('"', MODE_ANSI_QUOTES), ("\\", MODE_NO_BACKSLASH_ESCAPES)):
        modes += [mode ^ bit for mode in modes] if sign in text else []
    return [replace(session, sql_mode=mode) for mode in modes]


def first_word(text: str, session: StatementSession) -> str | None:
    """The first keyword of a statement, after settings; empty where it begins otherwise, None for comments alone."""
    reader = TokenReader(session_lexer(text, session))
    try:
        if reader.at(SET, "STATEMENT"):
            skip_settings(reader)
        return None if reader.at_end() else reader.peek().word
    except DdlSyntaxError:
        return ""  # it begins with a quote
