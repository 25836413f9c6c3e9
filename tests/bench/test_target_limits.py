"""The benchmarks of a target by itself work on a part of their data, and prove its rows."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pytest
from deltalake import DeltaTable

from bench.registry import chosen, set_share
from bench.tables import target_limits
from bench.tables.first_commit import first_commit_seconds
from binlog_streaming.lake.delta.target import DeltaTarget
from binlog_streaming.settings import Sink
from tests.connector.shop import Shop

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from binlog_streaming.lake.change import Change
    from binlog_streaming.lake.commit_id import CommitId

LAST_BATCHES = {
    "lake.commit10k_ms": target_limits.COMMITS + 1,
    "lake.scan_ratio": target_limits.BATCHES,
    "lake.cascade.rows_per_cpu_s": 1,
}


@pytest.fixture(autouse=True)
def small() -> Iterator[None]:
    set_share(0.005)
    yield
    set_share(1.0)


@pytest.mark.parametrize("name", LAST_BATCHES)
def test_it_gives_a_number(name: str) -> None:
    assert chosen([name])[0].measure() > 0


@pytest.mark.parametrize("name", LAST_BATCHES)
def test_a_change_that_is_lost_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    merge = DeltaTarget.merge

    def merge_all_but_the_last(target: DeltaTarget, change: Change, commit_id: CommitId) -> int:
        return 0 if commit_id.batch_id == LAST_BATCHES[name] else merge(target, change, commit_id)

    monkeypatch.setattr(DeltaTarget, "merge", merge_all_but_the_last)
    with pytest.raises(AssertionError, match="holds other rows"):
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
