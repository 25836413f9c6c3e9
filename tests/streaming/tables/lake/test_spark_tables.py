"""Spark beside our writer: it reads what we wrote, changes it, and we go on; also with what it wrote for us before.

A session needs its jars from the start, so this file is run in a process of its own (`make test-compat`).
"""

from __future__ import annotations

import itertools
import json
import tarfile
from contextlib import closing
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, ClassVar

import pyarrow as pa
import pyarrow.parquet as pq
import pyspark
import pytest
from msgspec import structs

from binlog_connector.crash_points import watched
from binlog_format.errors import TableError
from binlog_format.rows.json.variant_layout import JSON_FIELD
from binlog_streaming.lake.change import Change, Patches
from binlog_streaming.lake.delta.columns import created
from binlog_streaming.lake.delta.row_checks import CONSTRAINT, row_checks
from binlog_streaming.lake.delta.target import STEP_BITS, DeltaTarget
from binlog_streaming.lake.evolution import IDENTITY, SchemaChange, with_texts
from binlog_streaming.lake.iceberg import maintenance
from binlog_streaming.lake.iceberg.catalog import CATALOG_FILE
from binlog_streaming.lake.iceberg.target import IcebergTarget
from binlog_streaming.lake.target import CrashPoint
from binlog_streaming.settings import Json, Merge, Mode, Sink, TableFormat
from binlog_streaming.settings.choices import partition_rule
from binlog_streaming.spark_session import PLANNING_ONLY, local_session
from binlog_streaming.tables.open_targets import read_target_state
from tests.faults.object_store import RestCatalog
from tests.streaming.tables.delta.test_features import ARCHIVE
from tests.streaming.tables.iceberg.iceberg_cases import upsert
from tests.streaming.tables.iceberg.test_catalogs import upgrade
from tests.streaming.tables.lake.sink_cases import (
    INT_KEY,
    MIRROR_COMMIT_ID,
    Place,
    all_types,
    change_of,
    numbers,
    rows_of,
)
from tests.streaming.tables.lake.test_other_readers import rename_in_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from binlog_streaming.lake.commit_id import CommitId
    from binlog_streaming.lake.delta.row_checks import RowCheck

PACKAGES: dict[tuple[int, ...], tuple[str, str]] = {
    (4, 0): ("io.delta:delta-spark_4.0_2.13:4.4.0", "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0"),
    (4, 1): ("io.delta:delta-spark_4.1_2.13:4.4.0", "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0"),
}
SQLITE_JDBC = "org.xerial:sqlite-jdbc:3.50.3.0"
EXCLUDED = ("kernel-api", "kernel-defaults", "kernel-unitycatalog")
"""Of Delta: what it asks for is for catalogs that are not used here."""

DOCUMENTS = pa.schema([("id", pa.int32()), pa.field("doc", pa.string(), metadata=JSON_FIELD)])
EPOCH, DAY_US = datetime(1970, 1, 1, tzinfo=UTC), 86_400_000_000
VERSION = tuple(map(int, pyspark.__version__.split(".")[:2]))
pytestmark = [
    pytest.mark.spark,
    # Where jars are, none of these tests may be left out.
    pytest.mark.skipif(max(PACKAGES) < VERSION, reason=f"there are no jars for PySpark {pyspark.__version__}"),
    # PySpark 4.1 leaves the sockets of collected results to the garbage collector.
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket:pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """A session with the jars of both formats."""
    folder = tmp_path_factory.mktemp("spark")
    excluded = [f"io.delta:delta-{name}" for name in EXCLUDED]
    excluded += ["io.unitycatalog:unitycatalog-client", "io.unitycatalog:unitycatalog-hadoop"]
    settings = {
        "spark.jars.packages": ",".join((*PACKAGES[VERSION], SQLITE_JDBC)),
        "spark.jars.excludes": ",".join(excluded),
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension,"
        "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.shuffle.partitions": "1",  # tables of a few rows
        "spark.databricks.delta.snapshotPartitions": "1",
        # Delta lists the files of each version of a table with projections of their own: to compile them would take a
        # quarter of the time. What reads a table's rows is compiled as a whole, as in users' sessions.
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.sql.session.timeZone": "UTC",
        # Rows are few: compiling Java code as well as it can be would take longer than it ever runs.
        **PLANNING_ONLY,
    }
    session = local_session("tables", settings=settings, log_file=folder / "spark.log")
    if "delta-spark" not in (session.sparkContext.getConf().get("spark.jars.packages") or ""):
        pytest.skip("this process has started Spark without the jars: run this file by itself")
    yield session
    session.stop()


def found(session: SparkSession, path: Path) -> dict[int, str | None]:
    """What Spark reads of a Delta table."""
    rows = session.sql(f"SELECT id, value FROM delta.`{path}`").collect()
    assert len({row.id for row in rows}) == len(rows)
    return {row.id: row.value for row in rows}


def delta(path: Path, merge: Merge = Merge.AUTO) -> DeltaTarget:
    return DeltaTarget.at(Sink(directory="", merge=merge), str(path))


@pytest.mark.parametrize(
    ("name", "merge"),
    [
        ("plain", Merge.MARK),
        ("deletion_vectors", Merge.REWRITE),
        ("everything", Merge.MARK),
        ("change_data_feed", Merge.MARK),
        ("v2_checkpoint", Merge.MARK),
        ("partitioned", Merge.REWRITE),
        ("column_mapping", Merge.MARK),
        ("clustered", Merge.MARK),
        ("type_widening", Merge.REWRITE),
        ("not_null", Merge.REWRITE),
        ("in_commit_timestamps", Merge.MARK),
        ("row_tracking", Merge.MARK),
        ("variant", Merge.MARK),
        ("shredded", Merge.REWRITE),
        ("iceberg_compat_3", Merge.MARK),
    ],
)
def test_spark_reads_and_goes_on_with_what_is_written_without_it(
    session: SparkSession, tmp_path: Path, name: str, merge: Merge
) -> None:
    """Delta tables that Spark made, that we changed, that Spark changes, that we change."""
    path = tmp_path / name
    with tarfile.open(ARCHIVE) as archive:
        archive.extractall(
            tmp_path, [one for one in archive.getmembers() if one.name.startswith(f"{name}/")], filter="data"
        )
    for file in path.rglob("*"):
        file.touch()  # else commits are old enough to be removed

    def write(batch_id: int, write: Callable[[DeltaTarget, CommitId], object]) -> None:
        target = delta(path, merge)
        write(target, replace(MIRROR_COMMIT_ID, batch_id=batch_id))
        target.maintain(Sink(directory=str(tmp_path)))

    # What Spark has made it need not read itself: it reads the rows that stay, later.
    model = {row["id"]: row["value"] for row in delta(path).read().read_all().to_pylist()}
    for batch_id in range(1, 20):
        patches = Patches(numbers(5), pa.table({"value": [True]}))
        change = change_of([(2, f"u{batch_id}"), (100 + batch_id, "n")], [0, 99 + batch_id], patches=patches)
        write(batch_id, lambda target, commit_id, change=change: target.merge(change, commit_id))  # type: ignore[misc]
    model |= {2: "u19", 5: "x", 119: "n"}
    model.pop(0, None)
    assert found(session, path) == model
    if name == "change_data_feed":
        version = session.sql(f"DESCRIBE HISTORY delta.`{path}`").agg({"version": "max"}).collect()[0][0]
        feed = session.read.format("delta").option("readChangeFeed", "true").option("startingVersion", version)
        said = [(row._change_type, row.id) for row in feed.load(str(path)).collect()]
        assert sorted(said) == [
            ("delete", 118),
            ("insert", 119),
            ("update_postimage", 2),
            ("update_postimage", 5),
            ("update_preimage", 2),
            ("update_preimage", 5),
        ]
    told = session.sql(f"DESCRIBE HISTORY delta.`{path}`").select("timestamp", "operationMetrics").collect()
    assert [row.timestamp for row in told] == sorted((row.timestamp for row in told), reverse=True)
    assert all(int(count) >= 0 for row in told for count in row.operationMetrics.values())
    if name == "clustered":
        assert session.sql(f"DESCRIBE DETAIL delta.`{path}`").collect()[0].clusteringColumns == ["id"]
        session.sql(f"OPTIMIZE delta.`{path}`")
    session.sql(f"DELETE FROM delta.`{path}` WHERE id = 119")
    session.sql(f"UPDATE delta.`{path}` SET value = 'spark' WHERE id = 2")
    write(20, lambda target, commit_id: target.append(numbers(7).to_reader(), commit_id))
    write(21, lambda target, commit_id: target.merge(change_of([(5, "last")]), commit_id))
    write(
        22,
        lambda target, commit_id: target.evolve(
            SchemaChange(added=pa.schema([("more", pa.timestamp("us"))])), commit_id
        ),
    )
    write(23, lambda target, commit_id: target.replace(target.read(), commit_id))
    model = {key: value for key, value in model.items() if key != 119} | {2: "spark", 5: "last", 7: "x"}
    assert found(session, path) == model


@pytest.mark.parametrize("merge", [Merge.REWRITE, Merge.MARK])
def test_spark_reads_every_type_and_passes_over_files_by_our_statistics(
    session: SparkSession, tmp_path: Path, merge: Merge
) -> None:
    place = Place(tmp_path, TableFormat.DELTA, merge_kind=merge)
    types = all_types()
    ids = pa.array(range(1, types.num_rows + 1), pa.int32())
    rows = types.add_column(0, "id", ids)
    place.append(0, rows, MIRROR_COMMIT_ID)
    place.bring(change_of([], [1], schema=rows.schema), batch_id=1, schema=rows.schema)
    read = session.read.format("delta").load(place.uri).toArrow().sort_by("id")
    assert read.select(["id"]).column("id").to_pylist() == list(range(2, types.num_rows + 1))
    ours = place.read().sort_by("id")
    for column in types.column_names:
        assert read.column(column).cast(ours.schema.field(column).type).equals(ours.column(column)), column
    for row in range(2, types.num_rows + 1):
        assert session.read.format("delta").load(place.uri).filter(f"id = {row}").count() == 1


@pytest.mark.parametrize("merge", [Merge.REWRITE, Merge.MARK])
def test_spark_and_we_take_turns_with_variants(session: SparkSession, tmp_path: Path, merge: Merge) -> None:
    sink = Sink(directory=str(tmp_path), merge=merge, json=Json.VARIANT)
    path = tmp_path / "orders"

    def turn(batch_id: int, write: Callable[[DeltaTarget, CommitId], object]) -> None:
        write(DeltaTarget.at(sink, str(path)), replace(MIRROR_COMMIT_ID, batch_id=batch_id))

    def rows(documents: dict[int, str | None]) -> pa.Table:
        return pa.table({"id": list(documents), "doc": list(documents.values())}, DOCUMENTS)

    def known() -> dict[int, str | None]:
        found = session.sql(f"SELECT id, to_json(doc) doc FROM delta.`{path}`").collect()
        ours = with_texts(DeltaTarget.at(sink, str(path)).read().read_all()).to_pylist()
        texts = {row["id"]: row["doc"] and json.loads(row["doc"]) for row in ours}
        assert {row.id: row.doc and json.loads(row.doc) for row in found} == texts
        return {row.id: row.doc for row in found}

    turn(0, lambda target, commit_id: target.create(DOCUMENTS, commit_id))
    first = rows({1: '{"b": {"c": [1, 2.5]}, "a": 1e3}', 2: None, 3: '"x"', 4: "4"})
    turn(0, lambda target, commit_id: target.append(first.to_reader(), commit_id))
    change = Change(rows({4: "[4]"}), pa.table({"id": pa.array([3], pa.int32())}))
    turn(1, lambda target, commit_id: target.merge(change, commit_id))
    assert known() == {1: '{"a":1000.0,"b":{"c":[1,2.5]}}', 2: None, 4: "[4]"}
    found = session.sql(f"SELECT id FROM delta.`{path}` WHERE variant_get(doc, '$.b.c[1]', 'double') = 2.5").collect()
    assert [row.id for row in found] == [1]
    session.sql(f"UPDATE delta.`{path}` SET doc = parse_json('{{\"s\": [true]}}') WHERE id = 2")
    session.sql(f"INSERT INTO delta.`{path}` SELECT 5, parse_json('5.25')")
    change = Change(rows({4: "{}", 6: "null"}), pa.table({"id": pa.array([1], pa.int32())}))
    turn(2, lambda target, commit_id: target.merge(change, commit_id))
    turn(3, lambda target, commit_id: target.replace(target.read(), commit_id))
    assert known() == {2: '{"s":[true]}', 4: "{}", 5: "5.25", 6: "null"}


COMPARED: dict[pa.DataType, list[object]] = {
    pa.bool_(): [True, False],
    pa.int8(): [-128, -1, 0, 1, 5, 127],
    pa.int16(): [-32768, -1, 0, 1, 5, 32767],
    pa.int32(): [-(2**31), -1, 0, 1, 5, 2**31 - 1],
    pa.int64(): [-(2**63), -1, 0, 1, 5, 2**53 + 1, 2**63 - 1],
    pa.float32(): [-1.5, -0.0, 0.0, 0.1, 0.25, 16777216.0, 3.4e38, float("nan"), float("inf"), float("-inf")],
    pa.float64(): [-1.5, -0.0, 0.0, 0.1, 0.25, 16777216.0, 1e300, float("nan"), float("inf"), float("-inf")],
    pa.decimal128(5, 2): [Decimal("-1.50"), Decimal("0.00"), Decimal("1.01"), Decimal("999.99")],
    pa.decimal128(38, 10): [Decimal("-1.5"), Decimal(0), Decimal("9999999999999999999999999999.9999999999")],
    pa.decimal128(20, 0): [Decimal(-1), Decimal(0), Decimal(5), Decimal(2**64 - 1)],
    pa.string(): ["", "a", "A", "a ", "b", "ä", "10", "9", "it's", "\U0001f600", "\uffff"],
    pa.date32(): [date(1, 1, 1), date(1582, 10, 4), date(1582, 10, 15), date(2020, 2, 29), date(9999, 12, 31)],
}
"""A type, and values of it."""
COMPARED_WITH = (
    *("0", "-1", "5", "1.5", "-1.50", "0.1", "16777216", "16777217", "9007199254740993", "999999999999999999"),
    *(
        "123456789.123456789",
        "'a'",
        "'a '",
        "''",
        "'ä'",
        "'10'",
        "'\uffff'",
        "TRUE",
        "FALSE",
        "'2020-02-29'",
        "'1582-10-10'",
    ),
)


@pytest.mark.parametrize("kind", COMPARED, ids=str)
def test_rules_are_true_of_the_rows_that_spark_takes(session: SparkSession, kind: pa.DataType) -> None:
    """Every kind of expression that we evaluate, in both modes of Spark."""
    operators = ("=", "<>", "!=", "<", "<=", ">", ">=")
    expressions = [f"c {operator} {value}" for operator in operators for value in COMPARED_WITH]
    pairs = [*itertools.combinations(COMPARED_WITH, 2)][::5]
    expressions += [f"c IN ({low}, {high}) OR c IS NULL" for low, high in pairs]
    expressions += [f"NOT (c NOT BETWEEN {low} AND {high}) AND c IS NOT NULL" for low, high in pairs]
    expressions += [f"c {operator} d" for operator in operators] + ["NOT (d < c OR d IS NULL)"]
    rules = {f"{CONSTRAINT}{number:04}": expression for number, expression in enumerate(expressions)}
    columns = pa.schema([("c", kind), ("d", kind)])
    (_, (_, metadata)) = created(columns, name="t", description="", configuration=rules)
    checks, refused = row_checks(metadata)  # type: ignore[arg-type]
    assert len(checks) + len(refused) == len(rules)
    assert len(checks) >= 6
    assert [check for check in checks if " d" in check.expression] or pa.types.is_floating(kind)
    values = [*COMPARED[kind], None]
    rows = [*itertools.product(values, values)]
    whole = pa.table([pa.array(column, kind) for column in zip(*rows, strict=True)], schema=columns)
    data = session.createDataFrame(whole)
    for mode in ("true", "false"):
        session.conf.set("spark.sql.ansi.enabled", mode)
        taken = [f"coalesce({check.expression}, false)" for check in checks]
        theirs = data.selectExpr(f"array({', '.join(taken)}) AS kept").collect()
        assert len(theirs) == len(rows)
        for number, row in enumerate(theirs):
            ours = [keeps(check, whole.slice(number, 1)) for check in checks]
            assert [
                check.expression for check, our, their in zip(checks, ours, row.kept, strict=True) if our != their
            ] == [], rows[number]


def keeps(check: RowCheck, rows: pa.Table) -> bool:
    try:
        check.see("t", rows)
    except TableError:
        return False
    return True


def test_spark_and_we_keep_the_same_rules(session: SparkSession, tmp_path: Path) -> None:
    path = tmp_path / "orders"
    said = ", ".join(f"'{name}' = '{value}'" for name, value in MIRROR_COMMIT_ID.table_properties().items())
    session.sql(f"CREATE TABLE delta.`{path}` (id INT, value STRING) USING delta TBLPROPERTIES ({said})")
    session.sql(f"ALTER TABLE delta.`{path}` ADD CONSTRAINT small CHECK (id < 100 AND value <> 'bad')")
    session.sql(f"INSERT INTO delta.`{path}` VALUES (1, 'x'), (2, 'x')")
    delta(path, Merge.MARK).merge(change_of([(1, "y"), (3, "n")], [2]), replace(MIRROR_COMMIT_ID, batch_id=1))
    for row in ((4, "bad"), (100, "x"), (4, None)):
        with pytest.raises(TableError, match=r"checkConstraints \(small: id < 100 AND value <> 'bad'\)"):
            delta(path).merge(change_of([row]), replace(MIRROR_COMMIT_ID, batch_id=2))
        with pytest.raises(Exception, match="DELTA_VIOLATE_CONSTRAINT_WITH_VALUES"):
            session.sql(f"INSERT INTO delta.`{path}` VALUES ({row[0]}, {'NULL' if row[1] is None else repr(row[1])})")
    session.sql(f"INSERT INTO delta.`{path}` VALUES (4, 's')")
    delta(path).merge(change_of([(4, "z")]), replace(MIRROR_COMMIT_ID, batch_id=2))
    assert found(session, path) == {1: "y", 3: "n", 4: "z"}


def test_spark_and_we_generate_the_same_values(session: SparkSession, tmp_path: Path) -> None:
    """Of every type and function that we know; Spark checks each row that it writes anew."""
    path = tmp_path / "orders"
    columns = {
        "id": "INT",
        "value": "STRING",
        "day": "DATE",
        "at": "TIMESTAMP_NTZ",
        "big": "BIGINT",
        "zoned": "TIMESTAMP",
    }
    made = {
        **{f"{part}_day": ("INT", f"{part}(day)") for part in ("year", "month", "day", "dayofmonth")},
        **{f"{part}_at": ("INT", f"{part}(at)") for part in ("YEAR", "Month", "day", "dayofmonth", "hour")},
        "date_day": ("DATE", "CAST(day AS DATE)"),
        "date_at": ("DATE", "cast(at as date)"),
        "head": ("STRING", "SUBSTRING(value, 1, 2)"),
        "middle": ("STRING", "substr(`value`, 2, 1)"),
        "nothing": ("STRING", "substring(value, 9, 0)"),
        **{f"copy_{name}": (kind, name) for name, kind in columns.items()},
    }
    said = ", ".join(f"'{name}' = '{value}'" for name, value in MIRROR_COMMIT_ID.table_properties().items())
    kinds = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    generated = ", ".join(f"{name} {kind} GENERATED ALWAYS AS ({text})" for name, (kind, text) in made.items())
    session.sql(
        f"CREATE TABLE delta.`{path}` ({kinds}, {generated}) USING delta PARTITIONED BY (YEAR_at) "
        f"TBLPROPERTIES ({said})"
    )
    texts = ["", "a", "äöü", "\U0001f600x\U0001f600", "long text", None]
    micros = [-62135596800000000, -12219292800000001, -1, 0, 86_399_999_999, 253402300799999999, None]
    values = [
        (number, text, None if at is None else at // DAY_US, at, at, at)
        for number, (text, at) in enumerate(itertools.product(texts, micros))
    ]
    schema = pa.schema([delta(path).schema().field(name) for name in columns])
    whole = [pa.array(column, pa.int64()) for column in zip(*[(row[0], *row[2:]) for row in values], strict=True)]
    arrays = [whole[0], pa.array([row[1] for row in values]), *whole[1:]]
    arrays[2] = arrays[2].cast(pa.int32())
    rows = pa.table([array.cast(field.type) for array, field in zip(arrays, schema, strict=True)], schema=schema)
    delta(path).append(rows.to_reader(), MIRROR_COMMIT_ID)

    def check(count: int) -> None:
        same = ", ".join(f"min({name} <=> {text}) AS {name}" for name, (_, text) in made.items())
        (row,) = session.sql(f"SELECT count(*) AS count, {same} FROM delta.`{path}`").collect()
        assert row.asDict() == {"count": count, **dict.fromkeys(made, True)}

    check(len(values))
    change = Change(rows.slice(0, 5).drop_columns("at"), pa.table({"id": pa.array([7], pa.int32())}))
    delta(path, Merge.MARK).merge(change, replace(MIRROR_COMMIT_ID, batch_id=1))
    few = pa.table({"id": rows.column("id").slice(10, 5), "at": rows.column("at").slice(15, 5)})
    delta(path).merge(Change(few, few.select(["id"]).slice(0, 0)), replace(MIRROR_COMMIT_ID, batch_id=2))
    check(len(values) - 1)
    session.sql(f"UPDATE delta.`{path}` SET value = concat(value, '!') WHERE id % 2 = 0")
    session.sql(f"INSERT INTO delta.`{path}` ({', '.join(columns)}) VALUES (900, 'spark', NULL, NULL, 1, NULL)")
    delta(path).replace(delta(path).read(), replace(MIRROR_COMMIT_ID, batch_id=3))
    check(len(values))


@pytest.mark.parametrize("version", [1, 2])
def test_spark_and_we_keep_what_iceberg_needs(session: SparkSession, tmp_path: Path, version: int) -> None:
    """Files of tables with Iceberg compatibility have the columns and numbers that Spark's have."""
    path = tmp_path / "orders"
    properties = {
        **MIRROR_COMMIT_ID.table_properties(),
        "delta.columnMapping.mode": "name",
        f"delta.enableIcebergCompatV{version}": "true",
        "delta.enableChangeDataFeed": "true",
    }
    said = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    tags = "ARRAY<STRING>" if version == 2 else "STRING"
    session.sql(
        f"CREATE TABLE delta.`{path}` (city STRING, id INT, at STRUCT<x: INT, tags: {tags}>, tags {tags}) USING delta "
        f"PARTITIONED BY (city) TBLPROPERTIES ({said})"
    )
    some: object = ["t", None] if version == 2 else "t"
    tag = "array('t', NULL)" if version == 2 else "'t'"
    session.sql(
        f"INSERT INTO delta.`{path}` VALUES ('a', 1, struct(1, {tag}), {tag}), ('b', 2, NULL, NULL), "
        "('b', 3, NULL, NULL)"
    )
    spark_files = {*path.rglob("*.parquet")}
    (expected,) = {pq.read_schema(file).to_string(show_schema_metadata=False) for file in spark_files}
    schema = delta(path).schema()
    changed = change_of(
        [("c", 1, {"x": 5, "tags": None}, some), ("b", 4, {"x": 6, "tags": some}, None)], [2], schema=schema
    )
    delta(path, Merge.MARK).merge(changed, replace(MIRROR_COMMIT_ID, batch_id=1))
    ours = {*path.rglob("*.parquet")} - spark_files
    data = [file for file in ours if "_change_data" not in file.parts]
    assert {pq.read_schema(file).to_string(show_schema_metadata=False) for file in data} == {expected}
    rows = [("c", 1, {"x": 5, "tags": None}, some), ("b", 3, None, None), ("b", 4, {"x": 6, "tags": some}, None)]

    def held() -> list[tuple[object, ...]]:
        found = session.sql(f"SELECT * FROM delta.`{path}` ORDER BY id").collect()
        assert delta(path).read().read_all().sort_by("id").to_pylist() == [row.asDict(recursive=True) for row in found]
        return [tuple(row.asDict(recursive=True).values()) for row in found]

    assert held() == rows
    assert session.sql(f"SELECT id FROM delta.`{path}` WHERE city = 'b' AND id = 4 AND at.x = 6").count() == 1
    feed = session.read.format("delta").option("readChangeFeed", "true").option("startingVersion", 2).load(str(path))
    assert sorted((row.city, row.id, row._change_type) for row in feed.collect()) == [
        ("a", 1, "update_preimage"),
        ("b", 2, "delete"),
        ("b", 4, "insert"),
        ("c", 1, "update_postimage"),
    ]
    added = SchemaChange(added=pa.schema([("more", schema.field("tags").type)]), retyped={"id": pa.int64()})
    delta(path).evolve(added, replace(MIRROR_COMMIT_ID, batch_id=2))
    session.sql(f"INSERT INTO delta.`{path}` VALUES ('d', 9, NULL, NULL, {tag})")
    session.sql(f"UPDATE delta.`{path}` SET city = 'e' WHERE id = 3")
    session.sql(f"ALTER TABLE delta.`{path}` ADD COLUMN last {tags}")
    session.sql(f"OPTIMIZE delta.`{path}`")
    schema = delta(path).schema()
    changed = change_of([("d", 9, None, some, some, some)], [4], schema=schema)
    delta(path).merge(changed, replace(MIRROR_COMMIT_ID, batch_id=3))
    assert held() == [(*rows[0], None, None), ("e", 3, None, None, None, None), ("d", 9, None, some, some, some)]
    log = delta(path).log
    assert log is not None
    assert {add.deletion_vector for add in log.files.values()} == {None}
    count = int(log.metadata.configuration["delta.columnMapping.maxColumnId"])
    assert count == (12 if version == 2 else 8)


REFUSED = {
    "checks": ("id INT", "", ("ADD CONSTRAINT `odd one` CHECK (id % 2 = 0)",)),
    "invariants": ("id INT, s STRUCT<a: INT NOT NULL>", "", ()),
    "generated": ("id INT, twice INT GENERATED ALWAYS AS (id * 2)", "", ()),
    "identity": ("id INT, n BIGINT GENERATED ALWAYS AS IDENTITY", "'delta.enableChangeDataFeed' = 'true'", ()),
    "append_only": ("id INT", "'delta.appendOnly' = 'true'", ()),
    "clustering": ("id INT, s STRUCT<a: INT>", "CLUSTER BY (s.a)", ()),
    "mapping": ("id INT, s ARRAY<STRUCT<a: INT>>", "'delta.columnMapping.mode' = 'name'", ()),
    "variant": ("id INT, s STRUCT<a: VARIANT>", "", ()),
    "maps": (
        "id INT, m MAP<INT, INT>",
        "'delta.columnMapping.mode' = 'name', 'delta.enableIcebergCompatV2' = 'true'",
        (),
    ),
}
"""Columns, a clause or properties, and what is done to the table then."""


@pytest.mark.parametrize("name", REFUSED)
def test_spark_takes_what_the_message_says(session: SparkSession, tmp_path: Path, name: str) -> None:
    """Each statement that the hint of a refusal names is taken, and then the table is written."""
    path = tmp_path / "orders"
    columns, more, then = REFUSED[name]
    properties = ", ".join(f"'{key}' = '{value}'" for key, value in MIRROR_COMMIT_ID.table_properties().items())
    clause, said = (
        (more, properties) if more.startswith("CLUSTER") else ("", ", ".join(filter(None, (properties, more))))
    )
    session.sql(f"CREATE TABLE delta.`{path}` ({columns}) USING delta {clause} TBLPROPERTIES ({said})")
    for statement in then:
        session.sql(f"ALTER TABLE delta.`{path}` {statement}")
    with pytest.raises(TableError, match=r"TABLE_FEATURE\] .*only Spark writes correctly") as refused:
        delta(path)
    hint = refused.value.hint or ""
    assert hint.startswith("Take it off the table with Spark: ALTER TABLE ... ")
    for statement in hint.removeprefix("Take it off the table with Spark: ").split("; ")[:-1]:
        session.sql(statement.replace("...", f"delta.`{path}`", 1))
    row = pa.table({"id": pa.array([1], pa.int32())})
    delta(path).append(row.to_reader(), MIRROR_COMMIT_ID)
    assert [row.id for row in session.sql(f"SELECT id FROM delta.`{path}`").collect()] == [1]


@pytest.mark.parametrize("merge", [Merge.REWRITE, Merge.MARK])
def test_spark_and_we_number_rows_together(session: SparkSession, tmp_path: Path, merge: Merge) -> None:
    path = tmp_path / "orders"
    said = ", ".join(f"'{name}' = '{value}'" for name, value in MIRROR_COMMIT_ID.table_properties().items())
    kind = "BIGINT GENERATED ALWAYS AS IDENTITY (START WITH 100 INCREMENT BY -10)"
    session.sql(f"CREATE TABLE delta.`{path}` (id INT, value STRING, n {kind}) USING delta TBLPROPERTIES ({said})")

    def known() -> dict[int, int]:
        rows = session.sql(f"SELECT id, n FROM delta.`{path}`").collect()
        assert len({row.n for row in rows}) == len(rows)
        assert all(row.n <= 100 and row.n % 10 == 0 for row in rows)
        return {row.id: row.n for row in rows}

    delta(path, merge).append(numbers(1, 2).to_reader(), MIRROR_COMMIT_ID)
    assert known() == {1: 100, 2: 90}
    for batch_id in range(1, 4):
        session.sql(f"INSERT INTO delta.`{path}` (id, value) VALUES ({10 * batch_id}, 'spark')")
        before = known()
        change = change_of([(2, "u"), (10 * batch_id, "u"), (10 * batch_id + 1, "n")], [10 * batch_id - 9])
        delta(path, merge).merge(change, replace(MIRROR_COMMIT_ID, batch_id=batch_id))
        before.pop(10 * batch_id - 9)
        after = known()
        assert after.pop(10 * batch_id + 1) < min(before.values())
        assert after == before


def test_delta_tables_that_spark_wrote_for_a_job_go_on(session: SparkSession, tmp_path: Path) -> None:
    """Former versions had Spark write them: with the same properties, transactions, and words about a step."""
    path, step = tmp_path / "orders", replace(MIRROR_COMMIT_ID, batch_id=3, step=2, gtid_position="0-1-7")
    properties = ", ".join(f"'{name}' = '{value}'" for name, value in step.table_properties().items())
    session.sql(f"CREATE TABLE delta.`{path}` (id INT, value STRING) USING delta TBLPROPERTIES ({properties})")
    options = {
        "txnAppId": f"binlog-stream/{step.query_id}",
        "txnVersion": str(step.batch_id << STEP_BITS | step.step),
        "userMetadata": json.dumps(step.batch_properties()),
    }
    rows = session.createDataFrame([(1, "x"), (2, "x")], "id INT, value STRING")
    rows.write.format("delta").mode("append").options(**options).save(str(path))
    target = delta(path)
    target.check_owner(step)
    assert target.is_done(step)
    state = read_target_state(target, step.source_table, step.mode)
    assert state is not None
    assert (state.batch_id, str(state.gtid)) == (3, "0-1-7")
    later = replace(step, batch_id=4)
    assert not target.is_done(later)
    target.merge(change_of([(1, "y"), (3, "n")], [2]), later)
    assert delta(path).is_done(later)
    assert found(session, path) == {1: "y", 3: "n"}


def test_spark_reads_and_goes_on_with_iceberg_tables(session: SparkSession, tmp_path: Path) -> None:
    """In the catalog of the folder, which Java reads over JDBC."""
    place = Place(tmp_path, TableFormat.ICEBERG)
    place.append(0, numbers(1, 2, 3), MIRROR_COMMIT_ID)
    place.bring(change_of([(1, "y")], [2]), batch_id=1)
    other, table = _in_folder(session, tmp_path)
    assert sorted(tuple(row) for row in other.table(table).collect()) == [(1, "y"), (3, "x")]
    other.sql(f"DELETE FROM {table} WHERE id = 3")
    other.sql(f"INSERT INTO {table} VALUES (9, 'spark')")
    assert place.bring(change_of([(1, "z"), (4, "n")]), batch_id=2)
    with closing(place.target()) as target:
        assert target.is_done(replace(MIRROR_COMMIT_ID, batch_id=2))
    rows = [(1, "z"), (4, "n"), (9, "spark")]
    assert sorted(tuple(row) for row in other.table(table).collect()) == place.sorted_rows() == rows
    assert place.read().schema.names == INT_KEY.names


def test_spark_reads_equality_deletes_and_what_we_make_of_them(session: SparkSession, tmp_path: Path) -> None:
    place = Place(tmp_path, TableFormat.ICEBERG, merge_kind=Merge.AUTO)
    rows = [*((number, "x") for number in range(9)), (None, "n"), (None, None)]
    place.append(0, rows_of(INT_KEY, rows), MIRROR_COMMIT_ID)
    upsert(place, numbers(1, 20), numbers(0, 1).select(["id"]))
    no_text = pa.table({"value": [None]}, INT_KEY.remove(0))
    upsert(place, numbers(), rows_of(INT_KEY, [(2, "x"), (3, "y"), (None, "n")]), no_text)
    other, table = _in_folder(session, tmp_path)

    def check(*wanted: int) -> None:
        assert sorted(row.id for row in other.table(table).collect()) == list(wanted)
        assert sorted(place.read().column("id").to_pylist()) == list(wanted)

    check(1, 3, 4, 5, 6, 7, 8, 20)
    assert place.bring(change_of([(2, "ours"), (1, "ours")], [20]))
    check(1, 2, 3, 4, 5, 6, 7, 8)
    other.sql(f"DELETE FROM {table} WHERE id = 8")
    upsert(place, numbers(), numbers(2, 3).select(["id"]))
    check(1, 4, 5, 6, 7)
    with closing(IcebergTarget.at(place.sink, place.uri)) as target:
        maintenance.compact(target.table, place.uri, file_size=place.file_size)
    check(1, 4, 5, 6, 7)
    assert other.sql(f"SELECT * FROM {table}.delete_files WHERE content = 2").count() == 0


FOLLOWED: dict[str, tuple[Mode, Merge, list[tuple[int, str]], list[int]]] = {
    "vectors": (Mode.MIRROR, Merge.MARK, [(10, "a"), (30, "a")], [20]),
    "rewritten": (Mode.MIRROR, Merge.REWRITE, [(10, "a"), (30, "a")], [20]),
    "appended": (Mode.CHANGELOG, Merge.AUTO, [(30, "a")], []),
}
"""Mode and way of a step; rows that come, and keys that go, all in partition `a`."""


@pytest.mark.parametrize("name", FOLLOWED)
@pytest.mark.parametrize("kind", [TableFormat.DELTA, TableFormat.ICEBERG])
def test_our_steps_follow_compactions_of_spark(
    session: SparkSession, tmp_path: Path, kind: TableFormat, name: str
) -> None:
    """OPTIMIZE and `rewrite_data_files` commit between our look and our commit, and the step is made once."""
    mode, merge, rows, gone = FOLLOWED[name]
    sink = Sink(directory=str(tmp_path), format=kind, merge=merge)
    commit_id = replace(
        MIRROR_COMMIT_ID,
        mode=mode,
        keys=() if mode is Mode.CHANGELOG else ("id",),
        partition_by=(partition_rule("value"),),
    )
    target_type = DeltaTarget if kind is TableFormat.DELTA else IcebergTarget
    uri = f"{tmp_path}/shop/orders"
    with closing(target_type.at(sink, uri)) as target:
        target.create(INT_KEY, commit_id)
    for first in (10, 20):
        begun = rows_of(INT_KEY, [(first + number, value) for number, value in enumerate("abc")])
        with closing(target_type.at(sink, uri)) as target:
            target.append(begun.to_reader(), replace(commit_id, step=first))
    other, table = session.newSession(), f"delta.`{uri}`"
    if kind is TableFormat.ICEBERG:
        other, table = _in_folder(session, tmp_path)
    waiting = ["b", "c"]

    def compact(step: CrashPoint) -> None:
        while step is CrashPoint.FILES_WRITTEN and waiting:
            condition = f"value = '{waiting.pop()}'"
            if kind is TableFormat.DELTA:
                (metrics,) = (
                    other.sql(f"OPTIMIZE {table} WHERE {condition}").select("metrics.numFilesRemoved").collect()
                )
                assert metrics[0] == 2
            else:
                called = f"table => 'shop.orders', where => \"{condition}\", options => map('rewrite-all', 'true')"
                (made,) = other.sql(f"CALL binlog_stream.system.rewrite_data_files({called})").collect()
                assert made[0] == 2

    with closing(target_type.at(sink, uri)) as late, watched(compact):
        if mode is Mode.CHANGELOG:
            late.append(rows_of(INT_KEY, rows).to_reader(), replace(commit_id, batch_id=1))
        else:
            late.merge(change_of(rows, gone), replace(commit_id, batch_id=1))
        assert late.is_done(replace(commit_id, batch_id=1))
    assert not waiting
    left = {(first + number, value) for first in (10, 20) for number, value in enumerate("abc")} - {(20, "a")}
    expected = sorted(left | {(30, "a")} | ({(20, "a")} if mode is Mode.CHANGELOG else set()))
    assert sorted((row.id, row.value) for row in other.table(table).collect()) == expected
    with closing(target_type.at(sink, uri)) as target:
        assert sorted((row["id"], row["value"]) for row in target.read().read_all().to_pylist()) == expected


@pytest.mark.server
@pytest.mark.parametrize("version", [2, 3])
def test_spark_and_we_take_turns_with_marked_and_partitioned_iceberg_tables(
    session: SparkSession, tmp_path: Path, version: int
) -> None:
    """Through a REST catalog: position deletes (version 2) and vectors (3), with partitions by day and bucket."""
    with RestCatalog(tmp_path / "rest") as rest:
        place, other = _in_catalog(rest, session, tmp_path)
        place.make(version)
        model = {key: (key % 3, "x") for key in range(100)}
        for batch_id in range(1, 4):
            changed = {batch_id: (batch_id, "y"), 100 + batch_id: (5, "n")}
            place.merge(changed, [50 + batch_id], batch_id)
            model |= changed
            model.pop(50 + batch_id)
        table = "rest.shop.orders"

        def check() -> None:
            days = "datediff(CAST(at AS DATE), DATE'1970-01-01')"
            rows = other.sql(f"SELECT id, {days}, value FROM {table}").collect()
            assert {row[0]: (row[1], row[2]) for row in rows} == model
            assert len(rows) == len(model)
            assert place.rows() == model
            # It passes over files and partitions by what manifests say of them.
            for key in (1, 51, 101):
                assert other.sql(f"SELECT id FROM {table} WHERE id = {key}").count() == (key in model)
            day = other.sql(f"SELECT id FROM {table} WHERE at >= TIMESTAMP'1970-01-06' AND at < '1970-01-07'").collect()
            assert {row[0] for row in day} == {key for key, (number, _) in model.items() if number == 5}

        check()
        kinds = other.sql(f"SELECT DISTINCT content, file_format FROM {table}.delete_files").collect()
        assert [tuple(row) for row in kinds] == [(1, "PARQUET" if version == 2 else "PUFFIN")]
        other.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ('write.delete.mode' = 'merge-on-read')")
        other.sql(f"DELETE FROM {table} WHERE id IN (2, 60)")
        other.sql(f"INSERT INTO {table} VALUES (200, TIMESTAMP'1970-01-03', 'spark')")
        model.pop(2)
        model.pop(60)
        model[200] = (2, "spark")
        check()
        place.merge({200: (6, "ours"), 3: (6, "z")}, [101], 4)
        model |= {200: (6, "ours"), 3: (6, "z")}
        model.pop(101)
        check()
        if version == 3:
            numbers_of_rows = other.sql(f"SELECT DISTINCT _row_id FROM {table} WHERE _row_id IS NOT NULL").count()
            assert numbers_of_rows == len(model)


@pytest.mark.server
def test_rows_keep_their_numbers_whoever_writes_their_files_anew(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a table of version 3: we do, also with files that Spark has written anew, and Spark with ours."""
    monkeypatch.setattr(maintenance, "MARKED_SHARE_MAX", 0)
    with RestCatalog(tmp_path / "rest") as rest:
        place, other = _in_catalog(rest, session, tmp_path)
        place.make(3)
        table = "rest.shop.orders"

        def numbers() -> dict[int, tuple[int, int]]:
            rows = other.sql(f"SELECT id, _row_id, _last_updated_sequence_number FROM {table}").collect()
            assert len({row[1] for row in rows}) == len(rows) == len(place.rows())
            assert not any(None in row for row in rows)
            return {row[0]: (row[1], row[2]) for row in rows}

        def files() -> set[str]:
            return {row[0] for row in other.sql(f"SELECT file_path FROM {table}.data_files").collect()}

        place.merge({1: (1, "y"), 101: (5, "n")}, [50], 1)
        known = numbers()
        for batch_id in range(2, 5):
            before = files()
            place.compact()
            assert len(files() - before) > 0
            assert other.sql(f"SELECT * FROM {table}.delete_files").count() == 0
            assert numbers() == known
            called = "table => 'shop.orders', where => 'id < 3', options => map('rewrite-all', 'true')"
            assert other.sql(f"CALL rest.system.rewrite_data_files({called})").collect()[0][0] > 0
            assert numbers() == known
            # Of a file whose rows have their numbers in columns some are marked; and there are new ones.
            place.merge({10 + batch_id: (1, "again")}, [batch_id], batch_id)
            place.merge({200 + batch_id: (2, "new")}, [], 10 + batch_id)
            changed, updated = {10 + batch_id, batch_id, 200 + batch_id}, 10 + batch_id
            now = numbers()
            assert {key: now[key] for key in now.keys() - changed} == {
                key: known[key] for key in known.keys() - changed
            }
            assert now[updated][0] == known[updated][0]
            assert now[updated][1] > max(version for _, version in known.values())
            known = now
        # The same without marks.
        place = CatalogPlace(structs.replace(place.sink, merge=Merge.REWRITE))
        marks = other.sql(f"SELECT * FROM {table}.delete_files").count()
        place.merge({20: (1, "again")}, [30], 5)
        assert other.sql(f"SELECT * FROM {table}.delete_files").count() <= marks
        now = numbers()
        assert {key: now[key] for key in now.keys() - {20}} == {key: known[key] for key in known.keys() - {20, 30}}
        assert now[20][0] == known[20][0]
        assert now[20][1] > known[20][1]


def _in_folder(session: SparkSession, folder: Path) -> tuple[SparkSession, str]:
    """A session with the catalog of a folder, which Java reads over JDBC, and the table `shop/orders` in it."""
    other, catalog = session.newSession(), "spark.sql.catalog.binlog_stream"
    other.conf.set(catalog, "org.apache.iceberg.spark.SparkCatalog")
    settings = {"type": "jdbc", "uri": f"jdbc:sqlite:{folder / CATALOG_FILE}", "warehouse": str(folder)}
    for setting, value in {**settings, "cache-enabled": "false"}.items():
        other.conf.set(f"{catalog}.{setting}", value)
    return other, "binlog_stream.shop.orders"


def _in_catalog(rest: RestCatalog, session: SparkSession, folder: Path) -> tuple[CatalogPlace, SparkSession]:
    """A table in a catalog, marked where rows change, and a session with that catalog by the name `rest`."""
    catalog = {**rest.settings(), "warehouse": str(folder)}
    sink = Sink(directory=str(folder / "tables"), format=TableFormat.ICEBERG, catalog=catalog, merge=Merge.MARK)
    other = session.newSession()
    name = "spark.sql.catalog.rest"
    other.conf.set(name, "org.apache.iceberg.spark.SparkCatalog")
    for key, value in {"type": "rest", "uri": catalog["uri"], "cache-enabled": "false"}.items():
        other.conf.set(f"{name}.{key}", value)
    return CatalogPlace(sink), other


@dataclass(frozen=True)
class CatalogPlace:
    """A table `shop.orders` in a catalog: a key, a day, as the number of days since 1970, and a word."""

    sink: Sink

    SCHEMA: ClassVar[pa.Schema] = pa.schema(
        [("id", pa.int32()), ("at", pa.timestamp("us", "UTC")), ("value", pa.string())]
    )

    def make(self, version: int) -> None:
        """With a hundred rows, on three days."""
        rules = tuple(map(partition_rule, ("day(at)", "bucket(4, id)")))
        with closing(self._look()) as target:
            target.create(self.SCHEMA, replace(MIRROR_COMMIT_ID, partition_by=rules))
            if version == 3:
                upgrade(target.table)
        rows = [(key, key % 3 * DAY_US, "x") for key in range(100)]
        with closing(self._look()) as target:
            target.append(rows_of(self.SCHEMA, rows).to_reader(), MIRROR_COMMIT_ID)

    def merge(self, rows: dict[int, tuple[int, str]], gone: list[int], batch_id: int) -> None:
        """One step."""
        images = [(key, day * DAY_US, value) for key, (day, value) in rows.items()]
        with closing(self._look()) as target:
            target.merge(change_of(images, gone, schema=self.SCHEMA), replace(MIRROR_COMMIT_ID, batch_id=batch_id))

    def compact(self) -> None:
        """What maintenance does now and then."""
        with closing(self._look()) as target:
            maintenance.compact(target.table, f"{self.sink.directory}/shop/orders", file_size=128 << 20)

    def rows(self) -> dict[int, tuple[int, str]]:
        """As we read them."""
        with closing(self._look()) as target:
            read = target.read().read_all().to_pylist()
        assert len({row["id"] for row in read}) == len(read)
        return {row["id"]: ((row["at"] - EPOCH).days, row["value"]) for row in read}

    def _look(self) -> IcebergTarget:
        return IcebergTarget.at(self.sink, f"{self.sink.directory}/shop/orders")


MORE_FILLED = SchemaChange(added=pa.schema([("more", pa.int32())]), filled={"more": pa.scalar(1, pa.int32())})


@pytest.mark.parametrize("merge", [Merge.MARK, Merge.REWRITE])
@pytest.mark.parametrize("mapping", ["none", "name", "id"])
def test_rows_of_delta_tables_keep_their_ids(
    session: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, merge: Merge, mapping: str
) -> None:
    """Spark and we change rows in turns, and write files anew; Spark reads the ids.

    It has made the table so, or without ids and vectors, which `upgrade-table` turns on.
    """
    monkeypatch.setattr("binlog_streaming.lake.delta.maintenance.MARKED_SHARE_MAX", 0)
    path = tmp_path / "orders"
    properties = {**MIRROR_COMMIT_ID.table_properties(), "delta.columnMapping.mode": mapping}
    if merge is Merge.REWRITE:
        properties |= {"delta.enableRowTracking": "true", "delta.enableDeletionVectors": "true"}
    table, named = f"delta.`{path}`", ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    session.sql(f"CREATE TABLE {table} (id INT, value STRING) USING delta TBLPROPERTIES ({named})")
    session.sql(f"INSERT INTO {table} SELECT CAST(id AS INT), 'x' FROM range(0, 20, 1, 1)")
    if merge is Merge.MARK:
        session.sql(f"INSERT INTO {table} SELECT CAST(id AS INT), 'x' FROM range(20, 30, 1, 1)")
        assert len(delta(path).upgrade(Sink(directory="", merge=merge, row_ids=True), is_dry=False)) == 4

    def ids() -> dict[int, tuple[int, int]]:
        rows = session.sql(f"SELECT id, _metadata.row_id, _metadata.row_commit_version FROM {table}").collect()
        assert len({row[1] for row in rows}) == len(rows)
        found = {row[0]: (row[1], row[2]) for row in rows}
        ours = delta(path).identified_rows().read_all().select(["id", *IDENTITY.names]).to_pylist()
        assert {key: identity for key, *identity in map(dict.values, ours)} == {
            key: list(identity) for key, identity in found.items()
        }
        return found

    known, used = ids(), set[int]()

    def check(modified: set[int], gone: set[int]) -> None:
        nonlocal known
        now = ids()
        used.update(row_id for row_id, _ in known.values())
        assert gone == known.keys() - now.keys()
        last = max(version for _, version in known.values())
        for key, (row_id, version) in now.items():
            assert row_id == known[key][0] if key in known else row_id not in used, key
            assert version == known[key][1] if key in known and key not in modified else version > last, key
        known = now

    def write(batch_id: int, write: Callable[[DeltaTarget, CommitId], object]) -> None:
        target = delta(path, merge)
        write(target, replace(MIRROR_COMMIT_ID, batch_id=batch_id))
        target.maintain(target.sink)

    # The second time in files that the first one has marked or written anew. Each look by Spark takes seconds of the
    # processor; ids and versions that one of two writers gets wrong stay wrong, and are seen after the other one, too.
    for batch_id in (1, 2):
        patches = Patches(numbers(5), pa.table({"value": [True]}))
        change = change_of([(2, f"u{batch_id}"), (100 + batch_id, "n")], [10 + batch_id], patches=patches)
        write(batch_id, lambda target, commit_id, change=change: target.merge(change, commit_id))  # type: ignore[misc]
        session.sql(f"UPDATE {table} SET value = 'spark' WHERE id = {batch_id + 5}")
        check({2, 5, batch_id + 5}, {10 + batch_id})
    session.sql(f"OPTIMIZE {table}")
    check(set(), set())
    write(7, lambda target, commit_id: target.evolve(MORE_FILLED, commit_id))
    check(set(known), set())
    write(8, lambda target, commit_id: target.replace(target.identified_rows(), commit_id))
    session.sql(f"INSERT INTO {table} VALUES (900, 'spark', 1)")
    check(set(), set())


@pytest.mark.parametrize("mapping", ["name", "id"])
def test_columns_with_other_names_in_files(session: SparkSession, tmp_path: Path, mapping: str) -> None:
    """A table with column mapping that Spark made, with partitions and a struct; Spark and we give columns names."""
    path = tmp_path / "orders"
    properties = {**MIRROR_COMMIT_ID.table_properties(), "delta.columnMapping.mode": mapping}
    said = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    session.sql(
        f"CREATE TABLE delta.`{path}` (id INT, city STRING, at STRUCT<x: INT, y: STRING>, value STRING) "
        f"USING delta PARTITIONED BY (city) TBLPROPERTIES ({said})"
    )
    session.sql(
        f"INSERT INTO delta.`{path}` VALUES (1, 'a', struct(1, 'y'), 'v'), (2, 'b', NULL, 'v'), (3, 'b', NULL, 'v')"
    )
    session.sql(f"ALTER TABLE delta.`{path}` RENAME COLUMN value TO `odd name`")

    def rows() -> list[tuple[object, ...]]:
        found = session.sql(f"SELECT * FROM delta.`{path}` ORDER BY id").collect()
        assert delta(path).read().read_all().sort_by("id").to_pylist() == [row.asDict(recursive=True) for row in found]
        return [tuple(row.asDict(recursive=True).values()) for row in found]

    schema = delta(path).schema()
    assert schema.names == ["id", "city", "at", "odd name"]
    changed = change_of([(1, "c", {"x": 5, "y": None}, "w"), (4, "b", None, "n")], [2], schema=schema)
    delta(path, Merge.MARK).merge(changed, replace(MIRROR_COMMIT_ID, batch_id=1))
    first, third, fourth = (1, "c", {"x": 5, "y": None}, "w"), (3, "b", None, "v"), (4, "b", None, "n")
    assert rows() == [first, third, fourth]
    if mapping == "id":
        rename_in_files(str(path), {b"1": "odd name", b"3": "id", b"4": "value", b"5": "y", b"6": "x"})
        assert rows() == [first, third, fourth]
    note = pa.struct([("by", pa.string())])
    named = SchemaChange(renamed={"odd name": "word", "city": "town"}, added=pa.schema([("note", note)]))
    delta(path).evolve(named, replace(MIRROR_COMMIT_ID, batch_id=2))
    assert rows() == [(*row, None) for row in (first, third, fourth)]
    session.sql(f"INSERT INTO delta.`{path}` VALUES (9, 'd', NULL, 's', struct('spark'))")
    session.sql(f"ALTER TABLE delta.`{path}` DROP COLUMN at")
    session.sql(f"DELETE FROM delta.`{path}` WHERE town = 'b'")
    schema = delta(path).schema()
    changed = change_of([(1, "c", "w", {"by": "us"}), (10, "d", "x", None)], schema=schema)
    delta(path).merge(changed, replace(MIRROR_COMMIT_ID, batch_id=3))
    expected = [(1, "c", "w", {"by": "us"}), (9, "d", "s", {"by": "spark"}), (10, "d", "x", None)]
    assert rows() == expected
    filled = SchemaChange(retyped={"id": pa.int64()}, filled={"word": pa.scalar("f")})
    delta(path).evolve(filled, replace(MIRROR_COMMIT_ID, batch_id=4))
    assert rows() == [(key, town, "f", by) for key, town, _, by in expected]
    count = session.sql(f"SELECT id FROM delta.`{path}` WHERE id = 9 AND town = 'd' AND word = 'f'").count()
    assert count == 1
