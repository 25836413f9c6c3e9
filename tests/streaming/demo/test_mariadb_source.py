"""A real server under load: its log, repacked live, must lead to the rows that SELECT gives."""

from __future__ import annotations

import io
import threading
from typing import TYPE_CHECKING

import pytest
from rich.console import Console

from binlog_streaming.demo.alterations import ALTERATIONS
from binlog_streaming.demo.mariadb.source import MariaDbSource
from binlog_streaming.demo.proof.comparison import compare_changelog
from binlog_streaming.demo.state import DemoState
from binlog_streaming.demo.view import DemoView
from tests.streaming.demo.images import images_in

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_streaming.demo.reports import WriterReport

PATIENCE_S = 120.0


class StateThatTells(DemoState):
    """Says when the log is complete."""

    def __init__(self) -> None:
        super().__init__()
        self.written = threading.Event()

    def writer_said(self, report: WriterReport) -> None:
        super().writer_said(report)
        if report.is_done:
            self.written.set()


@pytest.mark.server
@pytest.mark.slow
def test_repacked_log_of_a_server_under_load_leads_to_what_select_gives(tmp_path: Path) -> None:
    view = DemoView(Console(file=io.StringIO()))
    state = StateThatTells()
    with MariaDbSource(tmp_path, seconds=4.0) as source:
        source.start(tmp_path / "log", state, view)
        before = state.snapshot().total_in_log
        source.go_on()
        assert state.written.wait(PATIENCE_S)
        source.check()
        truths = source.truths()
    now = state.snapshot()
    assert now.total_in_log > before + 500
    assert [mark.text for mark in state.marks()] == [alteration.statement for alteration in ALTERATIONS]
    changes = 0
    for truth in truths:
        images = images_in(tmp_path / "log", truth.name)
        counted = sum(kind.as_py() != "update_preimage" for kind in images.column("_change_type"))
        assert counted == now.in_log[truth.name]
        changes += counted
        comparison = compare_changelog(truth, images)
        assert comparison.is_equal, comparison
        assert comparison.got > 0
    assert changes == now.total_in_log
    customers = next(truth for truth in truths if truth.name == "shop.customers")
    points = images_in(tmp_path / "log", customers.name).column("points")
    assert 0 < points.null_count < len(points), "there are changes from before and from behind"
