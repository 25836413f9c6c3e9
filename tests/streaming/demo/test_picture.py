"""The picture of the demo: a file of the right kind and size, whatever there is to draw."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pytest

from binlog_lab.demo.picture import DOTS_PER_INCH, SIZE_INCHES, draw_picture
from binlog_lab.demo.reports import AlterationReport, DemoJobReport, WriterReport
from binlog_lab.demo.state import DemoState

if TYPE_CHECKING:
    from pathlib import Path

PNG_HEAD = struct.Struct(">8s4x4sII")
EXPECTED = (b"\x89PNG\r\n\x1a\n", b"IHDR", *(int(inches * DOTS_PER_INCH) for inches in SIZE_INCHES))


def whole_run() -> DemoState:
    state = DemoState()
    state.go_live()
    start = state.live_since
    alterations = [
        AlterationReport(at=start + at, statement="ALTER TABLE ...", brief=brief)
        for at, brief in ((3.0, "a ADD x"), (6.0, "b RENAME COLUMN"), (6.1, "c MODIFY to BIGINT"))
    ]
    for number in range(1, 9):
        changes = {"d.a": 1000 * number}
        state.writer_reported(WriterReport(changes=changes, last_gtid="0-1-1", alterations=tuple(alterations)))
        finished_at = start + 1.5 * number
        if number == 6:
            state.was_killed(6, "kill -9")
            state.was_restarted("up again")
        state.job_reported(
            DemoJobReport(
                event="batch", batch_id=number, changes=1000, seconds=1.0, lag_seconds=1.2, finished_at=finished_at
            )
        )
    return state


def live_without_batches() -> DemoState:
    state = DemoState()
    state.go_live()
    return state


@pytest.mark.parametrize("state", [whole_run(), live_without_batches()], ids=["a whole run", "no batch"])
def test_picture_is_a_png_of_its_size(tmp_path: Path, state: DemoState) -> None:
    target = tmp_path / "demo.png"
    draw_picture(state, "live workload, Delta tables", target)
    assert PNG_HEAD.unpack_from(target.read_bytes()) == EXPECTED
