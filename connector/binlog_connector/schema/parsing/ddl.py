"""DDL statements: `parse_ddl(text, ...)` gives what they do to tables."""

from __future__ import annotations

import functools
from dataclasses import replace
from typing import TYPE_CHECKING

from binlog_connector.schema.operations import (
    OF_DATABASE,
    AlterTable,
    CreateFunction,
    CreateSequence,
    CreateTable,
    CreateTemporaryTable,
    CreateTrigger,
    CreateView,
    DropDatabase,
    DropFunction,
    DropTables,
    DropTemporaryTables,
    DropTrigger,
    DropViews,
    KeySpec,
    NotParsed,
    RenameTables,
    SetDatabaseCharset,
    TruncateTable,
    UseDatabase,
)
from binlog_connector.schema.parsing.keys import accept_if_exists, parse_key_options, parse_key_parts
from binlog_connector.schema.parsing.lexer import DdlSyntaxError, TokenReader
from binlog_connector.schema.parsing.server_texts import leaves_charset_out
from binlog_connector.schema.parsing.session import (
    NOT_HELD,
    parse_default_charset,
    reading_sessions,
    session_lexer,
    skip_settings,
    table_name,
)
from binlog_connector.schema.parsing.table_parser import parse_alter_table, parse_create_table
from binlog_format.events.query import contains_password, is_account_statement

if TYPE_CHECKING:
    from binlog_connector.schema.definitions import TableName
    from binlog_connector.schema.operations import Operation
    from binlog_connector.schema.parsing.session import StatementSession

_TEXT_SHOWN_MAX = 200

DDL_WORDS = frozenset({"CREATE", "ALTER", "DROP", "RENAME"})
"""First keywords of statements that change what tables look like."""
TRUNCATE = "TRUNCATE"
"""First keyword of a statement that empties a table and leaves it as it looks."""

# CREATE OR REPLACE DEFINER=... SQL SECURITY ... AGGREGATE FUNCTION: what they make comes after all that.
_MADE = frozenset(
    [
        "TABLE",
        "TABLES",
        "VIEW",
        "SEQUENCE",
        "DATABASE",
        "SCHEMA",
        "INDEX",
        "TRIGGER",
        "PROCEDURE",
        "FUNCTION",
        "EVENT",
        "PACKAGE",
        "USER",
        "ROLE",
        "SERVER",
        "TABLESPACE",
        "LOGFILE",
        "UNDO",
        "SPATIAL",
        "LIBRARY",
        "RESOURCE",
        "CATALOG",
        "JSON",
        "MATERIALIZED",
        "INSTANCE",
    ]
)
KEPT_MAX = 512
"""Statements whose meaning is kept: plans, definitions and targets ask for the same ones, one after the other."""
KEPT_TEXT_MAX = 1 << 16
"""Characters of such a statement, at most."""


def parse_ddl(text: str, session: StatementSession) -> list[Operation]:
    """Parse a statement's effects on tables, in order; empty if it has none.

    A statement about tables that is not understood gives `NotParsed`, one about accounts nothing; nothing is raised.
    """
    return list(_parsed(text, session) if len(text) <= KEPT_TEXT_MAX else _parsed.__wrapped__(text, session))


@functools.lru_cache(maxsize=KEPT_MAX)
def _parsed(text: str, session: StatementSession) -> tuple[Operation, ...]:
    readings = [_read(text, reading_session) for reading_session in reading_sessions(text, session)]
    if session.other_text is not None:
        other = _read(session.other_text, session)
        if _without_comments(other) != _without_comments(readings[0]):
            return (_of_two_texts(text, session.other_text, session),)
    understood = [reading for reading in readings if not isinstance(reading, NotParsed)]
    if not understood:
        return tuple(reading for reading in readings[:1] if isinstance(reading, NotParsed))
    if any(other != understood[0] for other in understood):
        error = DdlSyntaxError("what the quotes mean depends on an sql_mode that the log does not record", 0)
        return (_not_parsed(text, error, session),)
    return tuple(understood[0])


def _without_comments(reading: list[Operation] | NotParsed) -> list[Operation]:
    """Operations of a reading, comments of columns left out; none where it is not understood."""
    found: list[Operation] = []
    for operation in [] if isinstance(reading, NotParsed) else reading:
        match operation:
            case CreateTable():
                columns = tuple(replace(column, comment="") for column in operation.columns)
                found.append(replace(operation, columns=columns))
            case AlterTable():
                changes = (replace(change, column=replace(change.column, comment="")) for change in operation.changes)
                found.append(replace(operation, changes=tuple(changes)))
            case _:
                found.append(operation)
    return found


def _of_two_texts(text: str, other: str, session: StatementSession) -> NotParsed:
    reason = "its letters may be UTF-8, too: the log does not record the character set that a text was prepared in"
    if other.count(NOT_HELD) > text.count(NOT_HELD):
        reason = "it has letters that a character set of its session lacks (client or collation_connection)"
    readings = [_not_parsed(read_text, DdlSyntaxError(reason, 0), session) for read_text in (text, other)]
    names = tuple(dict.fromkeys(name for reading in readings for name in reading.names))
    return NotParsed(names, readings[0].reason)


def _read(text: str, session: StatementSession) -> list[Operation] | NotParsed:
    lexer = session_lexer(text, session)
    try:
        reader = TokenReader(lexer.tokens())
        skip_settings(reader)
        return [_with_charset(operation, text, session) for operation in _operations(reader, session)]
    except DdlSyntaxError as error:
        return [] if is_account_statement(text) else _not_parsed(text, error, session)


def _with_charset(operation: Operation, text: str, session: StatementSession) -> Operation:
    if isinstance(operation, CreateTable) and leaves_charset_out(operation, text, session):
        return replace(operation, options=replace(operation.options, charset_left_out=True))
    return operation


def _operations(reader: TokenReader, session: StatementSession) -> list[Operation]:
    if reader.accept("CREATE"):
        return _create(reader, session)
    if reader.accept("ALTER"):
        return _alter(reader, session)
    if reader.accept("DROP"):
        return _drop(reader, session)
    if reader.accept("RENAME") and (reader.accept("TABLE") or reader.accept("TABLES")):
        return [_rename(reader, session)]
    if reader.accept("TRUNCATE"):
        reader.accept("TABLE")
        return [TruncateTable(table_name(reader, session))]
    if reader.accept("USE"):
        return [UseDatabase(reader.name())]
    return []


def _create(reader: TokenReader, session: StatementSession) -> list[Operation]:
    unique = temporary = False
    or_replace = reader.at("OR", "REPLACE")
    while not (reader.at_end() or reader.at_any(*_MADE)):
        unique |= reader.at("UNIQUE")
        temporary |= reader.at("TEMPORARY")
        reader.skip()
    if temporary:
        return _create_temporary(reader, session)
    if reader.accept("TABLE"):
        create = parse_create_table(reader, session)
        return [replace(create, or_replace=or_replace, engine_may_differ=session.engine_may_differ)]
    if reader.accept("SEQUENCE"):
        return [replace(_create_sequence(reader, session), or_replace=or_replace)]
    if reader.accept("VIEW"):
        if_not_exists = accept_if_exists(reader)
        return [CreateView(table_name(reader, session), if_not_exists)]
    if reader.accept("INDEX"):
        return [_create_index(reader, session, unique)]
    if reader.accept("TRIGGER"):
        return _create_trigger(reader, session)
    if reader.accept("FUNCTION") or reader.accept("PACKAGE"):
        reader.accept("BODY")
        accept_if_exists(reader)
        routine = table_name(reader, session)
        # One of a shared library cannot change rows.
        return [] if reader.at("RETURNS") else [CreateFunction(routine)]
    if reader.accept("DATABASE") or reader.accept("SCHEMA"):
        if_not_exists = accept_if_exists(reader)
        name = reader.name()
        charset = _database_charset(reader, session) or session.server_charset
        created = SetDatabaseCharset(name, charset, if_not_exists, creates=True)
        return [DropDatabase(name), created] if or_replace else [created]
    return []


def _create_temporary(reader: TokenReader, session: StatementSession) -> list[Operation]:
    if not (reader.accept("TABLE") or reader.accept("SEQUENCE")):
        return []
    accept_if_exists(reader)
    return [CreateTemporaryTable(table_name(reader, session))]


def _create_trigger(reader: TokenReader, session: StatementSession) -> list[Operation]:
    if_not_exists = accept_if_exists(reader)
    name = table_name(reader, session)
    if reader.accept("AFTER", "STARTUP") or reader.accept("BEFORE", "SHUTDOWN"):
        return []  # of MariaDB 13.1; it belongs to no table, and what it does is logged as its own statements
    while not reader.accept("ON"):
        if reader.at_end():
            raise reader.error("ON expected")
        reader.take()
    return [CreateTrigger(name, table_name(reader, session), if_not_exists)]


def _create_sequence(reader: TokenReader, session: StatementSession) -> CreateSequence:
    if_not_exists = accept_if_exists(reader)
    name = table_name(reader, session)
    type_, unsigned = "bigint", False
    if reader.accept("AS"):
        type_ = {"integer": "int"}.get(word := reader.name().lower(), word)
        if reader.at_symbol("("):
            reader.group()
        unsigned = reader.accept("UNSIGNED")
    return CreateSequence(name, if_not_exists, type_, unsigned)


def _create_index(reader: TokenReader, session: StatementSession, unique: bool) -> AlterTable:
    accept_if_exists(reader)
    name = reader.name()
    hashed = False
    while not reader.accept("ON"):
        if reader.at_end():
            raise reader.error("ON expected")
        hashed = reader.take().word == "HASH" or hashed
    table = table_name(reader, session)
    parts = parse_key_parts(reader)
    hashed = parse_key_options(reader) or hashed
    return AlterTable(table, new_keys=(KeySpec(name, unique, parts, hashed),))


def _database_charset(reader: TokenReader, session: StatementSession) -> str | None:
    found = None
    while not reader.at_end():
        charset = parse_default_charset(reader, session)
        if charset is None:
            reader.skip()
        else:
            found = found if charset in ("", OF_DATABASE) else charset
    return found


def _alter(reader: TokenReader, session: StatementSession) -> list[Operation]:
    ignore = False
    while reader.at_any("ONLINE", "OFFLINE", "IGNORE"):
        ignore |= reader.take().word == "IGNORE"
    if reader.accept("SEQUENCE"):
        return []  # its one row is no table's
    if reader.at_any("ALGORITHM", "DEFINER", "SQL", "VIEW"):
        while not (reader.at_end() or reader.at_any(*_MADE)):
            reader.skip()
        return [CreateView(table_name(reader, session))] if reader.accept("VIEW") else []
    if reader.accept("TABLE"):
        alter = parse_alter_table(reader, session)
        alter = replace(alter, ignores=ignore, engine_may_differ=session.engine_may_differ)
        if ignore and any(key.unique for key in alter.new_keys):
            alter = replace(alter, moves_rows="ALTER IGNORE TABLE removes rows that a new key does not admit")
        return [alter]
    if reader.accept("DATABASE") or reader.accept("SCHEMA"):
        database = session.database
        options = ("DEFAULT", "CHARACTER", "CHAR", "CHARSET", "COLLATE", "UPGRADE", "COMMENT", "ENCRYPTION", "READ")
        if not reader.at_any(*options):
            database = reader.name()
        charset = _database_charset(reader, session)
        return [SetDatabaseCharset(database, charset)] if charset else []
    return []


def _drop(reader: TokenReader, session: StatementSession) -> list[Operation]:
    temporary = reader.accept("TEMPORARY")
    if reader.at_any("TABLE", "TABLES", "SEQUENCE"):
        is_sequence = reader.take().word == "SEQUENCE"
        only_sequences = is_sequence and reader.at("IF", "EXISTS")
        names = _dropped_names(reader, session)
        return [DropTemporaryTables(names) if temporary else DropTables(names, only_sequences)]
    if reader.accept("VIEW"):
        return [DropViews(_dropped_names(reader, session))]
    if reader.accept("TRIGGER"):
        return [DropTrigger(_dropped_names(reader, session)[0])]
    if reader.accept("FUNCTION") or reader.accept("PACKAGE"):
        # Without its body a package is of no use.
        reader.accept("BODY")
        return [DropFunction(_dropped_names(reader, session)[0])]
    if reader.accept("DATABASE") or reader.accept("SCHEMA"):
        accept_if_exists(reader)
        return [DropDatabase(reader.name())]
    if reader.accept("INDEX"):
        accept_if_exists(reader)
        # The primary key is dropped so too, under its name in back-ticks.
        name = reader.name()
        if not reader.accept("ON"):
            raise reader.error("ON expected")
        return [AlterTable(table_name(reader, session), dropped_keys=(name,))]
    return []


def _dropped_names(reader: TokenReader, session: StatementSession) -> tuple[TableName, ...]:
    accept_if_exists(reader)
    names = [table_name(reader, session)]
    while reader.accept_symbol(","):
        names.append(table_name(reader, session))
    return tuple(names)


def _rename(reader: TokenReader, session: StatementSession) -> RenameTables:
    if_exists = accept_if_exists(reader)
    pairs = []
    while True:
        old = table_name(reader, session)
        if reader.accept("WAIT"):
            reader.number()
        else:
            reader.accept("NOWAIT")
        if not reader.accept("TO"):
            raise reader.error("TO expected")
        pairs.append((old, table_name(reader, session)))
        if not reader.accept_symbol(","):
            return RenameTables(tuple(pairs), if_exists)


def _not_parsed(text: str, error: DdlSyntaxError, session: StatementSession) -> NotParsed:
    shown = " ".join(text.split())
    if len(shown) > _TEXT_SHOWN_MAX:
        shown = shown[:_TEXT_SHOWN_MAX] + "..."
    if contains_password(text):
        shown = "its text is left out, as it contains a password"
    reason = f"character {error.at + 1}: {error.reason}: {shown}"
    try:
        return NotParsed(_about_tables(text, session), reason)
    except DdlSyntaxError:
        return NotParsed((), reason)


def _about_tables(text: str, session: StatementSession) -> tuple[TableName, ...]:
    """The first table that a statement about tables names."""
    reader = TokenReader(session_lexer(text, session))
    skip_settings(reader)
    word = reader.take().word
    if word == TRUNCATE:
        reader.accept("TABLE")
    elif word in DDL_WORDS:
        while not (reader.at_any("TABLE", "TABLES", "SEQUENCE") or reader.at_symbol("(") or reader.at_end()):
            reader.take()
        if not reader.take().word:
            return ()
    else:
        return ()
    accept_if_exists(reader)
    return (table_name(reader, session),)
