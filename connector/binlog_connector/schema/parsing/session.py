"""Session settings that decide how statements are read: `StatementSession`; `session_lexer`, `table_name` use it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.parsing.lexer import Lexer
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from binlog_connector.schema.parsing.lexer import TokenReader

# Bits of sql_mode: MySQL sql/system_variables.h and MariaDB sql/sql_class.h, MODE_*.
_TIME_TRUNCATE_FRACTIONAL = 1 << 32
_TIME_ROUND_FRACTIONAL = 1 << 34


@dataclass(frozen=True, slots=True)
class StatementSession:
    """Session settings that decide how a statement is read.

    Attributes:
        database: Current one.
        sql_mode: See `lexer`.
        server_charset: Default for new databases; None: not known.
        vendor: Whose server; None: either (a dump).
        time_zone: In which it reads times; None: not known.
        explicit_timestamps: `explicit_defaults_for_timestamp`; None: not known.
        server_version: As comments of statements have it (100119); None: not known.
    """

    database: str = ""
    sql_mode: int = 0
    server_charset: str | None = None
    vendor: Vendor | None = None
    time_zone: str | None = None
    explicit_timestamps: bool | None = None
    server_version: int | None = None

    @property
    def cuts_fractions(self) -> bool | None:
        """True if fractional digits that a column lacks are truncated, not rounded; None: unknown."""
        return None if self.vendor is None else cuts_fractions(self.vendor, self.sql_mode)


def cuts_fractions(vendor: Vendor, sql_mode: int) -> bool:
    """True if a server truncates fractional digits that a column lacks; otherwise it rounds."""
    if vendor is Vendor.MYSQL:
        return bool(sql_mode & _TIME_TRUNCATE_FRACTIONAL)
    return not sql_mode & _TIME_ROUND_FRACTIONAL


def session_lexer(text: str, session: StatementSession) -> Lexer:
    """Tokens of a statement as its session reads them."""
    return Lexer(text, sql_mode=session.sql_mode, vendor=session.vendor, server_version=session.server_version)


def table_name(reader: TokenReader, session: StatementSession) -> TableName:
    """A table's name, with the current database where it has none.

    Raises:
        DdlSyntaxError: Something else comes.
    """
    if reader.accept_symbol("."):  # an old way to say "the current database"
        return TableName(session.database, reader.name())
    first = reader.name()
    if reader.accept_symbol("."):
        return TableName(first, reader.name())
    return TableName(session.database, first)
