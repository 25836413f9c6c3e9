"""Targets that read SQL: DDL, dumps, savepoints, names of XA transactions; in linear time, whatever the text."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from binlog_connector.schema.catalog import Catalog, parse_dump
from binlog_connector.schema.definitions import TableDefinition
from binlog_connector.schema.operations import UseDatabase
from binlog_connector.schema.parsing.ddl import parse_ddl
from binlog_connector.schema.parsing.lexer import (
    MODE_ANSI_QUOTES,
    MODE_NO_BACKSLASH_ESCAPES,
    MODE_ORACLE,
    DdlSyntaxError,
    Lexer,
)
from binlog_connector.schema.parsing.session import StatementSession
from binlog_format.errors import BinlogError
from binlog_format.gtids.gtid_set import parse_gtids
from binlog_format.transactions.control_statements import parse_statement
from binlog_format.transactions.xa import parse_xid
from binlog_format.vendor import Vendor
from tests.fuzz.declaring import NUMBERS, Target
from tests.fuzz.seeds import EDITS, Edit, spoiled
from tests.fuzz.server_seeds import statements

if TYPE_CHECKING:
    from collections.abc import Callable

LONG_TEXT = 48_000
"""Characters of a text that shows what grows faster than itself."""
SECONDS_MAX = 2.0
"""Processor seconds for such a text in all: ten times what it takes, and half of what its square does."""

_KEYWORDS = """
CREATE TABLE ALTER DROP RENAME TO ADD COLUMN MODIFY CHANGE FIRST AFTER IF NOT EXISTS LIKE AS SELECT INDEX ON UNIQUE
PRIMARY KEY CONSTRAINT FOREIGN REFERENCES CHECK INT VARCHAR ENUM SET TIMESTAMP DEFAULT NULL CHARACTER COLLATE
utf8mb4_bin GENERATED ALWAYS VIRTUAL INVISIBLE ENGINE = PARTITION BY SEQUENCE DATABASE USE VIEW TEMPORARY OR REPLACE
WITH SYSTEM VERSIONING CONVERT COMMENT SAVEPOINT ROLLBACK WORK XA START COMMIT ONE DELIMITER
"""
_WORDS = (
    *_KEYWORDS.split(),
    *("(", ")", ",", ";", ".", "'", '"', "`", "\\", "/*", "*/", "/*!", "/*!50701 ", "/*M!100100 ", "--", "#", "\n"),
    *(" ", "\t", "t", "`a``b`", "'x''y'", "'\\''", "12", "1.5e3", "x'00'", "X'6", "0x61", "@a", "é", "\0"),
)
_SOUP = st.lists(st.sampled_from(_WORDS), max_size=24).map(" ".join) | st.lists(st.sampled_from(_WORDS)).map("".join)
_SESSIONS = st.builds(
    StatementSession,
    st.sampled_from(["", "shop"]),
    st.sampled_from([0, MODE_ANSI_QUOTES, MODE_NO_BACKSLASH_ESCAPES, MODE_ORACLE]),
    st.sampled_from([None, "utf8mb4", "binary"]),
    st.sampled_from([None, *Vendor]),
)


def _ddl(text: str, session: StatementSession) -> None:
    catalog = Catalog()
    for operation in parse_ddl(text, session):
        if not isinstance(operation, UseDatabase):
            catalog.apply(operation, session.vendor)
    for state in catalog.tables.values():
        if isinstance(state, TableDefinition) and state.columns is not None:
            state.completion().to_json()


def _dump(text: str, _: StatementSession) -> None:
    with contextlib.suppress(BinlogError):
        parse_dump(text)


def _lexer(text: str, session: StatementSession) -> None:
    with contextlib.suppress(DdlSyntaxError):
        Lexer(text, sql_mode=session.sql_mode, vendor=session.vendor).tokens()


def _statement(text: str, session: StatementSession) -> None:
    del session
    parse_statement(text.encode())
    parse_xid(text.encode())


def _gtids(text: str, session: StatementSession) -> None:
    del session
    with contextlib.suppress(ValueError):
        parse_gtids(text)


_READERS: tuple[Callable[[str, StatementSession], None], ...] = (_ddl, _dump, _lexer, _statement, _gtids)


def texts(number: int, edits: list[Edit], soup: str, session: StatementSession) -> None:
    """Real statements, spoiled, and words in any order."""
    seed = statements()[number % len(statements())]
    start = max(seed.find(word) for word in (b"CREATE", b"ALTER", b"SAVEPOINT", b"XA", b"DROP", b"INSERT", b"\0"))
    for text in (spoiled(seed[max(start, 19) :], edits).decode("utf-8", "replace"), soup):
        for read in _READERS:
            read(text, session)


def long_texts(before: str, repeated: str, after: str, session: StatementSession) -> None:
    """The same again and again: the time that it takes grows with the text, not with its square."""
    if not repeated:
        return
    text = before + repeated * (LONG_TEXT // len(repeated)) + after
    for read in _READERS:
        started = time.process_time()
        read(text, session)
        passed = time.process_time() - started
        assert passed < SECONDS_MAX, f"{read.__name__}: {passed:.1f} s for {len(text)} characters"


_STARTS = st.sampled_from(
    [
        "",
        "CREATE TABLE t (a int",
        "ALTER TABLE t ADD ",
        "CREATE ",
        "SAVEPOINT a",
        "ROLLBACK TO ",
        "XA COMMIT ",
        "'",
        "/*",
    ]
)
_PIECES = st.lists(st.sampled_from(_WORDS), min_size=1, max_size=3).map("".join)
_ENDS = st.lists(st.sampled_from(_WORDS), max_size=2).map("".join)

TARGETS = {
    "texts": Target(texts, (NUMBERS, EDITS, _SOUP, _SESSIONS)),
    "long_texts": Target(long_texts, (_STARTS, _PIECES, _ENDS, _SESSIONS)),
}
