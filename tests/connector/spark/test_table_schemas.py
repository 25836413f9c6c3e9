"""Rows whose table maps leave something open are the same in whatever partition they are read."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_connector import log_definitions
from binlog_connector.log_definitions import SchemaFile
from binlog_connector.options.source_options import SourceOptions
from binlog_connector.schema.expressions.computing import with_computed_values
from binlog_connector.schema.history import SchemaHistory
from binlog_connector.spark.batch_reader import BinlogBatchReader
from binlog_connector.spark.source import BinlogDataSource
from binlog_format import open_log
from binlog_format.errors import BinlogError
from binlog_format.rows.decoding import Decoding
from binlog_format.views.changes import ChangesView
from tests.corpus import SERVER_CASES

if TYPE_CHECKING:
    from pathlib import Path

CASES = ["mariadb-10.11/types_minimal_nolog", "mariadb-10.11/ops", "mysql-9/types_full"]


def rows_of(path: str, **options: str) -> list[dict[str, object]]:
    given = {"path": path, **options}
    given["failOnStatement"] = "false"  # some of the logs have such statements
    source = BinlogDataSource(given)
    reader = source.reader(source.schema())
    assert isinstance(reader, BinlogBatchReader)
    # The last part first: what the first one holds must not be needed by accident.
    parts = [
        [row for batch in reader.read(part) for row in batch.to_pylist()] for part in reversed(reader.partitions())
    ]
    return [row for rows in reversed(parts) for row in rows]


@pytest.fixture(autouse=True)
def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_definitions, "_known", {})


@pytest.mark.parametrize("case", CASES)
def test_partitions_in_the_middle_know_the_ddl_before_them(case: str) -> None:
    path = str(SERVER_CASES / case)
    cut = rows_of(path, minPartitions="7")
    assert cut == rows_of(path, minPartitions="1")
    history = SchemaHistory()
    with open_log(path) as log:
        view = ChangesView(decoding=Decoding(history if "nolog" in case else None, computes=with_computed_values))
        blocks = history.observed(log.committed_blocks())
        assert cut == [row for batch in view.batches(blocks) for row in batch.to_pylist()]


def test_table_without_names_is_typed_by_the_ddl_in_the_log() -> None:
    path = str(SERVER_CASES / "mariadb-10.11" / "types_minimal_nolog")
    names = {(row["database"], row["table"]) for row in rows_of(path)}
    for database, table in sorted(names)[:5]:
        rows = rows_of(path, table=f"{database}.{table}", minPartitions="4")
        assert rows == rows_of(path, table=f"{database}.{table}", minPartitions="1")
        assert rows


def test_schema_file_is_read_once_where_the_query_is_planned(tmp_path: Path) -> None:
    dump = tmp_path / "schema.sql"
    dump.write_text("USE sb; CREATE TABLE other (id INT PRIMARY KEY, u UUID);")
    given = {"path": str(SERVER_CASES / "mariadb-10.11" / "oltp_small"), "schemaFile": str(dump)}
    source = BinlogDataSource(given)
    reader = source.reader(source.schema())
    dump.unlink()
    assert sum(batch.num_rows for part in reader.partitions() for batch in reader.read(part)) == 1600
    with pytest.raises(BinlogError, match=r"option schemaFile: .*No such file"):
        source.reader(source.schema())


def test_schema_file_that_is_of_another_table_is_named(tmp_path: Path) -> None:
    dump = tmp_path / "schema.sql"
    dump.write_text("USE sb; CREATE TABLE sbtest1 (id INT PRIMARY KEY);")
    path = str(SERVER_CASES / "mariadb-10.11" / "oltp_small")
    assert len(rows_of(path, schemaFile=str(dump))) == 1600, "the log's own DDL makes the table anew"
    assert SchemaFile.read(str(dump)).definition("sb", "sbtest1") is not None
    assert SourceOptions.parse({"path": path, "schemaFile": str(dump)}).schema_file == str(dump)
