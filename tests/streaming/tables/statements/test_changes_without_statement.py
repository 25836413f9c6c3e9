"""Columns that a table loses by a statement that its log lacks (`sql_log_bin = 0`, `binlog_do_db`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_lab.event_encoding.table_encoding import ColumnSpec
from binlog_streaming.lake.commit_id import DROPPED_COLUMNS_PROPERTY, split_keys
from tests.judge.running import mirror_of, run_once
from tests.judge.tables import read_targets
from tests.streaming.tables.shop import ShopLog
from tests.streaming.tables.statements.statement_stories import ID, wanted

if TYPE_CHECKING:
    from pathlib import Path

A, B = ColumnSpec("a", "int", nullable=True), ColumnSpec("b", "int", nullable=True)
BEFORE, AFTER = wanted("t", ID, A, B), wanted("t", ID, A)


def begin(log: ShopLog) -> None:
    log.statement("CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT)")
    log.insert(BEFORE, (1, 5, 3))


def kept(folder: Path) -> list[dict[str, object]]:
    """Rows of table `t` after a run of the job, without columns that it does not have any more."""
    job = mirror_of(folder / "log", folder / "lake")
    end = run_once(job)
    assert end.crash + end.error == ""
    target = read_targets(job.sink)["shop.t"]
    gone = split_keys(target.properties.get(DROPPED_COLUMNS_PROPERTY, ""))
    rows = sorted(target.content.to_pylist(), key=str)
    return [{name: value for name, value in row.items() if name not in gone} for row in rows]


@pytest.mark.parametrize("runs_before", [True, False])
def test_column_that_rows_lack_is_dropped_and_takes_new_values_when_it_is_added_again(
    tmp_path: Path, *, runs_before: bool
) -> None:
    with ShopLog(tmp_path / "log") as log:
        begin(log)
        if runs_before:
            assert kept(tmp_path) == [{"id": 1, "a": 5, "b": 3}]
        log.insert(AFTER, (2, 6))
        assert kept(tmp_path) == [{"id": 1, "a": 5}, {"id": 2, "a": 6}]
        log.statement("ALTER TABLE t ADD COLUMN b INT DEFAULT 7")
        log.insert(BEFORE, (3, 1, 2))
        assert kept(tmp_path) == [{"id": 1, "a": 5, "b": 7}, {"id": 2, "a": 6, "b": 7}, {"id": 3, "a": 1, "b": 2}]


def test_statement_that_adds_a_column_proves_that_it_was_gone(tmp_path: Path) -> None:
    with ShopLog(tmp_path / "log") as log:
        begin(log)
        log.statement("ALTER TABLE t ADD COLUMN b INT DEFAULT 7")
        log.insert(BEFORE, (2, 6, 2))
        assert kept(tmp_path) == [{"id": 1, "a": 5, "b": 7}, {"id": 2, "a": 6, "b": 2}]


def test_values_of_a_column_that_is_added_again_are_unknown_if_the_server_computed_them(tmp_path: Path) -> None:
    with ShopLog(tmp_path / "log") as log:
        begin(log)
        log.statement("ALTER TABLE t ADD COLUMN b INT DEFAULT (RAND() * 10)")
        log.insert(BEFORE, (2, 6, 2))
    assert "SCHEMA_CHANGED] shop.t: column b is new" in run_once(mirror_of(tmp_path / "log", tmp_path / "lake")).error
