"""Tables that are older than the log, on a server of each kind: complete and proved, by both methods."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_streaming.prove.table_proof import ProofOutcome
from binlog_streaming.settings import load_job
from binlog_streaming.snapshot.shadow import ShadowEngine, ShadowTable
from binlog_streaming.snapshot.source_table import read_table
from tests.program import run_program
from tests.servers import ServerKind
from tests.streaming.prove.proofs import held, prove
from tests.streaming.replay_runs import run
from tests.streaming.snapshot.live import job_file, run_sql, session_on, url_of

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import DatabaseServer

pytestmark = pytest.mark.server

ROWS = 300
NUMBERS = f"shop.seq_1_to_{ROWS}"
TABLES = {
    "texts": (
        "k VARCHAR(40) PRIMARY KEY, v TEXT, e ENUM('x','it''s',''), s SET('a','b')",
        "CONCAT('Key', seq), 'v', 2, 3",
    ),
    "times": (
        "k TIME(3) PRIMARY KEY, d DATETIME(6), ts TIMESTAMP NULL, y YEAR",
        "SEC_TO_TIME(seq), NOW(6), NOW(), 2026",
    ),
    "decimals": ("k DECIMAL(20,4) PRIMARY KEY, f FLOAT, g DOUBLE, b BIT(9)", "seq / 3, seq / 3, seq / 7, seq"),
    "pairs": ("a INT, b VARCHAR(9) COLLATE utf8mb4_bin, x BLOB, PRIMARY KEY (a, b)", "seq % 7, seq, UNHEX('00FF')"),
    "keyless": ("a INT, b VARCHAR(20)", "seq % 50, 'b'"),
    "computed": ("id INT PRIMARY KEY, q INT, t DECIMAL(9,2) AS (q * 1.5) STORED, w INT AS (q + 1) VIRTUAL", None),
    "documents": ("id INT PRIMARY KEY, j JSON, z INT UNSIGNED ZEROFILL NOT NULL", """seq, '{"a": [1, "x"]}', seq"""),
    "odd `name": ("`a b` INT PRIMARY KEY, `select` LONGTEXT CHARACTER SET latin1", "seq, REPEAT('x', 300)"),
}
OF_MYSQL = {
    "places": ("id INT PRIMARY KEY, p POINT NOT NULL SRID 4326", "seq, ST_SRID(POINT(seq % 90, 2), 4326)"),
    "vectors": ("id INT PRIMARY KEY, v VECTOR(3)", "seq, TO_VECTOR('[1,2,3]')"),
    "expressions": ("id INT PRIMARY KEY, name VARCHAR(20), KEY ((LOWER(name)))", "seq, 'A'"),
    "generated_key": ("a INT, b VARCHAR(9)", "seq, 'b'"),
}
OF_MARIADB = {
    "places": ("id INT PRIMARY KEY, p POINT NOT NULL", "seq, POINT(seq, 2)"),
    "grids": ("id INT PRIMARY KEY, p POLYGON", "seq, ST_GeomFromText('POLYGON((0 0, 0 1, 1 1, 0 0))')"),
}


def tables_of(server: DatabaseServer, method: str = "log") -> dict[str, tuple[str, str | None]]:
    """Tables that a method takes: what is read leaves VECTOR out without a CREATE TABLE."""
    tables = TABLES | (OF_MYSQL if server.installed.is_mysql else OF_MARIADB)
    return {name: table for name, table in tables.items() if method == "log" or name != "vectors"}


def fill(server: DatabaseServer, method: str = "log") -> None:
    """Tables with rows, and a log that has forgotten them."""
    statements = ["DROP DATABASE IF EXISTS binlog_stream", "CREATE OR REPLACE DATABASE shop CHARACTER SET utf8mb4"]
    for name, (columns, values) in tables_of(server, method).items():
        table = f"shop.`{name.replace('`', '``')}`"
        if name == "generated_key":
            statements.append("SET SESSION sql_generate_invisible_primary_key = 1")
        statements.append(f"CREATE TABLE {table} ({columns})")
        names = "(id, q)" if name == "computed" else "(a, b)" if name == "generated_key" else ""
        statements.append(f"INSERT INTO {table} {names} SELECT {values or 'seq, seq'} FROM {NUMBERS}")
    run_sql(server, [*statements, "RESET MASTER"])


@pytest.mark.parametrize("method", ["log", "read"])
def test_tables_older_than_the_log_are_complete_and_proved(
    any_server: DatabaseServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    fill(any_server, method)
    monkeypatch.setenv("BINLOG_STREAM_PASSWORD", any_server.password)
    monkeypatch.chdir(tmp_path)
    path = job_file(tmp_path, any_server.binlog_directory, "select = 'shop\\..*'\nbegin = \"snapshot\"")
    job = load_job(path)
    done = run_program("snapshot", str(path), "--server", url_of(any_server), "--yes", "--method", method, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # What comes after it, on rows that only the snapshot has brought.
    run_sql(
        any_server,
        [
            # Newer MariaDB leaves generated columns out of the images of updates, and the job names that.
            "INSERT INTO shop.computed (id, q) VALUES (1000, 7)",
            "UPDATE shop.documents SET j = JSON_SET(j, '$.a', 7) WHERE id < 5",
            "DELETE FROM shop.keyless WHERE a = 3",
            "DELETE FROM shop.texts WHERE k = 'Key7'",
        ],
    )
    run(job)
    proofs = prove(any_server, job)
    found = {name: (proof.outcome, proof.reason) for (name, _), proof in proofs.items()}
    expected = {f"shop.{name}": (ProofOutcome.EQUAL, "") for name in tables_of(any_server, method)}
    assert found == expected
    assert held(job, "shop.texts").num_rows == ROWS - 1
    assert sorted(held(job, "shop.keyless")["a"].to_pylist()) == sorted(
        number % 50 for number in range(1, ROWS + 1) if number % 50 != 3
    )


@pytest.mark.parametrize("any_server", [pytest.param(ServerKind.MYSQL, marks=pytest.mark.thorough)], indirect=True)
def test_a_shadow_is_made_where_servers_make_invisible_keys(any_server: DatabaseServer) -> None:
    fill(any_server)
    run_sql(any_server, ["SET GLOBAL sql_generate_invisible_primary_key = 1", "CREATE DATABASE binlog_stream"])
    try:
        with session_on(any_server) as session:
            for name in tables_of(any_server):
                table = read_table(session, "shop", name)
                ShadowTable(session, table, "s_1", ShadowEngine.BLACKHOLE).create()
    finally:
        run_sql(any_server, ["SET GLOBAL sql_generate_invisible_primary_key = 0"])
