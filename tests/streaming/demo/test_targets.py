"""Target tables are read as anybody would, and the lines that people are told do the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from binlog_streaming.demo.proof.targets import commits, read_target, reading_code
from binlog_streaming.lake.iceberg.catalog import ensure_namespace, identifier, open_catalog
from binlog_streaming.settings import Sink, TableFormat

if TYPE_CHECKING:
    from pathlib import Path

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
