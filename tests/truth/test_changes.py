"""Every change of every case, in order, value by value, through `open_log(...).changes(...)`."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

import pytest

from tests.truth.cases import NAMED, case
from tests.truth.comparison import Comparison
from tests.truth.reading import json_changes, typed_changes
from tests.truth.replay import replay, rows_that_differ, untold

if TYPE_CHECKING:
    from tests.truth.reading import Change


def tables_of(names: tuple[str, ...]) -> list[tuple[str, str]]:
    """Each case with each of its tables that the log has changes of."""
    return [(name, table) for name in names for table in sorted({c.table for c in case(name).logged()})]


@functools.cache
def changes(name: str) -> list[Change]:
    """All changes of a case; kept, because several tests ask for them."""
    return json_changes(case(name).path)


@pytest.mark.parametrize("name", NAMED)
def test_changes_are_what_the_server_did(name: str) -> None:
    truth = case(name)
    tally = Comparison(truth).compare(changes(name), truth.logged())
    assert tally.all_changes == len(truth.logged())


@pytest.mark.parametrize("name", NAMED)
def test_replayed_changes_give_the_final_tables(name: str) -> None:
    truth = case(name)
    tables = replay(truth, changes(name))
    assert rows_that_differ(truth, tables, declared=False) == []
    assert untold(truth, tables) == []


@pytest.mark.parametrize(("name", "table"), tables_of(NAMED))
def test_changes_of_one_table(name: str, table: str) -> None:
    truth = case(name)
    wanted = truth.logged(table)
    tally = Comparison(truth).compare(json_changes(truth.path, tables=re.escape(table)), wanted)
    assert tally.all_changes == len(wanted)


@pytest.mark.parametrize(("name", "table"), tables_of(NAMED))
def test_typed_changes_of_one_table(name: str, table: str) -> None:
    truth = case(name)
    compared = 0
    for epoch in truth.epochs(table):
        got = typed_changes(truth.path, table, start=epoch.start, end=epoch.end)
        compared += Comparison(truth, typed=True).compare(got, epoch.changes).all_changes
    assert compared == len(truth.logged(table))
