"""Partitions in statements: `parse_partitioning` in CREATE TABLE, `parse_partition_change` in ALTER TABLE.

They stand last, and are read to the end: what is not understood in them makes nothing else of a statement unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_connector.schema.expressions.expression import COLUMN, DEFAULT, MAXVALUE, Expression
from binlog_connector.schema.expressions.parser import parse_expression, parse_row
from binlog_connector.schema.parsing.keys import accept_if_exists
from binlog_connector.schema.parsing.lexer import DdlSyntaxError, Token, TokenKind, TokenReader
from binlog_connector.schema.partitions.definition import LIST, RANGE, Partition, PartitionChange, Partitioning

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_connector.schema.parsing.session import StatementSession

_WITHOUT_VALUES = ("HASH", "KEY", "SYSTEM_TIME")
# Actions on partitions that leave each row where a reader looks for it.
_WITHOUT_EFFECT = ("COALESCE", "REBUILD", "OPTIMIZE", "ANALYZE", "CHECK", "REPAIR")


def parse_partitioning(reader: TokenReader, session: StatementSession) -> Partitioning:
    """Read what follows PARTITION BY, up to a query."""
    clause = _rest(reader, "SELECT", "IGNORE", "REPLACE", "AS")
    try:
        return _partitioning(clause, session)
    except DdlSyntaxError as error:
        return Partitioning("", unknown=f"PARTITION BY is not understood: {error.reason}")


def parse_partition_change(reader: TokenReader, session: StatementSession) -> PartitionChange | None:
    """Read an action on partitions, but for those that exchange rows with other tables; None: another one comes."""
    if reader.accept("PARTITION", "BY"):
        return PartitionChange(is_anew=True, partitioning=parse_partitioning(reader, session))
    if reader.accept("REMOVE", "PARTITIONING"):
        return PartitionChange(is_anew=True)
    if reader.at("ADD", "PARTITION") and _is_added(reader):
        return _change(reader, session, _added)
    if reader.at("DROP", "PARTITION") and reader.peek(2).kind in (TokenKind.WORD, TokenKind.QUOTED):
        return _change(reader, session, _dropped)
    if reader.at("TRUNCATE", "PARTITION"):
        return _change(reader, session, _truncated)
    if reader.at("REORGANIZE", "PARTITION"):
        return _change(reader, session, _reorganized)
    if reader.at_any(*_WITHOUT_EFFECT) and reader.peek(1).word == "PARTITION":
        _rest(reader)
        return PartitionChange()
    return None


def parse_converted_table(reader: TokenReader, session: StatementSession) -> PartitionChange:
    """Read what follows CONVERT TABLE t TO: the partition that the table becomes."""
    return _change(
        reader, session, lambda clause, session: PartitionChange(added=(_partition(clause, session, None),)), skipped=0
    )


def _is_added(reader: TokenReader) -> bool:
    # PARTITION may be the name of a column: a type follows that.
    following = reader.peek(2)
    return following.word in ("IF", "PARTITIONS", "NO_WRITE_TO_BINLOG", "LOCAL") or (
        following.kind is TokenKind.SYMBOL and following.text == "("
    )


def _rest(reader: TokenReader, *ends: str) -> TokenReader:
    """All that comes, up to one of the words *ends* outside of parentheses."""
    tokens: list[Token] = []
    depth = 0
    while not reader.at_end() and (depth or not reader.at_any(*ends)):
        token = reader.take()
        if token.kind is TokenKind.SYMBOL:
            depth += {"(": 1, ")": -1}.get(token.text, 0)
        tokens.append(token)
    return TokenReader.of(tokens, reader.peek().start)


def _change(
    reader: TokenReader,
    session: StatementSession,
    parse: Callable[[TokenReader, StatementSession], PartitionChange],
    *,
    skipped: int = 2,
) -> PartitionChange:
    clause = _rest(reader)
    for _ in range(skipped):
        clause.take()
    try:
        return parse(clause, session)
    except DdlSyntaxError as error:
        return PartitionChange(unknown=f"a statement about its partitions is not understood: {error.reason}")


def _added(reader: TokenReader, session: StatementSession) -> PartitionChange:
    _ = reader.accept("NO_WRITE_TO_BINLOG") or reader.accept("LOCAL")
    if_possible = accept_if_exists(reader)
    if reader.at("PARTITIONS"):  # of HASH and KEY
        return PartitionChange()
    return PartitionChange(added=_partitions(reader, session, None), if_possible=if_possible)


def _dropped(reader: TokenReader, _: StatementSession) -> PartitionChange:
    if_possible = accept_if_exists(reader)
    names = _names(reader)
    return PartitionChange(removed=names, emptied=names, if_possible=if_possible)


def _truncated(reader: TokenReader, _: StatementSession) -> PartitionChange:
    return PartitionChange(emptied=None if reader.accept("ALL") else _names(reader))


def _reorganized(reader: TokenReader, session: StatementSession) -> PartitionChange:
    _ = reader.accept("NO_WRITE_TO_BINLOG") or reader.accept("LOCAL")
    if reader.at_end():  # of HASH and KEY
        return PartitionChange()
    names = _names(reader)
    _expect(reader, "INTO")
    # ( PARTITION name VALUES IN: of LIST, of which new partitions may have fewer values. RANGE keeps its whole range.
    is_list = reader.peek(3).word == "DEFAULT" or (reader.peek(3).word, reader.peek(4).word) == ("VALUES", "IN")
    return PartitionChange(removed=names, added=_partitions(reader, session, None), emptied=names if is_list else ())


def _names(reader: TokenReader) -> tuple[str, ...]:
    names = [reader.name()]
    while reader.accept_symbol(","):
        names.append(reader.name())
    return tuple(names)


def _expect(reader: TokenReader, *words: str) -> None:
    if not reader.accept(*words):
        raise reader.error(f"{' '.join(words)} expected")


def _partitioning(reader: TokenReader, session: StatementSession) -> Partitioning:
    reader.accept("LINEAR")
    for kind in _WITHOUT_VALUES:
        if reader.accept(kind):
            return Partitioning(kind)
    kind = RANGE if reader.accept("RANGE") else LIST
    if kind == LIST:
        _expect(reader, "LIST")
    by_columns = reader.accept("COLUMNS")
    reader.expect_symbol("(")
    if by_columns:
        expressions = tuple(Expression(COLUMN, name) for name in _names(reader))
    else:
        expressions = (parse_expression(reader, session.time_zone),)
    reader.expect_symbol(")")
    if reader.at("INTERVAL"):  # of MariaDB 13.1
        raise DdlSyntaxError("no statement names the partitions that the server makes by INTERVAL", reader.peek().start)
    while not (reader.at_end() or (reader.at_symbol("(") and reader.peek(1).word == "PARTITION")):
        reader.skip()  # PARTITIONS n SUBPARTITION BY HASH (...) SUBPARTITIONS n
    return Partitioning(kind, by_columns, expressions, _partitions(reader, session, len(expressions)))


def _partitions(reader: TokenReader, session: StatementSession, width: int | None) -> tuple[Partition, ...]:
    found: list[Partition] = []
    reader.expect_symbol("(")
    while True:
        found.append(_partition(reader, session, width))
        if reader.accept_symbol(")"):
            return tuple(found)
        reader.expect_symbol(",")


def _partition(reader: TokenReader, session: StatementSession, width: int | None) -> Partition:
    _expect(reader, "PARTITION")
    name = reader.name()
    values: tuple[tuple[Expression, ...], ...] = ()
    if reader.accept("VALUES", "LESS", "THAN"):
        values = ((Expression(MAXVALUE),),) if reader.accept("MAXVALUE") else (parse_row(reader, session.time_zone),)
    elif reader.accept("VALUES", "IN"):
        values = _rows(reader, session)
    elif reader.accept("DEFAULT"):
        values = ((Expression(DEFAULT),),)
    elif reader.at("VALUES") or width is not None:
        raise reader.error(f"the values of partition {name} expected")
    if width is not None and any(len(row) != width and row[0].op not in (MAXVALUE, DEFAULT) for row in values):
        raise reader.error(f"partition {name}: {width} values expected before this")
    while not (reader.at_end() or reader.at_symbol(",") or reader.at_symbol(")")):
        reader.skip()  # ENGINE = ..., COMMENT = ..., (SUBPARTITION ...)
    return Partition(name, values)


def _rows(reader: TokenReader, session: StatementSession) -> tuple[tuple[Expression, ...], ...]:
    rows: list[tuple[Expression, ...]] = []
    reader.expect_symbol("(")
    while True:
        # A value in parentheses of its own is a row of one.
        rows.append(
            parse_row(reader, session.time_zone)
            if reader.at_symbol("(")
            else (parse_expression(reader, session.time_zone),)
        )
        if reader.accept_symbol(")"):
            return tuple(rows)
        reader.expect_symbol(",")
