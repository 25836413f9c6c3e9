"""The workload's truth must be what its own log says, and the workload must hold what the demo claims to show."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from binlog_format import open_log
from binlog_format.gtid import Gtid
from binlog_format.innodb.writer.options import WriterOptions
from binlog_format.innodb.writer.server import BinlogWriter
from binlog_format.views.changefeed import ChangefeedView
from binlog_streaming.demo.actions import Begin, Commit, Rollback, RollbackTo, Statement
from binlog_streaming.demo.comparison import final_rows
from binlog_streaming.demo.recorder import Recorder
from binlog_streaming.demo.workload import BULK_SESSION, Workload

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_streaming.demo.actions import Action
    from binlog_streaming.demo.truth import TableTruth

CHANGES = 6000


def recorded(workload: Workload, directory: Path) -> list[Action]:
    actions = []
    with BinlogWriter(directory, WriterOptions(max_binlog_size=256 << 10, sync=False)) as writer:
        recorder = Recorder(writer, server_id=1, clock=lambda: 1_790_000_000)
        for action in workload.actions():
            recorder.record(action)
            actions.append(action)
    return actions


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Workload, list[Action]]:
    directory = tmp_path_factory.mktemp("log")
    workload = Workload(CHANGES, seed=7, first_gtid=Gtid(0, 1, 100))
    return directory, workload, recorded(workload, directory)


def images_in(directory: Path, truth: TableTruth) -> pa.Table:
    with open_log(str(directory)) as log:
        table = pa.Table.from_batches(list(ChangefeedView(table=truth.name).batches(log.committed_blocks())))
    assert truth.changes is not None
    return table.select(truth.changes.column_names)


def test_truth_is_what_the_log_says(log: tuple[Path, Workload, list[Action]]) -> None:
    """Every row image of every table in commit order, with its GTID; and these images leave the final rows."""
    directory, workload, _ = log
    for truth in workload.truths():
        images = images_in(directory, truth)
        assert images.equals(truth.changes), truth.name
        order = [(name, "ascending") for name in truth.key]
        left = final_rows(images, truth.key).select(truth.rows.column_names)
        assert left.sort_by(order).equals(truth.rows.sort_by(order)), truth.name


def test_log_holds_what_makes_it_hard(log: tuple[Path, Workload, list[Action]]) -> None:
    directory, workload, actions = log
    kinds = Counter(type(action) for action in actions)
    assert kinds[Rollback] > 10
    assert kinds[RollbackTo] > 10
    # Transactions interleave: another one begins while one is open.
    open_sessions: set[int] = set()
    most = 0
    for action in actions:
        if isinstance(action, Begin):
            open_sessions.add(action.session)
        elif isinstance(action, Commit | Rollback):
            open_sessions.discard(action.session)
        most = max(most, len(open_sessions))
    assert most > 3
    # Keys change, and large transactions go out of band, over file ends.
    moved = [
        action
        for action in actions
        if isinstance(action, Statement)
        and any(before and after and before[:2] != after[:2] for before, after in action.changes)
    ]
    assert moved
    large = [action for action in actions if isinstance(action, Commit) and action.session == BULK_SESSION]
    assert max(action.changes for action in large) > CHANGES // 10
    with open_log(str(directory)) as opened:
        assert max(block.groups["oob_records"].max() for block in opened.blocks() if len(block.groups)) > 1
        assert len(opened.files()) > 2
    assert workload.committed >= CHANGES


def test_failed_import_is_in_no_table(log: tuple[Path, Workload, list[Action]]) -> None:
    _, _, actions = log
    bulk = [type(action) for action in actions if getattr(action, "session", None) == BULK_SESSION]
    assert Rollback in bulk


def test_same_seed_does_the_same(tmp_path: Path) -> None:
    first, second = Workload(1500, seed=3), Workload(1500, seed=3)
    assert list(first.actions()) == list(second.actions())
    for one, other in zip(first.truths(), second.truths(), strict=True):
        assert one == other
    assert list(Workload(1500, seed=4).actions()) != list(Workload(1500, seed=3).actions())
