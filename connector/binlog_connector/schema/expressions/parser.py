"""Expressions in statements: `parse_expression(reader, time_zone)`; of generated columns: `parse_words(words)`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from binlog_connector.schema.expressions.expression import (
    BYTES,
    CASE,
    CAST,
    CLOCKS,
    COLUMN,
    DATE_ADD,
    DATE_SUB,
    DECIMAL,
    DEFAULT,
    IS_NULL,
    JSON_EXTRACT,
    JSON_UNQUOTE,
    MAXVALUE,
    NULL,
    NUMBER,
    TEXT,
    Expression,
)
from binlog_connector.schema.parsing.lexer import Token, TokenKind, TokenReader

if TYPE_CHECKING:
    from collections.abc import Iterable

_CONSTANTS = (NULL, MAXVALUE, DEFAULT)
_TRUTHS = {"TRUE": "1", "FALSE": "0"}
_ASCII_INTRODUCERS = frozenset(["_UTF8MB4", "_UTF8MB3", "_UTF8", "_LATIN1"])
"""Before texts whose ASCII characters mean in the character set what they are."""
_MOVES = {DATE_ADD: DATE_ADD, "ADDDATE": DATE_ADD, DATE_SUB: DATE_SUB, "SUBDATE": DATE_SUB}
_COMPARISONS = frozenset(["=", "<", ">", "<=", ">=", "<>", "!="])
_WHOLE_NUMBER = re.compile(r"\d{1,9}", re.ASCII)
_NUMBER = re.compile(r"\d+(\.\d*)?|\.\d+", re.ASCII)
_WORD = re.compile(r"[\w$]+")
_TYPE_WORDS = frozenset(["SIGNED", "UNSIGNED", "INTEGER", "INT", "CHAR", "DATE", "DECIMAL"])


def parse_words(words: Iterable[str]) -> Expression:
    """Read the expression of a generated column.

    Args:
        words: `ColumnDefinition.expression`.

    Raises:
        DdlSyntaxError: It is not understood.
    """
    reader = TokenReader.of(map(_token, words))
    found = parse_expression(reader, None)
    if not reader.at_end():
        raise reader.error("the end expected")
    return found


def _token(word: str) -> Token:
    if word.startswith("'"):
        return Token(TokenKind.STRING, word[1:], 0)
    if _NUMBER.fullmatch(word):
        return Token(TokenKind.NUMBER, word, 0)
    if _WORD.fullmatch(word):
        return Token(TokenKind.WORD, word, 0, word.upper())
    return Token(TokenKind.SYMBOL, word, 0)


def parse_expression(reader: TokenReader, time_zone: str | None) -> Expression:
    """Read an expression.

    Args:
        time_zone: Of the session; None: not known.

    Raises:
        DdlSyntaxError: It is not understood.
    """
    left = _conjunction(reader, time_zone)
    while reader.at_any("OR"):
        left = Expression(reader.take().word, "", (left, _conjunction(reader, time_zone)))
    return left


def parse_row(reader: TokenReader, time_zone: str | None) -> tuple[Expression, ...]:
    """Read expressions in parentheses; see `parse_expression`."""
    reader.expect_symbol("(")
    row = [parse_expression(reader, time_zone)]
    while reader.accept_symbol(","):
        row.append(parse_expression(reader, time_zone))
    reader.expect_symbol(")")
    return tuple(row)


def _conjunction(reader: TokenReader, time_zone: str | None) -> Expression:
    left = _negation(reader, time_zone)
    while reader.at_any("AND"):
        left = Expression(reader.take().word, "", (left, _negation(reader, time_zone)))
    return left


def _negation(reader: TokenReader, time_zone: str | None) -> Expression:
    if reader.accept("NOT"):
        return Expression("NOT", "", (_negation(reader, time_zone),))
    return _comparison(reader, time_zone)


def _comparison(reader: TokenReader, time_zone: str | None) -> Expression:
    left = _sum(reader, time_zone)
    if reader.accept("IS", "NULL"):
        return Expression(IS_NULL, "", (left,))
    if reader.accept("IS", "NOT", "NULL"):
        return Expression("IS NOT NULL", "", (left,))
    if reader.accept("NOT"):
        return Expression("NOT", "", (_membership(reader, left, time_zone),))
    if reader.at_any("IN", "BETWEEN"):
        return _membership(reader, left, time_zone)
    op = ""
    while reader.peek().kind is TokenKind.SYMBOL and op + reader.peek().text in _COMPARISONS | {"!"}:
        op += reader.take().text
    return left if not op else Expression(op.replace("!=", "<>"), "", (left, _sum(reader, time_zone)))


def _membership(reader: TokenReader, left: Expression, time_zone: str | None) -> Expression:
    """IN or BETWEEN, after its operand."""
    if reader.accept("IN"):
        return Expression("IN", "", (left, *parse_row(reader, time_zone)))
    if not reader.accept("BETWEEN"):
        raise reader.error("IN or BETWEEN expected")
    least = _sum(reader, time_zone)
    if not reader.accept("AND"):
        raise reader.error("AND expected")
    return Expression("BETWEEN", "", (left, least, _sum(reader, time_zone)))


def _sum(reader: TokenReader, time_zone: str | None) -> Expression:
    left = _product(reader, time_zone)
    while reader.at_symbol("+") or reader.at_symbol("-"):
        op = reader.take().text
        if reader.at("INTERVAL"):
            left = _moved(reader, DATE_ADD if op == "+" else DATE_SUB, left, time_zone)
        else:
            left = Expression(op, "", (left, _product(reader, time_zone)))
    return left


def _moved(reader: TokenReader, op: str, left: Expression, time_zone: str | None) -> Expression:
    """A time, and `INTERVAL amount unit` later or earlier."""
    if not reader.accept("INTERVAL"):
        raise reader.error("INTERVAL expected")
    amount = _sum(reader, time_zone)
    if amount.op == TEXT and _WHOLE_NUMBER.fullmatch(amount.text):
        amount = Expression(NUMBER, amount.text)
    return Expression(op, reader.take().word, (left, amount))


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
    if _has_introducer(reader):
        reader.take()
    token = reader.peek()
    if token.kind in (TokenKind.NUMBER, TokenKind.STRING, TokenKind.BYTES):
        return _literal(reader)
    return _named(reader, time_zone)


def _has_introducer(reader: TokenReader) -> bool:
    word, literal = reader.peek().word, reader.peek(1)
    if word == "_BINARY":
        return literal.kind in (TokenKind.STRING, TokenKind.BYTES)
    return word in _ASCII_INTRODUCERS and literal.kind is TokenKind.STRING and literal.text.isascii()


def _named(reader: TokenReader, time_zone: str | None) -> Expression:
    """A column, a function or a keyword."""
    token = reader.peek()
    for constant in _CONSTANTS:
        if reader.accept(constant.upper()):
            return Expression(constant)
    if token.word in _TRUTHS:
        reader.take()
        return Expression(NUMBER, _TRUTHS[token.word])
    if reader.accept("CASE"):
        return _case(reader, time_zone)
    name = reader.name()
    if token.word in CLOCKS and _is_clock(reader, token.word):
        return _clock(reader, token.word)
    if token.kind is TokenKind.QUOTED or not reader.at_symbol("("):
        return _path(reader, Expression(COLUMN, name))
    if token.word == "CAST":
        return _cast(reader, time_zone)
    if token.word == "EXTRACT":
        return _extracted(reader, time_zone)
    if token.word in _MOVES:
        reader.expect_symbol("(")
        left = parse_expression(reader, time_zone)
        reader.expect_symbol(",")
        moved = _moved(reader, _MOVES[token.word], left, time_zone)
        reader.expect_symbol(")")
        return moved
    return _function(reader, token.word, time_zone)


def _is_clock(reader: TokenReader, name: str) -> bool:
    """True if no operand follows, but for the digits of a fraction of a second."""
    if not reader.at_symbol("("):
        return name.startswith("CURRENT_")
    return reader.peek(1).text == ")" or (name != "UNIX_TIMESTAMP" and reader.peek(1).kind is TokenKind.NUMBER)


def _clock(reader: TokenReader, name: str) -> Expression:
    """The time of the statement, with digits of a fraction of a second."""
    arguments = reader.group() if reader.at_symbol("(") else []
    if len(arguments) > 1 or not all(token.text in "123456" for token in arguments):
        raise reader.error("a number of digits expected")
    return Expression(name, "".join(token.text for token in arguments))


def _function(reader: TokenReader, name: str, time_zone: str | None) -> Expression:
    if reader.peek(1).text == ")":
        reader.group()
        return Expression(name)
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


def _literal(reader: TokenReader) -> Expression:
    token = reader.peek()
    if token.kind is TokenKind.STRING:
        return Expression(TEXT, reader.take().text)
    if token.kind is TokenKind.BYTES:
        return Expression(BYTES, _hexadecimal(reader))
    if "." in token.text and "e" not in token.text.casefold():
        return Expression(DECIMAL, reader.take().text)
    return Expression(NUMBER, str(reader.number()))


def _path(reader: TokenReader, column: Expression) -> Expression:
    """A column, or with `->` and `->>` what a path finds in it."""
    arrow = [reader.peek(ahead).text for ahead in range(3)]
    if arrow[:2] != ["-", ">"]:
        return column
    unquotes = arrow[2] == ">"
    for _ in range(3 if unquotes else 2):
        reader.take()
    if reader.peek().kind is not TokenKind.STRING:
        raise reader.error("a path expected")
    found = Expression(JSON_EXTRACT, "", (column, Expression(TEXT, reader.take().text)))
    return Expression(JSON_UNQUOTE, "", (found,)) if unquotes else found


def _case(reader: TokenReader, time_zone: str | None) -> Expression:
    """Conditions and values in turn, and the value where none of them is true."""
    subject = None if reader.at("WHEN") else parse_expression(reader, time_zone)
    operands: list[Expression] = []
    while reader.accept("WHEN"):
        condition = parse_expression(reader, time_zone)
        operands.append(condition if subject is None else Expression("=", "", (subject, condition)))
        if not reader.accept("THEN"):
            raise reader.error("THEN expected")
        operands.append(parse_expression(reader, time_zone))
    operands.append(parse_expression(reader, time_zone) if reader.accept("ELSE") else Expression(NULL))
    if not reader.accept("END"):
        raise reader.error("END expected")
    return Expression(CASE, "", tuple(operands))


def _cast(reader: TokenReader, time_zone: str | None) -> Expression:
    reader.expect_symbol("(")
    value = parse_expression(reader, time_zone)
    if not reader.accept("AS"):
        raise reader.error("AS expected")
    words = []
    while reader.peek().word in _TYPE_WORDS:
        words.append(reader.take().word)
    numbers = "".join(token.text for token in reader.group()) if reader.at_symbol("(") else ""
    reader.expect_symbol(")")
    return Expression(CAST, " ".join(words) + (f"({numbers})" if numbers else ""), (value,))


def _hexadecimal(reader: TokenReader) -> str:
    text = reader.peek().text
    digits = text[2:].rstrip("'")
    if text[0] in "bB" or text[1] in "bB":
        raise reader.error("no bits expected")
    reader.take()
    return digits.rjust(len(digits) + len(digits) % 2, "0").lower()
