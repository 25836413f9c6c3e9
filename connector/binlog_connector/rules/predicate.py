"""A predicate on the columns of one table: `Predicate.of(text, layout, decoding)`, evaluated column by column.

The same for columns that are not those of a log: `evaluation_of`.

Values are compared as the column's type has them: numbers by size, times by time, texts and binary strings byte by
byte, whatever their collation. As in SQL, a comparison with NULL is neither true nor false.
"""

from __future__ import annotations

import datetime as dt
import functools
import re
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from binlog_connector.rules.predicate_parser import (
    ColumnComparison,
    ColumnName,
    Condition,
    Conjunction,
    Likeness,
    Literal,
    Membership,
    Negation,
    Nullness,
    PredicateError,
    ValueComparison,
    column_names,
    parse_predicate,
)
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.names import folded_name
from binlog_format.rows.columns import arrow_type
from binlog_format.rows.decoding import TimeType, ZeroDates

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from binlog_format.events.table_map import TableLayout
    from binlog_format.rows.decoding import Decoding

    Columns = Mapping[int, pa.Array]
    Evaluation = Callable[[Columns], pa.Array]

_COMPARES = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "!=": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}
_TIME_TYPES = frozenset({ColumnType.TIME, ColumnType.TIME2})
_UNKNOWN = pa.nulls(1, pa.bool_())[0]  # pa.scalar would import pandas, which takes longer than all else here
_DIGITS_MAX = 38  # on either side of a point
_INT64 = range(-(2**63), 2**63)
_DATE = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_MOMENT = re.compile(r"(\d{4}-\d\d-\d\d)(?:[ T](\d\d:\d\d:\d\d)(?:\.(\d{1,6}))?)?", re.ASCII)
_TIME = re.compile(r"(-?)(\d{1,3}):(\d\d):(\d\d)(?:\.(\d{1,6}))?", re.ASCII)


@dataclass(frozen=True, slots=True)
class Predicate:
    """A predicate of a table. *columns*: indices of the columns that it asks for."""

    columns: tuple[int, ...]
    decoding: Decoding
    _evaluation: Evaluation

    @staticmethod
    def of(text: str, layout: TableLayout, decoding: Decoding) -> Predicate:
        """The predicate *text* for rows of *layout*.

        Raises:
            PredicateError: It is not understood, names a column that is not there, or compares what cannot be.
        """
        condition = parse_predicate(text)
        dates = ZeroDates.NULL if decoding.zero_dates is ZeroDates.TEXT else decoding.zero_dates
        own = replace(decoding, time_type=TimeType.MICROS, zero_dates=dates, rules=None)
        columns = [
            PredicateColumn(
                column.name or "?",
                arrow_type(layout, index, own),
                column.type.name,
                is_time=column.type in _TIME_TYPES,
                is_long_number=column.type is ColumnType.NEWDECIMAL,
            )
            for index, column in enumerate(layout.columns)
        ]
        indices, evaluation = evaluation_of(condition, columns)
        return Predicate(indices, own, evaluation)

    def is_true(self, columns: Columns) -> pa.Array:
        """Mask of the rows for which it is true; false where it is NULL. *columns*: by index, those of `columns`."""
        return pc.fill_null(self._evaluation(columns), False)


@dataclass(frozen=True, slots=True)
class PredicateColumn:
    """A column that a predicate may ask for.

    Attributes:
        type_text: Its type, for messages.
        is_time: Values are times of day, in microseconds.
        is_long_number: Values that are texts are numbers.
    """

    name: str
    kind: pa.DataType
    type_text: str
    is_time: bool = False
    is_long_number: bool = False


def evaluation_of(condition: Condition, columns: Sequence[PredicateColumn]) -> tuple[tuple[int, ...], Evaluation]:
    """Indices of the columns that *condition* asks for, and what gives its truth, or NULL, for their values.

    Raises:
        PredicateError: It names a column that is not there, or compares what cannot be.
    """
    indices = {folded_name(column.name): index for index, column in enumerate(columns)}
    for name in column_names(condition):
        if folded_name(name.name) not in indices:
            known = ", ".join(column.name for column in columns)
            raise PredicateError(f"there is no column {name.name}; its columns are {known}", name.at)
    asked = sorted({indices[folded_name(name.name)] for name in column_names(condition)})
    return tuple(asked), _Binding(columns, indices).evaluation(condition)


@dataclass(frozen=True, slots=True)
class _Comparable:
    # How values of a column, and literals beside it, become what can be compared.
    values: Callable[[pa.Array], pa.Array]
    literal: Callable[[Literal], pa.Scalar]


def _as_it_is(values: pa.Array) -> pa.Array:
    return values


@dataclass(frozen=True, slots=True)
class _Binding:
    columns: Sequence[PredicateColumn]
    indices: Mapping[str, int]

    def evaluation(self, condition: Condition) -> Evaluation:
        match condition:
            case Negation():
                inner = self.evaluation(condition.condition)
                return lambda columns: pc.invert(inner(columns))
            case Conjunction():
                parts = [self.evaluation(operand) for operand in condition.conditions]
                join = pc.or_kleene if condition.is_any else pc.and_kleene
                return lambda columns: functools.reduce(join, (part(columns) for part in parts))
            case Nullness():
                index = self._index(condition.column)
                return lambda columns: pc.is_null(columns[index])
            case Likeness():
                return self._like(condition)
            case Membership():
                return self._membership(condition)
            case ColumnComparison():
                return self._of_columns(condition)
            case ValueComparison():
                return self._comparison(condition)

    def _index(self, column: ColumnName) -> int:
        return self.indices[folded_name(column.name)]

    def _comparison(self, condition: ValueComparison) -> Evaluation:
        index, compare = self._index(condition.column), _COMPARES[condition.operator]
        comparable = self._comparable(condition.column, (condition.literal,))
        literal = comparable.literal(condition.literal)
        return lambda columns: compare(comparable.values(columns[index]), literal)

    def _of_columns(self, condition: ColumnComparison) -> Evaluation:
        left, right, compare = (
            self._index(condition.column),
            self._index(condition.other),
            _COMPARES[condition.operator],
        )
        if self.columns[left].type_text != self.columns[right].type_text:
            raise PredicateError(
                f"columns of one type expected; {self._told(left)}, {self._told(right)}", condition.other.at
            )
        return lambda columns: compare(columns[left], columns[right])

    def _membership(self, condition: Membership) -> Evaluation:
        index = self._index(condition.column)
        comparable = self._comparable(condition.column, condition.literals)
        scalars = [comparable.literal(literal) for literal in condition.literals]
        wanted = pa.array([scalar.as_py() for scalar in scalars], scalars[0].type)

        def evaluate(columns: Columns) -> pa.Array:
            values = comparable.values(columns[index])
            # `is_in` gives false for null.
            return pc.if_else(pc.is_valid(values), pc.is_in(values, wanted), _UNKNOWN)

        return evaluate

    def _like(self, condition: Likeness) -> Evaluation:
        index, pattern = self._index(condition.column), condition.pattern
        if not pa.types.is_string(self.columns[index].kind) or not isinstance(pattern.value, str):
            raise PredicateError(f"LIKE compares a text column with a text; {self._told(index)}", pattern.at)
        text = pattern.value
        return lambda columns: pc.match_like(columns[index], text)

    def _told(self, index: int) -> str:
        return f"column {self.columns[index].name} is {self.columns[index].type_text}"

    def _comparable(self, column: ColumnName, literals: tuple[Literal, ...]) -> _Comparable:
        index = self._index(column)
        kind = self.columns[index].kind
        if self.columns[index].is_time:
            return _Comparable(_as_it_is, _time_of_day)
        if pa.types.is_boolean(kind):
            return _Comparable(_as_it_is, _boolean)
        if pa.types.is_floating(kind):
            return _Comparable(lambda values: values.cast(pa.float64()), _float)
        if pa.types.is_integer(kind) or pa.types.is_decimal(kind):
            return _numbers(kind, literals)
        if pa.types.is_string(kind) and not self.columns[index].is_long_number:
            return _Comparable(_as_it_is, _text)
        if pa.types.is_binary(kind):
            return _Comparable(_as_it_is, _bytes)
        if pa.types.is_date(kind):
            return _Comparable(_as_it_is, _date)
        if pa.types.is_timestamp(kind):
            return _Comparable(_as_it_is, functools.partial(_moment, kind=kind))
        raise PredicateError(f"{self._told(index)}: only IS NULL and IS NOT NULL ask for it", column.at)


def _expected(what: str, literal: Literal) -> PredicateError:
    value = literal.value
    told = f"x'{value.hex()}'" if isinstance(value, bytes) else repr(value) if isinstance(value, str) else str(value)
    return PredicateError(f"{what} expected, got {told}", literal.at)


def _number(literal: Literal) -> Decimal:
    if not isinstance(literal.value, Decimal):
        raise _expected("a number", literal)
    _, digits, exponent = literal.value.as_tuple()
    assert isinstance(exponent, int), "a token of a number is finite"
    if len(digits) + exponent > _DIGITS_MAX or -exponent > _DIGITS_MAX:
        raise _expected(f"a number of at most {_DIGITS_MAX} digits before and after its point", literal)
    return literal.value


def _numbers(kind: pa.DataType, literals: tuple[Literal, ...]) -> _Comparable:
    numbers = [_number(literal) for literal in literals]
    if pa.types.is_integer(kind) and all(number == int(number) and int(number) in _INT64 for number in numbers):
        return _Comparable(
            lambda values: values.cast(pa.int64()), lambda literal: pa.scalar(int(_number(literal)), pa.int64())
        )
    scales = [-exponent for number in numbers if isinstance(exponent := number.as_tuple().exponent, int)]
    scale = max(0, *scales, kind.scale if pa.types.is_decimal(kind) else 0)
    wide = pa.decimal256(2 * _DIGITS_MAX, scale)
    return _Comparable(lambda values: values.cast(wide), lambda literal: pa.scalar(_number(literal), wide))


def _float(literal: Literal) -> pa.Scalar:
    return pa.scalar(float(_number(literal)), pa.float64())


def _boolean(literal: Literal) -> pa.Scalar:
    if literal.value not in (True, False, Decimal(0), Decimal(1)):
        raise _expected("0, 1, TRUE or FALSE", literal)
    return pa.scalar(bool(literal.value))


def _text(literal: Literal) -> pa.Scalar:
    if not isinstance(literal.value, str):
        raise _expected("a text in quotes", literal)
    return pa.scalar(literal.value, pa.string())


def _bytes(literal: Literal) -> pa.Scalar:
    if isinstance(literal.value, str):
        return pa.scalar(literal.value.encode(), pa.binary())
    if not isinstance(literal.value, bytes):
        raise _expected("x'...' or a text in quotes", literal)
    return pa.scalar(literal.value, pa.binary())


def _date(literal: Literal) -> pa.Scalar:
    text = literal.value if isinstance(literal.value, str) else ""
    try:
        if _DATE.fullmatch(text):
            return pa.scalar(dt.date.fromisoformat(text), pa.date32())
    except ValueError:
        raise _expected("a date that exists", literal) from None
    raise _expected("a date such as '2026-01-31'", literal)


def _moment(literal: Literal, kind: pa.TimestampType) -> pa.Scalar:
    text = literal.value if isinstance(literal.value, str) else ""
    match = _MOMENT.fullmatch(text.removesuffix("Z") if kind.tz else text)
    if match is None:
        told = "'2026-01-31 12:00:00Z', in UTC" if kind.tz else "'2026-01-31 12:00:00'"
        raise _expected(f"a time such as {told}", literal)
    try:
        moment = dt.datetime.fromisoformat(f"{match[1]}T{match[2] or '00:00:00'}")
    except ValueError:
        raise _expected("a time that exists", literal) from None
    moment = moment.replace(microsecond=int((match[3] or "").ljust(6, "0")))
    return pa.scalar(moment.replace(tzinfo=dt.UTC) if kind.tz else moment, kind)


def _time_of_day(literal: Literal) -> pa.Scalar:
    match = _TIME.fullmatch(literal.value) if isinstance(literal.value, str) else None
    if match is None:
        raise _expected("a time such as '08:30:00'", literal)
    seconds = (int(match[2]) * 60 + int(match[3])) * 60 + int(match[4])
    micros = seconds * 1_000_000 + int((match[5] or "").ljust(6, "0"))
    return pa.scalar(-micros if match[1] else micros, pa.int64())
