"""Tables that are older than the log, on a server of each kind: complete and proved, by both methods."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from binlog_format.errors import BinlogError, TableError
from binlog_streaming.prove.comparison import ProofOutcome
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
    from subprocess import CompletedProcess

    from binlog_lab.demo.mariadb.server import DatabaseServer
    from binlog_streaming.settings import Job

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
    "expressions": ("id INT PRIMARY KEY, name VARCHAR(20), KEY ((LOWER(name)))", "seq, 'A'"),
    "generated_key": ("a INT, b VARCHAR(9)", "seq, 'b'"),
}
OF_MARIADB = {
    "places": ("id INT PRIMARY KEY, p POINT NOT NULL", "seq, POINT(seq, 2)"),
    "addresses": (
        "k UUID PRIMARY KEY, a INET4, b INET6",
        "CONCAT('123e4567-e89b-12d3-a456-4266', LPAD(HEX(seq), 8, '0')), CONCAT('10.0.1.', seq % 9), CONCAT('::', seq)",
    ),
    "hosts": ("k INET6 PRIMARY KEY, u UUID", "CONCAT('2001:db8::', HEX(seq)), '123e4567-e89b-12d3-a456-426655440000'"),
    "grids": ("id INT PRIMARY KEY, p POLYGON", "seq, ST_GeomFromText('POLYGON((0 0, 0 1, 1 1, 0 0))')"),
}


VECTORS = ("id INT PRIMARY KEY, v VECTOR(3)", "seq, {}('[1,2,3]')")


CHANGES = (
    # Newer MariaDB leaves generated columns out of the images of updates, and the job names that.
    "INSERT INTO shop.computed (id, q) VALUES (1000, 7)",
    "UPDATE shop.documents SET j = JSON_SET(j, '$.a', 7) WHERE id < 5",
    "DELETE FROM shop.keyless WHERE a = 3",
    "DELETE FROM shop.texts WHERE k = 'Key7'",
)
"""Changes of rows that only a snapshot brings."""


def tables_of(server: DatabaseServer) -> dict[str, tuple[str, str | None]]:
    """Tables that a server can have."""
    tables = TABLES | (OF_MYSQL if server.installed.is_mysql else OF_MARIADB)
    if server.installed.root is not None:  # one that was fetched is new
        function = "TO_VECTOR" if server.installed.is_mysql else "VEC_FromText"
        tables["vectors"] = (VECTORS[0], VECTORS[1].format(function))
    return tables


def fill(server: DatabaseServer) -> None:
    """Tables with rows, and a log that has forgotten them."""
    statements = ["DROP DATABASE IF EXISTS binlog_stream", "CREATE OR REPLACE DATABASE shop CHARACTER SET utf8mb4"]
    for name, (columns, values) in tables_of(server).items():
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
    fill(any_server)
    monkeypatch.setenv("BINLOG_STREAM_PASSWORD", any_server.password)
    monkeypatch.chdir(tmp_path)
    path = job_file(tmp_path, any_server.binlog_directory, "select = 'shop\\..*'\nbegin = \"snapshot\"")
    job = load_job(path)
    done = run_program("snapshot", str(path), "--server", url_of(any_server), "--yes", "--method", method, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    # What was expected, and what was measured.
    expected, measured = re.findall(r"^load +(.*)", done.stdout, re.MULTILINE)
    assert "connection" in expected
    assert "not known" not in measured
    assert ("no locks" in measured, "log 0.0" in measured) == (method == "read", method == "read"), measured
    run_sql(any_server, CHANGES)
    run(job)
    proofs = prove(any_server, job)
    found = {name: (proof.outcome, proof.reason) for (name, _), proof in proofs.items()}
    expected = {f"shop.{name}": (ProofOutcome.EQUAL, "") for name in tables_of(any_server)}
    assert found == expected
    assert held(job, "shop.texts").num_rows == ROWS - 1
    assert sorted(held(job, "shop.keyless")["a"].to_pylist()) == sorted(
        number % 50 for number in range(1, ROWS + 1) if number % 50 != 3
    )


def test_a_session_is_encrypted_where_the_server_has_tls(any_server: DatabaseServer) -> None:
    with session_on(any_server) as session:
        has_tls = session.variable("have_ssl") != "DISABLED"  # MySQL has no such variable, and TLS
        assert bool(session.rows("SHOW SESSION STATUS LIKE 'Ssl_cipher'")[0][1]) == has_tls


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


DAYS = (
    "CREATE OR REPLACE DATABASE shop",
    "CREATE TABLE shop.days (d DATE, at DATETIME(3), n INT, PRIMARY KEY (d, at))",
    "INSERT INTO shop.days VALUES ('0000-00-00', '0000-00-00 00:00:00', 1), ('2024-00-05', '2024-01-31 10:00:00', 2)",
    "INSERT INTO shop.days VALUES ('2024-01-31', '0000-00-00 00:00:00', 3), ('2024-01-31', '2024-01-31 10:00:00.5', 4)",
    "CREATE TABLE shop.later (id INT PRIMARY KEY)",
    "INSERT INTO shop.later VALUES (1)",
    "DROP DATABASE IF EXISTS binlog_stream",
    "RESET MASTER",
)


@pytest.mark.parametrize("method", ["log", "read"])
def test_zero_dates_in_keys_are_taken_as_the_job_says(
    any_server: DatabaseServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    run_sql(any_server, DAYS)
    monkeypatch.setenv("BINLOG_STREAM_PASSWORD", any_server.password)
    for setting in ("text", "null"):
        folder = tmp_path / setting
        folder.mkdir()
        monkeypatch.chdir(folder)
        path = job_file(folder, any_server.binlog_directory, "select = 'shop\\..*'\nbegin = \"snapshot\"")
        path.write_text(path.read_text().replace("[source]", f'[source]\nzeroDates = "{setting}"'))
        job = load_job(path)
        words = ("snapshot", str(path), "--server", url_of(any_server), "--yes", "--method", method, "--restart")
        done = run_program(*(words if method == "log" else words[:-1]), cwd=folder)
        if setting == "null":
            with pytest.raises(BinlogError, match=r"NULL_KEY.*days.*zero dates"):
                raise_of(done, job)
            if method == "read":  # the next tables follow
                assert "not taken shop.days" in done.stderr
                assert held(job, "shop.later").num_rows == 1
            continue
        assert done.returncode == 0, done.stderr
        run_sql(any_server, ["UPDATE shop.days SET n = n + 10 WHERE d = 0", "DELETE FROM shop.days WHERE n = 2"])
        run(job)
        proof = prove(any_server, job)["shop.days", "mirror"]
        assert (proof.outcome, proof.reason) == (ProofOutcome.EQUAL, "")
        assert sorted(held(job, "shop.days")["d"].to_pylist()) == ["0000-00-00", "2024-01-31", "2024-01-31"]


def raise_of(done: CompletedProcess[str], job: Job) -> None:
    """What the command, or the job after it, ends with."""
    if done.returncode:
        raise TableError("NULL_KEY" if "BINLOG_TABLE.NULL_KEY" in done.stderr else "WRITE_FAILED", done.stderr)
    run(job)


DOCUMENT = '{"a": [1, {"b": "x"}], "c": "a long text that stays"}'
DOCUMENTS = (
    "CREATE OR REPLACE DATABASE shop",
    "CREATE TABLE shop.documents (id INT PRIMARY KEY, j JSON, n INT)",
    f"""INSERT INTO shop.documents SELECT seq, '{DOCUMENT}', seq FROM {NUMBERS}""",
    "DROP DATABASE IF EXISTS binlog_stream",
    "RESET MASTER",
)
DIFFS = (
    "UPDATE shop.documents SET j = JSON_SET(j, '$.a[0]', id), n = 7 WHERE id < 50",
    "UPDATE shop.documents SET j = JSON_REMOVE(j, '$.c') WHERE id BETWEEN 40 AND 60",
    "UPDATE shop.documents SET j = JSON_REPLACE(j, '$.a[1].b', 'y', '$.c', 'z') WHERE id > 55",
    "UPDATE shop.documents SET id = 9000, j = JSON_SET(j, '$.a[0]', 5) WHERE id = 70",
)


@pytest.mark.parametrize("any_server", [pytest.param(ServerKind.MYSQL, marks=pytest.mark.thorough)], indirect=True)
@pytest.mark.parametrize("method", ["log", "read"])
@pytest.mark.parametrize("image", ["FULL", "MINIMAL"])
def test_partial_documents_after_a_snapshot_are_applied_and_proved(
    any_server: DatabaseServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, image: str
) -> None:
    run_sql(any_server, DOCUMENTS)
    monkeypatch.setenv("BINLOG_STREAM_PASSWORD", any_server.password)
    monkeypatch.chdir(tmp_path)
    path = job_file(tmp_path, any_server.binlog_directory, "select = 'shop\\..*'\nbegin = \"snapshot\"")
    job = load_job(path)
    done = run_program("snapshot", str(path), "--server", url_of(any_server), "--yes", "--method", method, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    run(job)
    settings = f"SET SESSION binlog_row_value_options = 'PARTIAL_JSON', binlog_row_image = {image}"
    run_sql(any_server, [settings, *DIFFS])
    # The job has not seen the changes: the server's sums are taken back by them.
    early = prove(any_server, job)["shop.documents", "mirror"]
    if image == "FULL":
        assert (early.outcome, early.reason) == (ProofOutcome.EQUAL, "")
    else:
        assert (early.outcome, "binlog_row_image" in early.reason) == (ProofOutcome.NOT_COMPARED, True)
    run(job)
    proof = prove(any_server, job)["shop.documents", "mirror"]
    assert (proof.outcome, proof.reason) == (ProofOutcome.EQUAL, "")
