"""The workload's truth must be what its own log says, and the workload must hold what the demo claims to show."""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from binlog_format import open_log
from binlog_format.gtids.gtid import Gtid
from binlog_lab.demo.actions import BeginAction, CommitAction, Ddl, RollbackAction, RollbackToAction, StatementAction
from binlog_lab.demo.live_writer import Recorder
from binlog_lab.demo.shop import ADD_POINTS, ALTERATIONS, TABLES
from binlog_lab.demo.workload import BULK_SESSION, Workload
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter
from tests.streaming.demo.images import images_in

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

    from binlog_lab.demo.actions import Action
    from binlog_lab.demo.proof.expected_rows import ExpectedTable

    Row = tuple[object, ...]

CHANGES = 6000
FIRST_SECOND = 1_790_000_000


@dataclass(frozen=True, slots=True)
class Recording:
    """A log, what was done for it, and what must come of it."""

    directory: Path
    workload: Workload
    actions: list[Action]
    expected_tables: list[ExpectedTable]


def recorded(workload: Workload, directory: Path) -> Recording:
    actions = []
    seconds = itertools.count(FIRST_SECOND * 20)
    with BinlogWriter(directory, WriterOptions(max_binlog_size=256 << 10, sync=False)) as writer:
        recorder = Recorder(writer, server_id=1, clock=lambda: next(seconds) / 20)
        for action in workload.actions():
            recorder.record(action)
            actions.append(action)
    return Recording(directory, workload, actions, workload.expected_tables(recorder.committed_at))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    workload = Workload(CHANGES, seed=7, first_gtid=Gtid(0, 1, 100), alterations=ALTERATIONS)
    return recorded(workload, tmp_path_factory.mktemp("log"))


def played(images: pa.Table, truth: ExpectedTable) -> tuple[dict[Row, Row], list[tuple[Row, object, object]]]:
    """The rows that images leave, and all versions on the way; done by hand, row by row, with the alterations."""
    assert truth.versions is not None
    rows: dict[Row, Row] = {}
    versions: list[list[object]] = []
    current: dict[Row, int] = {}
    for image in images.to_pylist():
        # A row has been given the defaults, and other names, by the time that all is done.
        whole = dict(image)
        for name, value in ADD_POINTS.added.items():
            if name in truth.rows.column_names and image[name] is None:
                whole[name] = value
        if "rebate" in truth.rows.column_names:
            whole["rebate"] = image["rebate"] if image["rebate"] is not None else image["discount"]
        row = tuple(whole[name] for name in truth.rows.column_names)
        key = tuple(image[name] for name in truth.key)
        when = image["_commit_timestamp"]
        if image["_change_type"] in ("delete", "update_preimage"):
            assert rows.pop(key) == row
            versions[current.pop(key)][2] = when
        else:
            rows[key] = row
            current[key] = len(versions)
            versions.append([row, when, None])
    return rows, [(one[0], one[1], one[2]) for one in versions]  # type: ignore[misc]


def test_truth_is_what_the_log_says(log: Recording) -> None:
    """Every row image of every table in commit order, with its GTID, under the columns of its time."""
    for truth in log.expected_tables:
        assert truth.changes is not None
        images = images_in(log.directory, truth.name).select(truth.changes.column_names)
        assert images.equals(truth.changes), truth.name


def test_rows_and_versions_are_what_a_replay_of_the_log_gives(log: Recording) -> None:
    for truth in log.expected_tables:
        rows, versions = played(images_in(log.directory, truth.name), truth)
        expected = [tuple(row.values()) for row in truth.rows.to_pylist()]
        assert sorted(rows.values(), key=repr) == sorted(expected, key=repr), truth.name
        assert truth.versions is not None
        columns = len(truth.rows.column_names)
        told = [tuple(row.values()) for row in truth.versions.to_pylist()]
        assert [(row[:columns], row[columns], row[columns + 1]) for row in told] == versions, truth.name
        assert all(row[-1] == (row[-2] is None) for row in told)
        assert len({row[columns] for row in told}) > 3, "versions of several seconds"


def test_tables_are_altered_under_load(log: Recording) -> None:
    """Each ALTER waits for the transactions that use its table, and for no others; rows of both layouts are there."""
    done = [action.sql for action in log.actions if isinstance(action, Ddl) and action.brief]
    assert done == [alteration.statement for alteration in ALTERATIONS]
    open_tables: dict[int, set[str]] = {}
    crossed = 0
    for action in log.actions:
        if isinstance(action, StatementAction):
            open_tables.setdefault(action.session, set()).add(action.spec.table)
        elif isinstance(action, CommitAction | RollbackAction):
            open_tables.pop(action.session, None)
        elif isinstance(action, Ddl) and action.brief:
            (table,) = {one.after.table for one in ALTERATIONS if one.statement == action.sql}
            assert not any(table in tables for tables in open_tables.values())
            crossed += len(open_tables)
    assert crossed, "transactions that are open while another table is altered"
    customers, orders, lines, _ = log.expected_tables
    assert customers.changes is not None
    assert 0 < customers.changes["points"].null_count < customers.changes.num_rows
    assert set(customers.rows["channel"].to_pylist()) > {"café"}
    assert orders.changes is not None
    for name in ("discount", "rebate"):
        assert orders.changes[name].null_count < orders.changes.num_rows
    assert "discount" not in orders.rows.column_names
    assert max(lines.rows["quantity"].to_pylist()) > 1 << 32


def test_without_alterations_tables_stay_as_they_are(tmp_path: Path) -> None:
    recording = recorded(Workload(1000), tmp_path)
    assert [truth.rows.column_names for truth in recording.expected_tables] == [
        [column.name for column in spec.columns] for spec in TABLES
    ]
    assert not any(isinstance(action, Ddl) and action.brief for action in recording.actions)


def test_log_holds_what_makes_it_hard(log: Recording) -> None:
    actions = log.actions
    kinds = Counter(type(action) for action in actions)
    assert kinds[RollbackAction] > 10
    assert kinds[RollbackToAction] > 10
    # Transactions interleave: another one begins while one is open.
    open_sessions: set[int] = set()
    most = 0
    for action in actions:
        if isinstance(action, BeginAction):
            open_sessions.add(action.session)
        elif isinstance(action, CommitAction | RollbackAction):
            open_sessions.discard(action.session)
        most = max(most, len(open_sessions))
    assert most > 3
    # Keys change, and large transactions go out of band, over file ends.
    moved = [
        action
        for action in actions
        if isinstance(action, StatementAction)
        and any(before and after and before[:2] != after[:2] for before, after in action.changes)
    ]
    assert moved
    large = [action for action in actions if isinstance(action, CommitAction) and action.session == BULK_SESSION]
    assert max(action.changes for action in large) > CHANGES // 10
    with open_log(str(log.directory)) as opened:
        assert max(block.groups["oob_records"].max() for block in opened.blocks() if len(block.groups)) > 1
        assert len(opened.files()) > 2
    assert log.workload.committed >= CHANGES


def test_failed_import_is_in_no_table(log: Recording) -> None:
    bulk = [type(action) for action in log.actions if getattr(action, "session", None) == BULK_SESSION]
    assert RollbackAction in bulk


def test_same_seed_does_the_same() -> None:
    first, second = (Workload(1500, seed=3, alterations=ALTERATIONS) for _ in range(2))
    assert list(first.actions()) == list(second.actions())
    assert list(Workload(1500, seed=4).actions()) != list(Workload(1500, seed=3).actions())
