"""The place of a job in another server's log is found by GTIDs, or named why not, on live servers of both vendors."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from binlog_connector.following.switching import Ignored, OldLog, find_switch
from binlog_connector.following.watched import WatchedLog
from binlog_format.gtids.gtid_set import parse_gtids
from tests.program import run_program
from tests.servers import ServerKind
from tests.streaming.failing_over.pairs import INSERT, SCHEMA, Pair, follow, purge, server_of
from tests.streaming.snapshot.live import run_sql

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import DatabaseServer

pytestmark = pytest.mark.server


@pytest.fixture(params=[ServerKind.MARIADB, pytest.param(ServerKind.MYSQL, marks=pytest.mark.thorough)])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pair]:
    with server_of(request.param, tmp_path / "one", 1) as primary, server_of(request.param, tmp_path / "two", 2) as two:
        follow(two, primary)
        run_sql(primary, SCHEMA)
        found = Pair(primary, two)
        found.write(1, 2, 3)
        found.catch_up()
        yield found


@pytest.mark.parametrize("has_old", [True, False])
def test_the_place_is_after_all_that_was_taken(pair: Pair, has_old: bool) -> None:
    place = pair.place()
    pair.write(4, 5)
    pair.catch_up()
    found = pair.found(place, has_old=has_old)
    assert found.gtid == place.gtid
    with WatchedLog(str(pair.replica.binlog_directory)) as log:
        left = [batch.num_rows for batch in log.log.changes(start=str(found.gtid))]
    assert sum(left) == 2
    assert not found.skip_gtid


def _execute_xa(server: DatabaseServer, branch: str, statement: str) -> None:
    verbs = (f"XA START '{branch}'", statement, f"XA END '{branch}'", f"XA PREPARE '{branch}'", f"XA COMMIT '{branch}'")
    with server.connect() as connection, connection.cursor() as cursor:
        for verb in verbs:
            cursor.execute(verb)


def test_xa_transactions_that_change_nothing_are_in_no_log_of_a_replica(mariadb_pair: Pair) -> None:
    pair, nothing = mariadb_pair, INSERT.format(1).replace("INSERT", "INSERT IGNORE")
    _execute_xa(pair.primary, "a", nothing)
    pair.write(4)
    pair.catch_up()
    place = pair.place()
    assert pair.found(place).gtid == place.gtid
    _execute_xa(pair.primary, "b", INSERT.format(5))
    pair.catch_up()
    before = pair.place()
    _execute_xa(pair.primary, "c", nothing)
    last = pair.place()
    assert last.gtid != before.gtid
    # The job goes on after the last transaction that the replica has.
    assert pair.found(last).gtid == before.gtid
    assert pair.refused(last, has_old=False).condition == "BINLOG_SWITCH.MISSING_GTIDS"
    pair.stop_replica()
    _execute_xa(pair.primary, "d", INSERT.format(6))
    assert pair.refused(pair.place()).condition == "BINLOG_SWITCH.MISSING_GTIDS"


@pytest.mark.parametrize("has_old", [True, False])
def test_transactions_that_one_side_alone_has_are_named(pair: Pair, has_old: bool) -> None:
    pair.stop_replica()
    pair.write(4)
    behind = pair.refused(pair.place(), has_old=has_old)
    assert behind.condition == "BINLOG_SWITCH.MISSING_GTIDS"
    run_sql(pair.replica, [INSERT.format(99), "START REPLICA"])
    pair.catch_up()
    pair.write(5)
    pair.catch_up()
    errant = pair.refused(pair.place(), has_old=has_old)
    assert errant.condition == "BINLOG_SWITCH.ERRANT_TRANSACTIONS"
    assert "the log has 1 transaction," in errant.reason
    assert "-bin.000001:" in errant.reason


def test_a_log_that_begins_later_is_refused_with_the_way_out(pair: Pair) -> None:
    place = pair.place()
    pair.write(4)
    pair.catch_up()
    purge(pair.replica)
    refused = pair.refused(place)
    assert refused.condition == "BINLOG_SWITCH.PURGED"
    assert "source.archive" in (refused.hint or "")
    assert pair.found(pair.place()).gtid == pair.place().gtid  # what was purged had been taken


def test_another_server_with_the_same_numbers_is_refused(tmp_path: Path) -> None:
    kind = ServerKind.MARIADB
    with server_of(kind, tmp_path / "one", 1) as one, server_of(kind, tmp_path / "two", 1) as other:
        run_sql(one, [*SCHEMA, INSERT.format(1)])
        with one.connect() as connection, connection.cursor() as cursor:
            cursor.execute("DO SLEEP(1.1)")  # times of commits are in seconds
        run_sql(other, [*SCHEMA, INSERT.format(1), INSERT.format(2)])
        strange = Pair(one, other)
        assert strange.refused(strange.place()).condition == "BINLOG_SWITCH.OTHER_SERVER"
    with server_of(kind, tmp_path / "three", 7) as third:
        run_sql(third, SCHEMA)
        strange = Pair(one, third)
        assert strange.refused(strange.place(), has_old=False).condition == "BINLOG_SWITCH.OTHER_SERVER"


def test_domains_go_on_each_at_its_own_place(tmp_path: Path) -> None:
    kind = ServerKind.MARIADB
    with server_of(kind, tmp_path / "one", 1) as one:
        other = "SET SESSION gtid_domain_id = 1"
        run_sql(one, [*SCHEMA, INSERT.format(1), other, INSERT.format(2), INSERT.format(3)])
        run_sql(one, [INSERT.format(4), other, INSERT.format(5)])
        same = Pair(one, one)
        taken = replace(same.place(), gtid=parse_gtids("0-1-5,1-1-1"))  # all of domain 0, and one of domain 1
        found = same.found(taken, has_old=False)
        assert (str(found.gtid), str(found.skip_gtid)) == ("0-1-4,1-1-1", "0-1-5")
        unknown = replace(same.place(), gtid=parse_gtids("0-1-5"))
        errant = same.refused(unknown, has_old=False)
        assert errant.condition == "BINLOG_SWITCH.ERRANT_TRANSACTIONS"
        assert "1-1-1 at mariadb-bin.000001:" in errant.reason
        assert same.found(unknown, has_old=False, ignored=Ignored(frozenset({1}))).skip_gtid == parse_gtids("0-1-5")


@pytest.mark.thorough
def test_tagged_transactions_of_mysql_are_in_its_sets(tmp_path: Path) -> None:
    kind = ServerKind.MYSQL
    with server_of(kind, tmp_path / "one", 1) as one, server_of(kind, tmp_path / "two", 2) as two:
        follow(two, one)
        tagged = "SET SESSION gtid_next = 'AUTOMATIC:backfill'"
        run_sql(one, [*SCHEMA, INSERT.format(1), tagged, INSERT.format(2)])
        tags = Pair(one, two)
        tags.catch_up()
        place = tags.place()
        assert ":backfill:1" in str(place.gtid)
        tags.write(3)
        tags.catch_up()
        assert tags.found(place).gtid == place.gtid
        run_sql(two, ["SET SESSION gtid_next = 'AUTOMATIC:mine'", INSERT.format(98)])
        tags.write(4)
        tags.catch_up()
        assert ":mine:1 at mysql-bin.000001:" in tags.refused(tags.place()).reason


@pytest.mark.thorough
def test_transactions_of_one_server_in_another_order_are_not_errant(tmp_path: Path) -> None:
    kind = ServerKind.MYSQL
    with server_of(kind, tmp_path / "one", 1) as one, server_of(kind, tmp_path / "two", 2) as two:
        follow(two, one)
        run_sql(one, SCHEMA)
        swapped = Pair(one, two)
        swapped.write(1)
        swapped.catch_up()
        swapped.stop_replica()
        swapped.write(2)
        place = swapped.place()
        swapped.write(3)
        server, _, last = str(place.gtid).partition(":1-")
        # What replica_preserve_commit_order=OFF does now and then.
        first, second = (f"SET SESSION gtid_next = '{server}:{int(last) + more}'" for more in (1, 0))
        run_sql(two, [first, INSERT.format(3), second, INSERT.format(2)])
        found = swapped.found(place, has_old=False)
        assert str(found.skip_gtid) == f"{server}:{last}"
        with WatchedLog(str(two.binlog_directory)) as log:
            left = [change for batch in log.log.changes(start=str(place.gtid)) for change in batch.to_pylist()]
        assert [json.loads(change["after"])["id"] for change in left] == [3]
        other = "12345678-1234-1234-1234-123456789012"  # what it has committed is errant
        strange, third = (f"SET SESSION gtid_next = '{gtid}'" for gtid in (f"{other}:1", f"{server}:{int(last) + 2}"))
        run_sql(two, [strange, INSERT.format(98), third, INSERT.format(4)])
        taken = replace(place, gtid=parse_gtids(f"{server}:1-{int(last) + 2}"))
        refused = swapped.refused(taken, has_old=False)
        assert refused.condition == "BINLOG_SWITCH.ERRANT_TRANSACTIONS"
        assert "the log has 1 transaction," in refused.reason
        assert f"not taken: {other}:1 at" in refused.reason


@pytest.mark.thorough
def test_logs_without_gtids_are_refused(tmp_path: Path) -> None:
    off = ("--gtid-mode=OFF", "--enforce-gtid-consistency=OFF")
    with server_of(ServerKind.MYSQL, tmp_path / "one", 1, *off) as one:
        run_sql(one, [*SCHEMA, INSERT.format(1)])
        silent = Pair(one, one)
        assert silent.refused(silent.place()).condition == "BINLOG_SWITCH.NO_GTIDS"


def test_a_job_goes_on_in_the_other_format_of_logs(mariadb_pair: Pair, tmp_path: Path) -> None:
    place = mariadb_pair.place()
    mariadb_pair.write(4, 5)
    mariadb_pair.catch_up()
    repacked = run_program("repack", mariadb_pair.replica.binlog_directory, "--to", tmp_path / "ibb")
    assert repacked.returncode == 0, repacked.stderr
    with (
        WatchedLog(str(tmp_path / "ibb")) as new,
        WatchedLog(str(mariadb_pair.primary.binlog_directory)) as old,
    ):
        there = find_switch(new, place, ignored=Ignored(), old=OldLog(old.log, place.position))
        assert (there.format, there.gtid) == ("innodb", place.gtid)
        assert find_switch(old, there, ignored=Ignored(), old=OldLog(new.log, there.position)) == place
