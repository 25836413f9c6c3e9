"""What the demo knows of writer and job: a batch counts once, also when a crash makes it come twice."""

from __future__ import annotations

from binlog_lab.demo.reports import AlterationReport, DemoJobReport, DemoTargetReport, WriterReport
from binlog_lab.demo.state import DemoMarkKind, DemoState

FIRST = AlterationReport(at=100.0, statement="ALTER TABLE `d`.`a` ADD COLUMN `x` int", brief="a ADD x")
SECOND = AlterationReport(at=101.0, statement="ALTER TABLE `d`.`b` DROP COLUMN `y`", brief="b DROP y")


def batch(number: int, changes: int, *, finished_at: float = 0.0, lag: float = 1.0, repeated: int = 0) -> DemoJobReport:
    modes = ("mirror", "changelog", "scd2")
    return DemoJobReport(
        event="batch",
        batch_id=number,
        changes=changes,
        seconds=0.5,
        lag_seconds=lag,
        bytes_behind=10 * number,
        finished_at=finished_at,
        tables=tuple(
            DemoTargetReport(table="d.a", mode=mode, outcome="repeated" if i < repeated else "written", inserts=changes)
            for i, mode in enumerate(modes)
        ),
    )


def test_batch_that_comes_twice_counts_once() -> None:
    state = DemoState()
    for report in (batch(0, 5), batch(1, 7), batch(1, 7)):
        state.job_reported(report)
    now = state.snapshot()
    assert (now.applied, now.batches, now.bytes_behind) == ({"d.a": 12}, 2, 10)


def test_batch_that_was_cut_off_is_done_when_it_is_told_again() -> None:
    state = DemoState()
    state.job_reported(batch(3, 5))
    state.was_killed(4, "kill -9 in the middle of batch 4")
    state.was_restarted("up again")
    assert state.is_cut_off
    state.job_reported(DemoJobReport(event="started"))
    assert state.is_cut_off
    state.job_reported(batch(4, 9, finished_at=200.0, repeated=2))
    assert not state.is_cut_off
    marks = state.take_marks()
    assert [mark.kind for mark in marks] == [DemoMarkKind.KILLED, DemoMarkKind.RESTARTED, DemoMarkKind.REPEATED]
    assert marks[-1].text == "batch 4 again: 2 of 3 tables had all of it already"
    assert state.take_marks() == []


def test_each_alteration_is_told_once() -> None:
    state = DemoState()
    for alterations in ((), (FIRST,), (FIRST,), (FIRST, SECOND)):
        state.writer_reported(WriterReport(changes={"d.a": 1}, last_gtid="0-1-1", alterations=alterations))
    assert state.alteration_count == 2
    assert [(mark.at, mark.text) for mark in state.marks()] == [(one.at, one.statement) for one in (FIRST, SECOND)]


def test_lag_is_told_of_the_live_part_only() -> None:
    state = DemoState()
    state.live_since = 1000.0
    state.job_reported(batch(0, 5, finished_at=1001.0, lag=500.0))  # committed long before
    assert state.snapshot().lag_seconds is None
    state.job_reported(batch(1, 5, finished_at=1004.0, lag=2.5))
    assert state.lags() == [(1004.0, 2.5)]
    assert state.snapshot().lag_seconds == 2.5
