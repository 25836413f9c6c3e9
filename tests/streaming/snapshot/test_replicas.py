"""A replica without BLACKHOLE goes on, has what its primary has, and keeps nothing of a snapshot in the end."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_streaming.settings import load_job
from binlog_streaming.snapshot.plan import make_plan
from binlog_streaming.snapshot.run import run_snapshot
from binlog_streaming.snapshot.shadow import ShadowEngine
from tests.servers import mariadb_server_in
from tests.streaming.snapshot.live import job_file, run_sql, session_on

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import MariaDbServer

pytestmark = pytest.mark.server


@pytest.mark.parametrize("filters", ["REPLICATE", "FILTER_ON_MASTER"])
def test_a_replica_without_the_engine_goes_on(shared_server: MariaDbServer, tmp_path: Path, filters: str) -> None:

    primary = shared_server
    run_sql(
        primary,
        [
            "DROP DATABASE IF EXISTS binlog_stream",
            "CREATE OR REPLACE DATABASE shop",
            "CREATE OR REPLACE USER replica@'127.0.0.1' IDENTIFIED BY 'secret'",
            "GRANT REPLICATION SLAVE ON *.* TO replica@'127.0.0.1'",
            "RESET MASTER",
            "CREATE TABLE shop.items (id INT PRIMARY KEY, v INT)",
            "INSERT INTO shop.items SELECT seq, seq FROM shop.seq_1_to_3000",
        ],
    )
    job = load_job(job_file(tmp_path, primary.binlog_directory))
    with mariadb_server_in(tmp_path / "replica", server_id=2) as replica, session_on(replica) as there:
        run_sql(replica, ["CREATE DATABASE shop", f"SET GLOBAL replicate_events_marked_for_skip = '{filters}'"])
        there.execute(
            "CHANGE MASTER TO MASTER_HOST = '127.0.0.1', MASTER_PORT = %s, MASTER_USER = 'replica',"
            " MASTER_PASSWORD = 'secret', MASTER_USE_GTID = slave_pos",
            primary.port,
        )
        there.execute("START SLAVE")
        wait(primary, replica)  # it is connected
        with session_on(primary) as session:
            plan = make_plan(session, job)
            assert plan.engine.engine is ShadowEngine.BLACKHOLE
            assert [replica.server_id for replica in plan.replicas or ()] == [2]
            run_snapshot(session, plan)
        wait(primary, replica)
        tables = [] if filters == "FILTER_ON_MASTER" else [("snapshot_marks",)]
        if tables:
            assert there.rows("SHOW TABLES IN binlog_stream") == tables
        else:
            assert there.rows("SHOW DATABASES LIKE 'binlog%'") == []
        assert there.value("SELECT COUNT(*) FROM shop.items") == 3000
        there.execute("STOP SLAVE")


def wait(primary: MariaDbServer, replica: MariaDbServer) -> None:
    """Until the replica has what the primary has; it writes nothing of its own in between."""
    run_sql(primary, ["CREATE OR REPLACE TABLE shop.last (n INT)"])
    with session_on(replica) as session:
        position = primary.gtid_position()
        reached = session.value("SELECT MASTER_GTID_WAIT(%s, 60)", position)
        errors = session.dict_rows("SHOW SLAVE STATUS")[0]["last_sql_error"]
        assert (reached, errors) == (0, "")
