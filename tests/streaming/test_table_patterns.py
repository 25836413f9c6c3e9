from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format.views.table_filter import TableFilter
from binlog_streaming.jobs.table_patterns import added_patterns, without_tables


@pytest.mark.parametrize(
    ("before", "now"),
    [
        (".*", r"shop\.orders, other\..*, a|b, (?i)x"),
        (r"shop\..*", r"shop\.orders, shop\.(orders|items), shop\.o.*, shop\.o{2,3}, shop\.[ab]\d+"),
        (r"shop\.(orders|items)", r"shop\.items,shop\.orders"),
        (r"shop\.o+, x.y", r"x.y"),
        ("a.*, b", ""),
        (r"shöp\..*", r"shöp\.x_\d"),
    ],
)
def test_what_lets_in_no_more_is_seen(before: str, now: str) -> None:
    assert added_patterns(before, now) == []


@pytest.mark.parametrize(
    ("before", "now", "added"),
    [
        (r"shop\.orders", ".*", [".*"]),
        (r"shop\..*", r"shop.orders", [r"shop.orders"]),
        (r"shop\..*", r"shop\.a|other\.b", [r"shop\.a|other\.b"]),
        (r"shop\..*", r"shop\.*x", [r"shop\.*x"]),
        (r"shop\..*", r"shop\.?x, shop\.x", [r"shop\.?x"]),
        (r"shop\..*", r"sho\w*\.x", [r"sho\w*\.x"]),
        (r"shop\.o+", r"shop\.(o|p)", [r"shop\.(o|p)"]),
        (r"(shop|x)\..*", r"shop\.a\d", [r"shop\.a\d"]),
        ("", "a", ["a"]),
    ],
)
def test_what_may_let_in_more_is_named(before: str, now: str, added: list[str]) -> None:
    assert added_patterns(before, now) == added


_PIECES = st.sampled_from(
    ["a", "b", r"\.", ".", ".*", "a*", "b?", "a{0,1}", "[ab]", "(a|b)", "|", r"\w", "ab+", "(b)?"]
)
_EXPRESSIONS = st.lists(_PIECES, min_size=1, max_size=5).map("".join)


@given(st.lists(_EXPRESSIONS, min_size=1, max_size=3), _EXPRESSIONS, st.lists(st.text("ab.", max_size=6), max_size=20))
def test_an_expression_that_is_not_named_lets_in_nothing_new(before: list[str], now: str, names: list[str]) -> None:
    try:
        known, new = [re.compile(one) for one in before], re.compile(now)
    except re.error:
        return
    if added_patterns(",".join(before), now):
        return
    for name in names:
        assert not new.fullmatch(name) or any(one.fullmatch(name) for one in known), name


@pytest.mark.parametrize(
    ("select", "names", "matching", "others"),
    [
        (".*", (), ("a.b",), ()),
        (".*", ("a.b", "a.bc"), ("a.x", "xa.b", "a.bx"), ("a.b", "a.bc")),
        (r"a\.b|c\.d,e\..{1,2}", ("c.d", "e.f"), ("a.b", "e.ff"), ("c.d", "e.f", "e.fff", "a.bc.d")),
        (r"(?i)SHOP\.x|shop\.y", ("shop.y",), ("shop.x",), ("shop.y",)),
        (r"a\..*", ("a.b,c", "a.(", "a.{1"), ("a.b", "a.c"), ("a.b,c", "a.(", "a.{1")),
    ],
)
def test_tables_are_taken_out(
    select: str, names: tuple[str, ...], matching: tuple[str, ...], others: tuple[str, ...]
) -> None:
    wanted = TableFilter(without_tables(select, names))
    assert [name for name in (*matching, *others) if wanted.accepts_name(*name.split(".", 1))] == list(matching)
