from __future__ import annotations

import os
import signal
import time
from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec
import pytest

from binlog_connector.following.log_end import end_of_log, start_of_log
from binlog_connector.following.watched import WatchedLog
from binlog_connector.schema.definitions import TableName
from binlog_format.errors import OptionError, StorageError
from binlog_format.gtids.gtid_set import parse_gtids
from binlog_format.position import Position
from binlog_streaming.job_state.progress import BatchProgress
from binlog_streaming.job_state.record import JobRecord, Verified
from binlog_streaming.plan.job_state import SetAside, StateChange
from binlog_streaming.plan.snapshots import PlannedSnapshot
from binlog_streaming.settings import Status
from binlog_streaming.status.model import Level, Phase
from binlog_streaming.status.recorder import StatusRecorder
from binlog_streaming.status.view import SILENT_SECONDS, STATUS_FILE, StatusFile, phase_of, view_of
from tests.faults.processes import files_up_to, in_a_process
from tests.streaming.status.states import table_progress
from tests.streaming.tables.oltp import OLTP
from tests.streaming.test_job_check import job_for

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_connector.following.offsets import SourceOffset
    from binlog_streaming.settings import Job


@pytest.fixture(scope="module")
def edges() -> tuple[SourceOffset, SourceOffset]:
    with WatchedLog(str(OLTP)) as watched:
        return start_of_log(watched), end_of_log(watched)


def progress(number: int, offset: SourceOffset, *, statements: int = 0) -> BatchProgress:
    commit_time = 1_700_000_000
    table = table_progress(
        "sb.t", inserts=5, updates=2, rows_written=7, seconds=0.2, position=offset.position, commit_time=commit_time,
        statements=statements, schema_changes=statements,
    )  # fmt: skip
    log = replace(table, mode="changelog", target="/lake/sb/t_log")
    return BatchProgress(
        batch_id=number, tables=(table, log), seconds=0.5, finished_at=commit_time + 1.5, bytes_behind=0,
        read_seconds=0.2, offset=offset,
    )  # fmt: skip


def test_what_a_batch_did_is_recorded(tmp_path: Path, edges: tuple[SourceOffset, SourceOffset]) -> None:
    first, last = edges
    job = job_for(tmp_path)
    with StatusRecorder(job) as recorder:
        recorder.goes_on_at(first)
        recorder.started()
        recorder.batch(progress(3, last, statements=1))
    state = StatusFile(job).read()
    assert state is not None
    (batch,) = state.batches
    assert (batch.number, batch.changes, batch.tables, batch.position) == (3, 7, 1, str(last.position))
    assert (batch.log_seconds, batch.read_seconds, batch.commit_seconds) == (1.0, 0.2, 0.3)
    assert batch.lag_seconds == 1.5
    assert batch.size is not None
    assert batch.size > 800_000
    assert batch.gtids.endswith(f" {last.gtid}")
    (table,) = state.tables
    assert (table.name, table.modes, table.changes) == ("sb.t", ("mirror", "changelog"), 7)
    assert (table.last_commit, table.last_batch, table.schema_changed_in) == (1_700_000_000, 3, 3)
    assert (state.phase, state.gtid, state.batches_total) == (Phase.ENDED, str(last.gtid), 1)


def test_what_a_job_remembers_of_its_tables_is_shown(tmp_path: Path, edges: tuple[SourceOffset, SourceOffset]) -> None:
    job = job_for(tmp_path)
    stopped = SetAside(database="sb", table="bad", position="0:1:2:3", gtid="0-1-9", reason="the log lacks a value")
    snapshot = PlannedSnapshot(database="sb", table="new", snapshot="u", purpose="p", rows=5, chunks=2)
    record = msgspec.structs.replace(
        JobRecord.of(job), tables=(("sb", "t"),), complete=(("sb", "t"),), incomplete=(("sb", "new"),),
        set_aside=(stopped,), snapshots=(snapshot,),
        verified=(proof("t", "mirror", 7), proof("t", "changelog", 5), proof("half", "mirror", 6)),
    )  # fmt: skip
    recorder = StatusRecorder(job)
    batch = progress(0, edges[1])
    half = replace(batch.tables[0], source_table="sb.half", mode="changelog")
    batch = replace(batch, tables=(*batch.tables, half, replace(half, mode="mirror", target="other")))
    waits = replace(batch, state_change=StateChange(waiting=frozenset({TableName("sb", "late")})))
    recorder.batch(waits, record)
    tables = {table.name: table for table in recorder.state().tables}
    assert tables["sb.t"].is_complete is True
    assert (tables["sb.bad"].set_aside, tables["sb.bad"].stopped_before) == ("the log lacks a value", "0-1-9")
    assert tables["sb.new"].snapshot is not None
    assert (tables["sb.new"].snapshot.rows, tables["sb.new"].is_complete) == (5, False)
    assert tables["sb.late"].waits_for_snapshot
    assert tables["sb.t"].verified_through == "0-1-5", "the oldest proof of its modes counts"
    assert tables["sb.half"].verified_through is None, "one of two modes was proved"


def test_counts_go_on_where_the_process_before_ended(tmp_path: Path, edges: tuple[SourceOffset, SourceOffset]) -> None:
    first, last = edges
    job = job_for(tmp_path)
    for number in range(2):
        with StatusRecorder(job) as recorder:
            recorder.goes_on_at(first)
            recorder.started()
            recorder.batch(progress(number, last))
    state = StatusFile(job).read()
    assert state is not None
    assert [batch.number for batch in state.batches] == [0, 1]
    assert (state.tables[0].changes, state.changes_total) == (14, 14)


def proof(table: str, mode: str, seqno: int) -> Verified:
    return Verified(database="sb", table=table, mode=mode, gtids=f"0-1-{seqno}", rows=1, commit_time=seqno)


def wait_for_file(folder: Path) -> None:
    """Until the recorder's thread has written its file, however long that takes."""
    deadline = time.monotonic() + 300
    while not (folder / "checkpoint" / STATUS_FILE).exists():
        assert time.monotonic() < deadline
        time.sleep(0.005)


class Broken(Exception):
    pass


@pytest.mark.parametrize(
    ("error", "phase"),
    [
        (None, Phase.ENDED),
        (KeyboardInterrupt(), Phase.STOPPED),
        (Broken("it broke"), Phase.FAILED),
        (StorageError("NO_SPACE", "/lake: no space left", hint="Make room"), Phase.FAILED),
    ],
)
def test_how_a_job_ended_is_recorded(
    error: BaseException | None, phase: Phase, tmp_path: Path, edges: tuple[SourceOffset, SourceOffset]
) -> None:
    job = job_for(tmp_path)

    def run() -> None:
        with StatusRecorder(job) as recorder:
            recorder.goes_on_at(edges[0])
            recorder.started()
            if error is not None:
                raise error

    if error is None:
        run()
    else:
        with pytest.raises(type(error)):
            run()
    status = view_of(job).status()
    assert status.phase is phase
    if phase is Phase.FAILED:
        assert status.verdict.level is Level.DANGER
        assert str(status.state.errors[-1].text) in status.verdict.text
    if isinstance(error, StorageError):
        assert status.state.errors[-1].hint == "Make room"
        assert "Make room" not in status.state.errors[-1].text


def test_a_killed_job_does_not_run(tmp_path: Path, edges: tuple[SourceOffset, SourceOffset]) -> None:
    job = job_for(tmp_path)

    def run() -> None:
        recorder = StatusRecorder(job)
        recorder.goes_on_at(edges[0])
        recorder.started()
        wait_for_file(tmp_path)
        os.kill(os.getpid(), signal.SIGKILL)

    assert in_a_process(run) == -signal.SIGKILL
    status = view_of(job).status()
    assert (status.phase, status.verdict.level) == (Phase.LOST, Level.DANGER)
    assert status.verdict.text.startswith("Not running, no sign of life since ")


def test_a_job_without_a_sign_of_life_does_not_run(tmp_path: Path, edges: tuple[SourceOffset, SourceOffset]) -> None:
    recorder = StatusRecorder(job_for(tmp_path))
    recorder.progress.consumed = None
    state = recorder.state()
    elsewhere = replace(state, process=replace(state.process, pid=2**22 + 1, space="another machine"))
    assert phase_of(elsewhere, state.seen_at + SILENT_SECONDS - 1) is Phase.STARTING
    assert phase_of(elsewhere, state.seen_at + SILENT_SECONDS + 1) is Phase.LOST


def test_a_start_that_fails_does_not_hide_a_job_that_runs(
    tmp_path: Path, edges: tuple[SourceOffset, SourceOffset]
) -> None:
    job = job_for(tmp_path)

    def fail_to_start() -> None:
        with pytest.raises(OptionError), StatusRecorder(job):
            raise OptionError("INVALID_VALUE", "another job has this checkpoint")

    fail_to_start()
    assert StatusFile(job).read() is None, "a job that never ran leaves nothing behind"
    with StatusRecorder(job) as running:
        running.goes_on_at(edges[0])
        running.started()
        wait_for_file(tmp_path)
        fail_to_start()
        recorded = StatusFile(job).read()
        assert recorded is not None
        assert recorded.phase is Phase.RUNNING
    fail_to_start()
    recorded = StatusFile(job).read()
    assert recorded is not None
    assert (recorded.phase, recorded.offset) == (Phase.FAILED, running.state().offset)
    assert "another job" in recorded.errors[-1].text


def test_a_full_disk_does_not_end_the_job(
    tmp_path: Path, edges: tuple[SourceOffset, SourceOffset], caplog: pytest.LogCaptureFixture
) -> None:
    job = job_for(tmp_path)
    with files_up_to(10), StatusRecorder(job) as recorder:
        recorder.goes_on_at(edges[0])
        recorder.started()
        recorder.batch(progress(0, edges[1]))
    assert "the state of the job cannot be recorded; the job goes on" in caplog.text
    assert StatusFile(job).read() is None


def test_a_damaged_file_is_named_and_does_not_keep_a_job_from_starting(
    tmp_path: Path, edges: tuple[SourceOffset, SourceOffset], caplog: pytest.LogCaptureFixture
) -> None:
    job = job_for(tmp_path)
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / STATUS_FILE).write_text('{"name": 1}')
    with pytest.raises(OptionError, match="not the state of a job"):
        view_of(job).status()
    with StatusRecorder(job) as recorder:
        recorder.goes_on_at(edges[0])
        recorder.started()
    assert "what was recorded of the job is not used" in caplog.text
    assert view_of(job).status().phase is Phase.ENDED


def test_a_job_that_recorded_nothing_has_no_status(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match="the job has recorded nothing yet"):
        view_of(job_for(tmp_path)).status()


def recorded(job: Job, offset: SourceOffset) -> None:
    with StatusRecorder(job) as recorder:
        recorder.goes_on_at(offset)
        recorder.started()


def test_lag_and_purging_are_measured_after_the_end_of_the_job_too(
    tmp_path: Path, edges: tuple[SourceOffset, SourceOffset]
) -> None:
    first, last = edges
    job = msgspec.structs.replace(job_for(tmp_path), status=Status(purge_after="2d"))
    recorded(job, first)
    log = view_of(job).status().log
    assert log is not None
    assert log.problem is None
    assert log.size > 800_000
    assert log.transactions > 0
    assert log.waiting_seconds is not None
    assert log.waiting_seconds > 0
    recorded(job, last)
    log = view_of(job).status().log
    assert log is not None
    assert (log.size, log.waiting_seconds) == (0, 0.0)
    # The newest file is never purged: it stays as long as the server keeps one after its last write.
    assert log.purge.left_seconds == pytest.approx(2 * 86_400, abs=60)


def test_a_place_that_is_gone_is_danger(tmp_path: Path, edges: tuple[SourceOffset, SourceOffset]) -> None:
    job = job_for(tmp_path)
    recorded(job, replace(edges[0], position=Position(0, 0, 0), format=""))
    status = view_of(job).status()
    assert status.log is not None
    assert status.log.purge.risk == "gone", status
    assert status.verdict.level is Level.DANGER


def test_a_batch_that_ends_before_the_start_is_told_counts(
    tmp_path: Path, edges: tuple[SourceOffset, SourceOffset]
) -> None:
    """Spark's threads do not wait for whoever started it."""
    first, last = edges
    with StatusRecorder(job_for(tmp_path)) as recorder:
        recorder.goes_on_at(first)
        recorder.batch(progress(0, last))
        recorder.started()
    assert recorder.state().position == str(last.position)
    assert recorder.state().batches[0].size


def test_what_cannot_be_recorded_does_not_end_the_job(
    tmp_path: Path, edges: tuple[SourceOffset, SourceOffset], caplog: pytest.LogCaptureFixture
) -> None:
    mysql = replace(edges[1], gtid=parse_gtids("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-77"))
    with StatusRecorder(job_for(tmp_path)) as recorder:
        recorder.goes_on_at(edges[1])
        recorder.started()
        recorder.batch(replace(progress(0, mysql), tables=(None,)))  # type: ignore[arg-type]
        recorder.batch(progress(1, edges[1]))
    assert "a batch is missing in the recorded state; the job goes on" in caplog.text
    assert [one.number for one in recorder.state().batches] == [1]


def test_access_to_an_object_store_is_in_no_state(tmp_path: Path) -> None:
    job = job_for(tmp_path)
    job = msgspec.structs.replace(
        job,
        source=msgspec.structs.replace(job.source, path="s3://AKIA:hunter2@bucket/log?archive=s3://AKIA:hunter2@b/a"),
        sink=msgspec.structs.replace(job.sink, directory="s3://AKIA:hunter2@bucket/lake"),
    )
    recorder = StatusRecorder(job)
    recorder.started()
    error = Broken("cannot read s3://AKIA:hunter2@bucket/log/x")
    recorder.__exit__(Broken, error, None)
    shown = msgspec.json.encode(recorder.state())
    assert b"hunter2" not in shown
    assert b"AKIA" not in shown
    assert recorder.state().source == "s3://bucket/log?archive=s3://b/a"
