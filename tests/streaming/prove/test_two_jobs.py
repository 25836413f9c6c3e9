"""Tables of two jobs are compared without a server: they are equal, or rows that differ are named, or the reason."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from binlog_streaming.prove.comparison import DifferenceKind, ProofOutcome, ProofResult
from binlog_streaming.prove.two_jobs import TwoJobsProof
from binlog_streaming.settings import Job, Mode, TableFormat, TableRule
from binlog_streaming.settings.text import job_text
from tests.program import run_program
from tests.servers import ServerKind, server_in
from tests.streaming.prove.proofs import held, job_on, overwrite
from tests.streaming.replay_runs import run
from tests.streaming.snapshot.live import run_sql

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import MariaDbServer

pytestmark = pytest.mark.server

TYPES = (
    "id INT UNSIGNED PRIMARY KEY, a BIGINT UNSIGNED, b BIT(1), c DECIMAL(20,4), d DECIMAL(18,0), e FLOAT, f DOUBLE,"
    " g DATE, h DATETIME(3), i TIMESTAMP(6) NULL, j TIME(2), k YEAR, l VARCHAR(20), m VARBINARY(9), n LONGTEXT, o JSON,"
    " p POINT, q ENUM('x', 'y'), r BLOB"
)
ROW = (
    "18446744073709551615, b'1', -12.5, 7, 1.5, 0.1, '2026-01-02', '2026-01-02 03:04:05.678', '2026-01-02 03:04:05',"
    " '-800:00:00.25', 2026, 'ü', x'00ff', REPEAT('l', 70000), '{\"a\": 1}', POINT(1, 2), 'y', ''"
)


@pytest.fixture
def jobs(shared_server: MariaDbServer, tmp_path: Path) -> tuple[Job, Job]:
    """A mirror in Delta and the versions in Iceberg, of the same tables, at the same place."""
    run_sql(shared_server, ["DROP DATABASE IF EXISTS binlog_stream", "CREATE OR REPLACE DATABASE shop", "RESET MASTER"])
    run_sql(shared_server, [f"CREATE TABLE shop.t ({TYPES})", "CREATE TABLE shop.u (id INT PRIMARY KEY, v INT)"])
    run_sql(shared_server, [f"INSERT INTO shop.t VALUES (1, {ROW}), (2, {', '.join(['NULL'] * 18)})"])
    fill = "INSERT INTO shop.u SELECT seq, seq FROM shop.seq_1_to_50"
    run_sql(shared_server, [fill, "UPDATE shop.u SET v = 0 LIMIT 9"])
    both = TableRule(mode=(Mode.MIRROR, Mode.CHANGELOG), target="{mode}/{table}")
    one, versions = job_on(shared_server, tmp_path / "one", both), TableRule(mode=Mode.SCD2)
    other = job_on(shared_server, tmp_path / "other", versions, table_format=TableFormat.ICEBERG)
    run(one)
    run(other)
    return one, other


def compare(one: Job, other: Job, tables: str | None = None, sample: int | None = None) -> dict[str, ProofResult]:
    """What a comparison finds of the tables, without changelogs."""
    results = TwoJobsProof(one, other, lambda _: None, lambda _: None, sample=sample).prove(tables)
    assert all((found.outcome is ProofOutcome.EXEMPT) == (found.mode is Mode.CHANGELOG) for found in results)
    return {found.table: found for found in results if found.mode is not Mode.CHANGELOG}


def test_tables_of_all_types_are_equal_across_formats_modes_and_places(
    shared_server: MariaDbServer, jobs: tuple[Job, Job]
) -> None:
    one, other = jobs
    found = compare(one, other)
    assert {name: (result.outcome, result.rows) for name, result in found.items()} == {
        "shop.t": (ProofOutcome.EQUAL, 2),
        "shop.u": (ProofOutcome.EQUAL, 50),
    }
    assert all(result.forms is not None and not result.forms.unknown for result in found.values())
    run_sql(shared_server, ["DELETE FROM shop.u WHERE id > 40", "UPDATE shop.u SET v = -1 WHERE id = 7"])
    for ahead in (one, other):
        run(ahead)  # one alone has come further, then both have
        found = compare(one, other, sample=100)
        assert found["shop.u"].outcome is ProofOutcome.EQUAL
        assert found["shop.u"].rows == 40
        assert compare(other, one)["shop.u"].outcome is ProofOutcome.EQUAL


def test_rows_that_differ_are_named_by_the_command(jobs: tuple[Job, Job], tmp_path: Path) -> None:
    one, other = jobs
    rows = held(one, "mirror/u")
    changed = rows.set_column(1, "v", [[5 if id == 3 else v for id, v in zip(*rows.to_pydict().values(), strict=True)]])
    overwrite(one, "mirror/u", changed.filter([id != 8 for id in rows.column("id").to_pylist()]))
    for name, job in (("one", one), ("other", other)):
        (tmp_path / f"{name}.toml").write_text(job_text(job))
    proved = run_program("prove", "one.toml", "--against", "other.toml", "--rows", cwd=tmp_path)
    assert proved.returncode == 1, proved.stdout + proved.stderr
    assert "shop.t (mirror): equal through 0-1-" in proved.stdout
    assert "the other one has 50 rows, the target 49; rows: 1 missing, 1 different" in proved.stdout
    assert "  missing: id = 8\n" in proved.stdout
    assert "  different: id = 3: v\n" in proved.stdout
    back = run_program("prove", "other.toml", "--against", "one.toml", "--tables", "shop.t", cwd=tmp_path)
    assert back.returncode == 0, back.stdout
    assert run_program("prove", "one.toml", cwd=tmp_path).returncode == 2
    assert run_program("prove", "one.toml", "--against", "other.toml", "--repair", cwd=tmp_path).returncode == 2


def test_what_cannot_be_compared_is_named(shared_server: MariaDbServer, jobs: tuple[Job, Job], tmp_path: Path) -> None:
    one, _ = jobs
    few = job_on(shared_server, tmp_path / "few", TableRule(select=r"shop\.u", mask={"v": "null"}))
    run(few)
    found = compare(one, few)
    assert found["shop.t"].outcome is ProofOutcome.NOT_COMPARED
    assert found["shop.t"].reason == "the other job has not written it"
    assert found["shop.u"].outcome is ProofOutcome.EQUAL
    assert found["shop.u"].forms is not None
    assert found["shop.u"].forms.hidden == ("v",)


@pytest.mark.thorough
def test_jobs_on_one_log_without_gtids_are_compared_by_their_places(tmp_path: Path) -> None:
    options = ["--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"]
    with server_in(ServerKind.MYSQL, tmp_path / "server", options=options) as server:
        run_sql(server, ["CREATE DATABASE shop", "CREATE TABLE shop.u (id INT PRIMARY KEY, v INT)"])
        run_sql(server, ["INSERT INTO shop.u SELECT seq, seq FROM shop.seq_1_to_50"])
        one, other = job_on(server, tmp_path / "one"), job_on(server, tmp_path / "other")
        run(one)
        run(other)
        for ahead in (one, other):
            found = compare(one, other)["shop.u"]
            assert (found.outcome, found.reason) == (ProofOutcome.EQUAL, "")
            assert "mysql-bin.0" in found.gtids
            run_sql(server, ["UPDATE shop.u SET v = v + 1 WHERE id < 9", "FLUSH BINARY LOGS"])
            run_sql(server, ["DELETE FROM shop.u ORDER BY id DESC LIMIT 2"])
            run(ahead)
        rows = held(one, "shop.u")
        overwrite(one, "shop.u", rows.slice(1))
        found = compare(one, other)["shop.u"]
        assert (found.outcome, [row.kind for row in found.differences]) == (
            ProofOutcome.DIFFERENT,
            [DifferenceKind.MISSING],
        )
    # A copy of the log is the same log; what another server has written is not.
    moved = replace(other, source=replace(other.source, path=str(tmp_path / "moved")))
    shutil.copytree(other.source.path, moved.source.path)
    assert compare(moved, other)["shop.u"].outcome is ProofOutcome.EQUAL
    with server_in(ServerKind.MYSQL, tmp_path / "second", options=options) as server:
        run_sql(server, ["CREATE DATABASE shop", "CREATE TABLE shop.u (id INT PRIMARY KEY, v INT)"])
        run_sql(server, ["INSERT INTO shop.u VALUES (1, 1)"])
        third = job_on(server, tmp_path / "third")
        run(third)
        found = compare(third, other)["shop.u"]
    assert found.outcome is ProofOutcome.NOT_COMPARED
    assert found.reason == "a log has no GTIDs: nothing tells which places in two logs are the same"
