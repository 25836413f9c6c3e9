"""What stands beside the images: positions, servers and times."""

from __future__ import annotations

import datetime
import itertools
from typing import Any

import pytest

from binlog_format import Position, open_log
from tests.truth.cases import NAMED, case

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
