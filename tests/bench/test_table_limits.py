"""What a run is compared with must end in the same tables."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from bench.logs.backlog import write_groups
from bench.logs.datasets import Form, write_log
from bench.tables.limits import append_seconds, changed_rows, merge_seconds
from binlog_format import open_log
from tests.streaming.tables.batches import cut, write

if TYPE_CHECKING:
    from pathlib import Path

TABLES = 2


@pytest.fixture(scope="module")
def mirrors(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    work = tmp_path_factory.mktemp("mirrors")
    write_log(work / "log", Form.INNODB, partial(write_groups, transactions=50, tables=TABLES, rows_per_table=1000))
    with open_log(str(work / "log")) as log:
        for number, batch in enumerate(cut(log, 4)):
            write(log, batch, work / "tables", number)
    return sorted((work / "tables" / "sbtest").iterdir())


def rows(folder: Path) -> list[dict[str, object]]:
    return sorted(pa.table(DeltaTable(folder).scan().read_all()).to_pylist(), key=lambda row: row["id"])


def test_a_merge_of_the_last_batch_gives_the_table(mirrors: list[Path], tmp_path: Path) -> None:
    assert merge_seconds(mirrors, tmp_path, "id") > 0
    for number, mirror in enumerate(mirrors):
        copy = tmp_path / f"merge-{number}"
        assert DeltaTable(copy).version() == 1
        assert rows(copy) == rows(mirror)


def test_an_append_of_all_rows_gives_the_table(mirrors: list[Path], tmp_path: Path) -> None:
    assert append_seconds(mirrors, tmp_path) > 0
    assert [rows(tmp_path / f"append-{number}") for number in range(TABLES)] == [rows(mirror) for mirror in mirrors]


def test_changed_rows_are_those_that_were_not_so_before() -> None:
    before = pa.table({"id": [1, 2], "k": [10, 20]})
    changed = changed_rows(before, pa.table({"id": [4, 2, 1], "k": [40, 21, 10]}), "id")
    assert changed.to_pydict() == {"id": [2, 4], "k": [21, 40]}
