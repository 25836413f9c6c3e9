"""A target whose source table is gone fails no proof, if the job's log tells so; one that is only not shown does."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from binlog_format.errors import SchemaError
from binlog_streaming.prove.comparison import ProofOutcome
from binlog_streaming.prove.run import JobProof
from binlog_streaming.prove.two_jobs import TwoJobsProof
from binlog_streaming.server.address import Credentials, ServerAddress
from binlog_streaming.server.session import connect
from binlog_streaming.settings import Begin, Mode, TableFormat, TableRule
from tests.streaming.prove.proofs import job_on, place, prove
from tests.streaming.replay_runs import run
from tests.streaming.snapshot.live import run_sql, session_on, url_of

if TYPE_CHECKING:
    from binlog_lab.demo.mariadb.server import MariaDbServer
    from binlog_streaming.prove.comparison import ProofProgress, ProofResult
    from binlog_streaming.settings import Job

pytestmark = pytest.mark.server

CREATE = "CREATE TABLE shop.{} (id INT PRIMARY KEY, v INT)"
FILL = "INSERT INTO shop.{} SELECT seq, 1 FROM shop.seq_1_to_20"
EQUAL = (ProofOutcome.EQUAL, "")
NOT_SHOWN = "the server does not show such a table, or not to this account"


@pytest.fixture
def job(shared_server: MariaDbServer, tmp_path: Path) -> Job:
    """A job whose three tables are equal."""
    begin(shared_server)
    job = job_on(shared_server, tmp_path)
    run(job)
    return job


def begin(server: MariaDbServer) -> None:
    run_sql(server, ["DROP DATABASE IF EXISTS binlog_stream", "CREATE OR REPLACE DATABASE shop", "RESET MASTER"])
    run_sql(server, [text.format(name) for name in "abc" for text in (CREATE, FILL)])


def gtid(server: MariaDbServer) -> str:
    with session_on(server) as session:
        return str(session.value("SELECT @@gtid_binlog_pos"))


def outcomes(found: dict[tuple[str, str], ProofResult]) -> dict[str, tuple[ProofOutcome, str]]:
    return {table.removeprefix("shop."): (one.outcome, one.reason) for (table, _), one in found.items()}


@pytest.mark.parametrize("table_format", [TableFormat.DELTA, TableFormat.ICEBERG])
def test_targets_of_dropped_and_renamed_tables_cannot_be_compared(
    shared_server: MariaDbServer, tmp_path: Path, table_format: TableFormat
) -> None:
    begin(shared_server)
    job = job_on(shared_server, tmp_path, table_format=table_format)
    run(job)
    run_sql(shared_server, ["DROP TABLE shop.a"])
    dropped = gtid(shared_server)
    run_sql(shared_server, ["RENAME TABLE shop.b TO shop.d"])
    renamed = gtid(shared_server)
    run(job)
    assert outcomes(prove(shared_server, job)) == {
        "a": (ProofOutcome.EXEMPT, f"dropped at {dropped}"),
        "b": (ProofOutcome.EXEMPT, f"renamed to shop.d at {renamed}"),
        "c": EQUAL,
        "d": EQUAL,
    }


def test_a_target_that_was_removed_after_its_table_fails_no_proof(shared_server: MariaDbServer, job: Job) -> None:
    run_sql(shared_server, ["DROP TABLE shop.a"])
    run(job)
    shutil.rmtree(place(job, "shop.a"))
    found = outcomes(prove(shared_server, job))
    assert found.pop("a") == (ProofOutcome.EXEMPT, "dropped or renamed, and the target is gone, too")
    assert found == {"b": EQUAL, "c": EQUAL}


def test_a_job_that_has_not_come_to_the_drop_is_waited_for(shared_server: MariaDbServer, job: Job) -> None:
    run_sql(shared_server, ["DROP TABLE shop.a"])
    dropped = gtid(shared_server)

    (stopped,) = (result for result in prove(shared_server, job).values() if result.table == "shop.a")
    assert stopped.outcome is ProofOutcome.NOT_COMPARED
    assert "it has to pass mariadb-bin.000001:" in stopped.reason

    def catch_up(progress: ProofProgress) -> None:
        if progress.doing == "job":
            run(job)

    results = JobProof(job, lambda: session_on(shared_server), catch_up, lambda _: None).prove()
    assert [(result.table, result.outcome) for result in results if result.outcome is not ProofOutcome.EQUAL] == [
        ("shop.a", ProofOutcome.EXEMPT)
    ]
    assert results[0].reason == f"dropped at {dropped}"


def test_a_table_that_was_created_again_is_compared(shared_server: MariaDbServer, job: Job) -> None:
    run_sql(shared_server, ["DROP TABLE shop.a"])
    run(job)
    run_sql(shared_server, [CREATE.format("a"), "INSERT INTO shop.a VALUES (1, 2)"])
    run(job)
    found = prove(shared_server, job)
    assert outcomes(found) == dict.fromkeys("abc", EQUAL)
    assert found["shop.a", "mirror"].rows == 1


def test_a_table_that_is_not_shown_is_no_dropped_one(shared_server: MariaDbServer, job: Job) -> None:
    """Missing rights, also on a table that was created again after the job read of its drop, are named."""
    run_sql(
        shared_server,
        [
            "CREATE OR REPLACE USER cdc@'127.0.0.1' IDENTIFIED BY 'secret'",
            "GRANT SELECT ON shop.c TO cdc@'127.0.0.1'",
            "GRANT SELECT, INSERT, CREATE, DROP ON binlog_stream.* TO cdc@'127.0.0.1'",
            "DROP TABLE shop.a",
        ],
    )
    run(job)
    run_sql(shared_server, [CREATE.format("a")])
    address = ServerAddress.parse(url_of(shared_server, "cdc"))

    def found() -> dict[str, tuple[ProofOutcome, str]]:
        proof = JobProof(job, lambda: connect(address, Credentials("cdc", "secret")), lambda _: None, lambda _: None)
        return outcomes({(result.table, ""): result for result in proof.prove()})

    for _ in range(2):  # before the job has read of the table that is there again, and after it
        seen = found()
        assert seen["c"] == EQUAL
        assert {seen[name][0] for name in "ab"} == {ProofOutcome.NOT_COMPARED}
        assert NOT_SHOWN in seen["b"][1]
        run(job)
    assert NOT_SHOWN in seen["a"][1]


def test_a_table_that_the_job_no_longer_selects_is_left_out(shared_server: MariaDbServer, tmp_path: Path) -> None:
    begin(shared_server)
    run(job_on(shared_server, tmp_path))
    job = job_on(shared_server, tmp_path, TableRule(select=r"shop\.[ab]"))
    run(job)
    assert outcomes(prove(shared_server, job)) == dict.fromkeys("ab", EQUAL)


def test_two_jobs_agree_that_a_table_was_dropped(shared_server: MariaDbServer, job: Job, tmp_path: Path) -> None:
    run_sql(shared_server, ["DROP TABLE shop.a"])
    dropped = gtid(shared_server)
    run(job)
    other = job_on(shared_server, tmp_path / "other", TableRule(mode=Mode.SCD2))

    def found(one: Job, two: Job) -> dict[str, tuple[ProofOutcome, str]]:
        results = TwoJobsProof(one, two, lambda _: None, lambda _: None).prove()
        return {result.table.removeprefix("shop."): (result.outcome, result.reason) for result in results}

    run(other)
    assert found(job, other) == dict.fromkeys("abc", EQUAL)  # both have its rows
    run_sql(shared_server, [f"UPDATE shop.{name} SET v = 2" for name in "bc"])
    late = job_on(shared_server, tmp_path / "late", TableRule(begin=Begin.EMPTY))
    other = replace(late, source=replace(late.source, starting_gtid=dropped))
    run(other)
    run(job)
    assert found(job, other)["a"] == (
        ProofOutcome.EXEMPT,
        f"dropped at {dropped}, and the other job has not written it",
    )
    assert found(other, job)["a"] == (ProofOutcome.EXEMPT, f"dropped at {dropped}, and the job has not written it")


def test_two_jobs_that_do_not_agree_that_a_table_was_dropped_are_not_equal(
    shared_server: MariaDbServer, job: Job, tmp_path: Path
) -> None:
    run_sql(shared_server, ["DELETE FROM shop.a"])
    run(job)
    other = tmp_path / "other"
    other.mkdir()
    shutil.copytree(job.sink.directory, other / "tables")
    shutil.copytree(job.checkpoint, other / "checkpoint")
    run_sql(shared_server, ["DROP TABLE shop.a"])
    run(job)
    copy = job_on(shared_server, other)
    (result,) = TwoJobsProof(job, copy, lambda _: None, lambda _: None).prove(r"shop\.a")
    assert result.outcome is ProofOutcome.NOT_COMPARED
    assert result.reason.startswith("in the job it was dropped at 0-1-")
    assert result.reason.endswith(", in the other job it exists")


def test_an_expression_that_matches_nothing_is_told_with_the_closest_names(
    shared_server: MariaDbServer, job: Job
) -> None:
    run_sql(shared_server, ["CREATE TABLE shop.orders (id INT PRIMARY KEY)", "CREATE DATABASE IF NOT EXISTS other"])
    run_sql(shared_server, ["CREATE OR REPLACE TABLE other.odd (id INT PRIMARY KEY)"])
    with pytest.raises(SchemaError, match=r"TABLE_NOT_FOUND\].*--tables 'shop\\.ordesr' of") as raised:
        prove(shared_server, job, r"shop\.ordesr")
    assert raised.value.hint == "Tables that the job selects: shop.orders, shop.c, shop.b and 2 more"
    elsewhere = job_on(shared_server, Path(job.checkpoint).parent / "new", TableRule(select="shop.ordesr"))
    with pytest.raises(SchemaError, match=r"select = 'shop.ordesr'") as raised:
        prove(shared_server, elsewhere)
    assert raised.value.hint is not None
    assert raised.value.hint.startswith("Tables that it shows to this account: shop.orders, ")
    with pytest.raises(SchemaError, match="neither job has written") as raised:
        TwoJobsProof(job, job, lambda _: None, lambda _: None).prove("shop.aa")
    assert raised.value.hint == "Tables that were written: shop.a, shop.c, shop.b"
    run_sql(shared_server, ["DROP DATABASE other"])
