"""Every change of every case, in order, value by value, through `open_log(...).changes(...)`.

The view `changefeed` of every table: the same images as the truth, before and after. What stands beside the images:
positions, servers and times.
"""

from __future__ import annotations

import datetime
import functools
import itertools
import re
from typing import TYPE_CHECKING, Any

import pytest

from binlog_format import Position, open_log
from binlog_format.views.changefeed import ChangefeedView
from tests.truth.comparison import Comparison
from tests.truth.reading import Change, json_changes, typed_changes
from tests.truth.replay import replay, rows_that_differ, untold
from tests.truth.truth_case import NAMED, case

if TYPE_CHECKING:
    from pathlib import Path


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


OPS = {"insert": "insert", "update_preimage": "update", "delete": "delete"}


def fed_changes(path: Path, table: str, start: Position | None, end: Position | None) -> list[Change]:
    """Changes made of the rows of the view."""
    with open_log(str(path)) as log:
        view = ChangefeedView(table=table)
        rows = [row for batch in view.batches(log.committed_blocks(start, end)) for row in batch.to_pylist()]
    found: list[Change] = []
    for row in rows:
        image = {name: value for name, value in row.items() if not name.startswith("_")}
        kind = row["_change_type"]
        order = _order(row)
        if kind == "update_postimage":
            assert found[-1].order == order
            last = found.pop()
            found.append(Change(last.gtid, "update", table, last.before, image, (), order))
        elif kind == "insert":
            found.append(Change(row["_gtid"], "insert", table, None, image, (), order))
        else:
            found.append(Change(row["_gtid"], OPS[kind], table, image, None, (), order))
    return found


def _order(row: dict[str, Any]) -> tuple[int, ...]:
    place = row["_position"]
    return (place["file_no"], place["page"], place["chunk"], row["_event_no"], row["_row_no"])


@pytest.mark.parametrize(("name", "table"), tables_of(NAMED))
def test_changefeed_of_one_table(name: str, table: str) -> None:
    truth = case(name)
    compared = 0
    for epoch in truth.epochs(table):
        got = fed_changes(truth.path, table, epoch.start, epoch.end)
        compared += Comparison(truth, typed=True).compare(got, epoch.changes).all_changes
    assert compared == len(truth.logged(table))


SERVER_IDS = {"mariadb-10.11": 1011, "mariadb-11.8": 1180, "mysql-9": 9000}


def rows(name: str) -> list[dict[str, Any]]:
    with open_log(str(case(name).path)) as log:
        return [row for batch in log.changes() for row in batch.drop_columns(["before", "after"]).to_pylist()]


@pytest.mark.parametrize("name", NAMED)
def test_changes_lie_where_their_statement_wrote_them(name: str) -> None:
    """The group of a change begins between the ends of the log before and after the statement that wrote it."""
    truth = case(name)
    parts = {
        gtid: (truth.step_start(step["step"]), truth.step_end(step["step"]))
        for step in truth.steps
        for gtid in step["gtids"]
    }
    for row in rows(name):
        start, end = parts[row["gtid"]]
        place = row["position"]
        assert start <= Position(place["file_no"], place["page"], place["chunk"]) < end, row


@pytest.mark.parametrize("name", NAMED)
def test_server_ids_are_those_of_the_servers(name: str) -> None:
    """One session of `ops` has set another `server_id`; MariaDB's GTIDs have it too."""
    told = {(row["gtid"], row["server_id"]) for row in rows(name)}
    if name.startswith("mariadb"):
        assert {server for gtid, server in told if int(gtid.split("-")[1]) != server} == set()
    common = SERVER_IDS[name.partition("/")[0]]
    assert {server for _, server in told} <= {common, 77}
    assert common in {server for _, server in told}


@pytest.mark.parametrize("name", NAMED)
def test_times_are_those_of_the_sessions(name: str) -> None:
    """Some steps of `ops` are run at a time that the session has set."""
    truth = case(name)
    times = {row["gtid"]: row["commit_time"] for row in rows(name)}
    pretended = {"SET timestamp=1000000000.123456": True, "SET timestamp=DEFAULT": False}
    is_set = False
    for step in truth.steps:
        is_set = pretended.get(step["sql"], is_set)
        for gtid in step["gtids"]:
            if gtid in times and is_set and name.startswith("mariadb"):
                assert times[gtid] == datetime.datetime.fromtimestamp(1_000_000_000, datetime.UTC)
    usual = [time for time in times.values() if time.year > 2001]
    assert all(time.date() == datetime.date(2026, 11, 20) for time in usual)
    if not name.endswith(("ops", "ops_compressed", "ops_zstd")):
        assert all(earlier <= later for earlier, later in itertools.pairwise(usual))
