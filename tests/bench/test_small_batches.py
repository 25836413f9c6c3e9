"""Small batches: the benchmarks work on a part of their data, and a table of 2,000 small batches stays in shape."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from bench.registry import chosen, set_share
from bench.tables import small_batches
from binlog_streaming.lake.delta.maintenance import CHECKPOINT_EVERY

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def some_data() -> Iterator[None]:
    set_share(0.02)
    yield
    set_share(1.0)


@pytest.mark.usefixtures("some_data")
def test_they_give_numbers() -> None:
    for one in chosen(["lake.small.*", "lake.delta_log.*"]):
        assert one.measure() != 0, one.name


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
