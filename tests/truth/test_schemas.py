"""Logs that lack column metadata, with the definitions from a schema file or from the DDL in the log."""

from __future__ import annotations

import functools
import re
from typing import TYPE_CHECKING

import pytest

from binlog_format import SchemaError
from tests.truth.comparison import Comparison
from tests.truth.reading import decoding_of_file, decoding_of_log, json_changes, typed_changes
from tests.truth.replay import replay, rows_that_differ, untold
from tests.truth.test_changes import tables_of
from tests.truth.truth_case import NAMED, NAMELESS, case

if TYPE_CHECKING:
    from binlog_format.rows.decoding import Decoding
    from tests.truth.reading import Change

# The tables of these are made once and stay as they are: one file describes them at all positions.
UNCHANGING = tuple(
    name for name in (*NAMELESS, *NAMED) if re.search("types|rotation|json", name) and not name.endswith("oldtemporal")
)


@functools.cache
def told_by_log(name: str) -> Decoding:
    return decoding_of_log(case(name).path)


@functools.cache
def changes(name: str) -> list[Change]:
    """All changes of a case with the definitions from its DDL; kept, because several tests ask for them."""
    return json_changes(case(name).path, decoding=told_by_log(name))


@pytest.mark.parametrize("name", UNCHANGING)
def test_changes_with_a_schema_file(name: str) -> None:
    truth = case(name)
    found = json_changes(truth.path, decoding=decoding_of_file(truth))
    tally = Comparison(truth, declared=True).compare(found, truth.logged())
    assert tally.all_changes == len(truth.logged())


@pytest.mark.parametrize("name", [*NAMELESS, *NAMED])
def test_changes_with_the_ddl_of_the_log(name: str) -> None:
    truth = case(name)
    tally = Comparison(truth, declared=True).compare(changes(name), truth.logged())
    assert tally.all_changes == len(truth.logged())


@pytest.mark.parametrize("name", NAMELESS)
def test_replayed_changes_give_the_final_tables(name: str) -> None:
    truth = case(name)
    tables = replay(truth, changes(name))
    assert rows_that_differ(truth, tables, declared=True) == []
    assert untold(truth, tables) == []


@pytest.mark.parametrize(("name", "table"), tables_of(NAMELESS))
def test_typed_changes_of_one_table(name: str, table: str) -> None:
    truth = case(name)
    compared = 0
    for epoch in truth.epochs(table):
        got = typed_changes(truth.path, table, start=epoch.start, end=epoch.end, decoding=told_by_log(name))
        compared += Comparison(truth, typed=True, declared=True).compare(got, epoch.changes).all_changes
    assert compared == len(truth.logged(table))


@pytest.mark.parametrize(("name", "table"), tables_of(NAMELESS))
def test_without_definitions_columns_have_no_guessed_names(name: str, table: str) -> None:
    truth = case(name)
    if not truth.has_names:
        with pytest.raises(SchemaError, match=r"NO_COLUMN_METADATA.*binlog_row_metadata=FULL"):
            json_changes(truth.path, tables=re.escape(table))
