"""A column that became smaller by a statement that the log lacks: `SET sql_log_bin = 0`, or a filter of databases."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from binlog_connector.crash_points import watched
from binlog_connector.schema.history import SchemaHistory
from binlog_format import open_log
from binlog_format.errors import SchemaError
from binlog_format.rows.decoding import Decoding
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_streaming.lake.commit_id import TYPES_PROPERTY
from binlog_streaming.settings import Mode, TableRule
from tests.faults.processes import Cut, CutOff
from tests.streaming.tables import batches
from tests.streaming.tables.batches import cut
from tests.streaming.tables.lake.memory_target import MemoryTargets
from tests.streaming.tables.shop import ShopLog

if TYPE_CHECKING:
    from pathlib import Path

    from tests.streaming.tables.lake.memory_target import MemoryTable

together = pytest.mark.parametrize("together", [True, False], ids=["in a batch", "between batches"])


def orders(sql_type: str, charset: str = "utf8mb4", *, nullable: bool = True) -> TableSpec:
    column = ColumnSpec("c", sql_type, nullable, charset)
    return TableSpec("shop", "orders", (ColumnSpec("id", "int"), column), ("id",))


def written(folder: Path, *, together: bool, rule: TableRule | None = None, cut_off: int = 0) -> MemoryTable:
    """The target of all batches, each of which is done again after it is cut off at a step."""
    targets = MemoryTargets()
    with open_log(str(folder)) as log:
        for number, batch in enumerate(cut(log, 1 if together else 100)):
            with suppress(Cut), watched(CutOff(cut_off)):
                batches.write(log, batch, "", number, (rule or TableRule(),), targets=targets)
            batches.write(log, batch, "", number, (rule or TableRule(),), targets=targets)
    (table,) = targets.tables.values()
    return table


LESS: dict[str, tuple[TableSpec, TableSpec, int | str]] = {
    "an integer": (orders("int"), orders("tinyint"), 5),
    "a sign": (orders("int"), orders("int unsigned"), 5),
    "letters": (orders("varchar(20)"), orders("varchar(3)"), "abc"),
    "a character set": (orders("varchar(20)"), orders("varchar(20)", "latin1"), "abc"),
    "labels": (orders("enum('a','b')"), orders("enum('a')"), "a"),
    "null": (orders("int"), orders("int", nullable=False), 5),
}


@together
@pytest.mark.parametrize("what", LESS)
def test_existing_rows_may_have_lost_values(tmp_path: Path, what: str, together: bool) -> None:
    before, after, value = LESS[what]
    with ShopLog(tmp_path) as log:
        log.insert(before, (1, value))
        log.insert(after, (2, value))
    with pytest.raises(
        SchemaError, match=r"SCHEMA_CHANGED\] shop\.orders: column c was .* and the log lacks the state"
    ):
        written(tmp_path, together=together)
    assert len(written(tmp_path, together=together, rule=TableRule(mode=Mode.CHANGELOG)).rows) == 2


@together
def test_a_larger_column_keeps_values_and_is_remembered(tmp_path: Path, together: bool) -> None:
    small, large = orders("int"), orders("bigint")
    with ShopLog(tmp_path) as log:
        log.insert(small, (1, 5))
        log.insert(large, (2, 2**40))
    table = written(tmp_path, together=together)
    assert [row["c"] for row in table.rows] == [5, 2**40]
    assert '"bigint"' in table.properties[TYPES_PROPERTY]
    with ShopLog(tmp_path, first=10) as log:
        log.insert(small, (3, 6))
    with pytest.raises(SchemaError, match="column c was bigint and is int now"):
        written(tmp_path, together=together)


@together
def test_a_statement_in_the_log_says_what_existing_rows_hold(tmp_path: Path, together: bool) -> None:
    with ShopLog(tmp_path) as log:
        log.statement("CREATE TABLE orders (id INT PRIMARY KEY, c INT)")
        log.insert(orders("int"), (1, 5))
        log.statement("ALTER TABLE orders MODIFY c TINYINT")
        log.insert(orders("tinyint"), (2, 6))
    assert [row["c"] for row in written(tmp_path, together=together).rows] == [5, 6]


@together
def test_an_empty_target_takes_any_column(tmp_path: Path, together: bool) -> None:
    with ShopLog(tmp_path) as log:
        log.insert(orders("int"), (1, 5))
        log.statement("TRUNCATE TABLE orders")
        log.insert(orders("tinyint"), (2, 6))
    assert [row["c"] for row in written(tmp_path, together=together).rows] == [6]


@pytest.mark.parametrize("cut_off", range(1, 8))
def test_a_batch_that_is_done_again_compares_the_same_types(tmp_path: Path, cut_off: int) -> None:
    with ShopLog(tmp_path) as log:
        log.insert(orders("int"), (1, 5))
        log.insert(orders("bigint"), (2, 6))
        log.statement("ALTER TABLE orders MODIFY c INT")
        log.insert(orders("int"), (3, 7))
    table = written(tmp_path, together=True, cut_off=cut_off)
    assert [row["c"] for row in table.rows] == [5, 6, 7]
    assert '"int"' in table.properties[TYPES_PROPERTY]


def test_what_only_an_outer_join_makes_nullable_stays_as_it_was(tmp_path: Path) -> None:
    spec = orders("int", nullable=False)
    joined = TableSpec("shop", "orders", tuple(ColumnSpec(c.name, c.sql_type, True) for c in spec.columns), ("id",))
    with ShopLog(tmp_path) as log:
        log.insert(spec, (1, 5))
        log.update(joined, ((1, 5), (1, 6)))
        log.insert(spec, (2, 7))
    assert [row["c"] for row in written(tmp_path, together=False).rows] == [6, 7]


def test_table_maps_without_names_are_not_compared(tmp_path: Path) -> None:
    targets, schemas = MemoryTargets(), SchemaHistory()
    with ShopLog(tmp_path, metadata=False) as log:
        log.statement("CREATE TABLE orders (id INT PRIMARY KEY, c INT)")
        log.insert(orders("int"), (1, 5))
    with open_log(str(tmp_path)) as read:
        schemas.scan_ddl(read)
        batches.write(read, cut(read, 1)[0], "", targets=targets, decoding=Decoding(schemas))
    (table,) = targets.tables.values()
    assert TYPES_PROPERTY not in table.properties
    assert len(table.rows) == 1
