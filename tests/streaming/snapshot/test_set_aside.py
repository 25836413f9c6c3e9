"""A table that is set aside in the batch of its snapshot: the job tells that it is lost, and takes another one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest

from binlog_streaming.job_state.record_keeper import RecordKeeper
from binlog_streaming.jobs.check import check_job
from binlog_streaming.prove.comparison import ProofOutcome
from binlog_streaming.settings.choices import OnError
from binlog_streaming.settings.text import job_text
from tests.program import run_program
from tests.streaming.prove.proofs import job_on, prove
from tests.streaming.replay_runs import run
from tests.streaming.snapshot.live import run_sql, session_on, url_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import MariaDbServer
    from binlog_streaming.job_state.record import JobRecord
    from binlog_streaming.settings import Job

pytestmark = pytest.mark.server


def take_snapshot(server: MariaDbServer, folder: Path) -> None:
    done = run_program(
        "snapshot",
        folder / "job.toml",
        "--server",
        url_of(server),
        "--tables",
        "shop.a",
        "--yes",
        environment={"BINLOG_STREAM_PASSWORD": server.password},
    )
    assert done.returncode == 0, done.stderr


def record(job: Job) -> JobRecord:
    keeper = RecordKeeper(job)
    keeper.changes()
    return keeper.record


@pytest.fixture(autouse=True)
def without_names(shared_server: MariaDbServer) -> Iterator[None]:
    """The log has no names of columns."""
    with session_on(shared_server) as session:
        before = session.value("SELECT @@GLOBAL.binlog_row_metadata")
    run_sql(shared_server, ["SET GLOBAL binlog_row_metadata = MINIMAL"])
    yield
    run_sql(shared_server, [f"SET GLOBAL binlog_row_metadata = {before}"])


@pytest.mark.parametrize("is_snapshot_first", [True, False])
def test_a_snapshot_in_the_batch_that_sets_its_table_aside_is_lost_and_told(
    shared_server: MariaDbServer, tmp_path: Path, is_snapshot_first: bool
) -> None:
    """Rows have a column more than all definitions: an ALTER TABLE that the log does not have."""
    run_sql(shared_server, ["DROP DATABASE IF EXISTS binlog_stream", "CREATE OR REPLACE DATABASE shop", "RESET MASTER"])
    run_sql(
        shared_server,
        [
            "CREATE TABLE shop.a (id INT PRIMARY KEY, v INT)",
            "INSERT INTO shop.a SELECT seq, 1 FROM shop.seq_1_to_20",
        ],
    )
    job = msgspec.structs.replace(job_on(shared_server, tmp_path), on_error=OnError.SET_ASIDE)
    (tmp_path / "job.toml").write_text(job_text(job))
    run(job)
    hidden = ["SET sql_log_bin = 0", "ALTER TABLE shop.a ADD w INT", "SET sql_log_bin = 1"]
    if is_snapshot_first:
        take_snapshot(shared_server, tmp_path)
    run_sql(shared_server, [*hidden, "INSERT INTO shop.a VALUES (300, 1, 1)"])
    if not is_snapshot_first:
        take_snapshot(shared_server, tmp_path)
    run(job)
    found = record(job)
    assert [stopped.name.table for stopped in found.set_aside] == ["a"]
    assert [snapshot.problem for snapshot in found.snapshots] == ["the table was set aside"]
    (table,) = check_job(job).tables
    assert any("its snapshot does not complete it: the table was set aside" in text for text in table.warnings)
    assert prove(shared_server, job)["shop.a", "mirror"].outcome is ProofOutcome.NOT_COMPARED
    take_snapshot(shared_server, tmp_path)
    run(job)
    assert record(job).set_aside == ()
    result = prove(shared_server, job)["shop.a", "mirror"]
    assert (result.outcome, result.rows) == (ProofOutcome.EQUAL, 21)
