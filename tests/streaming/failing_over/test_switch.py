"""A job moves to another server's log, or is refused by name; whatever ends the process, it is at one of both places.

The jobs here have a checkpoint, as Spark writes it, at the end of the primary's log, and have never run.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_connector.crash_points import watched
from binlog_connector.following.watched import WatchedLog
from binlog_format.errors import SwitchError, TableError
from binlog_streaming.job_state.checkpoint import (
    StateFolder,
    begin_batch,
    begin_query,
    end_batch,
    read_checkpoint,
    state_of,
)
from binlog_streaming.job_state.definition_keeper import DefinitionKeeper
from binlog_streaming.job_state.job_run import JobLock
from binlog_streaming.job_state.record_keeper import RecordKeeper
from binlog_streaming.job_state.switch_journal import JOURNAL_FILE, SwitchStep, record_path
from binlog_streaming.jobs.mirror import job_at
from binlog_streaming.jobs.switch import plan_switch
from tests.faults.processes import Cut, CutAt
from tests.program import run_program
from tests.servers import ServerKind
from tests.streaming.failing_over.pairs import INSERT, SCHEMA, Pair, follow, promote, purge, server_of
from tests.streaming.replay_runs import run
from tests.streaming.snapshot.live import run_sql, url_of

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_streaming.settings import Job


pytestmark = pytest.mark.server

JOB = """
checkpoint = "checkpoint"

[source]
path = '{log}' # of the primary
[[tables]]
select = 'shop\\..*'
[sink]
directory = "tables"
"""


def begun(folder: Path, pair: Pair) -> StateFolder:
    """A job at the end of the primary's log, as if it had run."""
    (folder / "job.toml").write_text(JOB.format(log=pair.primary.binlog_directory))
    job = job_at(str(folder / "job.toml"))
    state = state_of(job)
    keeper = RecordKeeper(job)
    begin_query(state)
    begin_batch(state, 0, pair.place())
    end_batch(state, 0)
    keeper.begin()
    keeper.record_batch([("shop", "items"), ("shop", "orders")])
    definitions = DefinitionKeeper(job)
    with WatchedLog(job.source.path) as log:
        definitions.bring_to(log, pair.place().position)
        definitions.take(log, [], pair.place().position)
    return state


def test_the_command_reports_what_it_did_and_does_it_once(mariadb_pair: Pair, tmp_path: Path) -> None:
    pair, state = mariadb_pair, begun(tmp_path, mariadb_pair)
    there = str(pair.replica.binlog_directory)
    text = (tmp_path / "job.toml").read_text()
    (tmp_path / "job.toml").chmod(0o640)
    dry = run_program("switch", "job.toml", "--to", there, "--dry-run", cwd=tmp_path)
    assert dry.returncode == 0, dry.stderr
    assert "source.path in job.toml would be set" in dry.stdout
    assert (tmp_path / "job.toml").read_text() == text
    before = read_checkpoint(state)
    assert before is not None and before.batch_id == 0  # noqa: PT018

    pair.primary.kill()
    for file in pair.primary.binlog_directory.iterdir():
        file.unlink()  # the machine is gone
    done = run_program("switch", "job.toml", "--to", there, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"to       {there}: 1:0:" in done.stdout
    assert "tables   shop.items, shop.orders: stay as they are" in done.stdout
    assert (tmp_path / "job.toml").read_text() == text.replace(f"'{pair.primary.binlog_directory}'", f'"{there}"')
    assert (tmp_path / "job.toml").stat().st_mode & 0o777 == 0o640
    after = read_checkpoint(state)
    assert after is not None
    assert (after.query_id, after.batch_id, after.pending) == (before.query_id, 1, None)
    assert RecordKeeper(job_at(str(tmp_path / "job.toml"))).changes() == []

    again = run_program("switch", "job.toml", "--to", there, cwd=tmp_path)
    assert (again.returncode, again.stdout.split()[0]) == (0, "nothing")
    assert read_checkpoint(state) == after


def test_a_refused_switch_changes_nothing(mariadb_pair: Pair, tmp_path: Path) -> None:
    pair = mariadb_pair
    pair.stop_replica()
    pair.write(7)
    begun(tmp_path, pair)
    files = contents(tmp_path)
    refused = run_program("switch", "job.toml", "--to", pair.replica.binlog_directory, cwd=tmp_path)
    assert refused.returncode == 2
    assert "[BINLOG_SWITCH.MISSING_GTIDS]" in refused.stderr
    assert "0-1-5" in refused.stderr
    assert contents(tmp_path) == files


def test_the_same_log_under_another_path_is_only_another_path(mariadb_pair: Pair, tmp_path: Path) -> None:
    state, elsewhere = begun(tmp_path, mariadb_pair), tmp_path / "mounted"
    elsewhere.symlink_to(mariadb_pair.primary.binlog_directory)
    before = read_checkpoint(state)
    done = run_program("switch", "job.toml", "--to", elsewhere, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "(the same log)" in done.stdout
    assert read_checkpoint(state) == before
    assert job_at(str(tmp_path / "job.toml")).source.path == str(elsewhere)


def test_definitions_come_along_where_the_other_log_has_no_statements(tmp_path: Path) -> None:
    """Names of columns are in no table map here, and no CREATE TABLE is in the log that the job goes on in."""
    names = "--binlog-row-metadata=MINIMAL"
    with (
        server_of(ServerKind.MARIADB, tmp_path / "one", 1, names) as primary,
        server_of(ServerKind.MARIADB, tmp_path / "two", 2, names) as replica,
    ):
        follow(replica, primary)
        run_sql(primary, [*SCHEMA, INSERT.format(1), "ALTER TABLE shop.items ADD COLUMN w INT DEFAULT 7"])
        pair, file = Pair(primary, replica), tmp_path / "job.toml"
        file.write_text(JOB.format(log=primary.binlog_directory))
        run(job_at(str(file)))
        pair.catch_up()
        purge(replica)
        run_sql(primary, ["INSERT INTO shop.items VALUES (2, 1, 'b', 8)"])
        pair.catch_up()
        assert run_program("switch", file, "--to", replica.binlog_directory).returncode == 0
        run(job_at(str(file)))
        promote(replica)
        proved = run_program(
            *("prove", file, "--server", url_of(replica)),
            environment={"BINLOG_STREAM_PASSWORD": replica.password},
        )
        assert "shop.items (mirror): equal through 0-1-7, 2 rows" in proved.stdout, proved.stdout + proved.stderr


@pytest.mark.parametrize("step", SwitchStep)
def test_a_switch_that_was_cut_off_is_completed_by_whoever_comes_next(
    mariadb_pair: Pair, tmp_path: Path, step: SwitchStep
) -> None:
    pair, state = mariadb_pair, begun(tmp_path, mariadb_pair)
    file, there = str(tmp_path / "job.toml"), str(pair.replica.binlog_directory)
    planned = plan_switch(file, there)
    with watched(CutAt(step)), pytest.raises(Cut):
        planned.apply(lambda _: None)
    if step is SwitchStep.JOB_FILE:  # nothing has been decided yet: the job does not start
        [change] = RecordKeeper(job_at(file)).changes()
        assert change.setting == "source.path"
        assert run_program("switch", file, "--to", there).returncode == 0
    with JobLock(job_at(file)):
        checkpoint = read_checkpoint(state)
    assert checkpoint is not None
    assert (checkpoint.batch_id, checkpoint.offset, checkpoint.pending) == (1, planned.after, None)
    assert state.read(JOURNAL_FILE) is None
    job = job_at(file)
    assert RecordKeeper(job).changes() == []
    definitions = DefinitionKeeper(job)
    with WatchedLog(there) as log:
        definitions.bring_to(log, planned.after.position)
    assert {str(name) for name in definitions.defined or ()} == {"shop.items", "shop.orders"}


def test_a_job_that_went_on_after_the_plan_stays(mariadb_pair: Pair, tmp_path: Path) -> None:
    pair, state = mariadb_pair, begun(tmp_path, mariadb_pair)
    planned = plan_switch(str(tmp_path / "job.toml"), str(pair.replica.binlog_directory))
    pair.write(11)
    begin_batch(state, 1, pair.place())
    end_batch(state, 1)
    with pytest.raises(SwitchError, match=r"JOB_CHANGED.*Stop the job"):
        planned.apply(lambda _: None)
    assert state.read(JOURNAL_FILE) is None


def test_a_batch_that_was_cut_off_needs_the_log_before(mariadb_pair: Pair, tmp_path: Path) -> None:
    pair = mariadb_pair
    state, old = begun(tmp_path, pair), tmp_path / "job.toml"
    pair.write(11)
    pair.catch_up()
    begin_batch(state, 1, pair.place())
    gone = tmp_path / "gone"
    record_path(state, str(gone))
    old.write_text(JOB.format(log=gone))
    with pytest.raises(SwitchError, match=r"WITHIN_BATCH.*batch 1.*does not have all of it any more"):
        plan_switch(str(old), str(pair.replica.binlog_directory))


def test_a_checkpoint_without_the_place_of_its_last_batch_is_named(mariadb_pair: Pair, tmp_path: Path) -> None:
    """A loss of power took back the file that began a batch, and left the one that ended it."""
    pair = mariadb_pair
    end_batch(begun(tmp_path, pair), 1)
    with pytest.raises(TableError, match=r"CHECKPOINT_BEHIND.*the end of batch 1, and not its place"):
        plan_switch(str(tmp_path / "job.toml"), str(pair.replica.binlog_directory))


def test_a_batch_that_was_cut_off_needs_its_beginning_too(mariadb_pair: Pair, tmp_path: Path) -> None:
    pair = mariadb_pair
    state = begun(tmp_path, pair)
    pair.write(11)
    purge(pair.primary)
    pair.write(12)
    pair.catch_up()
    begin_batch(state, 1, pair.place())
    with pytest.raises(SwitchError, match=r"WITHIN_BATCH.*batch 1.*does not have all of it any more"):
        plan_switch(str(tmp_path / "job.toml"), str(pair.replica.binlog_directory))


def test_a_batch_that_was_cut_off_is_completed_where_the_same_log_is_now(mariadb_pair: Pair, tmp_path: Path) -> None:
    pair = mariadb_pair
    state, file, gone, now = begun(tmp_path, pair), tmp_path / "job.toml", tmp_path / "gone", tmp_path / "now"
    pair.write(11)
    begin_batch(state, 1, pair.place())
    record_path(state, str(gone))
    file.write_text(JOB.format(log=gone))
    now.symlink_to(pair.primary.binlog_directory)
    read: list[str] = []

    def complete(job: Job) -> None:
        read.append(job.source.path)
        end_batch(state, 1)

    plan_switch(str(file), str(now)).apply(complete)
    assert read == [str(now)]
    assert job_at(str(file)).source.path == str(now)


def contents(folder: Path) -> dict[str, bytes]:
    """Files of a job; the lock is none."""
    files = [folder / "job.toml", *(path for path in (folder / "checkpoint").rglob("*") if path.suffix != ".lock")]
    return {str(path): path.read_bytes() for path in files if path.is_file()}
