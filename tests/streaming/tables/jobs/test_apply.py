"""The steps of a batch, called one by one as a Spark task calls them: on a real log, without Spark."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from binlog_format import open_log
from binlog_format.errors import DataLossError, SchemaError, TableError
from binlog_streaming.job_state.progress import Outcome
from binlog_streaming.settings import Mode, TableRule
from binlog_streaming.tables.apply import apply_component
from tests.streaming.tables.batches import MIRROR, cut, plan, run, write
from tests.streaming.tables.oltp import CHANGES, IMAGES, OLTP, TABLES, mirror, play_changelog, truth

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from binlog_format.log.log import Log
    from binlog_streaming.plan.batch_plan import Component
    from tests.streaming.tables.batches import Range

CHANGELOG = TableRule(mode=Mode.CHANGELOG)


@pytest.fixture
def log() -> Iterator[Log]:
    with open_log(str(OLTP)) as opened:
        yield opened


def components(log: Log, batch: Range, rule: TableRule = MIRROR) -> dict[str, Component]:
    """The components of a batch, by their names."""
    return {component.name: component for component in plan(log, batch, (rule,)).components}


def versions(directory: Path) -> dict[str, int]:
    return {table: DeltaTable(str(directory / "sb" / table)).version() for table in TABLES}


@pytest.mark.parametrize("count", [1, 3, 20])
def test_mirror_equals_the_server(log: Log, tmp_path: Path, count: int) -> None:
    progress = [table for n, batch in enumerate(cut(log, count)) for table in write(log, batch, tmp_path, n)]
    # Events of one transaction may be in two parts of a batch, but no row is counted twice.
    assert sum(table.changes for table in progress) == CHANGES
    for name in TABLES:
        assert mirror(tmp_path, name) == truth(name)


def test_changelog_has_every_image_once_and_in_order(log: Log, tmp_path: Path) -> None:
    for batch_id, batch in enumerate(cut(log, 4)):
        write(log, batch, tmp_path, batch_id, (CHANGELOG,))
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
    first, second = cut(log, 2)
    write(log, first, tmp_path, 0, (rule,))
    second_run = run(tmp_path, 1, second[1])
    for component in list(components(log, second, rule).values())[:2]:
        apply_component(second_run, component, log)
    before = versions(tmp_path)
    outcomes = [table.outcome for table in write(log, second, tmp_path, 1, (rule,))]
    assert outcomes == [Outcome.REPEATED, Outcome.REPEATED, Outcome.WRITTEN, Outcome.WRITTEN]
    after = versions(tmp_path)
    assert {name for name in TABLES if after[name] == before[name]} == set(TABLES[:2])
    if rule is MIRROR:
        assert [mirror(tmp_path, name) for name in TABLES] == [truth(name) for name in TABLES]
    else:
        assert sum(DeltaTable(str(tmp_path / "sb" / name)).count() for name in TABLES) == IMAGES


def test_both_modes_from_one_reading(log: Log, tmp_path: Path) -> None:
    rule = TableRule(mode=(Mode.MIRROR, Mode.CHANGELOG), target="{mode}/{table}")
    (batch,) = cut(log, 1)
    progress = apply_component(run(tmp_path, 0, batch[1]), components(log, batch, rule)["sb.sbtest1"], log)
    assert [part.mode for part in progress] == ["mirror", "changelog"]
    assert DeltaTable(str(tmp_path / "mirror" / "sbtest1")).count() == len(truth("sbtest1"))
    assert DeltaTable(str(tmp_path / "changelog" / "sbtest1")).count() == progress[1].rows_written


def test_other_checkpoint_is_refused_and_nothing_is_written(log: Log, tmp_path: Path) -> None:
    (batch,) = cut(log, 1)
    write(log, batch, tmp_path, 0, (CHANGELOG,))
    with pytest.raises(TableError, match=r"OTHER_WRITER\] sb\.sbtest1: .*Bring back the checkpoint .* or delete"):
        write(log, batch, tmp_path, 0, (CHANGELOG,), query_id="q-2")
    assert DeltaTable(str(tmp_path / "sb" / "sbtest1")).version() == 1


def test_rewritten_log_is_refused_and_nothing_is_written(log: Log, tmp_path: Path) -> None:
    """What the index points to is not what was indexed."""
    (batch,) = cut(log, 1)
    copy = tmp_path / "log"
    copy.mkdir()
    content = bytearray((OLTP / "mysql-bin.000001").read_bytes())
    for byte in range(2000, len(content), 500):
        content[byte] ^= 1
    (copy / "mysql-bin.000001").write_bytes(content)
    with open_log(str(copy)) as changed:
        for name, component in components(log, batch).items():
            with pytest.raises(DataLossError, match=rf"PAGE_REWRITTEN\] table {name}: "):
                apply_component(run(tmp_path, 0, batch[1]), component, changed)
    assert not (tmp_path / "sb").exists()


def test_keys_that_are_no_columns_are_refused(log: Log, tmp_path: Path) -> None:
    (batch,) = cut(log, 1)
    with pytest.raises(SchemaError, match=r"NO_PRIMARY_KEY\] sb\.sbtest1: .*uuid.*Its columns are id, k, c, pad"):
        write(log, batch, tmp_path, 0, (TableRule(keys=("uuid",)),))
    assert not (tmp_path / "sb").exists()


def test_target_that_cannot_be_written_is_named(log: Log, tmp_path: Path) -> None:
    (tmp_path / "sb").write_text("a file, where the folder should be")
    (batch,) = cut(log, 1)
    with pytest.raises(TableError, match=r"WRITE_FAILED\] sb\.sbtest1: ") as caught:
        write(log, batch, tmp_path)
    assert "\n" not in str(caught.value)
