"""Expressions in statements: `parse_expression(reader, time_zone)`."""

from __future__ import annotations

from binlog_connector.schema.expressions.expression import (
    BYTES,
    COLUMN,
    DEFAULT,
    MAXVALUE,
    NULL,
    NUMBER,
    TEXT,
    Expression,
)
from binlog_connector.schema.parsing.lexer import TokenKind, TokenReader

_CONSTANTS = (NULL, MAXVALUE, DEFAULT)


def parse_expression(reader: TokenReader, time_zone: str | None) -> Expression:
    """Read an expression.

    Args:
        time_zone: Of the session; None: not known.

    Raises:
        DdlSyntaxError: It is not understood.
    """
    left = _product(reader, time_zone)
    while reader.at_symbol("+") or reader.at_symbol("-"):
        left = Expression(reader.take().text, "", (left, _product(reader, time_zone)))
    return left


def parse_row(reader: TokenReader, time_zone: str | None) -> tuple[Expression, ...]:
    """Read expressions in parentheses; see `parse_expression`."""
    reader.expect_symbol("(")
    row = [parse_expression(reader, time_zone)]
    while reader.accept_symbol(","):
        row.append(parse_expression(reader, time_zone))
    reader.expect_symbol(")")
    return tuple(row)


def _product(reader: TokenReader, time_zone: str | None) -> Expression:
    left = _operand(reader, time_zone)
    while reader.at_symbol("*") or reader.at_symbol("%") or reader.at_any("DIV", "MOD"):
        token = reader.take()
        op = "MOD" if token.text == "%" else token.word or token.text
        left = Expression(op, "", (left, _operand(reader, time_zone)))
    return left


def _operand(reader: TokenReader, time_zone: str | None) -> Expression:
    if reader.accept_symbol("+"):
        return _operand(reader, time_zone)
    if reader.accept_symbol("-"):
        return Expression("NEGATIVE", "", (_operand(reader, time_zone),))
    if reader.accept_symbol("("):
        inner = parse_expression(reader, time_zone)
        reader.expect_symbol(")")
        return inner
    token = reader.peek()
    if token.word == "_BINARY" and reader.peek(1).kind in (TokenKind.STRING, TokenKind.BYTES):
        reader.take()
        token = reader.peek()
    if token.kind is TokenKind.NUMBER:
        return Expression(NUMBER, str(reader.number()))
    if token.kind is TokenKind.STRING:
        return Expression(TEXT, reader.take().text)
    if token.kind is TokenKind.BYTES:
        return Expression(BYTES, _hexadecimal(reader))
    for constant in _CONSTANTS:
        if reader.accept(constant.upper()):
            return Expression(constant)
    name = reader.name()
    if token.kind is TokenKind.QUOTED or not reader.at_symbol("("):
        return Expression(COLUMN, name)
    if token.word == "EXTRACT":
        return _extracted(reader, time_zone)
    return _function(reader, token.word, time_zone)


def _function(reader: TokenReader, name: str, time_zone: str | None) -> Expression:
    operands = parse_row(reader, time_zone)
    if name == "UNIX_TIMESTAMP" and operands[0].op == TEXT:
        operands = (*operands, Expression(TEXT, time_zone or ""))
    return Expression(name, "", operands)


def _extracted(reader: TokenReader, time_zone: str | None) -> Expression:
    reader.expect_symbol("(")
    unit = reader.take().word
    if not reader.accept("FROM"):
        raise reader.error("FROM expected")
    operand = parse_expression(reader, time_zone)
    reader.expect_symbol(")")
    if unit != "YEAR_MONTH":
        return Expression(unit, "", (operand,))  # the functions have the names of the units
    years = Expression("*", "", (Expression("YEAR", "", (operand,)), Expression(NUMBER, "100")))
    return Expression("+", "", (years, Expression("MONTH", "", (operand,))))


def _hexadecimal(reader: TokenReader) -> str:
    text = reader.peek().text
    digits = text[2:].rstrip("'")
    if text[0] in "bB" or text[1] in "bB":
        raise reader.error("no bits expected")
    reader.take()
    return digits.rjust(len(digits) + len(digits) % 2, "0").lower()
