"""The source in Spark itself: what only Spark can show. What the reader does is in `test_stream_reader`."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import AnalysisException, PySparkException, StreamingQueryException

from binlog_format import open_log
from binlog_format.views.changefeed import ChangefeedView
from binlog_format.views.changes import ChangesView
from tests.connector.shop import Shop
from tests.corpus import SERVER_CASES

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

pytestmark = [
    pytest.mark.spark,
    # PySpark 4.1 leaves the sockets of collected results to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
]

CLASSIC_CASE = SERVER_CASES / "mariadb-10.11" / "oltp_small"
ORDER = ("position", "event_no", "row_no")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Some files with small transactions, and one large one in the middle."""
    directory = tmp_path_factory.mktemp("log")
    with Shop(directory, files_of=8 * 16384) as shop:
        shop.sell(300)
        shop.sell(1, rows=2500)
        shop.sell(300)
    return directory


def load(spark: SparkSession, directory: Path, **options: str) -> DataFrame:
    return spark.read.format("binlog-stream").options(**options).load(str(directory))


def stream(spark: SparkSession, directory: Path, **options: str) -> DataFrame:
    return spark.readStream.format("binlog-stream").options(**options).load(str(directory))


def rows_of(frame: DataFrame, *order: str) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = frame.orderBy(*order).toArrow().to_pylist()
    return rows


def run_once(frame: DataFrame, target: Path) -> StreamingQuery:
    """All that is there now, as new Parquet files in *target*."""
    query = (
        frame.writeStream.format("parquet")
        .option("path", str(target / "data"))
        .option("checkpointLocation", str(target / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return query


def direct(directory: Path, view: ChangesView | ChangefeedView) -> pa.Table:
    """What the view gives without Spark."""
    import pyarrow as pa

    with open_log(str(directory)) as opened:
        return pa.Table.from_batches(list(view.batches(opened.committed_blocks())))


@pytest.mark.parametrize("directory", ["innodb", "classic"])
def test_batch_of_json_changes_is_the_log(spark: SparkSession, log: Path, directory: str) -> None:
    path = log if directory == "innodb" else CLASSIC_CASE
    frame = load(spark, path, minPartitions="3")
    assert frame.rdd.getNumPartitions() >= 2
    assert rows_of(frame, *ORDER) == direct(path, ChangesView()).to_pylist()


def test_batch_of_typed_changes_has_the_table_s_columns(spark: SparkSession, log: Path) -> None:
    frame = load(spark, log, table="shop.orders")
    expected = direct(log, ChangesView(table="shop.orders"))
    assert rows_of(frame, *ORDER) == expected.to_pylist()
    kept = frame.where("op = 'update'").select("before.amount", "after.amount", "after.note").distinct().collect()
    assert {row[2] for row in kept} == {"changed"}


def test_batch_of_changefeed(spark: SparkSession, log: Path) -> None:
    frame = load(spark, log, view="changefeed", table="shop.orders")
    expected = direct(log, ChangefeedView(table="shop.orders")).to_pylist()
    order = ("_position", "_event_no", "_row_no", "_change_type")
    key = [tuple(str(row[name]) for name in order) for row in expected]
    assert sorted(key) == sorted(tuple(str(row[name]) for name in order) for row in rows_of(frame, *order))
    assert frame.where("_change_type = 'insert'").count() == 600 + 2500


def test_batch_of_tables_counts_operations(spark: SparkSession, log: Path) -> None:
    frame = load(spark, log, view="tables", excludeTables=".*items")
    sums = (
        frame.where("index is not null")
        .groupBy("database", "table")
        .agg({"inserts": "sum", "updates": "sum", "deletes": "sum"})
        .collect()
    )
    assert [row["sum(inserts)"] for row in sums] == [600 + 2500]
    assert [(row["database"], row["table"], row["sum(deletes)"]) for row in sums] == [("shop", "orders", 0)]


def test_small_triggers_and_restarts_give_what_one_batch_gives(spark: SparkSession, log: Path, tmp_path: Path) -> None:
    """The log grows between the runs; the second run goes on from the checkpoint."""
    growing = tmp_path / "growing"
    shutil.copytree(log, growing)
    first = run_once(stream(spark, growing, maxBytesPerTrigger="100k"), tmp_path)
    batches = [progress.numInputRows for progress in first.recentProgress if progress.numInputRows]
    # PySpark before 4.2 asks a Python source for everything at once.
    assert len(batches) > 2 if find_spec("pyspark.sql.streaming.datasource") else len(batches) == 1
    with Shop(growing, files_of=8 * 16384) as shop:
        shop.sell(50)
    second = run_once(stream(spark, growing, maxBytesPerTrigger="100k"), tmp_path)
    assert sum(progress.numInputRows for progress in second.recentProgress) == 150
    streamed = spark.read.parquet(str(tmp_path / "data"))
    assert rows_of(streamed, *ORDER) == rows_of(load(spark, growing), *ORDER)
    stored = max((tmp_path / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda file: int(file.name))
    offset = json.loads(stored.read_text().splitlines()[-1])
    assert (offset["version"], offset["format"], offset["gtid"]) == (1, "innodb", "0-11-651")


def test_running_stream_takes_what_is_committed(spark: SparkSession, tmp_path: Path) -> None:
    with Shop(tmp_path / "log") as shop:
        shop.sell(5)
        frame = stream(spark, tmp_path / "log", view="changefeed", table="shop.items")
        query = frame.writeStream.format("memory").queryName("items").start()
        try:
            for count in (5, 40):
                shop.sell(count - 5)
                query.processAllAvailable()
                assert spark.table("items").count() == count
        finally:
            query.stop()


def test_starting_gtid(spark: SparkSession, log: Path) -> None:
    frame = load(spark, log, startingGtid="0-11-598")
    assert {row["gtid"] for row in frame.select("gtid").distinct().collect()} == {"0-11-599", "0-11-600", "0-11-601"}


@pytest.mark.thorough_where("options[12]")
@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"startingOfset": "latest"}, "[BINLOG_OPTION.UNKNOWN] option startingofset: there is no such option."),
        ({"table": "shop.nothing"}, "[BINLOG_SCHEMA.TABLE_NOT_FOUND] "),
        ({"startingOffsets": "latest"}, "[BINLOG_OPTION.INVALID_VALUE] option startingOffsets: "),
        ({"startingGtid": "0-11-9999"}, "[BINLOG_START.GTID_NOT_FOUND] "),
    ],
)
def test_planning_error_is_one_readable_line(
    spark: SparkSession, log: Path, options: dict[str, str], line: str
) -> None:
    with pytest.raises(AnalysisException) as raised:
        load(spark, log, **options).collect()
    assert_is_first_line(raised.value, line)


def test_missing_directory_is_one_readable_line(spark: SparkSession, tmp_path: Path) -> None:
    with pytest.raises(AnalysisException) as raised:
        stream(spark, tmp_path / "nothing")
    assert_is_first_line(raised.value, f"[BINLOG_START.PATH_NOT_FOUND] {tmp_path}/nothing: ")


def test_damaged_page_is_one_readable_line(spark: SparkSession, log: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged"
    shutil.copytree(log, damaged)
    frame = load(spark, damaged)
    frame.schema  # noqa: B018 - planned while the files are whole
    with (damaged / "binlog-000001.ibb").open("r+b") as file:
        file.seek(3 * 16384 + 1000)
        file.write(b"\xa5" * 8)
    with pytest.raises(PySparkException) as raised:
        frame.collect()
    assert_is_first_line(raised.value, f"[BINLOG_CORRUPT.PAGE_CHECKSUM] {damaged}/binlog-000001.ibb: page 3, byte 0xc")


def test_lost_data_ends_a_stream_with_one_readable_line(spark: SparkSession, tmp_path: Path) -> None:
    with Shop(tmp_path / "log", files_of=8 * 16384) as shop:
        shop.sell(5)
        run_once(stream(spark, tmp_path / "log"), tmp_path)
        shop.sell(600)
        shop.writer.purge(2)
        with pytest.raises(StreamingQueryException) as raised:
            run_once(stream(spark, tmp_path / "log"), tmp_path)
    assert_is_first_line(raised.value, f"[BINLOG_DATA_LOSS.FILE_PURGED] {tmp_path}/log: file 0 was purged")


def assert_is_first_line(error: PySparkException, line: str) -> None:
    """Our line follows Spark's own condition, and no traceback of Python stands before or after it."""
    text = str(error).strip()
    assert "Traceback" not in text
    assert text.index(line) < 400
    assert line in "\n".join(text.splitlines()[:2])


def test_batch_of_events_and_transactions(spark: SparkSession, log: Path) -> None:
    from binlog_format.transactions.expansion import expanded
    from binlog_format.views.events import EventsView
    from binlog_format.views.transactions import TransactionsView

    with open_log(str(log)) as opened:
        events = [row for batch in EventsView().batches(expanded(opened.blocks())) for row in batch.to_pylist()]
        groups = [row for batch in TransactionsView().batches(opened.committed_blocks()) for row in batch.to_pylist()]
    assert rows_of(load(spark, log, view="events", minPartitions="3"), "position", "event_no") == events
    assert rows_of(load(spark, log, view="transactions", minPartitions="3"), "position") == groups


@pytest.mark.parametrize("server", ["mariadb-10.11", "mysql-9"])
def test_statements_and_their_text(spark: SparkSession, server: str) -> None:
    from binlog_connector.schema.statement_rows import find_statements
    from binlog_format.views.change_extras import ChangeExtras

    path = SERVER_CASES / server / "ops"
    frame = load(spark, path, includeDdl="true", minPartitions="3", failOnStatement="false")
    assert rows_of(frame, *ORDER) == direct(path, ChangesView(extras=ChangeExtras(True, find_statements))).to_pylist()
    assert {row[0] for row in frame.select("op").distinct().collect()} == {
        "insert", "update", "delete", "ddl", "truncate",
    }  # fmt: skip
    typed = (
        load(spark, path, includeDdl="true", table="t.a", failOnStatement="false")
        .where("op = 'ddl'")
        .select("before", "query")
        .collect()
    )
    assert typed
    assert {row["before"] for row in typed} == {None}
    assert all(" a " in row["query"] or "`a`" in row["query"] or "t.a" in row["query"] for row in typed)


def test_statements_of_the_view_tables_are_those_of_the_log(spark: SparkSession) -> None:
    from binlog_connector.schema.log_ddl import DdlStatement, table_statements
    from binlog_connector.schema.table_changes import table_changes

    path = SERVER_CASES / "mariadb-10.11" / "ops"
    frame = load(spark, path, view="tables", minPartitions="3", tables="t.many")
    rows = frame.where("index is null").orderBy("start").select("ddl").collect()
    assert len(rows) > 1
    # Which start of the server each belongs to, a reader of the whole log knows.
    found = [replace(DdlStatement.from_row(one), server_run=0) for row in rows for one in row["ddl"]]
    with open_log(str(path)) as opened:
        logged = [one for block in opened.committed_blocks() for _, _, one in table_statements(block)]
    assert [one for one in found if one in logged] == [one for one in logged if one in found]
    assert {one.text for one in logged if table_changes(one)} <= {one.text for one in found}


@pytest.mark.thorough
@pytest.mark.parametrize("server", ["mariadb-10.11", "mysql-9"])
def test_all_types_of_a_server_go_through_spark(spark: SparkSession, server: str) -> None:
    """Geometry, vectors, times, decimals, bits: typed images in Spark are those of the view."""
    from binlog_format.rows.decoding import Decoding, TimeType

    path = SERVER_CASES / server / "types_full"
    with open_log(str(path)) as opened:
        names = {
            row
            for batch in opened.changes()
            for row in zip(batch["database"].to_pylist(), batch["table"].to_pylist(), strict=True)
        }
    assert names
    kinds = set()
    for database, table in sorted(names):
        name = f"{database}.{table}"
        frame = load(spark, path, table=name, timeType="micros")
        view = ChangesView(table=name, decoding=Decoding(time_type=TimeType.MICROS))
        assert json.dumps(rows_of(frame, *ORDER), default=str) == json.dumps(
            direct(path, view).to_pylist(), default=str
        )
        kinds |= {field.dataType.simpleString() for field in frame.schema["after"].dataType.fields}  # type: ignore[attr-defined]
    assert {"struct<srid:int,wkb:binary>", "timestamp_ntz", "date", "bigint", "string", "binary"} <= kinds


def test_schema_file_types_a_table_that_has_no_rows_yet(spark: SparkSession, log: Path, tmp_path: Path) -> None:
    dump = tmp_path / "schemas.sql"
    dump.write_text(
        "USE shop; CREATE TABLE later (id INT UNSIGNED NOT NULL PRIMARY KEY, at DATETIME(3), g POINT, n DECIMAL(10,2),"
        " t TEXT, c CHAR(3), k ENUM('a','b'), u UUID, b BINARY(4), d DATE, x BIGINT UNSIGNED) CHARSET utf8mb4;"
    )
    frame = load(spark, log, table="shop.later", schemaFile=str(dump))
    assert frame.schema["after"].dataType.simpleString() == (
        "struct<id:bigint,at:timestamp_ntz,g:struct<srid:int,wkb:binary>,n:decimal(10,2),t:string,c:string,k:string,"
        "u:string,b:binary,d:date,x:decimal(20,0)>"
    )
    assert frame.count() == 0


def test_filters_are_handed_over_where_spark_is_told_to(spark: SparkSession, log: Path) -> None:
    wanted = "table = 'items' and op = 'insert' and position.file_no > 1 and commit_time > '2026-01-01T00:04:00Z'"
    expected = rows_of(load(spark, log).where(wanted), *ORDER)
    assert expected
    spark.conf.set("spark.sql.python.filterPushdown.enabled", "true")
    try:
        assert rows_of(load(spark, log).where(wanted), *ORDER) == expected
        assert load(spark, log).count() == 3 * 600 + 2502
    finally:
        spark.conf.unset("spark.sql.python.filterPushdown.enabled")


def test_lost_data_is_a_row_of_events(spark: SparkSession, tmp_path: Path) -> None:
    options = {"view": "events", "failOnDataLoss": "false"}
    with Shop(tmp_path / "log", files_of=8 * 16384) as shop:
        shop.sell(5)
        run_once(stream(spark, tmp_path / "log", **options), tmp_path)
        shop.sell(600)
        shop.writer.purge(2)
        run_once(stream(spark, tmp_path / "log", **options), tmp_path)
    gaps = spark.read.parquet(str(tmp_path / "data")).where("type = 'gap'").collect()
    assert [row["gtid"] for row in gaps] == [None]
    assert "[BINLOG_DATA_LOSS.FILE_PURGED]" in gaps[0]["text"]
    assert "transactions after GTID 0-11-5 up to 0-11-" in gaps[0]["text"]


@pytest.mark.thorough_where("options[12]")
@pytest.mark.parametrize(
    ("options", "line"),
    [
        (
            {"endingOffsets": "latest"},
            "[BINLOG_OPTION.INVALID_VALUE] option endingOffsets: a streaming query has no end",
        ),
        (
            {"startingGtid": "0-1-5", "startingTimestamp": "5"},
            "[BINLOG_START.CONFLICTING_OPTIONS] option startingGtid",
        ),
        ({"schemaFile": "/nothing.sql"}, "[BINLOG_OPTION.INVALID_VALUE] option schemaFile: /nothing.sql: No such file"),
        ({"startingTimestamp": "2027-01-01"}, "[BINLOG_START.TIMESTAMP_NOT_FOUND] "),
    ],
)
def test_wrong_stream_is_one_readable_line(
    spark: SparkSession, log: Path, tmp_path: Path, options: dict[str, str], line: str
) -> None:
    with pytest.raises((AnalysisException, StreamingQueryException)) as raised:
        run_once(stream(spark, log, **options), tmp_path)
    assert_is_first_line(raised.value, line)


def test_directory_of_two_formats_is_one_readable_line(spark: SparkSession, log: Path, tmp_path: Path) -> None:
    mixed = tmp_path / "mixed"
    shutil.copytree(log, mixed)
    for file in CLASSIC_CASE.glob("mysql-bin.0*"):
        shutil.copy(file, mixed)
    with pytest.raises(AnalysisException) as raised:
        load(spark, mixed)
    assert_is_first_line(raised.value, f"[BINLOG_START.CONFLICTING_OPTIONS] {mixed}: there are files of two formats: ")


def test_missing_file_in_the_middle_is_one_readable_line(spark: SparkSession, log: Path, tmp_path: Path) -> None:
    torn = tmp_path / "torn"
    shutil.copytree(log, torn)
    (torn / "binlog-000002.ibb").unlink()
    with pytest.raises(PySparkException) as raised:
        load(spark, torn).collect()
    assert_is_first_line(raised.value, "[BINLOG_DATA_LOSS.FILE_PURGED] ")


def test_table_altered_under_a_typed_stream_is_one_readable_line(spark: SparkSession, tmp_path: Path) -> None:
    from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
    from tests.connector.shop import ORDERS

    wider = TableSpec("shop", "orders", (*ORDERS.columns, ColumnSpec("tip", "int", nullable=True)), ("id",))
    with Shop(tmp_path / "log") as shop:
        shop.sell(5)
        frame = stream(spark, tmp_path / "log", table="shop.orders")
    with Shop(tmp_path / "log", orders=wider) as shop:
        shop.sell(5)
    with pytest.raises(StreamingQueryException) as raised:
        run_once(frame, tmp_path)
    assert_is_first_line(raised.value, "[BINLOG_SCHEMA.SCHEMA_CHANGED] ")
