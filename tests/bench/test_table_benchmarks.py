"""The benchmarks of tables work on a part of their data, and prove the rows; what they leave is in shape."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pytest
from deltalake import DeltaTable

from bench.registry import chosen
from bench.tables import conversions, small_batches, target_limits
from bench.tables.first_commit import first_commit_seconds
from binlog_connector.schema.effects.conversion import Values
from binlog_streaming.lake.delta.maintenance import CHECKPOINT_EVERY
from binlog_streaming.lake.delta.target import DeltaTarget
from binlog_streaming.settings import Sink
from tests.bench.parts import part_of_data
from tests.connector.shop import Shop

if TYPE_CHECKING:
    from binlog_streaming.lake.change import Change
    from binlog_streaming.lake.commit_id import CommitId

LAST_BATCHES = {
    "lake.commit10k_ms": target_limits.COMMITS + 1,
    "lake.scan_ratio": target_limits.BATCHES,
    "lake.cascade.rows_per_cpu_s": 1,
}


SHARES = {
    **dict.fromkeys(LAST_BATCHES, 0.005),
    "lake.evidence.keys.ratio": 0.005,
    "lake.alter.rows_per_s": 0.001,
    "lake.small.delta_s": 0.02,
    "lake.small.iceberg_s": 0.02,
    "lake.delta_log.mb": 0.02,
    "lake.delta_log.scan_ratio": 0.02,
    "lake.delta_log.open_ms": 0.02,
}


@pytest.mark.parametrize("name", SHARES)
def test_it_gives_a_number(name: str) -> None:
    with part_of_data(SHARES[name]):
        assert chosen([name])[0].measure() != 0


def test_values_that_are_not_rounded_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conversions, "_conversion", lambda: Values)
    with part_of_data(0.001), pytest.raises(Exception, match=r"rescal|data loss|other values"):
        chosen(["lake.alter.rows_per_s"])[0].measure()


@pytest.mark.thorough
def test_2000_small_batches_leave_a_small_log_and_a_table_in_shape(tmp_path: Path) -> None:
    written = small_batches.many_batches(str(tmp_path))
    assert small_batches.log_bytes(written.uri) < 5_000_000
    assert len(DeltaTable(written.uri).file_uris()) <= 2
    small_batches.age(written.uri)
    small_batches.clean(written)
    assert small_batches.log_bytes(written.uri) < 500_000
    assert len(list(Path(written.uri, "_delta_log").glob("*.json"))) <= CHECKPOINT_EVERY + 1
    assert DeltaTable(written.uri).to_pyarrow_table().num_rows == small_batches.LOG_ROWS


@pytest.mark.parametrize("name", LAST_BATCHES)
def test_a_change_that_is_lost_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    merge = DeltaTarget.merge

    def merge_all_but_the_last(target: DeltaTarget, change: Change, commit_id: CommitId) -> int:
        return 0 if commit_id.batch_id == LAST_BATCHES[name] else merge(target, change, commit_id)

    monkeypatch.setattr(DeltaTarget, "merge", merge_all_but_the_last)
    with part_of_data(0.005), pytest.raises(AssertionError, match="holds other rows"):
        chosen([name])[0].measure()


def test_files_that_somebody_else_adds_have_statistics(tmp_path: Path) -> None:
    uri = str(tmp_path / "table")
    sink = Sink(directory=str(tmp_path))
    DeltaTarget.at(sink, uri).create(target_limits._rows(np.arange(0), 0).schema, target_limits._commit_id(0))
    target_limits._add_files(uri, 3)
    actions = DeltaTable(uri).get_add_actions(flatten=True)
    assert sorted(actions["min.id"].to_pylist()) == [0, 100, 200]
    assert sorted(actions["max.id"].to_pylist()) == [99, 199, 299]


@pytest.mark.thorough
@pytest.mark.spark
@pytest.mark.slow
def test_the_first_commit_is_measured(tmp_path: Path) -> None:
    with Shop(tmp_path / "log") as shop:
        shop.sell(10)
    assert first_commit_seconds(tmp_path / "log") > 0
