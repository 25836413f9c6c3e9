"""VIRTUAL columns that MariaDB logs before a row has its number: no target has such a value."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_lab.event_encoding.table_encoding import ColumnSpec
from tests.judge.running import mirror_of, run_once
from tests.judge.tables import read_targets
from tests.streaming.tables.shop import ShopLog
from tests.streaming.tables.statements.statement_stories import ID, wanted

if TYPE_CHECKING:
    from pathlib import Path

A, G = (ColumnSpec(name, "int", nullable=True) for name in "ag")
TABLE = wanted("t", ID, A, G)


def logged(folder: Path, expression: str, *, metadata: bool) -> Path:
    with ShopLog(folder / "log", metadata=metadata) as log:
        log.statement(f"CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, a INT, g INT AS ({expression}) VIRTUAL)")
        log.insert(TABLE, (1, 10, 10))
    return folder / "log"


@pytest.mark.parametrize("metadata", [True, False])
def test_values_computed_of_numbers_that_rows_get_later_are_named(tmp_path: Path, *, metadata: bool) -> None:
    end = run_once(mirror_of(logged(tmp_path, "id ^ a", metadata=metadata), tmp_path / "lake"))
    assert not end.crash, end.crash
    assert "[BINLOG_UNSUPPORTED.ROW_IMAGE] shop.t: g: generated columns" in end.error


@pytest.mark.parametrize("metadata", [True, False])
def test_they_are_computed_where_that_is_known(tmp_path: Path, *, metadata: bool) -> None:
    job = mirror_of(logged(tmp_path, "id + a", metadata=metadata), tmp_path / "lake")
    end = run_once(job)
    assert (end.error, end.crash) == ("", "")
    assert [row["g"] for row in read_targets(job.sink)["shop.t"].content.to_pylist()] == [11]


def test_values_count_from_where_another_definition_begins(tmp_path: Path) -> None:
    with ShopLog(tmp_path / "log") as log:
        log.statement("CREATE TABLE t (id INT PRIMARY KEY, a INT, g INT AS (id ^ a) VIRTUAL)")
        log.insert(TABLE, (1, 10, 11))
        log.statement("ALTER TABLE t COMMENT 'counted', MODIFY id INT AUTO_INCREMENT, ALGORITHM=INPLACE")
        log.insert(TABLE, (2, 10, 10))
        log.update(TABLE, ((1, 10, 11), (1, 20, 21)))
    job = mirror_of(tmp_path / "log", tmp_path / "lake", rule={"generated": "null", "rewritten": "null"})
    end = run_once(job)
    assert (end.error, end.crash) == ("", "")
    rows = read_targets(job.sink)["shop.t"].content.to_pylist()
    assert sorted((row["id"], row["a"], row["g"]) for row in rows) == [(1, 20, 21), (2, 10, None)]
