"""Target tables are read as anybody would, and the lines that people are told do the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from binlog_format import open_log
from binlog_lab.demo.proof.targets import commits, read_target, reading_code
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_streaming.lake.iceberg.catalog import ensure_namespace, identifier, open_catalog
from binlog_streaming.settings import Merge, Mode, Sink, TableFormat, TableRule
from tests.streaming.tables import batches
from tests.streaming.tables.shop import ShopLog

if TYPE_CHECKING:
    from pathlib import Path

ORDERS = TableSpec("shop", "orders", (ColumnSpec("id", "int"), ColumnSpec("name", "varchar(20)")), ("id",))
ROWS = pa.table({"id": pa.array([1, 2], pa.int64()), "name": ["one", "two"]})


def write(sink: Sink, uri: str) -> None:
    if sink.format is TableFormat.DELTA:
        write_deltalake(uri, ROWS, mode="append")
        return
    catalog = open_catalog(sink)
    name = identifier(sink.directory, uri)
    ensure_namespace(catalog, sink.directory, name[:-1])
    catalog.create_table(name, ROWS.schema, location=uri).append(ROWS)
    catalog.close()


@pytest.mark.parametrize("table_format", [TableFormat.DELTA, TableFormat.ICEBERG])
def test_rows_are_read_and_commits_are_counted(tmp_path: Path, table_format: TableFormat) -> None:
    sink = Sink(directory=str(tmp_path / "tables"), format=table_format)
    uri = f"{sink.directory}/mirror/shop/orders"
    assert commits(sink, tmp_path / "tables") == 0
    write(sink, uri)
    found = read_target(sink, uri)
    assert found is not None
    assert found.sort_by("id").to_pydict() == ROWS.to_pydict()
    assert commits(sink, tmp_path / "tables") == (1 if table_format is TableFormat.DELTA else 2)
    names: dict[str, pa.Table] = {}
    exec("\n".join(reading_code(sink, uri)), names)
    assert names["table"].num_rows == 2
    assert read_target(sink, f"{sink.directory}/mirror/shop/none") is None


@pytest.mark.parametrize("table_format", [TableFormat.DELTA, TableFormat.ICEBERG])
def test_a_table_whose_rows_are_marked_is_read_without_them(tmp_path: Path, table_format: TableFormat) -> None:
    """As every table becomes that is large enough."""
    with ShopLog(tmp_path / "log") as log:
        log.statement(ORDERS.create_statement())
        log.insert(ORDERS, (1, "one"), (2, "two"), (3, "three"))
        log.update(ORDERS, ((2, "two"), (2, "zwei")))
        log.delete(ORDERS, (3, "three"))
    sink = Sink(directory=str(tmp_path / "tables"), format=table_format, merge=Merge.MARK)
    rules = (TableRule(mode=Mode.MIRROR, target="{database}/{table}"),)
    with open_log(str(tmp_path / "log")) as opened:
        for number, batch in enumerate(batches.cut(opened, 4)):
            batches.write(opened, batch, tmp_path / "tables", number, rules, sink=sink)
    uri = f"{sink.directory}/shop/orders"
    if table_format is TableFormat.DELTA:
        assert DeltaTable(uri).protocol().reader_features == ["deletionVectors"]
    found = read_target(sink, uri)
    assert found is not None
    assert found.schema.types == [pa.int32(), pa.string()]
    assert sorted(found.to_pylist(), key=str) == [{"id": 1, "name": "one"}, {"id": 2, "name": "zwei"}]
