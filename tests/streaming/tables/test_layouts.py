"""Tables whose layout changes in the log, or which lack something."""

from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from deltalake import DeltaTable

from binlog_format import open_log
from binlog_format.errors import SchemaError
from binlog_format.events.table_encoding import ColumnSpec, TableSpec
from binlog_format.rows.decoding import Decoding, TimeType
from binlog_streaming.settings import Mode, TableRule
from binlog_streaming.tables.apply import apply_table
from tests.streaming.tables.shop import ShopLog
from tests.streaming.tables.test_apply import batches, run

if TYPE_CHECKING:
    from pathlib import Path

ID, NAME, EMAIL = ColumnSpec("id", "int"), ColumnSpec("name", "varchar(20)"), ColumnSpec("email", "varchar(50)")
CUSTOMERS = TableSpec("shop", "customers", (ID, NAME), ("id",))


def write(log: Path, directory: Path, batch_id: int, rule: TableRule) -> None:
    """One batch of the whole log."""
    with open_log(str(log)) as opened:
        (batch,) = batches(opened, 1)
        for table in batch:
            apply_table(run(directory, batch_id), table, rule, opened)


def rows(directory: Path) -> list[tuple[object, ...]]:
    table = DeltaTable(str(directory / "shop" / "customers")).to_pyarrow_table()
    return sorted(tuple(row.values())[:2] for row in table.to_pylist())


def test_layouts_with_the_same_columns_are_one_table(tmp_path: Path) -> None:
    """A longer VARCHAR is another layout, but the same column for a reader; changes of both interleave."""
    longer = TableSpec("shop", "customers", (ID, ColumnSpec("name", "varchar(200)")), ("id",))
    with ShopLog(tmp_path / "log") as log:
        log.insert(CUSTOMERS, (1, "a"), (2, "b"))
        log.update(longer, ((1, "a"), (1, "c")))
        log.update(CUSTOMERS, ((1, "c"), (1, "d")), ((2, "b"), (3, "b")))
        log.delete(longer, (3, "b"))
        log.insert(longer, (2, "e"))
        log.update(CUSTOMERS, ((2, "e"), (2, "f")))
    write(tmp_path / "log", tmp_path, 0, TableRule())
    assert rows(tmp_path) == [(1, "d"), (2, "f")]


@pytest.mark.parametrize("mode", list(Mode))
def test_changed_columns_in_a_batch_are_refused_before_anything_is_written(tmp_path: Path, mode: Mode) -> None:
    with ShopLog(tmp_path / "log") as log:
        log.insert(CUSTOMERS, (1, "a"))
        log.insert(TableSpec("shop", "customers", (ID, NAME, EMAIL), ("id",)), (2, "b", "c"))
    with pytest.raises(SchemaError, match=r"SCHEMA_CHANGED\] shop\.customers: .*: email string is new"):
        write(tmp_path / "log", tmp_path, 0, TableRule(mode=mode))
    assert not (tmp_path / "shop").exists()


@pytest.mark.parametrize("mode", list(Mode))
def test_changed_columns_between_batches_are_refused(tmp_path: Path, mode: Mode) -> None:
    with ShopLog(tmp_path / "log") as log:
        log.insert(CUSTOMERS, (1, "a"))
    with ShopLog(tmp_path / "log2") as log:
        log.insert(TableSpec("shop", "customers", (ID, ColumnSpec("name", "int")), ("id",)), (2, 5))
    write(tmp_path / "log", tmp_path, 0, TableRule(mode=mode))
    with pytest.raises(SchemaError, match=r"SCHEMA_CHANGED\] shop\.customers: .*: name was string, now integer"):
        write(tmp_path / "log2", tmp_path, 1, TableRule(mode=mode))
    assert rows(tmp_path) == [(1, "a")]


def test_another_primary_key_in_a_batch_is_refused(tmp_path: Path) -> None:
    with ShopLog(tmp_path / "log") as log:
        log.insert(CUSTOMERS, (1, "a"))
        log.insert(TableSpec("shop", "customers", (ID, NAME), ("name",)), (2, "b"))
    with pytest.raises(SchemaError, match=r"SCHEMA_CHANGED\] shop\.customers: .*another primary key"):
        write(tmp_path / "log", tmp_path, 0, TableRule())


def test_table_without_primary_key_needs_keys_for_a_mirror(tmp_path: Path) -> None:
    spec = TableSpec("shop", "customers", (ID, NAME))
    with ShopLog(tmp_path / "log") as log:
        log.insert(spec, (1, "a"), (2, "b"))
        log.update(spec, ((1, "a"), (1, "c")))
    with pytest.raises(SchemaError, match=r"NO_PRIMARY_KEY\] shop\.customers: .*keys in \[\[tables\]\]"):
        write(tmp_path / "log", tmp_path, 0, TableRule())
    write(tmp_path / "log", tmp_path, 0, TableRule(keys=("id",)))
    assert rows(tmp_path) == [(1, "c"), (2, "b")]
    write(tmp_path / "log", tmp_path, 0, TableRule(mode=Mode.CHANGELOG, target="changes/{table}"))
    assert DeltaTable(str(tmp_path / "changes" / "customers")).count() == 4


def test_job_says_how_values_become_columns(tmp_path: Path) -> None:
    spec = TableSpec("shop", "customers", (ID, ColumnSpec("opens", "time")), ("id",))
    with ShopLog(tmp_path / "log") as log:
        log.insert(spec, (1, dt.timedelta(hours=-1, seconds=1)))
    micros = Decoding(time_type=TimeType.MICROS)
    for rule in (TableRule(), TableRule(mode=Mode.CHANGELOG, target="changes/{table}")):
        with open_log(str(tmp_path / "log")) as opened:
            (batch,) = batches(opened, 1)
            apply_table(replace(run(tmp_path, 0), decoding=micros), batch[0], rule, opened)
    assert rows(tmp_path) == [(1, -3_599_000_000)]
    assert DeltaTable(str(tmp_path / "changes" / "customers")).to_pyarrow_table().column("opens").to_pylist() == [
        -3_599_000_000
    ]
