"""Statements of any kind: `parse_statement(text, session)` gives what they do to tables and to rows.

DDL is read by `ddl`. Of statements that change rows the head is read, up to the tables that they change; the rest may
be as long as the server admits. What is about rows and not understood counts as about all tables: nothing is raised.

Effects of a statement whose event has an error code: `left_of_failed(operations, code)`.

A server logs most statements that failed not at all. Those that it logs, with the code that a replica must meet too:

* CREATE OR REPLACE TABLE and SEQUENCE that failed after the old table was dropped (MariaDB sql/sql_table.cc,
  mysql_create_table: "Write log if no error or if we already deleted a table"): the drop is what it did;
* DROP TABLE of tables of which some were not there (MySQL to 5.7, MariaDB to 5.5 with their code, later ones without):
  all others are dropped. With any other code, that of a foreign key, some may be there still;
* DROP VIEW: likewise, and what it could not drop is no view (MariaDB sql/sql_view.cc, mysql_drop_view);
* statements about rows of tables without transactions, which keep the rows that were changed before the error;
  TRUNCATE of such a table (sql/sql_truncate.cc: TRUNCATE_FAILED_BUT_BINLOG);
* other DDL that a replica is to fail at as well: nothing was changed.

Seen on MariaDB 10.11: codes 1005 and 1068 of CREATE OR REPLACE, 4092 of DROP VIEW, 1062 of an INSERT into MyISAM.
MySQL 9.7 logs no DDL that failed.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.operations import (
    ChangeRows,
    CreateSequence,
    CreateTable,
    DropTables,
    DropTemporaryTables,
    DropViews,
    NotParsed,
    TruncateTable,
)
from binlog_connector.schema.parsing.ddl import DDL_WORDS, TRUNCATE, parse_ddl
from binlog_connector.schema.parsing.lexer import DdlSyntaxError, TokenKind, TokenReader
from binlog_connector.schema.parsing.session import (
    SET,
    first_word,
    reading_sessions,
    session_lexer,
    skip_settings,
    table_name,
)
from binlog_format.events.layout import EventType
from binlog_format.names import folded_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_connector.schema.operations import Operation
    from binlog_connector.schema.parsing.session import StatementSession


ANY_TABLE = ChangeRows(None)

NO_ROWS_WORDS = frozenset(
    [
        *("BEGIN", "START", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE", "XA", "END"),
        *("USE", "GRANT", "REVOKE", "LOCK", "UNLOCK", "FLUSH", "RESET", "PURGE", "CHANGE", "STOP", "KILL", "SHUTDOWN"),
        *("RESTART", "INSTALL", "UNINSTALL", "OPTIMIZE", "REPAIR", "CHECK", "CHECKSUM", "CACHE", "BACKUP", "HELP"),
        *("SHOW", "DESCRIBE", "DESC", "EXPLAIN", "HANDLER", "PREPARE", "DEALLOCATE", "SIGNAL", "RESIGNAL"),
    ]
)
"""First keywords of statements that change no row; SET, ANALYZE and LOAD INDEX are looked at more closely."""

_MODIFIERS = ("LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED", "QUICK", "IGNORE")
_QUERY_WORDS = ("SELECT", "WITH", "VALUES", "TABLE")
_JOIN_WORDS = frozenset(["JOIN", "INNER", "CROSS", "LEFT", "RIGHT", "OUTER", "NATURAL", "STRAIGHT_JOIN", "FULL"])
# What may come after a table in a list of tables; no alias, unless it is in quotes.
_AFTER_TABLE = _JOIN_WORDS | {
    *("ON", "USING", "USE", "FORCE", "IGNORE", "PARTITION", "FOR", "SET", "WHERE", "ORDER", "LIMIT", "RETURNING"),
    *("TABLESAMPLE",),
}
_ENDS_ASSIGNMENTS = ("WHERE", "ORDER", "LIMIT", "RETURNING")

# An INSERT with it may change rows that were there; in a text or a comment it does no harm.
_ON_DUPLICATE = re.compile(r"\bDUPLICATE\b", re.IGNORECASE)
_CALLS_MAX = 200
ANY_CALL = "*"
"""Element of `ChangeRows.calls`: more routines are called than can be listed."""
_NAME = r"(?:`(?:[^`]|``)+`|\"[^\"]+\"|[\w$]++)"
_CALL = re.compile(rf"((?:{_NAME}\s*+\.\s*+){{0,2}}{_NAME})\s*+\(")
# Words before a `(` in nearly every statement.
_NO_CALLS = frozenset(["values", "value", "in", "and", "or", "not", "select", "from", "as", "on", "using", "where"])


def parse_statement(text: str, session: StatementSession) -> list[Operation]:
    """Parse a statement's effects on tables and their rows, in order; empty if it has none.

    A statement about rows that is not understood is one about all tables.
    """
    word = first_word(text, session)
    if word in DDL_WORDS or word == TRUNCATE:
        return [*_with_rows(parse_ddl(text, session), text)]
    readings = [_read(text, reading_session) for reading_session in reading_sessions(text, session)]
    found = readings[0] if all(reading == readings[0] for reading in readings) else ANY_TABLE
    if found is None:
        return []
    if isinstance(found, ChangeRows):
        return [replace(found, calls=_calls(text), adds=found.adds and _ON_DUPLICATE.search(text) is None)]
    return [found]


def _read(text: str, session: StatementSession) -> ChangeRows | TruncateTable | None:
    reader = TokenReader(session_lexer(text, session))
    try:
        skip_settings(reader)
        return _row_statement(reader, session)
    except DdlSyntaxError:
        return ANY_TABLE


def _with_rows(operations: Iterable[Operation], text: str) -> Iterable[Operation]:
    # In row format the server logs CREATE TABLE without its SELECT, and row events for what that found.
    for operation in operations:
        yield operation
        if isinstance(operation, CreateTable) and operation.options.selects:
            yield ChangeRows((operation.name,), _calls(text), adds=True)


def _calls(text: str) -> tuple[str, ...]:
    found: dict[str, None] = {}
    for match in _CALL.finditer(text):
        for part in re.findall(_NAME, match.group(1)):
            found[folded_name(part.strip('`"'))] = None
        if len(found) > _CALLS_MAX:
            return (ANY_CALL,)
    return tuple(sorted(found.keys() - _NO_CALLS))


def _row_statement(reader: TokenReader, session: StatementSession) -> ChangeRows | TruncateTable | None:
    while reader.accept_symbol("("):
        pass
    if reader.at_end() or reader.peek().word in NO_ROWS_WORDS:
        return None
    common = _common_tables(reader) if reader.accept("WITH") else frozenset()
    if reader.at_any("INSERT", "REPLACE"):
        adds = reader.take().word == "INSERT"
        _skip_words(reader, *_MODIFIERS)
        reader.accept("INTO")
        return ChangeRows((table_name(reader, session),), adds=adds)
    if reader.accept("UPDATE"):
        return _update(reader, session, common)
    if reader.accept("DELETE"):
        return _delete(reader, session, common)
    if reader.accept("LOAD"):
        return _load(reader, session)
    if reader.at(SET):
        return None
    if reader.accept("ANALYZE"):
        return _analyzed(reader, session)
    # SELECT and DO of a function, CALL; and whatever a server has learned since.
    return ANY_TABLE


def _skip_words(reader: TokenReader, *words: str) -> None:
    while reader.at_any(*words):
        reader.take()


def _common_tables(reader: TokenReader) -> frozenset[str]:
    """Names that WITH gives to subqueries, case-folded; the reader is then after them."""
    reader.accept("RECURSIVE")
    names = []
    while True:
        names.append(folded_name(reader.name()))
        if reader.at_symbol("("):
            reader.group()
        if not reader.accept("AS"):
            raise reader.error("AS expected")
        reader.group()
        while not (reader.at_symbol(",") or reader.at_any("SELECT", "UPDATE", "DELETE", "INSERT", "REPLACE", "(")):
            if reader.at_end():
                raise reader.error("a statement expected")
            reader.skip()  # CYCLE, SEARCH
        if not reader.accept_symbol(","):
            return frozenset(names)


def _analyzed(reader: TokenReader, session: StatementSession) -> ChangeRows | TruncateTable | None:
    # MariaDB: ANALYZE [FORMAT = JSON] UPDATE ... does what it analyses; ANALYZE TABLE changes nothing.
    _skip_words(reader, "NO_WRITE_TO_BINLOG", "LOCAL")
    if reader.at_any("TABLE", "TABLES"):
        return None
    if reader.accept("FORMAT"):
        reader.accept_symbol("=")
        reader.take()
    return _row_statement(reader, session)


def _load(reader: TokenReader, session: StatementSession) -> ChangeRows | None:
    if not reader.at_any("DATA", "XML"):
        return None if reader.at("INDEX") else ANY_TABLE
    adds = True
    while not reader.accept("INTO", "TABLE"):
        if reader.at_end():
            raise reader.error("INTO TABLE expected")
        adds = reader.take().word != "REPLACE" and adds
    return ChangeRows((table_name(reader, session),), adds=adds)


class _Tables:
    """The tables that a statement names, by what it calls them."""

    def __init__(self, session: StatementSession, common: frozenset[str]) -> None:
        self._session = session
        self._common = common
        self._by_alias: dict[str, TableName | None] = {}

    def read(self, reader: TokenReader, *stops: str) -> None:
        """Read a list of tables and joins up to one of the words *stops*, a `)` or the end."""
        while not (reader.at_end() or reader.at_any(*stops) or reader.at_symbol(")") or reader.at_symbol(";")):
            if reader.at_any("ON", "USING", "USE", "FORCE", "IGNORE", "PARTITION", "FOR"):
                reader.take()
                self._skip_condition(reader, stops)
            elif reader.accept_symbol(",") or reader.peek().word in _JOIN_WORDS:
                if reader.peek().word in _JOIN_WORDS:
                    reader.take()
            else:
                self._read_one(reader, stops)

    def _skip_condition(self, reader: TokenReader, stops: tuple[str, ...]) -> None:
        while not (reader.at_end() or reader.at_any(*stops) or reader.peek().text in (",", ")")):
            if reader.peek().word in _JOIN_WORDS and reader.peek(1).text != "(":
                return
            reader.skip()

    def _read_one(self, reader: TokenReader, stops: tuple[str, ...]) -> None:
        name: TableName | None = None
        if reader.at_symbol("("):
            if reader.peek(1).word not in _QUERY_WORDS and reader.peek(1).text != "(":
                reader.take()
                self.read(reader)
                reader.expect_symbol(")")
                return
            reader.group()
        elif reader.at("LATERAL") or reader.peek(1).text == "(":
            _skip_words(reader, "LATERAL")
            reader.skip()  # a function: JSON_TABLE
            if reader.at_symbol("("):
                reader.group()
        else:
            name = table_name(reader, self._session)
        self._put(name, self._alias(reader, stops))

    def _alias(self, reader: TokenReader, stops: tuple[str, ...]) -> str:
        if reader.at("PARTITION"):
            reader.take()
            reader.group()
        if reader.accept("AS"):
            alias = reader.name()
        else:
            token = reader.peek()
            is_alias = token.kind is TokenKind.QUOTED or (
                token.kind is TokenKind.WORD and token.word not in _AFTER_TABLE and token.word not in stops
            )
            alias = reader.take().text if is_alias else ""
        if alias and reader.at_symbol("("):
            reader.group()  # names of a derived table's columns
        return alias

    def _put(self, name: TableName | None, alias: str) -> None:
        if name is not None and folded_name(name.table) in self._common and name.database == self._session.database:
            name = None
        key = alias or (name.table if name is not None else "")
        if key:
            self._by_alias[folded_name(key)] = name

    def all(self) -> tuple[TableName, ...]:
        return tuple(dict.fromkeys(name for name in self._by_alias.values() if name is not None))

    def called(self, *parts: str) -> TableName | None:
        """The table that is called so: `alias`, `table` or `database.table`; None: it is none of a database."""
        if len(parts) == 1 and folded_name(parts[0]) in self._by_alias:
            return self._by_alias[folded_name(parts[0])]
        return TableName(parts[0], parts[1]) if len(parts) > 1 else TableName(self._session.database, parts[0])


def _update(reader: TokenReader, session: StatementSession, common: frozenset[str]) -> ChangeRows:
    _skip_words(reader, *_MODIFIERS)
    tables = _Tables(session, common)
    tables.read(reader, "SET")
    if not reader.accept("SET"):
        raise reader.error("SET expected")
    names = tables.all()
    if not names:
        return ANY_TABLE
    return ChangeRows(names if len(names) == 1 else _assigned(reader, tables))


def _assigned(reader: TokenReader, tables: _Tables) -> tuple[TableName, ...]:
    """Tables whose columns are set; all, if one of the columns does not name its table."""
    found: dict[TableName, None] = {}
    while True:
        parts = [reader.name()]
        while reader.accept_symbol("."):
            parts.append(reader.name())
        if len(parts) == 1:
            return tables.all()
        name = tables.called(*parts[:-1])
        if name is not None:
            found[name] = None
        while not reader.at_symbol(","):
            if reader.at_end() or reader.at_any(*_ENDS_ASSIGNMENTS):
                return tuple(found) or tables.all()
            reader.skip()
        reader.take()


def _delete(reader: TokenReader, session: StatementSession, common: frozenset[str]) -> ChangeRows | TruncateTable:
    _skip_words(reader, *_MODIFIERS)
    if reader.at("HISTORY", "FROM"):
        reader.take()
        reader.take()
        return ChangeRows((table_name(reader, session),))
    from_first = reader.accept("FROM")
    targets = [_target(reader)]
    while reader.accept_symbol(","):
        targets.append(_target(reader))
    if from_first and not reader.at("USING"):
        if len(targets) > 1:
            raise reader.error("USING expected")
        return _delete_of_one(reader, _named(targets[0], session))
    if not (reader.accept("USING") or reader.accept("FROM")):
        raise reader.error("FROM or USING expected")
    tables = _Tables(session, common)
    tables.read(reader, "WHERE", "RETURNING")
    names = [tables.called(*parts) for parts in targets]
    return ChangeRows(tuple(dict.fromkeys(name for name in names if name is not None)) or None)


def _target(reader: TokenReader) -> list[str]:
    # `t`, `db.t`, `t.*`, `db.t.*`
    parts = [] if reader.accept_symbol(".") else [reader.name()]
    if not parts:
        return [reader.name()]
    while reader.accept_symbol("."):
        if reader.accept_symbol("*"):
            break
        parts.append(reader.name())
    return parts


def _named(parts: list[str], session: StatementSession) -> TableName:
    return TableName(parts[0], parts[1]) if len(parts) > 1 else TableName(session.database, parts[0])


def _delete_of_one(reader: TokenReader, name: TableName) -> ChangeRows | TruncateTable:
    reader.accept_symbol(";")
    return TruncateTable(name, deletes=True) if reader.at_end() or reader.at("RETURNING") else ChangeRows((name,))


NOT_THERE = frozenset({1051, 4091})
"""ER_BAD_TABLE_ERROR, ER_UNKNOWN_SEQUENCES: of a DROP, some tables were not there."""


def left_of_failed(operations: Iterable[Operation], code: int) -> list[Operation]:
    """The part of *operations* that took effect, of a statement that ended with *code* on the server; 0: all."""
    found = list(operations)
    if code == 0:
        return found
    if any(isinstance(operation, CreateTable | CreateSequence) for operation in found):
        # Without rows of a table that was not made.
        found = [operation for operation in found if not isinstance(operation, ChangeRows)]
    return [left for operation in found for left in _left(operation, code)]


def ddl_operations(statement: DdlStatement) -> list[Operation]:
    """Effects of a DDL statement on tables, in order."""
    return left_of_failed(parse_ddl(statement.text, statement.session), statement.error_code)


def statement_operations(statement: DdlStatement) -> list[Operation]:
    """Effects of a statement on tables and rows, in order, even if only its beginning is known."""
    if statement.event_type in (EventType.INCIDENT, EventType.FORMAT_DESCRIPTION):
        return []
    if statement.rows is not None:
        return [statement.rows]
    return left_of_failed(parse_statement(statement.text, statement.session), statement.error_code)


def _left(operation: Operation, code: int) -> list[Operation]:
    match operation:
        case CreateTable() | CreateSequence() if operation.or_replace:
            return [DropTables((operation.name,))]
        case DropTables() if code not in NOT_THERE:
            reason = f"it ended with error {code} on the server: some of its tables may be there still"
            return [NotParsed(operation.names, reason)]
        case DropTables() | DropViews() | DropTemporaryTables() | ChangeRows():
            return [operation]
        case TruncateTable():
            return [ChangeRows((operation.name,))]
    return []
