"""MariaDB's `SET STATEMENT name = value, ... FOR statement`, which is logged as it was written: `skip_settings`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from binlog_connector.schema.parsing.lexer import (
    MODE_ANSI_QUOTES,
    MODE_NO_BACKSLASH_ESCAPES,
    DdlSyntaxError,
    TokenKind,
    TokenReader,
)
from binlog_connector.schema.parsing.session import session_lexer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from binlog_connector.schema.parsing.session import StatementSession

SET = "SET"
_NAMES = (TokenKind.WORD, TokenKind.QUOTED)


def skip_settings(reader: TokenReader) -> bool:
    """Step over `SET STATEMENT ... FOR`, if it comes; whether `sql_mode` is one of the settings.

    The event has the settings in its own status, as the statement ran with them.

    Raises:
        DdlSyntaxError: No FOR comes.
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
