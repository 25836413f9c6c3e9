"""The steps of a batch, called one by one as a Spark task calls them: on a real log, without Spark."""

from __future__ import annotations

import itertools
from collections import Counter
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from binlog_format import open_log
from binlog_format.errors import DataLossError, SchemaError, TableError
from binlog_format.views.tables import TablesView
from binlog_streaming.settings import Mode, Sink, TableRule
from binlog_streaming.tables.apply import BatchRun, TableBatch, apply_table
from binlog_streaming.tables.batch import table_batch
from binlog_streaming.tables.delta import DeltaTarget
from binlog_streaming.tables.progress import Outcome
from tests.streaming.tables.oltp import CHANGES, IMAGES, OLTP, TABLES, mirror, play_changelog, truth

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from binlog_format.log import Log
    from binlog_format.position import Position

MIRROR = TableRule()
CHANGELOG = TableRule(mode=Mode.CHANGELOG)


@pytest.fixture
def log() -> Iterator[Log]:
    with open_log(str(OLTP)) as opened:
        yield opened


def batches(log: Log, count: int) -> list[list[TableBatch]]:
    """The log in about *count* batches, each read in two partitions."""
    start = log.start_position()
    end = log.span(start).end
    edges = [start, *log.split(start, end, count), end]
    return [_batch(log, low, high) for low, high in itertools.pairwise(edges)]


def _batch(log: Log, start: Position, end: Position) -> list[TableBatch]:
    edges = [start, *log.split(start, end, 2), end]
    view = TablesView()
    rows = [
        row
        for low, high in itertools.pairwise(edges)
        for batch in view.batches(log.committed_blocks(low, high))
        for row in batch.to_pylist()
    ]
    names = sorted({(row["database"], row["table"]) for row in rows})
    # Partitions may come in any order.
    return [
        table_batch(*name, [row for row in reversed(rows) if (row["database"], row["table"]) == name]) for name in names
    ]


def run(directory: Path, batch_id: int, query_id: str = "q-1") -> BatchRun:
    return BatchRun(query_id=query_id, batch_id=batch_id, sink=Sink(directory=str(directory)))


def versions(directory: Path) -> dict[str, int]:
    return {table: DeltaTable(str(directory / "sb" / table)).version() for table in TABLES}


@pytest.mark.parametrize("count", [1, 3, 20])
def test_mirror_equals_the_server(log: Log, tmp_path: Path, count: int) -> None:
    changes = 0
    for batch_id, batch in enumerate(batches(log, count)):
        for table in batch:
            (progress,) = apply_table(run(tmp_path, batch_id), table, MIRROR, log)
            changes += progress.changes
    assert changes == CHANGES
    for name in TABLES:
        assert mirror(tmp_path, name) == truth(name)


def test_changelog_has_every_image_once_and_in_order(log: Log, tmp_path: Path) -> None:
    for batch_id, batch in enumerate(batches(log, 4)):
        for table in batch:
            apply_table(run(tmp_path, batch_id), table, CHANGELOG, log)
    kinds: Counter[str] = Counter()
    for name in TABLES:
        table = DeltaTable(str(tmp_path / "sb" / name)).to_pyarrow_table()
        assert table.column_names[:5] == ["id", "k", "c", "pad", "_change_type"]
        rows, played = play_changelog(tmp_path / "sb" / name)
        assert rows == truth(name)
        assert all(gtid.startswith("0-1011-") for gtid in table.column("_gtid").to_pylist())
        kinds.update(played)
    assert kinds == {"insert": 700, "delete": 300, "update_preimage": 600, "update_postimage": 600}
    assert kinds.total() == IMAGES


@pytest.mark.parametrize("rule", [MIRROR, CHANGELOG], ids=["mirror", "changelog"])
def test_crash_between_tables_then_the_same_batch_again(log: Log, tmp_path: Path, rule: TableRule) -> None:
    """The first two tables have the batch, the others not, and the checkpoint does not know of it."""
    first, second = batches(log, 2)
    for table in first:
        apply_table(run(tmp_path, 0), table, rule, log)
    for table in second[:2]:
        apply_table(run(tmp_path, 1), table, rule, log)
    before = versions(tmp_path)
    outcomes = [apply_table(run(tmp_path, 1), table, rule, log)[0].outcome for table in second]
    assert outcomes == [Outcome.REPEATED, Outcome.REPEATED, Outcome.WRITTEN, Outcome.WRITTEN]
    after = versions(tmp_path)
    assert {name for name in TABLES if after[name] == before[name]} == set(TABLES[:2])
    if rule is MIRROR:
        assert [mirror(tmp_path, name) for name in TABLES] == [truth(name) for name in TABLES]
    else:
        assert sum(DeltaTable(str(tmp_path / "sb" / name)).count() for name in TABLES) == IMAGES


def test_both_modes_from_one_reading(log: Log, tmp_path: Path) -> None:
    rule = TableRule(mode=(Mode.MIRROR, Mode.CHANGELOG), target="{mode}/{table}")
    (batch,) = batches(log, 1)
    progress = apply_table(run(tmp_path, 0), batch[0], rule, log)
    assert [part.mode for part in progress] == ["mirror", "changelog"]
    assert DeltaTable(str(tmp_path / "mirror" / "sbtest1")).count() == len(truth("sbtest1"))
    assert DeltaTable(str(tmp_path / "changelog" / "sbtest1")).count() == progress[1].rows_written


def test_other_checkpoint_is_refused_and_nothing_is_written(log: Log, tmp_path: Path) -> None:
    (batch,) = batches(log, 1)
    apply_table(run(tmp_path, 0), batch[0], CHANGELOG, log)
    with pytest.raises(TableError, match=r"OTHER_WRITER\] sb\.sbtest1: .*Bring back the checkpoint .* or delete"):
        apply_table(run(tmp_path, 0, query_id="q-2"), batch[0], CHANGELOG, log)
    assert DeltaTable(str(tmp_path / "sb" / "sbtest1")).version() == 1


def test_rewritten_log_is_refused_and_nothing_is_written(log: Log, tmp_path: Path) -> None:
    """What the index points to is not what was indexed."""
    (batch,) = batches(log, 1)
    copy = tmp_path / "log"
    copy.mkdir()
    content = bytearray((OLTP / "mysql-bin.000001").read_bytes())
    for byte in range(2000, len(content), 500):
        content[byte] ^= 1
    (copy / "mysql-bin.000001").write_bytes(content)
    with open_log(str(copy)) as changed:
        for table in batch:
            with pytest.raises(DataLossError, match=rf"PAGE_REWRITTEN\] table {table.name}: "):
                apply_table(run(tmp_path, 0), table, MIRROR, changed)
    assert not (tmp_path / "sb").exists()


def test_keys_that_are_no_columns_are_refused(log: Log, tmp_path: Path) -> None:
    (batch,) = batches(log, 1)
    with pytest.raises(SchemaError, match=r"NO_PRIMARY_KEY\] sb\.sbtest1: .*uuid.*Its columns are id, k, c, pad"):
        apply_table(run(tmp_path, 0), batch[0], TableRule(keys=("uuid",)), log)
    assert not (tmp_path / "sb").exists()


def test_conflict_is_looked_at_again(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A twin of this job commits the batch between the look and the write: then there is nothing left to do."""
    (batch,) = batches(log, 1)
    find = DeltaTarget.find
    twin_wrote: list[bool] = []

    def look_then_lose_time(uri: str, storage: dict[str, str], *, file_size: int) -> DeltaTarget:
        target = find(uri, storage, file_size=file_size)
        if not twin_wrote:
            twin_wrote.append(True)
            apply_table(run(tmp_path, 0), batch[0], CHANGELOG, log)
        return target

    monkeypatch.setattr(DeltaTarget, "find", look_then_lose_time)
    (progress,) = apply_table(run(tmp_path, 0), batch[0], CHANGELOG, log)
    assert progress.outcome is Outcome.REPEATED
    monkeypatch.undo()
    assert DeltaTable(str(tmp_path / "sb" / "sbtest1")).version() == 1


def test_target_that_cannot_be_written_is_named(log: Log, tmp_path: Path) -> None:
    (tmp_path / "sb").write_text("a file, where the folder should be")
    (batch,) = batches(log, 1)
    with pytest.raises(TableError, match=r"WRITE_FAILED\] sb\.sbtest1: ") as caught:
        apply_table(run(tmp_path, 0), batch[0], MIRROR, log)
    assert "\n" not in str(caught.value)
