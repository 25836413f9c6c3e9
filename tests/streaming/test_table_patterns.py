from __future__ import annotations

import pytest

from binlog_format.views.filters import TableFilter
from binlog_streaming.jobs.replay_tables import without_tables


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
