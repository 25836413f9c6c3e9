"""The decoder that ours is measured against gives the same rows."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from bench.logs.datasets import Form, write_log
from bench.logs.sysbench_log import write_groups
from bench.per_row_decoder import changed_rows
from binlog_format import open_log
from binlog_format.views.changes import ChangesView

if TYPE_CHECKING:
    from pathlib import Path


def test_it_gives_the_rows_of_the_view(tmp_path: Path) -> None:
    write_log(tmp_path, Form.INNODB, partial(write_groups, transactions=200, tables=1, rows_per_table=50))
    with open_log(str(tmp_path)) as log:
        batches = ChangesView(table="sbtest.sbtest1").batches(log.committed_blocks())
        expected = [_given(row) for batch in batches for row in batch.to_pylist()]
        names = ("id", "k", "c", "pad")
        assert [row for block in log.committed_blocks() for row in changed_rows(block, names)] == expected
    assert len(expected) == 4 * 200 + 50


def _given(row: dict[str, object]) -> tuple[object, ...]:
    position = row.pop("position")
    assert isinstance(position, dict)
    return tuple(position.values()), *row.values()
