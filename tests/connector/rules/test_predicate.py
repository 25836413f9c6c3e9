"""Predicates: what they are true of, next to plain Python with SQL's three truths; and where they are wrong."""

from __future__ import annotations

import datetime as dt
import operator
import re
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_connector.rules.predicate import Predicate
from binlog_connector.rules.predicate_parser import PredicateError
from binlog_format.events.table_map import parse_table_map
from binlog_format.rows.decoding import DEFAULT_DECODING
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableEncoder, TableSpec
from tests.streaming.tables.shop import ORIGIN

if TYPE_CHECKING:
    from collections.abc import Callable

    Row = tuple[Any, ...]
    Truth = bool | None

COLUMNS = (
    ColumnSpec("n", "smallint"),
    ColumnSpec("price", "decimal(8,2)"),
    ColumnSpec("name", "varchar(20)"),
    ColumnSpec("day", "date"),
    ColumnSpec("ratio", "double"),
    ColumnSpec("seen", "timestamp(6)"),
    ColumnSpec("opens", "time"),
    ColumnSpec("body", "varbinary(20)"),
    ColumnSpec("big", "bigint unsigned"),
)
KINDS = (
    pa.int16(),
    pa.decimal128(8, 2),
    pa.string(),
    pa.date32(),
    pa.float64(),
    pa.timestamp("us", "UTC"),
    pa.int64(),
    pa.binary(),
    pa.decimal128(20, 0),
)
LAYOUT = parse_table_map(TableEncoder(TableSpec("shop", "t", COLUMNS), 1).table_map(ORIGIN))

_TEXTS = st.text("abAB%_\\'\näü", max_size=4)
_DATES = st.dates(dt.date(2025, 12, 30), dt.date(2026, 1, 2))
VALUES = (
    st.integers(-3, 3),
    st.decimals(-2, 2, places=2),
    _TEXTS,
    _DATES,
    st.sampled_from([-1.5, 0.0, 0.25, 2.0]),
    st.integers(0, 2_000_000).map(lambda us: dt.datetime(2026, 1, 1, tzinfo=dt.UTC) + dt.timedelta(microseconds=us)),
    st.integers(-2, 2).map(lambda seconds: seconds * 1_000_000),
    st.binary(max_size=2),
    st.integers(2**64 - 3, 2**64 - 1).map(Decimal),
)
ROWS = st.lists(st.tuples(*(st.none() | values for values in VALUES)), min_size=1, max_size=12)


def _sql(column: int, value: Any) -> str:
    if column == 5:
        return f"'{value:%Y-%m-%d %H:%M:%S.%f}Z'"
    if column == 6:
        return f"'{'-' if value < 0 else ''}00:00:{abs(value) // 1_000_000:02}'"
    if isinstance(value, bytes):
        return f"x'{value.hex()}'"
    if isinstance(value, str | dt.date):
        return "'{}'".format(str(value).replace("'", "''"))
    return f"{value:f}" if isinstance(value, Decimal) else str(value)


def _like(pattern: str) -> re.Pattern[str]:
    parts = re.findall(r"\\.|.", pattern, re.DOTALL)
    wild = {"%": ".*", "_": "."}
    return re.compile(
        "".join(wild.get(part) or re.escape(part[-1] if len(part) > 1 else part) for part in parts), re.DOTALL
    )


class Condition:
    """A predicate as text, and the same in Python."""

    def __init__(self, text: str, truth: Callable[[Row], Truth]) -> None:
        self.text = text
        self.truth = truth

    def __repr__(self) -> str:
        return self.text


OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@st.composite
def conditions(draw: st.DrawFn) -> Condition:
    column = draw(st.integers(0, len(VALUES) - 1))
    name, values = draw(st.sampled_from([COLUMNS[column].name, f"`{COLUMNS[column].name.upper()}`"])), VALUES[column]
    match draw(st.sampled_from(["compare", "null", "in", "between", "like"])):
        case "compare":
            sign, value = draw(st.sampled_from(sorted(OPERATORS))), draw(values)
            compare = OPERATORS[sign]
            return Condition(
                f"{name} {sign} {_sql(column, value)}",
                lambda row: None if row[column] is None else compare(row[column], value),
            )
        case "null":
            negated = draw(st.booleans())
            return Condition(
                f"{name} is {'not ' if negated else ''}null", lambda row: (row[column] is None) is not negated
            )
        case "in":
            some = draw(st.lists(values, min_size=1, max_size=3))
            return Condition(
                f"{name} in ({', '.join(_sql(column, one) for one in some)})",
                lambda row: None if row[column] is None else row[column] in some,
            )
        case "between":
            low, high = draw(values), draw(values)
            return Condition(
                f"{name} not between {_sql(column, low)} and {_sql(column, high)}",
                lambda row: None if row[column] is None else not low <= row[column] <= high,
            )
    # Arrow refuses nothing: what a backslash at the end means is not asked for here.
    pattern = draw(_TEXTS.filter(lambda text: not re.search(r"(?<!\\)(\\\\)*\\([^%_\\]|\Z)", text)))
    expression = _like(pattern)
    return Condition(
        f"name like {_sql(2, pattern)}", lambda row: None if row[2] is None else bool(expression.fullmatch(row[2]))
    )


def _negated(one: Condition) -> Condition:
    def truth(row: Row) -> Truth:
        found = one.truth(row)
        return None if found is None else not found

    return Condition(f"not ({one.text})", truth)


def _joined(pair: tuple[Condition, Condition], *, word: str, deciding: bool) -> Condition:
    def truth(row: Row) -> Truth:
        found = [one.truth(row) for one in pair]
        return deciding if deciding in found else None if None in found else not deciding

    return Condition(f"({pair[0].text}) {word} ({pair[1].text})", truth)


def _larger(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    pairs = st.tuples(inner, inner)
    return st.one_of(
        inner.map(_negated),
        pairs.map(lambda pair: _joined(pair, word="AND", deciding=False)),
        pairs.map(lambda pair: _joined(pair, word="or", deciding=True)),
    )


def is_true(text: str, rows: list[Row]) -> list[bool]:
    predicate = Predicate.of(text, LAYOUT, DEFAULT_DECODING)
    columns = {index: pa.array([row[index] for row in rows], KINDS[index]) for index in predicate.columns}
    found: list[bool] = predicate.is_true(columns).to_pylist()
    return found


@given(condition=st.recursive(conditions(), _larger, max_leaves=5), rows=ROWS)
def test_is_true_of_the_rows_that_sql_takes(condition: Condition, rows: list[Row]) -> None:
    assert is_true(condition.text, rows) == [condition.truth(row) is True for row in rows]


def test_and_binds_closer_than_or_and_not_closest() -> None:
    rows: list[Row] = [(n, *[None] * 8) for n in (1, 2, 3)]
    assert is_true("n = 1 or n = 2 and n = 3", rows) == [True, False, False]
    assert is_true("not n = 1 and n < 3", rows) == [False, True, False]
    assert is_true("n = 70000 or n < 1.5 or n > 1e30", rows) == [True, False, False]


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "at its end: the name of a column expected"),
        ("n", "at its end: =, <>"),
        ("n = ", "at its end: a text in quotes"),
        ("n = name", "at character 5 (name): a text in quotes, a number"),
        ("n = 'a'", "at character 5 ('a'): a number expected, got 'a'"),
        ("name = 5", "at character 8 (5): a text in quotes expected, got 5"),
        ("n = NULL", "at character 5 (NULL): IS NULL or IS NOT NULL expected"),
        ("n in (1, null)", "at character 10 (null)): IS NULL"),
        ("n = 1 n = 2", "at character 7 (n = 2): AND, OR or the end expected"),
        ("(n = 1", "at its end: ')' expected"),
        ("n = 1 and nn = 2", "at character 11 (nn = 2): there is no column nn; its columns are n, price, name"),
        ("day = '2026-02-30'", "at character 7 ('2026-02-30'): a date that exists expected"),
        ("day = '2026'", "at character 7 ('2026'): a date such as '2026-01-31' expected"),
        ("seen > '2026-01-01 25:00:00'", "a time that exists expected"),
        ("opens > '8'", "a time such as '08:30:00' expected"),
        ("n like '1%'", "at character 8 ('1%'): LIKE compares a text column with a text; column n is SHORT"),
        ("name = 'a", "at character 8 ('a): the quote ' has no end"),
        ("n = x'1'", "at character 5 (x'1'): two hexadecimal digits for each byte expected"),
        ("n = 1" + "0" * 40, "a number of at most 38 digits"),
        ("not " * 200 + "n = 1", "at most 100 conditions within each other"),
        ("n < > 1", "at character 5 (> 1): a text in quotes"),
    ],
)
def test_says_where_it_is_wrong(text: str, told: str) -> None:
    with pytest.raises(PredicateError) as caught:
        Predicate.of(text, LAYOUT, DEFAULT_DECODING)
    assert told in caught.value.told(text)
