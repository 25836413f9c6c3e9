"""Filters that Spark hands over leave out nothing that its own evaluation would keep."""

from __future__ import annotations

import operator
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_connector.options.query_views import ALL_WANTED
from binlog_connector.options.source_options import SourceOptions, View
from binlog_connector.spark.batch_reader import BinlogBatchReader, FilteringBatchReader, wanted_by
from binlog_connector.spark.partitions import RangePartition
from binlog_connector.spark.source import BinlogDataSource
from binlog_format.position import Position
from tests.connector.shop import FIRST_SECOND, Shop
from tests.corpus import SERVER_CASES

pytest.importorskip("pyspark.sql.datasource", reason="PySpark")
datasource = pytest.importorskip("pyspark.sql.datasource")
if not hasattr(datasource, "EqualTo"):
    pytest.skip("PySpark 4.0 hands no filters to sources", allow_module_level=True)

from pyspark.sql.datasource import (  # noqa: E402
    EqualNullSafe,
    EqualTo,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql.datasource import Filter

    Row = dict[str, object]

OPS = str(SERVER_CASES / "mariadb-10.11" / "ops")
COMPARISONS: list[tuple[type[Filter], Callable[..., bool]]] = [
    (EqualTo, operator.eq),
    (EqualNullSafe, operator.eq),
    (GreaterThan, operator.gt),
    (GreaterThanOrEqual, operator.ge),
    (LessThan, operator.lt),
    (LessThanOrEqual, operator.le),
]


def reader_of(path: str, view: str, kind: type[BinlogBatchReader]) -> BinlogBatchReader:
    given_options = {"path": path, "view": view, "minPartitions": "4"}
    if view in ("changes", "changefeed"):
        given_options["failOnStatement"] = "false"  # there are some
    schema = BinlogDataSource(given_options).schema()
    return kind(SourceOptions.parse(given_options), schema)


def rows_of(reader: BinlogBatchReader) -> list[Row]:
    return [row for part in reader.partitions() for batch in reader.read(part) for row in batch.to_pylist()]


def value_at(row: Row, path: tuple[str, ...]) -> object:
    value: object = row
    for name in path:
        assert isinstance(value, dict)
        value = value[name]
    return value


def is_true(one: Filter, row: Row) -> bool:
    """As Spark evaluates it; null is not true."""
    if isinstance(one, Not):
        value = value_at(row, one.child.attribute)  # type: ignore[attr-defined]
        return value is not None and not is_true(one.child, row)
    value = value_at(row, one.attribute)  # type: ignore[attr-defined]
    if value is None:
        return isinstance(one, EqualNullSafe) and one.value is None
    if isinstance(one, IsNotNull):
        return True
    if isinstance(one, StringStartsWith):
        return str(value).startswith(one.value)
    if isinstance(one, In):
        return value in one.value
    compare = next(compare for kind, compare in COMPARISONS if kind is type(one))
    return one.value is not None and compare(value, one.value)  # type: ignore[attr-defined]


@pytest.fixture(scope="module")
def every() -> dict[str, list[Row]]:
    return {view: rows_of(reader_of(OPS, view, BinlogBatchReader)) for view in ("changes", "transactions", "events")}


PATHS = {
    "changes": [("database",), ("table",), ("op",), ("commit_time",), ("gtid",), ("row_no",)],
    "transactions": [("commit_time",), ("gtid",), ("inserts",)],
    "events": [("database",), ("table",), ("type",), ("time",), ("size",)],
}
POSITION = [("position", "file_no"), ("position", "page"), ("position", "chunk")]


def filters_on(rows: list[Row], view: str, data: st.DataObject) -> list[Filter]:
    found: list[Filter] = []
    for _ in range(data.draw(st.integers(1, 4))):
        path = data.draw(st.sampled_from(PATHS[view] + POSITION))
        values = [value for row in rows[::20] if (value := value_at(row, path)) is not None]
        value = data.draw(st.sampled_from(values))
        if isinstance(value, datetime):
            value += timedelta(microseconds=data.draw(st.sampled_from([0, 0, 1, -1])))
        kind = data.draw(st.sampled_from([*(kind for kind, _ in COMPARISONS), In, IsNotNull, Not]))
        if kind is In:
            found.append(In(path, (value, *data.draw(st.lists(st.sampled_from(values), max_size=2)))))
        elif kind is IsNotNull:
            found.append(IsNotNull(path))
        else:
            found.append(Not(EqualTo(path, value)) if kind is Not else kind(path, value))  # type: ignore[operator]
    return found


@pytest.mark.parametrize("view", ["changes", "transactions", "events"])
@given(data=st.data())
def test_rows_are_those_of_a_read_without_filters(every: dict[str, list[Row]], view: str, data: st.DataObject) -> None:
    filters = filters_on(every[view], view, data)
    reader = reader_of(OPS, view, FilteringBatchReader)
    assert isinstance(reader, FilteringBatchReader)
    assert list(reader.pushFilters(filters)) == filters, "Spark evaluates all of them too"
    found = [row for row in rows_of(reader) if all(is_true(one, row) for one in filters)]
    assert found == [row for row in every[view] if all(is_true(one, row) for one in filters)]


def test_files_before_and_after_a_position_are_not_read(tmp_path: Path) -> None:
    with Shop(tmp_path, files_of=8 * 16384) as shop:
        shop.sell(1000)
    reader = reader_of(str(tmp_path), "changes", FilteringBatchReader)
    assert isinstance(reader, FilteringBatchReader)
    reader.pushFilters([GreaterThan(("position", "file_no"), 1), LessThanOrEqual(("position", "file_no"), 2)])
    parts = [part for part in reader.partitions() if isinstance(part, RangePartition)]
    assert parts[0].start == Position(2, 0, 0)
    assert max(part.end for part in parts) <= Position(3, 2, 0)
    reader = reader_of(str(tmp_path), "changes", FilteringBatchReader)
    assert isinstance(reader, FilteringBatchReader)
    reader.pushFilters([EqualTo(("position", "file_no"), 1), GreaterThan(("position", "file_no"), 1)])
    assert rows_of(reader) == []


def test_filters_leave_only_what_is_asked_for() -> None:
    at = datetime.fromtimestamp(FIRST_SECOND, UTC)
    wanted = wanted_by(
        [
            EqualTo(("database",), "shop"),
            In(("table",), ("orders", "items")),
            EqualTo(("table",), "items"),
            In(("op",), ("insert", "ddl")),
            GreaterThan(("commit_time",), at),
            EqualTo(("position", "file_no"), 3),
            LessThan(("position", "page"), 7),
        ],
        View.CHANGES,
    )
    assert (wanted.databases, wanted.tables) == (frozenset({"shop"}), frozenset({"items"}))
    assert (wanted.ops, wanted.first_second, wanted.last_second) == (frozenset({"insert", "ddl"}), FIRST_SECOND, None)
    assert wanted.first == Position(3, 0, 0)
    assert wanted.last is not None
    assert (wanted.last.file_no, wanted.last.page) == (3, 6)


@pytest.mark.parametrize("view", list(View))
def test_columns_of_a_table_are_not_mistaken_for_the_log_s(view: View) -> None:
    """A typed view has the table's own columns, whatever they are called."""
    filters: list[Filter] = [EqualTo(("after", "table"), "x"), IsNotNull(("table",))]
    if view is View.CHANGEFEED:
        filters += [EqualTo(("op",), 5), EqualTo(("table",), "x"), EqualTo(("commit_time",), datetime.now(UTC))]
    assert wanted_by(filters, view) == ALL_WANTED
