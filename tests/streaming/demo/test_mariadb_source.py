"""A real server under load: its log, repacked live, must lead to the rows that SELECT gives."""

from __future__ import annotations

import io
import threading
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from binlog_lab.demo.failures import DemoError
from binlog_lab.demo.mariadb import source as mariadb_source
from binlog_lab.demo.mariadb.load import BULK_ROWS
from binlog_lab.demo.mariadb.source import CONNECTIONS, MariaDbSource
from binlog_lab.demo.proof.comparison import compare_changelog
from binlog_lab.demo.run import DIRECTORY_VARIABLE, FORMAT_VARIABLE, compare_all, demo_job
from binlog_lab.demo.shop import ALTERATIONS
from binlog_lab.demo.state import DemoMarkKind, DemoState
from binlog_lab.demo.view import DemoView
from binlog_streaming.settings import Begin
from tests.servers import mariadb_server_in
from tests.streaming.demo.images import images_in
from tests.streaming.prove.proofs import held, overwrite
from tests.streaming.replay_runs import run

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.demo.reports import WriterReport

PATIENCE_S = 300.0
ROWS = 8000


class StateThatTells(DemoState):
    """Says when the log is complete."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def writer_reported(self, report: WriterReport) -> None:
        super().writer_reported(report)
        if report.is_done:
            self.written.set()


@pytest.mark.thorough
@pytest.mark.server
@pytest.mark.slow
def test_repacked_log_of_a_server_under_load_leads_to_what_select_gives(tmp_path: Path) -> None:
    view = DemoView(Console(file=io.StringIO()))
    state = StateThatTells()
    with MariaDbSource(tmp_path, rows=ROWS, seconds=4.0) as source:
        source.start(tmp_path / "log", state, view)
        before = state.snapshot().total_in_log
        source.go_on()
        assert state.written.wait(PATIENCE_S)
        source.check()
        expected_tables = source.expected_tables()
    now = state.snapshot()
    # The size does not depend on the machine: one transaction of each connection may come on top.
    assert before + ROWS <= now.total_in_log < before + ROWS + CONNECTIONS * BULK_ROWS
    assert [mark.text for mark in state.marks()] == [alteration.statement for alteration in ALTERATIONS]
    changes = 0
    for truth in expected_tables:
        images = images_in(tmp_path / "log", truth.name)
        counted = sum(kind.as_py() != "update_preimage" for kind in images.column("_change_type"))
        assert counted == now.in_log[truth.name]
        changes += counted
        comparison = compare_changelog(truth, images)
        assert comparison.is_equal, comparison
        assert comparison.got > 0
    assert changes == now.total_in_log
    customers = next(truth for truth in expected_tables if truth.name == "shop.customers")
    points = images_in(tmp_path / "log", customers.name).column("points")
    assert 0 < points.null_count < len(points), "there are changes from before and from behind"


@pytest.mark.thorough
@pytest.mark.server
@pytest.mark.slow
def test_tables_older_than_their_log_are_completed_and_proved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (DIRECTORY_VARIABLE, FORMAT_VARIABLE):
        monkeypatch.setenv(name, "")  # the demo sets these for the job file
    output = io.StringIO()
    view, state = DemoView(Console(file=output)), StateThatTells()
    job, place = demo_job(tmp_path, begin=Begin.SNAPSHOT)
    with MariaDbSource(tmp_path, rows=ROWS // 4, seconds=1.0, job_file=place.job_file) as source:
        assert source.begin is Begin.SNAPSHOT
        source.start(tmp_path / "log", state, view)
        run(job)  # its tables wait
        source.go_on()
        assert state.written.wait(PATIENCE_S)
        source.check()
        run(job)
        assert all(one.is_equal for one in compare_all(job, source.expected_tables()))
        assert source.prove(view), output.getvalue()
        rows = held(job, "mirror.shop.customers")
        overwrite(job, "mirror.shop.customers", rows.slice(1))
        assert not source.prove(view)
    assert "rows; the log begins after GTID 0-1-" in output.getvalue()
    begun, ended = (mark.text for mark in state.marks() if mark.kind is DemoMarkKind.SNAPSHOT)
    assert "under load" in begun
    assert "4 tables, " in ended
    assert "shop.customers (mirror): different through " in output.getvalue()


@pytest.mark.server
def test_a_log_that_does_not_come_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mariadb_server_in(tmp_path / "none")  # skips where there is no server
    monkeypatch.setattr(mariadb_source, "CATCH_UP_S", 0.0)  # no process is so fast
    told = r"STANDS_STILL\] the repacked log has no file within 0 s"
    with MariaDbSource(tmp_path, rows=1, seconds=1.0) as source, pytest.raises(DemoError, match=told):
        source.start(tmp_path / "log", DemoState(), DemoView(Console(file=io.StringIO())))
