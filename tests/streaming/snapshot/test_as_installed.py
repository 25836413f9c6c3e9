"""Servers as they are installed, and the account of `docs/snapshot.md`: all commands work with these rights."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow.compute as pc
import pytest
from deltalake import write_deltalake

from binlog_streaming.settings import load_job
from binlog_streaming.snapshot.sql_text import log_status_statement
from tests.docs.markdown import REPO
from tests.program import run_program
from tests.servers import ServerKind, as_installed
from tests.streaming.prove.proofs import held, overwrite, place
from tests.streaming.replay_runs import run
from tests.streaming.snapshot import test_every_server as every
from tests.streaming.snapshot.live import job_file, run_sql, session_on, url_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from subprocess import CompletedProcess

    from binlog_lab.demo.mariadb.server import DatabaseServer
    from binlog_streaming.settings import Job

pytestmark = pytest.mark.server

PASSWORD = "choose-another-one"
ROWS = "binlog_format = ROW, binlog_row_image = FULL"
COLUMNS = (
    "id INT PRIMARY KEY, customer VARCHAR(40), amount DECIMAL(10,2), e ENUM('x','it''s'), s SET('a','b'),"
    " u INT UNSIGNED, t TEXT CHARACTER SET latin1, j JSON, y YEAR, ts TIMESTAMP(3) NULL, b BINARY(4), bits BIT(9),"
    " g POINT"
)
VALUES = (
    "seq, CONCAT('customer ', seq), seq / 4, 1 + seq % 2, seq % 4, 4000000000, 'ä', '{\"a\": [1, 2.5]}', 2026, NOW(3),"
    " 'abcd', seq % 512, POINT(seq, 2)"
)
ITEM = "id INT PRIMARY KEY, name VARCHAR(40), total INT AS (id * 2) STORED, order_id INT"
TABLES = (
    f"CREATE TABLE shop.orders ({COLUMNS})",
    f"INSERT INTO shop.orders SELECT {VALUES} FROM shop.seq_1_to_300",
    f"CREATE TABLE shop.items ({ITEM}, FOREIGN KEY (order_id) REFERENCES shop.orders (id))",
    "INSERT INTO shop.items (id, name, order_id) VALUES (1, 'bread', 5), (2, 'salt', 8)",
    "CREATE TABLE shop.keyless (a INT, b VARCHAR(20))",
    "INSERT INTO shop.keyless SELECT seq % 50, 'b' FROM shop.seq_1_to_300",
)
CHANGES = (
    "UPDATE shop.orders SET amount = amount + 1 WHERE id <= 10",
    "DELETE FROM shop.orders WHERE id > 290 OR id = 6",
    "UPDATE shop.orders SET id = 5000, e = 'x', j = JSON_SET(j, '$.a', 7) WHERE id = 9",
    "DELETE FROM shop.keyless WHERE a = 3",
    "INSERT INTO shop.items (id, name, order_id) VALUES (3, 'oil', 7)",
)
NAMES = ("shop.items", "shop.keyless", "shop.orders")


@dataclass(frozen=True)
class Installation:
    """A server, and a folder with a job on it."""

    server: DatabaseServer
    folder: Path
    job: Job

    def program(self, *words: object) -> CompletedProcess[str]:
        """Run the program as the account of the page, which goes on or ends with a name."""
        done = run_program(*words, "--server", url_of(self.server, "cdc"), cwd=self.folder)
        assert "Traceback" not in done.stderr, done.stderr
        return done

    def succeeds(self, *words: object) -> str:
        """Run the program, which ends with 0."""
        done = self.program(*words)
        assert done.returncode == 0, f"{words}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    def change(self, *statements: str) -> None:
        """What an application does, and the job, up to its end."""
        run_sql(self.server, statements)
        run(self.job)

    def place(self) -> str:
        """The end of the log: its GTIDs, or the server's own name of the place where it has none."""
        with session_on(self.server) as session:
            return self.server.gtid_position() or ":".join(map(str, session.rows(log_status_statement(session))[0][:2]))


def documented_grants() -> list[str]:
    """Statements of the page that make the account, for 127.0.0.1."""
    text = (REPO / "docs/snapshot.md").read_text().split("\n## Rights\n", 1)[1].split("\n## ", 1)[0]
    found = re.findall(r"^((?:CREATE USER|GRANT) [^;]*);", text, re.MULTILINE)
    assert len(found) > 2
    return [one.replace("10.0.0.%", "127.0.0.1").replace("'...'", f"'{PASSWORD}'") for one in found]


GTID_OFF = ("--gtid-mode=OFF", "--enforce-gtid-consistency=OFF")
INSTALLATIONS = [
    pytest.param((ServerKind.MARIADB, ()), id="mariadb"),
    pytest.param((ServerKind.NEW_MARIADB, ()), id="new_mariadb", marks=pytest.mark.thorough),
    pytest.param((ServerKind.MYSQL, ()), id="mysql", marks=pytest.mark.thorough),
    pytest.param((ServerKind.MYSQL, GTID_OFF), id="mysql_without_gtids", marks=pytest.mark.thorough),
    pytest.param((ServerKind.MYSQL, GTID_OFF[:1]), id="mysql_consistent_only", marks=pytest.mark.thorough),
]


@pytest.fixture(scope="module", params=INSTALLATIONS)
def running(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DatabaseServer]:
    kind, options = request.param
    with as_installed(kind, tmp_path_factory.mktemp("server"), options=options) as server:
        if kind is not ServerKind.MYSQL:
            run_sql(server, [f"SET GLOBAL {ROWS}"])
        yield server


@pytest.fixture
def installation(running: DatabaseServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Installation:
    drops = [f"DROP DATABASE IF EXISTS {name}" for name in ("shop", "binlog_stream")]
    run_sql(running, [*drops, "DROP USER IF EXISTS cdc@'127.0.0.1'", "CREATE DATABASE shop", *TABLES])
    run_sql(running, [*documented_grants(), "RESET MASTER", "UPDATE shop.orders SET u = 7 WHERE id = 17"])
    monkeypatch.setenv("BINLOG_STREAM_PASSWORD", PASSWORD)
    monkeypatch.chdir(tmp_path)
    path = job_file(tmp_path, running.binlog_directory, "select = 'shop\\..*'\nbegin = \"snapshot\"")
    return Installation(running, tmp_path, load_job(path))


@pytest.mark.parametrize("method", ["log", "read"])
def test_tables_are_complete_proved_and_repaired(installation: Installation, method: str) -> None:
    job = installation.job
    assert installation.succeeds("snapshot", "job.toml", "--yes", "--method", method)
    installation.change(*CHANGES)
    assert "3 of 3 targets equal" in installation.succeeds("prove", "job.toml")
    rows = held(job, "shop.orders")
    overwrite(job, "shop.orders", rows.filter(pc.field("id") > 20))
    found = installation.program("prove", "job.toml", "--repair")
    assert (found.returncode, "repair: 18 keys, 18 rows" in found.stdout) == (1, True), (found.stdout, found.stderr)
    installation.change()
    assert "3 of 3 targets equal" in installation.succeeds("prove", "job.toml")
    assert held(job, "shop.orders").sort_by("id").equals(rows.sort_by("id"))
    assert held(job, "shop.items").num_rows == 3
    assert "is this server's" in installation.succeeds("doctor", "job.toml")


@pytest.mark.parametrize("method", ["log", "read"])
def test_tables_of_all_kinds_are_proved_without_names_in_the_log(installation: Installation, method: str) -> None:
    every.fill(installation.server)
    assert installation.succeeds("snapshot", "job.toml", "--yes", "--method", method)
    installation.change(*every.CHANGES)
    count = len(every.tables_of(installation.server))
    assert f"{count} of {count} targets equal" in installation.succeeds("prove", "job.toml")
    assert "It can run" in run_program("check", "job.toml").stdout


def test_definitions_are_brought_and_a_target_is_adopted(installation: Installation) -> None:
    found = installation.succeeds("init", installation.server.binlog_directory)
    assert "definition is in the log" in found
    assert "shop.orders" in found
    job = installation.job
    assert installation.succeeds("snapshot", "job.toml", "--yes", "--method", "read", "--tables", "shop.orders")
    rows = held(job, "shop.orders")
    folder = installation.folder / "other"
    folder.mkdir()
    path = job_file(folder, installation.server.binlog_directory, "select = 'shop.orders'")
    other = replace(installation, folder=folder, job=load_job(path))
    write_deltalake(place(other.job, "shop.orders"), rows)
    at = other.place()
    run_sql(other.server, CHANGES[:2])
    told = other.succeeds("adopt", "job.toml", "--table", "shop.orders", "--at", at, "--yes")
    assert "shop.orders is complete" in told
    other.change(*CHANGES[2:])
    assert "1 of 1 target equal" in other.succeeds("prove", "job.toml", "--tables", "shop.orders")
    refused = other.program("adopt", "job.toml", "--table", "shop.orders", "--at", "nowhere")
    assert "INVALID_VALUE" in refused.stderr


def test_a_missing_right_is_named_with_its_statement(installation: Installation) -> None:
    assert installation.succeeds("snapshot", "job.toml", "--yes")
    installation.change()
    needed = set[str]()
    if installation.server.installed.is_mysql:
        needed.add("LOCK TABLES ON shop.*")
        if not installation.server.gtid_position():
            needed.add("REPLICATION CLIENT ON *.*")
    account = "cdc@'127.0.0.1'"
    run_sql(
        installation.server,
        [f"REVOKE LOCK TABLES ON shop.* FROM {account}", f"REVOKE REPLICATION CLIENT ON *.* FROM {account}"],
    )
    done = installation.program("prove", "job.toml")
    assert {right for right in needed if right in done.stdout} == needed
    assert (done.returncode == 0) == (not needed)
    run_sql(installation.server, set(re.findall(r"GRANT [^;)]*", done.stdout)))
    assert "3 of 3 targets equal" in installation.succeeds("prove", "job.toml")
