"""A real server under load: its log, repacked live, must lead to the rows that SELECT gives."""

from __future__ import annotations

import io
import threading
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from rich.console import Console

from binlog_format import open_log
from binlog_format.views.changefeed import ChangefeedView
from binlog_streaming.demo.comparison import final_rows
from binlog_streaming.demo.mariadb_source import MariaDbSource
from binlog_streaming.demo.state import DemoState
from binlog_streaming.demo.view import DemoView

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
    with MariaDbSource(tmp_path, seconds=2.0) as source:
        source.start(tmp_path / "log", state, view)
        before = state.snapshot().total_in_log
        source.go_on()
        assert state.written.wait(PATIENCE_S)
        source.check()
        truths = source.truths()
    now = state.snapshot()
    assert now.total_in_log > before + 500
    changes = 0
    with open_log(str(tmp_path / "log")) as log:
        for truth in truths:
            images = pa.Table.from_batches(list(ChangefeedView(table=truth.name).batches(log.committed_blocks())))
            counted = sum(kind.as_py() != "update_preimage" for kind in images.column("_change_type"))
            assert counted == now.in_log[truth.name]
            changes += counted
            order = [(name, "ascending") for name in truth.key]
            left = final_rows(images, truth.key).select(truth.rows.column_names)
            assert left.cast(truth.rows.schema).sort_by(order).equals(truth.rows.sort_by(order)), truth.name
    assert changes == now.total_in_log
