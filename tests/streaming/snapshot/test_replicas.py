"""Replicas go on whatever a snapshot of their primary writes, have what it has, and keep nothing but marks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_streaming.settings import load_job
from binlog_streaming.snapshot.plan import make_plan
from binlog_streaming.snapshot.run import run_snapshot
from binlog_streaming.snapshot.shadow import ShadowEngine
from tests.servers import mariadb_server_in
from tests.streaming.snapshot.live import follow, job_file, run_sql, session_on, wait_for

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import MariaDbServer

pytestmark = pytest.mark.server

MARKS_OF_EARLIER_VERSION = """CREATE TABLE binlog_stream.snapshot_marks (
  id BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  snapshot CHAR(36) CHARACTER SET ascii NOT NULL,
  kind VARCHAR(16) CHARACTER SET ascii NOT NULL,
  source_schema VARCHAR(64) CHARACTER SET utf8mb4 NOT NULL,
  source_table VARCHAR(64) CHARACTER SET utf8mb4 NOT NULL,
  shadow VARCHAR(64) CHARACTER SET ascii NOT NULL,
  chunk BIGINT NOT NULL,
  row_count BIGINT NOT NULL,
  detail LONGTEXT CHARACTER SET utf8mb4 NOT NULL
) ENGINE=InnoDB"""


@pytest.fixture
def primary(shared_server: MariaDbServer) -> MariaDbServer:
    run_sql(
        shared_server,
        [
            "DROP DATABASE IF EXISTS binlog_stream",
            "CREATE OR REPLACE DATABASE shop",
            "RESET MASTER",
            "CREATE TABLE shop.items (id INT PRIMARY KEY, v INT)",
            "INSERT INTO shop.items SELECT seq, seq FROM shop.seq_1_to_3000",
        ],
    )
    return shared_server


def take(primary: MariaDbServer, job: Path) -> None:
    with session_on(primary) as session:
        plan = make_plan(session, load_job(job), tables=r"shop\.items")
        assert plan.engine.engine is ShadowEngine.BLACKHOLE
        run_snapshot(session, plan)


def in_binlog_stream(server: MariaDbServer) -> list[str]:
    with session_on(server) as session:
        rows = session.rows("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'binlog_stream'")
        return [name for (name,) in rows]


@pytest.mark.thorough_where("FILTER")
@pytest.mark.parametrize("filters", ["REPLICATE", "FILTER_ON_MASTER"])
def test_a_replica_without_the_engine_goes_on(primary: MariaDbServer, tmp_path: Path, filters: str) -> None:
    job = job_file(tmp_path, primary.binlog_directory)
    with mariadb_server_in(tmp_path / "replica", server_id=2) as replica, session_on(replica) as there:
        run_sql(replica, ["CREATE DATABASE shop", f"SET GLOBAL replicate_events_marked_for_skip = '{filters}'"])
        follow(primary, replica)
        with session_on(primary) as session:
            plan = make_plan(session, load_job(job))
            assert [replica.server_id for replica in plan.replicas or ()] == [2]
        take(primary, job)
        wait_for(primary, replica)
        assert in_binlog_stream(replica) == ([] if filters == "FILTER_ON_MASTER" else ["snapshot_marks"])
        assert there.value("SELECT COUNT(*) FROM shop.items") == 3000
        there.execute("STOP SLAVE")


@pytest.mark.parametrize(
    "options",
    [
        ["--replicate-ignore-db=binlog_stream"],
        [r"--replicate-wild-ignore-table=binlog\_stream.%"],
        ["--replicate-wild-do-table=shop.%"],
        ["--replicate-ignore-table=binlog_stream.snapshot_marks"],
        ["--sql-mode=STRICT_ALL_TABLES,NO_ENGINE_SUBSTITUTION", "--innodb-force-primary-key=OFF"],
        ["--gtid-strict-mode=ON", "--log-slave-updates"],
    ],
)
def test_a_replica_goes_on_whatever_it_leaves_out(primary: MariaDbServer, tmp_path: Path, options: list[str]) -> None:
    job = job_file(tmp_path, primary.binlog_directory)
    with mariadb_server_in(tmp_path / "replica", server_id=2, options=options) as replica:
        run_sql(replica, ["SET sql_log_bin = 0", "CREATE DATABASE shop"])
        follow(primary, replica)
        take(primary, job)
        take(primary, job)
        run_sql(primary, ["INSERT INTO shop.items VALUES (5000, 1)"])
        wait_for(primary, replica)
        assert set(in_binlog_stream(replica)) <= {"snapshot_marks"}
        with session_on(replica) as there:
            assert there.value("SELECT COUNT(*) FROM shop.items") == 3001


@pytest.mark.parametrize("is_earlier", [True, False])
def test_a_replica_that_somebody_took_a_snapshot_of_goes_on(
    primary: MariaDbServer, tmp_path: Path, *, is_earlier: bool
) -> None:
    """It has marks of its own, with the numbers that those of its primary will have."""
    job = job_file(tmp_path, primary.binlog_directory)
    (tmp_path / "own").mkdir()
    with mariadb_server_in(tmp_path / "replica", server_id=2) as replica:
        run_sql(replica, ["CREATE DATABASE shop"])
        follow(primary, replica)
        if is_earlier:
            rows = ", ".join("(UUID(), 'end', 'shop', 'items', '', -1, 0, '{}')" for _ in range(9))
            columns = "snapshot, kind, source_schema, source_table, shadow, chunk, row_count, detail"
            make = ["CREATE DATABASE binlog_stream", MARKS_OF_EARLIER_VERSION]
            mark = f"INSERT INTO binlog_stream.snapshot_marks ({columns}) VALUES {rows}"
            run_sql(replica, ["STOP SLAVE", *make, mark, "START SLAVE"])
            run_sql(primary, ["SET sql_log_bin = 0", *make])
        else:
            run_sql(replica, ["STOP SLAVE", "SET GLOBAL gtid_domain_id = 5"])
            take_without_engine(replica, job_file(tmp_path / "own", replica.binlog_directory))
            run_sql(replica, ["START SLAVE"])
        take(primary, job)
        wait_for(primary, replica)
        with session_on(replica) as there:
            assert there.value("SELECT COUNT(*) FROM shop.items") == 3000


def take_without_engine(server: MariaDbServer, job: Path) -> None:
    with session_on(server) as session:
        run_snapshot(session, make_plan(session, load_job(job)))


@pytest.mark.parametrize("options", [[], ["--replicate-do-db=shop"]])
def test_a_replica_that_was_made_without_the_marks_goes_on(
    primary: MariaDbServer, tmp_path: Path, options: list[str]
) -> None:
    """As by a dump of `shop` alone, after an earlier snapshot."""
    job = job_file(tmp_path, primary.binlog_directory)
    take(primary, job)
    with mariadb_server_in(tmp_path / "replica", server_id=2, options=options) as replica:
        copy = [
            "SET sql_log_bin = 0",
            "CREATE DATABASE shop",
            "CREATE TABLE shop.items (id INT PRIMARY KEY, v INT)",
            "INSERT INTO shop.items SELECT seq, seq FROM shop.seq_1_to_3000",
            f"SET GLOBAL gtid_slave_pos = '{primary.gtid_position()}'",
        ]
        run_sql(replica, copy)
        follow(primary, replica)
        take(primary, job)
        wait_for(primary, replica)
        assert in_binlog_stream(replica) == ([] if options else ["snapshot_marks"])
