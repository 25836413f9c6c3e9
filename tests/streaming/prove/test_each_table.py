"""Each table is judged by itself: what is wrong with one is told, and the others are compared all the same."""

from __future__ import annotations

import itertools
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from binlog_format.errors import ServerError
from binlog_streaming.job_state.job_run import JobLock
from binlog_streaming.prove import job_state
from binlog_streaming.prove import run as proof
from binlog_streaming.prove.comparison import ProofOutcome
from binlog_streaming.prove.rows import BUCKETS
from binlog_streaming.prove.run import JobProof
from binlog_streaming.server.address import Credentials, ServerAddress
from binlog_streaming.server.session import connect
from binlog_streaming.settings import TableFormat
from binlog_streaming.snapshot.server_checks import check_server
from binlog_streaming.snapshot.source_table import read_table
from binlog_streaming.status.view import StatusFile
from tests.streaming.prove.proofs import held, job_on, overwrite, place, prove
from tests.streaming.replay_runs import run
from tests.streaming.snapshot.live import run_sql, session_on, url_of
from tests.streaming.status.states import failed_status

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_lab.demo.mariadb.server import MariaDbServer
    from binlog_streaming.prove.comparison import ProofProgress, ProofResult
    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.settings import Job
    from binlog_streaming.snapshot.source_table import SourceTable

pytestmark = pytest.mark.server

NAMES = ("a", "b", "c")
EQUAL = (ProofOutcome.EQUAL, "")
ACCOUNT = (
    "CREATE OR REPLACE USER cdc@'127.0.0.1' IDENTIFIED BY 'secret'",
    "GRANT SELECT ON shop.a TO cdc@'127.0.0.1'",
    "GRANT SELECT ON shop.c TO cdc@'127.0.0.1'",
    "GRANT INSERT ON shop.b TO cdc@'127.0.0.1'",  # so that it is seen
    "GRANT SELECT, INSERT, CREATE, DROP ON binlog_stream.* TO cdc@'127.0.0.1'",
)


@pytest.fixture
def job(shared_server: MariaDbServer, tmp_path: Path) -> Job:
    """A job whose three tables are equal."""
    run_sql(shared_server, ["DROP DATABASE IF EXISTS binlog_stream", "CREATE OR REPLACE DATABASE shop", "RESET MASTER"])
    for name in NAMES:
        create = f"CREATE TABLE shop.{name} (id INT PRIMARY KEY, v INT)"
        run_sql(shared_server, [create, f"INSERT INTO shop.{name} SELECT seq, 1 FROM shop.seq_1_to_20"])
    job = job_on(shared_server, tmp_path)
    run(job)
    return job


def outcomes(found: dict[tuple[str, str], ProofResult]) -> dict[str, tuple[ProofOutcome, str]]:
    return {name[-1]: (one.outcome, one.reason) for (name, _), one in found.items()}


def prove_told(
    server: MariaDbServer, job: Job, tell: Callable[[ProofProgress], None], table_timeout: int | None = None
) -> list[ProofResult]:
    """Results, where *tell* hears of all progress."""
    return JobProof(job, lambda: session_on(server), tell, _ignore, table_timeout=table_timeout).prove()


def test_a_target_that_cannot_be_read_stops_no_other(shared_server: MariaDbServer, job: Job) -> None:
    for file in Path(place(job, "shop.b")).rglob("*.parquet"):
        file.unlink()
    found = outcomes(prove(shared_server, job))
    outcome, reason = found.pop("b")
    assert (outcome, reason.partition("]")[0]) == (ProofOutcome.NOT_COMPARED, "[BINLOG_TABLE.WRITE_FAILED")
    assert found == {"a": EQUAL, "c": EQUAL}


@pytest.mark.parametrize("table_format", [TableFormat.DELTA, TableFormat.ICEBERG])
@pytest.mark.parametrize(("added", "what"), [(1, "21 rows, the table records 20"), (0, "bytes, the table records ")])
def test_a_data_file_that_was_changed_in_place_is_found(
    shared_server: MariaDbServer, job: Job, tmp_path: Path, table_format: TableFormat, added: int, what: str
) -> None:
    if table_format is TableFormat.ICEBERG:
        (tmp_path / "iceberg").mkdir()
        job = job_on(shared_server, tmp_path / "iceberg", table_format=table_format)
        run(job)
    (file,) = (
        path
        for path in Path(job.sink.directory).rglob("*.parquet")
        if "b" in path.relative_to(job.sink.directory).parts
    )
    rows = pq.read_table(file)
    pq.write_table(pa.concat_tables([rows, rows.slice(0, added)]), file, compression="none", write_statistics=False)
    found = outcomes(prove(shared_server, job, repairs=True))
    outcome, reason = found.pop("b")
    assert outcome is ProofOutcome.DIFFERENT
    assert reason.startswith("data files were changed in place: ")
    assert file.name in reason
    assert what in reason
    assert found == {"a": EQUAL, "c": EQUAL}


def test_a_sample_counts_all_rows_and_compares_some(
    shared_server: MariaDbServer, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    missing, changed = (held(job, f"shop.{name}") for name in "ab")
    overwrite(job, "shop.a", missing.slice(1))
    overwrite(job, "shop.b", changed.set_column(1, changed.schema.field(1), pa.array([2] + [1] * 19, pa.int32())))
    seen = set()
    for chosen in ([], list(range(BUCKETS))):
        monkeypatch.setattr("random.sample", lambda numbers, count, chosen=chosen: chosen or [numbers[0]][:count])
        proof = JobProof(job, lambda: session_on(shared_server), _ignore, _ignore, sample=1)
        results = {one.table[-1]: one for one in proof.prove()}
        assert results["a"].outcome is ProofOutcome.DIFFERENT
        assert results["c"].outcome is ProofOutcome.EQUAL
        assert results["c"].is_sample
        seen.add(results["b"].outcome)
    assert seen == {ProofOutcome.EQUAL, ProofOutcome.DIFFERENT}
    with session_on(shared_server) as session:
        assert session.value("SELECT COUNT(*) FROM binlog_stream.snapshot_marks WHERE kind = 'proof'") == 0


def test_a_table_that_takes_too_long_stops_no_other(shared_server: MariaDbServer, job: Job) -> None:
    with shared_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("LOCK TABLES shop.b WRITE")
        found = outcomes({(one.table, ""): one for one in prove_told(shared_server, job, _ignore, table_timeout=2)})
    late = (ProofOutcome.NOT_COMPARED, "it was not done within 2 s (--table-timeout)")
    assert found == {"a": EQUAL, "b": late, "c": EQUAL}


def test_a_job_that_stands_still_is_waited_for_once(
    shared_server: MariaDbServer, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_state, "DISTANCE_MAX", -1)
    monkeypatch.setattr(job_state, "PATIENCE_S", 3.0)
    begun = time.monotonic()
    with JobLock(job):
        found = outcomes(prove(shared_server, job))
    assert time.monotonic() - begun < 8
    assert {outcome for outcome, _ in found.values()} == {ProofOutcome.NOT_COMPARED}
    assert all("STANDS_ELSEWHERE" in reason and "has not moved for 3 s" in reason for _, reason in found.values())


def test_a_job_before_a_statement_is_waited_for_before_the_next_try(shared_server: MariaDbServer, job: Job) -> None:
    """The server's rows are those after it: nothing but the job can bring the target there."""
    alter = "ALTER TABLE shop.b MODIFY v BIGINT"
    run_sql(shared_server, [alter, "UPDATE shop.b SET v = 1 << 40 WHERE id = 3"])
    waited, statements = list[str](), iter([alter.replace("BIGINT", "DECIMAL(20)")])

    def catch_up(progress: ProofProgress) -> None:
        if progress.doing == "job":
            waited.append(progress.table)
            run(job)
            run_sql(shared_server, [*itertools.islice(statements, 1)])  # so that the second try comes too early, too

    found = outcomes({(one.table, ""): one for one in prove_told(shared_server, job, catch_up)})
    assert found == dict.fromkeys(NAMES, EQUAL)
    assert waited == ["shop.b", "shop.b"]


def test_a_table_that_is_altered_before_its_turn_is_read_anew(shared_server: MariaDbServer, job: Job) -> None:
    alters = iter(["ALTER TABLE shop.c ADD COLUMN w INT, DROP COLUMN v"])

    def alter_the_last(progress: ProofProgress) -> None:
        if progress.table == "shop.a":
            run_sql(shared_server, [*itertools.islice(alters, 1)])
        elif progress.doing == "job":
            run(job)

    found = outcomes({(one.table, ""): one for one in prove_told(shared_server, job, alter_the_last)})
    assert found == dict.fromkeys(NAMES, EQUAL)
    assert next(alters, None) is None


def test_a_stopped_job_before_a_statement_is_named_and_waited_for_within_the_time(
    shared_server: MariaDbServer, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_sql(shared_server, [f"ALTER TABLE shop.{name} ADD COLUMN w INT" for name in "ab"])
    with JobLock(job):
        found = outcomes({(one.table, ""): one for one in prove_told(shared_server, job, _ignore, table_timeout=2)})
    late = (ProofOutcome.NOT_COMPARED, "it was not done within 2 s (--table-timeout)")
    assert found == {"a": late, "b": late, "c": EQUAL}
    monkeypatch.setattr(job_state, "PATIENCE_S", 1.0)
    with JobLock(job):
        found = outcomes(prove(shared_server, job))
    for name in "ab":
        outcome, reason = found[name]
        assert outcome is ProofOutcome.NOT_COMPARED
        assert "STANDS_ELSEWHERE" in reason
        assert "has not moved for 1 s; it has to pass 0-1-" in reason
        assert ": the table was changed at " in reason
    assert found["c"] == EQUAL


def test_a_job_that_does_not_run_is_not_waited_for_and_its_error_is_named(
    shared_server: MariaDbServer, job: Job
) -> None:
    run_sql(shared_server, ["ALTER TABLE shop.b ADD COLUMN w INT"])
    waited = list[str]()
    begun = time.monotonic()
    ((_, reason),) = (
        found
        for name, found in outcomes(
            {(one.table, ""): one for one in prove_told(shared_server, job, lambda told: waited.append(told.doing))}
        ).items()
        if name == "b"
    )
    assert time.monotonic() - begun < 60
    assert "and does not run (no process has its lock); it has to pass 0-1-" in reason
    assert waited.count("job") == 1
    StatusFile(job).write(failed_status("[BINLOG_STORAGE.FULL] /lake: no space left"))
    found = outcomes(prove(shared_server, job))
    told = "does not run since 1970-01-01 00:00 UTC, when it failed: [BINLOG_STORAGE.FULL] /lake: no space left;"
    assert told in found["b"][1]
    assert found["a"] == found["c"] == EQUAL


def test_a_job_that_has_not_come_to_a_table_yet_is_not_sent_for_a_snapshot_first(
    shared_server: MariaDbServer, job: Job, tmp_path: Path
) -> None:
    run_sql(shared_server, ["CREATE TABLE shop.d (id INT PRIMARY KEY)", "INSERT INTO shop.d VALUES (1)"])
    found = outcomes(prove(shared_server, job))
    assert found["d"][0] is ProofOutcome.NOT_COMPARED
    assert found["d"][1].startswith("the job has nothing of it yet, and does not run (no process has its lock); let it")
    assert found["a"] == found["b"] == found["c"] == EQUAL
    run(job)
    assert outcomes(prove(shared_server, job))["d"] == EQUAL

    fresh = job_on(shared_server, tmp_path / "fresh")
    StatusFile(fresh).write(failed_status("[BINLOG_STORAGE.FULL] /lake: no space left"))
    begins = (
        "the job has not come to the end of a batch yet, and does not run since 1970-01-01 00:00 UTC, when it failed:"
        " [BINLOG_STORAGE.FULL] /lake: no space left; let it"
    )
    found = outcomes(prove(shared_server, fresh))
    assert [(outcome, reason.startswith(begins)) for outcome, reason in found.values()] == [
        (ProofOutcome.NOT_COMPARED, True)
    ] * 4


def test_rights_of_one_table_stop_no_other_and_hints_are_sql(shared_server: MariaDbServer, job: Job) -> None:
    """The rights that the page lists suffice for a repair, and each hint, run as it is, gives what is missing."""
    run_sql(shared_server, ACCOUNT)
    for name in NAMES:
        rows = held(job, f"shop.{name}")
        overwrite(job, f"shop.{name}", rows.set_column(1, rows.schema.field(1), pa.array([2] * 20, pa.int32())))

    def found(*, repairs: bool) -> dict[str, tuple[ProofOutcome, str]]:
        address = ServerAddress.parse(url_of(shared_server, "cdc"))
        proof = JobProof(job, lambda: connect(address, Credentials("cdc", "secret")), _ignore, _ignore, repairs)
        results = proof.prove()
        assert [one.repair for one in results if one.repair] == [
            "repair: 20 keys, 20 rows are in the log; the job applies them"
        ] * (sum(one.outcome is ProofOutcome.DIFFERENT for one in results) if repairs else 0)
        return outcomes({(one.table, ""): one for one in results})

    different = (ProofOutcome.DIFFERENT, "")
    told = found(repairs=False)
    outcome, reason = told.pop("b")
    assert outcome is ProofOutcome.NOT_COMPARED
    assert told == {"a": different, "c": different}
    grant = reason.removeprefix("missing rights: SELECT ON shop.b (").removesuffix(")")
    assert grant == "GRANT SELECT ON `shop`.`b` TO 'cdc'@'127.0.0.1'"
    with pytest.raises(ServerError, match=r"DENIED.*missing rights: DELETE ON binlog_stream\.\*") as raised:
        found(repairs=True)
    run_sql(shared_server, [grant, raised.value.hint or ""])
    assert found(repairs=True) == dict.fromkeys(NAMES, different)
    run(job)
    assert found(repairs=False) == dict.fromkeys(NAMES, EQUAL)


def test_a_server_that_the_account_may_not_ask_about_replicas_is_no_replica(shared_server: MariaDbServer) -> None:
    run_sql(
        shared_server,
        ["CREATE DATABASE IF NOT EXISTS shop", "CREATE OR REPLACE USER u@'127.0.0.1' IDENTIFIED BY 'secret'"],
    )
    with connect(ServerAddress.parse(url_of(shared_server, "u")), Credentials("u", "secret")) as session:
        check_server(session)


def _ignore(_: object) -> None:
    """Told of progress and results, which the test looks at otherwise."""


@pytest.mark.parametrize("engine", ["MyISAM", "Aria", "MEMORY"])
def test_tables_without_snapshots_are_compared_when_nothing_changes_while_they_are_read(
    shared_server: MariaDbServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str
) -> None:
    run_sql(shared_server, ["DROP DATABASE IF EXISTS binlog_stream", "CREATE OR REPLACE DATABASE shop", "RESET MASTER"])
    create = f"CREATE TABLE shop.a (id INT PRIMARY KEY, v INT) ENGINE = {engine}"
    run_sql(shared_server, [create, "INSERT INTO shop.a SELECT seq, 1 FROM shop.seq_1_to_20"])
    job = job_on(shared_server, tmp_path)
    run(job)
    keys, writes = iter(range(100, 200)), iter([True])

    def read_later(session: ServerSession, schema: str, name: str) -> SourceTable:
        if next(writes, False):  # after the place has been taken, before the rows are read
            run_sql(shared_server, [f"INSERT INTO shop.a VALUES ({next(keys)}, 2)"])
        return read_table(session, schema, name)

    monkeypatch.setattr(proof, "read_table", read_later)
    once = prove(shared_server, job)["shop.a", "mirror"]
    assert (once.outcome, once.rows) == (ProofOutcome.EQUAL, 20)  # where the job is
    writes = itertools.repeat(True)
    always = prove(shared_server, job)["shop.a", "mirror"]
    assert always.outcome is ProofOutcome.NOT_COMPARED
    assert "rows changed while they were read" in always.reason
    writes = iter([])
    run(job)
    rows = held(job, "shop.a")
    overwrite(job, "shop.a", rows.filter([id != 7 for id in rows.column("id").to_pylist()]))
    found = prove(shared_server, job, repairs=True)["shop.a", "mirror"]
    assert (found.outcome, len(found.differences)) == (ProofOutcome.DIFFERENT, 1)
    assert f"its engine {engine} locks no rows" in found.repair
