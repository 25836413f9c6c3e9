"""The language of `where`: `parse_predicate(text)` gives a tree of conditions on columns.

It is that of SQL, with literals on the right: comparisons, BETWEEN, IN, LIKE, IS NULL, AND, OR, NOT and parentheses.
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from binlog_connector.schema.parsing.lexer import (
    MODE_NO_BACKSLASH_ESCAPES,
    DdlSyntaxError,
    Lexer,
    Token,
    TokenKind,
    TokenReader,
)

OPERATORS = ("=", "<>", "!=", "<=", ">=", "<", ">")
_DEPTH_MAX = 100
_SHOWN = 20


class PredicateError(Exception):
    """A predicate that cannot be. *reason*: what was expected, and what is there. *at*: where in its text, from 0."""

    def __init__(self, reason: str, at: int) -> None:
        super().__init__(reason, at)
        self.reason = reason
        self.at = at

    def told(self, text: str) -> str:
        """The reason, and the place in *text*."""
        rest = text[self.at : self.at + _SHOWN]
        more = "..." if len(text) > self.at + _SHOWN else ""
        return f"at character {self.at + 1} ({rest}{more}): {self.reason}" if rest else f"at its end: {self.reason}"


@dataclass(frozen=True, slots=True)
class Literal:
    """A value: text, a number, bytes (`x'...'`), TRUE or FALSE; `at` is its place in the predicate."""

    value: str | Decimal | bytes | bool
    at: int


@dataclass(frozen=True, slots=True)
class ColumnName:
    """A column; `at` is its place in the predicate."""

    name: str
    at: int


@dataclass(frozen=True, slots=True)
class ValueComparison:
    """`column operator literal`; the operator is one of `OPERATORS`."""

    column: ColumnName
    operator: str
    literal: Literal


@dataclass(frozen=True, slots=True)
class ColumnComparison:
    """`column operator other`, where a predicate may compare columns."""

    column: ColumnName
    operator: str
    other: ColumnName


@dataclass(frozen=True, slots=True)
class Membership:
    """`column IN (literals)`."""

    column: ColumnName
    literals: tuple[Literal, ...]


@dataclass(frozen=True, slots=True)
class Likeness:
    """`column LIKE literal`."""

    column: ColumnName
    pattern: Literal


@dataclass(frozen=True, slots=True)
class Nullness:
    """`column IS NULL`."""

    column: ColumnName


@dataclass(frozen=True, slots=True)
class Negation:
    """`NOT condition`."""

    condition: Condition


@dataclass(frozen=True, slots=True)
class Conjunction:
    """`conditions AND ...`, or, with *is_any*, `conditions OR ...`."""

    conditions: tuple[Condition, ...]
    is_any: bool = False


Condition = ValueComparison | ColumnComparison | Membership | Likeness | Nullness | Negation | Conjunction


def parse_predicate(text: str, *, compares_columns: bool = False) -> Condition:
    """Read a predicate. Raises `PredicateError`: it is not understood.

    Args:
        compares_columns: On the right of a comparison may be a column.
    """
    try:
        # A backslash is one: files of settings have escapes of their own, and LIKE has its.
        parser = _Parser(TokenReader(Lexer(text, sql_mode=MODE_NO_BACKSLASH_ESCAPES)), compares_columns)
        return parser.whole()
    except DdlSyntaxError as error:
        raise PredicateError(error.reason, error.at) from error


class _Parser:
    def __init__(self, reader: TokenReader, compares_columns: bool) -> None:
        self._reader = reader
        self._compares_columns = compares_columns
        self._depth = 0

    def whole(self) -> Condition:
        condition = self._any()
        if not self._reader.at_end():
            raise self._reader.error("AND, OR or the end expected")
        return condition

    def _any(self) -> Condition:
        conditions = [self._all()]
        while self._reader.accept("OR"):
            conditions.append(self._all())
        return conditions[0] if len(conditions) == 1 else Conjunction(tuple(conditions), is_any=True)

    def _all(self) -> Condition:
        conditions = [self._negated()]
        while self._reader.accept("AND"):
            conditions.append(self._negated())
        return conditions[0] if len(conditions) == 1 else Conjunction(tuple(conditions))

    def _negated(self) -> Condition:
        self._depth += 1
        if self._depth > _DEPTH_MAX:
            raise self._reader.error(f"at most {_DEPTH_MAX} conditions within each other expected")
        condition = self._one()
        self._depth -= 1
        return condition

    def _one(self) -> Condition:
        if self._reader.accept("NOT"):
            return Negation(self._negated())
        if self._reader.accept_symbol("("):
            condition = self._any()
            self._reader.expect_symbol(")")
            return condition
        return self._test()

    def _test(self) -> Condition:
        if not self._is_name():
            raise self._reader.error("the name of a column expected")
        column = self._column()
        if self._reader.accept("IS"):
            negated = self._reader.accept("NOT")
            if not self._reader.accept("NULL"):
                raise self._reader.error("NULL expected")
            return Negation(Nullness(column)) if negated else Nullness(column)
        if self._reader.accept("NOT"):
            return Negation(self._range(column))
        operator = self._operator()
        if operator is None:
            return self._range(column)
        if self._compares_columns and self._is_name():
            return ColumnComparison(column, operator, self._column())
        return ValueComparison(column, operator, self._literal())

    def _is_name(self) -> bool:
        token = self._reader.peek()
        return token.kind in (TokenKind.WORD, TokenKind.QUOTED) and token.word not in _RESERVED

    def _column(self) -> ColumnName:
        start = self._reader.peek().start
        return ColumnName(self._reader.name(), start)

    def _range(self, column: ColumnName) -> Condition:
        if self._reader.accept("IN"):
            return Membership(column, self._list())
        if self._reader.accept("LIKE"):
            return Likeness(column, self._literal())
        if self._reader.accept("BETWEEN"):
            low = self._literal()
            if not self._reader.accept("AND"):
                raise self._reader.error("AND expected")
            return Conjunction((ValueComparison(column, ">=", low), ValueComparison(column, "<=", self._literal())))
        raise self._reader.error(f"{', '.join(OPERATORS)}, IS, IN, LIKE or BETWEEN expected")

    def _list(self) -> tuple[Literal, ...]:
        self._reader.expect_symbol("(")
        literals = [self._literal()]
        while self._reader.accept_symbol(","):
            literals.append(self._literal())
        self._reader.expect_symbol(")")
        return tuple(literals)

    def _operator(self) -> str | None:
        # Symbols are tokens of one character.
        for operator in ("<=", ">=", "<>", "!=", "=", "<", ">"):
            tokens = [self._reader.peek(ahead) for ahead in range(len(operator))]
            together = tokens[-1].start - tokens[0].start == len(operator) - 1
            if together and all(_is_symbol(token, symbol) for token, symbol in zip(tokens, operator, strict=True)):
                for _ in operator:
                    self._reader.take()
                return operator
        return None

    def _literal(self) -> Literal:
        token = self._reader.peek()
        if token.kind is TokenKind.STRING:
            return Literal(self._reader.take().text, token.start)
        if token.kind is TokenKind.BYTES and token.text[:2].lower() in ("x'", "0x"):
            digits = self._reader.take().text[2:].removesuffix("'")
            if len(digits) % 2:
                raise PredicateError("two hexadecimal digits for each byte expected", token.start)
            return Literal(bytes.fromhex(digits), token.start)
        if token.word in ("TRUE", "FALSE"):
            return Literal(self._reader.take().word == "TRUE", token.start)
        if token.word == "NULL":
            raise PredicateError("IS NULL or IS NOT NULL expected: nothing equals NULL", token.start)
        sign = -1 if self._reader.accept_symbol("-") else 1
        number = self._reader.peek()
        if number.kind is not TokenKind.NUMBER:
            raise self._reader.error("a text in quotes, a number, x'...', TRUE or FALSE expected")
        return Literal(sign * Decimal(self._reader.take().text), token.start)


_RESERVED = frozenset({"AND", "OR", "NOT", "IS", "IN", "LIKE", "BETWEEN", "NULL", "TRUE", "FALSE"})


def _is_symbol(token: Token, text: str) -> bool:
    return token.kind is TokenKind.SYMBOL and token.text == text


def column_names(condition: Condition) -> list[ColumnName]:
    """The columns that a condition asks for, as often as it does."""
    if isinstance(condition, Negation):
        return column_names(condition.condition)
    if isinstance(condition, Conjunction):
        return [name for operand in condition.conditions for name in column_names(operand)]
    if isinstance(condition, ColumnComparison):
        return [condition.column, condition.other]
    return [condition.column]
