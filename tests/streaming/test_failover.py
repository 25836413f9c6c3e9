"""A replica takes over: a job's tables go on from its log, and what it does not have is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from tests.program import run_program
from tests.servers import mariadb_server_in
from tests.streaming.snapshot.live import run_sql, session_on

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import MariaDbServer

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow]

JOB = """
checkpoint = "{checkpoint}"
[source]
path = "{log}"
[[tables]]
select = 'shop\\..*'
mode = ["mirror", "changelog"]
target = "{{mode}}/{{table}}"
[sink]
directory = "tables"
"""
WAIT_S = 300


@pytest.mark.usefixtures("spark")
def test_tables_go_on_from_the_log_of_a_replica(mariadb_server: MariaDbServer, tmp_path: Path) -> None:

    primary = mariadb_server
    write_job(tmp_path, "old", primary)
    with mariadb_server_in(tmp_path / "replica", server_id=2, options=["--log-slave-updates"]) as replica:
        follow(replica, primary)
        run_sql(primary, ["CREATE DATABASE shop", "CREATE TABLE shop.items (id INT PRIMARY KEY, v INT)"])
        run_sql(primary, ["CREATE TABLE shop.still (id INT PRIMARY KEY)", "INSERT INTO shop.still VALUES (1)"])
        run_sql(primary, ["INSERT INTO shop.items VALUES (1, 1), (2, 2), (3, 3)"])
        ran(tmp_path, "run", "old.toml", "--once")
        # The job does not see these in the log of the primary, which is gone after them.
        run_sql(primary, ["UPDATE shop.items SET v = 20 WHERE id = 2", "INSERT INTO shop.items VALUES (4, 4)"])
        catch_up(replica, primary)
        primary.kill()
        promote(replica)
        run_sql(replica, ["DELETE FROM shop.items WHERE id = 1", "INSERT INTO shop.items VALUES (5, 5)"])

        write_job(tmp_path, "new", replica)
        ran(tmp_path, "replay", "new.toml", "--hand-over")
        assert mirror(tmp_path) == rows(replica)
        run_sql(replica, ["UPDATE shop.items SET v = 50 WHERE id = 5", "INSERT INTO shop.still VALUES (2)"])
        ran(tmp_path, "run", "new.toml", "--once")
        assert mirror(tmp_path) == rows(replica) == [(2, 20), (3, 3), (4, 4), (5, 50)]
        changes = [(row["_change_type"], row["id"]) for row in ordered(tmp_path / "tables/changelog/items")]
        assert changes == [
            *[("insert", number) for number in (1, 2, 3)],
            ("update_preimage", 2), ("update_postimage", 2), ("insert", 4),
            ("delete", 1), ("insert", 5), ("update_preimage", 5), ("update_postimage", 5),
        ]  # fmt: skip
        assert {row["id"] for row in ordered(tmp_path / "tables/changelog/still")} == {1, 2}


@pytest.mark.usefixtures("spark")
def test_transactions_that_the_replica_never_got_are_named(mariadb_server: MariaDbServer, tmp_path: Path) -> None:
    """The tables hold them; the replica writes others with their numbers, or has not come so far."""

    primary = mariadb_server
    write_job(tmp_path, "old", primary)
    with mariadb_server_in(tmp_path / "replica", server_id=2, options=["--log-slave-updates"]) as replica:
        follow(replica, primary)
        run_sql(primary, ["CREATE DATABASE shop", "CREATE TABLE shop.items (id INT PRIMARY KEY, v INT)"])
        catch_up(replica, primary)
        run_sql(replica, ["STOP SLAVE"])
        run_sql(primary, ["INSERT INTO shop.items VALUES (1, 1)", "INSERT INTO shop.items VALUES (2, 2)"])
        ran(tmp_path, "run", "old.toml", "--once")
        primary.kill()
        promote(replica)
        write_job(tmp_path, "new", replica)
        before = mirror(tmp_path)
        for statements in (
            [],
            ["INSERT INTO shop.items VALUES (7, 7)"],
            [f"INSERT INTO shop.items VALUES ({number}, 0)" for number in (8, 9, 10)],
        ):
            run_sql(replica, statements)
            refused = run_program("replay", "new.toml", "--hand-over", cwd=tmp_path)
            assert refused.returncode == 1, refused.stdout
            assert "[BINLOG_START.GTID_NOT_FOUND]" in refused.stderr, refused.stderr
            assert mirror(tmp_path) == before


def write_job(folder: Path, name: str, server: MariaDbServer) -> None:
    (folder / f"{name}.toml").write_text(JOB.format(checkpoint=f"{name}-checkpoint", log=server.binlog_directory))


def follow(replica: MariaDbServer, primary: MariaDbServer) -> None:
    accounts = "GRANT REPLICATION SLAVE ON *.* TO replica@'127.0.0.1' IDENTIFIED BY 'secret'"
    run_sql(primary, [accounts])
    source = f"MASTER_HOST='127.0.0.1', MASTER_PORT={primary.port}, MASTER_USER='replica', MASTER_PASSWORD='secret'"
    run_sql(replica, [f"CHANGE MASTER TO {source}, MASTER_USE_GTID=slave_pos", "START SLAVE"])


def catch_up(replica: MariaDbServer, primary: MariaDbServer) -> None:
    with session_on(replica) as session:
        assert session.value("SELECT MASTER_GTID_WAIT(%s, %s)", primary.gtid_position(), WAIT_S) == 0


def promote(replica: MariaDbServer) -> None:
    run_sql(replica, ["STOP SLAVE", "RESET SLAVE ALL"])


def ran(folder: Path, *command: str) -> None:
    done = run_program(*command, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


def mirror(folder: Path) -> list[tuple[int, int]]:
    table = DeltaTable(str(folder / "tables/mirror/items")).to_pyarrow_table()
    return sorted((row["id"], row["v"]) for row in table.to_pylist())


def rows(server: MariaDbServer) -> list[tuple[int, int]]:
    with session_on(server) as session:
        return [(int(one), int(two)) for one, two in session.rows("SELECT id, v FROM shop.items ORDER BY id")]


def ordered(table: Path) -> list[dict[str, object]]:
    found = DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    return sorted(
        found,
        key=lambda row: (
            str(row["_gtid"]).rpartition("-")[2].zfill(20)
            + str(row["_event_no"]).zfill(9)
            + str(row["_row_no"]).zfill(9)
            + str(row["_change_type"] == "update_postimage")
        ),
    )
