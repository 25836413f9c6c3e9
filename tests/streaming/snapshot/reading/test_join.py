"""Tables that are read while others write, and the changes after that: in the end targets equal the server's tables."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest

from binlog_connector.crash_points import watched
from binlog_streaming.job_state.record_keeper import RecordKeeper
from binlog_streaming.settings import Begin, Mode, TableRule
from tests.chance import some
from tests.faults.processes import Cut, DeadFrom
from tests.streaming.replay_runs import run
from tests.streaming.snapshot.live import run_sql
from tests.streaming.snapshot.reading.readings import job_in, read_tables, server_rows, target_rows
from tests.streaming.snapshot.storm import ROWS, TABLES, storm

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import MariaDbServer
    from binlog_streaming.settings import Job

pytestmark = pytest.mark.server

ALL_MODES = TableRule(
    select=r"shop\.items",
    mode=(Mode.MIRROR, Mode.SCD2, Mode.CHANGELOG),
    target="{database}/{table}_{mode}",
    begin=Begin.SNAPSHOT,
)
KEYLESS = TableRule(select=r"shop\.notes", target="{database}/{table}", begin=Begin.SNAPSHOT)


def older_than_its_log(server: MariaDbServer) -> None:
    """Tables with rows, and a log that begins after these."""
    run_sql(server, ["DROP DATABASE IF EXISTS shop", *TABLES, "FLUSH BINARY LOGS"])
    forget_earlier_logs(server)


def forget_earlier_logs(server: MariaDbServer) -> None:
    """Of the log only the newest file stays."""
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW MASTER STATUS")
        (newest, *_) = cursor.fetchone()
        # A file that crash recovery may still need stays a moment.
        while cursor.execute("SHOW BINARY LOGS") > 1:
            cursor.execute("PURGE BINARY LOGS TO %s", (newest,))


def check(server: MariaDbServer, job: Job) -> None:
    """All targets equal the server's tables."""
    items = server_rows(server, "shop.items")
    assert sorted(tuple(row.values()) for row in target_rows(job, "shop/items_mirror")) == items
    versions = target_rows(job, "shop/items_scd2")
    assert sorted((row["id"], row["v"], row["t"]) for row in versions if row["_is_current"]) == items
    check_versions(versions)
    assert sorted(replayed(target_rows(job, "shop/items_changelog"))) == items
    assert sorted(tuple(row.values()) for row in target_rows(job, "shop/notes")) == server_rows(server, "shop.notes")


def check_versions(versions: list[dict[str, Any]]) -> None:
    """Of each key no two versions hold at the same time."""
    by_key: dict[int, list[dict[str, Any]]] = {}
    for row in sorted(versions, key=lambda row: row["_position"]):
        by_key.setdefault(row["id"], []).append(row)
    for rows in by_key.values():
        assert all(row["_valid_to"] is not None for row in rows[:-1])


def replayed(changes: list[dict[str, Any]]) -> list[tuple[Any, ...]]:
    """The rows that a changelog's rows leave, in their order; one that is given twice without a change is an error."""
    rows: dict[int, tuple[Any, ...]] = {}

    def place(row: dict[str, Any]) -> tuple[Any, ...]:
        # All that a snapshot has come first, after what it takes away.
        return (row["_commit_version"], row["_event_no"], row["_change_type"] != "truncate", row["_row_no"])

    for change in sorted(changes, key=place):
        match change["_change_type"]:
            case "truncate":
                rows.clear()
            case "insert":
                assert change["id"] not in rows
                rows[change["id"]] = (change["id"], change["v"], change["t"])
            case "update_postimage":
                rows[change["id"]] = (change["id"], change["v"], change["t"])
            case _:
                del rows[change["id"]]
    return list(rows.values())


def test_a_job_that_has_not_begun_goes_on_from_the_point(shared_server: MariaDbServer, tmp_path: Path) -> None:
    server = shared_server
    older_than_its_log(server)
    job = job_in(tmp_path, server.binlog_directory, ALL_MODES, KEYLESS)
    with storm(server) as counts:
        result = read_tables(server, job, sessions=3)
        before = sum(counts)
        run(job)
        while sum(counts) < before + 200:
            run(job)
    run(job)
    assert result.tables == 2
    check(server, job)


def test_tables_of_a_job_that_has_begun_are_read_anew(shared_server: MariaDbServer, tmp_path: Path) -> None:
    server = shared_server
    older_than_its_log(server)
    job = job_in(tmp_path, server.binlog_directory, ALL_MODES, KEYLESS)
    with storm(server):
        read_tables(server, job, r"shop\.items")
        run(job)  # changes of `notes` alone: it was not read
        keeper = RecordKeeper(job)
        keeper.changes()
        assert keeper.record.complete == (("shop", "items"),)
        read_tables(server, job, r"shop\..*")
        run(job)
    run(job)
    check(server, job)


@pytest.mark.parametrize("first", some(range(1, 13), 12))
def test_a_run_that_is_killed_anywhere_is_done_anew(first: int, tmp_path: Path, shared_server: MariaDbServer) -> None:
    server = shared_server
    older_than_its_log(server)
    job = job_in(tmp_path, server.binlog_directory, ALL_MODES, KEYLESS)
    # Each run ends some steps later than the one before; the job runs between them.
    kill_at = first
    with storm(server):
        while True:
            killed = DeadFrom(kill_at)
            with suppress(Cut), watched(killed):
                read_tables(server, job, None if kill_at == first else r"shop\..*")
            if killed.left > 0:
                break
            if kill_at % 2:
                run(job)
            kill_at += 12
    run(job)
    assert kill_at > first + 24
    assert len(server_rows(server, "shop.items")) > ROWS // 2
    check(server, job)
