"""Keys and constraints in CREATE TABLE and ALTER TABLE: `parse_key`, `parse_key_parts`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_connector.schema.definitions import PRIMARY, KeyPart, Period
from binlog_connector.schema.foreign_keys import parse_reference
from binlog_connector.schema.operations import KeySpec
from binlog_connector.schema.parsing.lexer import TokenKind

if TYPE_CHECKING:
    from binlog_connector.schema.foreign_keys import ForeignKey
    from binlog_connector.schema.parsing.lexer import TokenReader
    from binlog_connector.schema.parsing.session import StatementSession

_KEY_WORDS = frozenset({"PRIMARY", "UNIQUE", "KEY", "INDEX", "FULLTEXT", "SPATIAL", "FOREIGN", "CONSTRAINT", "CHECK"})


def accept_if_exists(reader: TokenReader) -> bool:
    """Step over IF EXISTS or IF NOT EXISTS."""
    return reader.accept("IF", "EXISTS") or reader.accept("IF", "NOT", "EXISTS")


def at_key(reader: TokenReader) -> bool:
    """True if a key or a constraint comes next, and no column."""
    return _at_vector_key(reader) if reader.at("VECTOR") else reader.peek().word in _KEY_WORDS


def _at_vector_key(reader: TokenReader) -> bool:
    # MariaDB has such keys; of MySQL this may be a column of that name, whose type has a number or a text in brackets.
    if reader.peek(1).word in ("INDEX", "KEY") or reader.peek(1).text == "(":
        return True
    return reader.peek(2).text == "(" and reader.peek(3).kind in (TokenKind.WORD, TokenKind.QUOTED)


def parse_key(reader: TokenReader, session: StatementSession) -> KeySpec | ForeignKey | None:
    """A key or a constraint; None for one that does not concern rows (CHECK)."""
    name = ""
    if reader.accept("CONSTRAINT"):
        accept_if_exists(reader)
        if not reader.at_any(*_KEY_WORDS):
            name = reader.name()
    if reader.accept("FOREIGN", "KEY"):
        return _foreign_key(reader, session, name)
    primary = reader.accept("PRIMARY", "KEY")
    unique = primary or reader.accept("UNIQUE")
    if not unique and reader.at_any("CHECK", "CONSTRAINT"):
        skip_action(reader)
        return None
    _ = reader.accept("FULLTEXT") or reader.accept("SPATIAL") or reader.accept("VECTOR")
    _ = reader.accept("INDEX") or reader.accept("KEY")
    accept_if_exists(reader)
    if reader.peek().kind in (TokenKind.WORD, TokenKind.QUOTED) and not _at_index_type(reader):
        name = reader.name()
    hashed = reader.at_any("USING", "TYPE") and reader.peek(1).word == "HASH"
    parts = parse_key_parts(reader)
    hashed = parse_key_options(reader) or hashed
    return KeySpec(PRIMARY if primary else name, unique, parts, hashed)


def parse_key_options(reader: TokenReader) -> bool:
    """Step over what follows the columns of a key; whether USING HASH is among it."""
    hashed = False
    while not reader.at_clause_end():
        if _at_index_type(reader):
            reader.take()
            hashed = reader.take().word == "HASH"
        else:
            reader.skip()
    return hashed


def at_period(reader: TokenReader) -> bool:
    """True if PERIOD FOR comes next; PERIOD may be the name of a column: a type follows that."""
    return reader.at("PERIOD", "FOR") or reader.at("PERIOD", "IF", "NOT", "EXISTS", "FOR")


def parse_period(reader: TokenReader) -> Period | None:
    """Parse the rest of PERIOD [IF NOT EXISTS] FOR, up to the end of the clause; None for SYSTEM_TIME."""
    reader.take()
    accept_if_exists(reader)
    reader.take()
    if reader.accept("SYSTEM_TIME"):
        skip_action(reader)
        return None
    name = reader.name()
    reader.expect_symbol("(")
    start = reader.name()
    reader.expect_symbol(",")
    end = reader.name()
    reader.expect_symbol(")")
    return Period(name, start, end)


def _foreign_key(reader: TokenReader, session: StatementSession, name: str) -> ForeignKey:
    accept_if_exists(reader)
    if not reader.at_symbol("("):
        index = reader.name()  # without another one, the name of the constraint too
        name = name or index
    columns = tuple(part.column for part in parse_key_parts(reader))
    if not reader.accept("REFERENCES"):
        raise reader.error("REFERENCES expected")
    key = parse_reference(reader, session, name, columns)
    skip_action(reader)
    return key


def _at_index_type(reader: TokenReader) -> bool:
    # `TYPE` may be the name of a key.
    return reader.at_any("USING", "TYPE") and reader.peek(1).word in ("BTREE", "HASH", "RTREE")


def parse_key_parts(reader: TokenReader) -> tuple[KeyPart, ...]:
    """The columns of a key, from before their `(`; empty where one of them is an expression."""
    if _at_index_type(reader):
        reader.take()
        reader.take()
    parts: list[KeyPart] = []
    reader.expect_symbol("(")
    functional = False
    while not reader.accept_symbol(")"):
        if reader.at_symbol("("):
            reader.group()
            functional = True
        else:
            column = reader.name()
            length = _prefix_length(reader) if reader.at_symbol("(") else 0
            parts.append(KeyPart(column, length > 0, length, reader.accept("WITHOUT", "OVERLAPS")))
        _ = reader.accept("ASC") or reader.accept("DESC")
        if not reader.at_symbol(")"):
            reader.expect_symbol(",")
    return () if functional else tuple(parts)


def _prefix_length(reader: TokenReader) -> int:
    reader.expect_symbol("(")
    length = reader.number()
    reader.expect_symbol(")")
    return length


def skip_action(reader: TokenReader) -> None:
    """Step to where ends what is here."""
    while not reader.at_clause_end():
        reader.skip()
