"""JSON columns of Delta tables as variants (`json = "variant"`): every kind of step, and what stays text."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from msgspec import structs

from binlog_format.errors import SchemaError, TableError
from binlog_format.messages import SHOW_VALUES
from binlog_format.rows.json.variant_layout import JSON_FIELD, VARIANT
from binlog_format.rows.json.variants import texts_of, variants_of
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_streaming.lake.change import Change, Patches
from binlog_streaming.lake.delta.actions import statistics_of
from binlog_streaming.lake.delta.features import FEED, with_properties
from binlog_streaming.lake.delta.log import make_commit
from binlog_streaming.lake.delta.target import DeltaTarget
from binlog_streaming.lake.evolution import SchemaChange, reconciled, with_texts
from binlog_streaming.lake.target import SMALL_FILES_MIN
from binlog_streaming.settings import Begin, Job, Json, Merge, Mode, Sink, Source, TableRule
from binlog_streaming.settings.choices import Evidence
from tests.streaming.replay_runs import run
from tests.streaming.tables.lake.sink_cases import MIRROR_COMMIT_ID
from tests.streaming.tables.shop import ShopLog

if TYPE_CHECKING:
    import duckdb
    from pyspark.sql import SparkSession

ORDERS = pa.schema([("id", pa.int32()), pa.field("doc", pa.string(), metadata=JSON_FIELD), ("note", pa.string())])
NO_FLAGS = pa.table({"none": [True]}).select([])
KEYS = pa.schema([("id", pa.int32())])

Rows = dict[int, tuple[str | None, str | None]]


def rows_of(rows: Rows) -> pa.Table:
    return pa.Table.from_pylist([{"id": key, "doc": doc, "note": note} for key, (doc, note) in rows.items()], ORDERS)


def change_of(rows: Rows, deletes: list[int], notes: dict[int, str]) -> Change:
    patched = pa.table({"id": pa.array(list(notes), pa.int32()), "note": list(notes.values())})
    return Change(rows_of(rows), pa.table({"id": deletes}, KEYS), Patches(patched, NO_FLAGS))


@pytest.fixture(params=[Merge.REWRITE, Merge.MARK], ids=str)
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> Sink:
    return Sink(directory=str(tmp_path), merge=request.param, json=Json.VARIANT)


def look(sink: Sink) -> DeltaTarget:
    return DeltaTarget.at(sink, f"{sink.directory}/shop/orders")


def made(sink: Sink, rows: Rows) -> None:
    with closing(look(sink)) as target:
        target.create(ORDERS, MIRROR_COMMIT_ID)
        target.append(rows_of(rows).to_reader(), MIRROR_COMMIT_ID)


def held(sink: Sink) -> Rows:
    with closing(look(sink)) as target:
        assert target.schema().field("doc").type.equals(VARIANT)
        found = with_texts(target.read().read_all()).to_pylist()
    return {row["id"]: (row["doc"], row.get("note")) for row in found}


def test_every_kind_of_step(sink: Sink) -> None:
    rows: Rows = {1: ('{"a": 1}', "x"), 2: (None, "x"), 3: ("[1, 2.50]", None), 4: ('"é"', "x"), 5: ("null", "x")}
    made(sink, rows)
    with closing(look(sink)) as target:
        assert "variantType" in (target.log.protocol.reader_features or ())
        assert json.loads(target.log.metadata.schema_string)["fields"][1]["type"] == "variant"
        (add,) = target.log.files.values()
        assert not {"doc"} & {name for part in statistics_of(add).values() if isinstance(part, dict) for name in part}
        target.merge(
            change_of({2: ("{}", "new"), 6: ("6e70", None)}, [3], {4: "patched"}), replace(MIRROR_COMMIT_ID, batch_id=1)
        )
    rows |= {2: ("{}", "new"), 6: ("6e70", None), 4: ('"é"', "patched")}
    del rows[3]
    assert held(sink) == rows
    with closing(look(sink)) as target:
        more = target.stored_schema(pa.schema([pa.field("more", pa.string(), metadata=JSON_FIELD)]))
        change = SchemaChange(added=more, filled={"more": pa.scalar('{"f": 0}')}, renamed={"note": "Note"})
        target.evolve(change, replace(MIRROR_COMMIT_ID, batch_id=2))
    with closing(look(sink)) as target:
        found = with_texts(target.read().read_all())
        assert set(found.column("more").to_pylist()) == {'{"f": 0}'}
        assert found.column("Note").to_pylist() == [rows[key][1] for key in found.column("id").to_pylist()]
    if sink.merge is Merge.REWRITE:  # else deltalake reads vectors by its query engine alone
        variants = pa.table(DeltaTable(f"{sink.directory}/shop/orders").to_pyarrow_table()).sort_by("id")
        assert texts_of(variants.column("doc").combine_chunks().cast(VARIANT)).to_pylist() == [
            rows[key][0] for key in sorted(rows)
        ]


def test_files_that_are_written_anew_have_the_same_bytes(sink: Sink) -> None:
    """Also of values that JSON does not have, and of a writer that has the parts in another order."""
    made(sink, {0: ("1", None)})
    date = {"metadata": b"\x01\x00\x00", "value": b"\x2c\x01\x02\x00\x00"}
    turned = pa.struct([VARIANT.field("value"), VARIANT.field("metadata")])
    for number in range(1, SMALL_FILES_MIN + 2):
        doc = pa.array([date], turned if number % 2 else VARIANT)
        with closing(look(sink)) as target:
            rows = pa.table({"id": pa.array([number], pa.int32()), "doc": doc})
            target.append(rows.to_reader(), replace(MIRROR_COMMIT_ID, batch_id=number))
    with closing(look(sink)) as target:
        target.maintain(sink)
    with closing(look(sink)) as target:
        assert len(target.log.files) == 1
        target.merge(change_of({2: ("2", None)}, [], {3: "x"}), replace(MIRROR_COMMIT_ID, batch_id=99))
    with closing(look(sink)) as target:
        docs = {row["id"]: row["doc"] for row in target.read().read_all().to_pylist()}
        assert [docs.pop(key) for key in (0, 2)] == variants_of(pa.array(["1", "2"])).to_pylist()
        assert list(docs.values()) == [date] * SMALL_FILES_MIN
        with pytest.raises(TableError, match=r"JSON_VALUE\] column doc, .* a type that JSON does not"):
            with_texts(target.read().read_all())


def test_the_change_feed_has_variants(sink: Sink) -> None:
    made(sink, {1: ('{"a": 1}', "x"), 2: ("2", "x")})
    with closing(look(sink)) as target:
        make_commit(
            target.store, target.log, "SET", [("metaData", with_properties(target.log.metadata, {FEED: "true"}))]
        )
    with closing(look(sink)) as target:
        target.merge(change_of({1: ('{"a": 2}', "x")}, [2], {}), replace(MIRROR_COMMIT_ID, batch_id=1))
    (file,) = (Path(sink.directory) / "shop" / "orders" / "_change_data").rglob("*.parquet")
    feed = pq.read_table(file)
    documents = texts_of(feed.column("doc").combine_chunks().cast(VARIANT)).to_pylist()
    said = zip(feed.column("_change_type").to_pylist(), feed.column("id").to_pylist(), documents, strict=True)
    assert sorted(said) == [
        ("delete", 2, "2"),
        ("update_postimage", 1, '{"a": 2}'),
        ("update_preimage", 1, '{"a": 1}'),
    ]


def test_a_value_that_is_no_json_is_named(sink: Sink, monkeypatch: pytest.MonkeyPatch) -> None:
    made(sink, {1: ("1", "x")})
    refused = rows_of({2: ("{}", "x"), 3: ('{"secret', "x")})
    for shown, told in (("0", r"\(hidden\)"), ("1", "'{\"secret'")):
        monkeypatch.setenv(SHOW_VALUES, shown)
        with (
            closing(look(sink)) as target,
            pytest.raises(TableError, match=rf"JSON_VALUE\] column doc, .*: {told}") as caught,
        ):
            target.append(refused.to_reader(), replace(MIRROR_COMMIT_ID, batch_id=1))
        assert 'json = "text"' in str(caught.value.hint)
    assert held(sink) == {1: ("1", "x")}


def test_a_column_stays_what_it_is(sink: Sink) -> None:
    """Whatever the setting says later, and the source calls it."""
    text = structs.replace(sink, json=Json.TEXT)
    with closing(look(text)) as target:
        target.create(ORDERS, MIRROR_COMMIT_ID)
    with closing(look(sink)) as target:
        assert not reconciled(target.schema(), target.stored_schema(ORDERS), "shop.orders")
        target.append(rows_of({1: ("{no json", "x")}).to_reader(), MIRROR_COMMIT_ID)
        assert target.schema().field("doc").type == pa.string()


def test_a_variant_takes_the_texts_of_a_column_that_is_json_no_more(sink: Sink) -> None:
    made(sink, {1: ("{}", "x")})
    plain = pa.schema([field.remove_metadata() for field in ORDERS])
    for changed in (sink, structs.replace(sink, json=Json.TEXT)):
        with closing(look(changed)) as target:
            assert not reconciled(target.schema(), target.stored_schema(plain), "shop.orders")
    number = plain.set(1, pa.field("doc", pa.int32()))
    with (
        closing(look(sink)) as target,
        pytest.raises(SchemaError, match=r"SCHEMA_CHANGED\] .* column doc was variant and is int32"),
    ):
        reconciled(target.schema(), target.stored_schema(number), "shop.orders")


def test_a_key_stays_text(sink: Sink) -> None:
    with closing(look(sink)) as target:
        target.create(ORDERS, replace(MIRROR_COMMIT_ID, keys=("doc",)))
        assert target.schema().field("doc").type == pa.string()


ID = ColumnSpec("id", "int")
DOC = ColumnSpec("doc", "longtext", nullable=True)
SOURCE = TableSpec("shop", "orders", (ID, DOC), ("id",))
WIDE = TableSpec("shop", "orders", (ID, DOC, ColumnSpec("more", "longtext", nullable=True)), ("id",))


@pytest.mark.parametrize("merge", [Merge.REWRITE, Merge.MARK])
def test_a_job_keeps_what_definitions_call_json(tmp_path: Path, merge: Merge) -> None:
    """MariaDB has text in its log; all modes, evidence of whole rows, JSON columns that come later."""
    job = Job(
        source=Source(path=str(tmp_path / "log")),
        sink=Sink(directory=str(tmp_path / "tables"), merge=merge, json=Json.VARIANT),
        checkpoint=str(tmp_path / "checkpoint"),
        evidence=Evidence.ROWS,
        tables=(TableRule(mode=(Mode.MIRROR, Mode.SCD2, Mode.CHANGELOG), target="{mode}/{database}/{table}"),),
    )
    with ShopLog(tmp_path / "log") as log:
        log.statement("CREATE TABLE orders (id INT PRIMARY KEY, doc JSON)")
        log.insert(SOURCE, (1, '{ "b":1,"a" : [1e2] }'), (2, None), (3, "3"))
        run(job)
        log.update(SOURCE, ((1, '{ "b":1,"a" : [1e2] }'), (1, '{"a":2}')))
        log.delete(SOURCE, (3, "3"))
        run(job)
        log.statement("ALTER TABLE orders ADD more JSON DEFAULT '{}'")
        log.insert(WIDE, (4, "4", '"x"'))
        run(job)
        log.statement("ALTER TABLE orders MODIFY doc LONGTEXT")
        log.update(WIDE, ((2, None, "{}"), (2, "[]", "{}")))
        run(job)
    now = [(1, '{"a": 2}', "{}"), (2, "[]", "{}"), (4, "4", '"x"')]
    assert rows_in(job, Mode.MIRROR) == now
    assert rows_in(job, Mode.SCD2) == now
    changes = {row[:2] for row in rows_in(job, Mode.CHANGELOG)}
    assert {(1, '{"a": [100.0e0], "b": 1}'), (3, "3"), (1, '{"a": 2}'), (2, "[]")} <= changes


def test_a_schema_file_tells_what_is_json(tmp_path: Path) -> None:
    """Of a table that is older than the log; a mask makes text of it."""
    (tmp_path / "schema.sql").write_text(
        "CREATE TABLE shop.orders (id INT PRIMARY KEY, doc JSON, more LONGTEXT CHECK (JSON_VALID(`more`)));"
    )
    for mask, kinds in ({}, [VARIANT, VARIANT]), ({"more": "text ***"}, [VARIANT, pa.string()]):
        folder = tmp_path / "_".join(["tables", *mask])
        job = Job(
            source=Source(path=str(tmp_path / "log"), schema_file=str(tmp_path / "schema.sql")),
            sink=Sink(directory=str(folder), json=Json.VARIANT),
            checkpoint=str(folder / "checkpoint"),
            tables=(TableRule(begin=Begin.EMPTY, mask=mask),),
        )
        if not mask:
            with ShopLog(tmp_path / "log") as log:
                log.insert(WIDE, (1, '{"a":1}', "[]"))
        run(job)
        with closing(DeltaTarget.at(job.sink, f"{folder}/shop/orders")) as target:
            assert [target.schema().field(name).type for name in ("doc", "more")] == kinds
            (row,) = with_texts(target.read().read_all()).to_pylist()
        assert row == {"id": 1, "doc": '{"a": 1}', "more": "***" if mask else "[]"}


def rows_in(job: Job, mode: Mode) -> list[tuple[object, ...]]:
    with closing(DeltaTarget.at(job.sink, f"{job.sink.directory}/{mode}/shop/orders")) as target:
        assert [target.schema().field(name).type for name in ("doc", "more")] == [VARIANT, VARIANT]
        found = with_texts(target.read().read_all()).to_pylist()
    current = [row for row in found if row.get("_is_current", True)]
    return sorted(((row["id"], row["doc"], row["more"]) for row in current), key=str)


def test_duckdb_reads_them(duck: duckdb.DuckDBPyConnection, sink: Sink) -> None:
    """As the two parts, which are bytes to it."""
    made(sink, {1: ('{"a": 1}', "x"), 2: (None, "y")})
    with closing(look(sink)) as target:
        target.merge(change_of({3: ("[3]", None)}, [2], {}), replace(MIRROR_COMMIT_ID, batch_id=1))
    found = duck.sql(f"FROM delta_scan('{sink.directory}/shop/orders') ORDER BY id").fetch_arrow_table()
    assert texts_of(found.column("doc").combine_chunks().cast(VARIANT)).to_pylist() == ['{"a": 1}', "[3]"]


@pytest.mark.spark
def test_spark_reads_them_and_makes_the_same(spark: SparkSession, sink: Sink) -> None:
    texts = ['{"b": {"c": [1, 2.5, "x"]}, "a": 1e3}', "[null, true]", "-123456789.123456789", '"é"']
    made(sink, {number: (text, "x") for number, text in enumerate(texts)})
    with closing(look(sink)) as target:
        (file,) = target.log.files.values()
    read = spark.read.schema("id INT, doc VARIANT").parquet(f"{sink.directory}/shop/orders/{file.place}")
    found = read.selectExpr(
        "id", "to_json(doc)", "CAST(variant_get(doc, '$.b.c[1]', 'double') AS DOUBLE)", "doc"
    ).orderBy("id")
    rows = [tuple(row) for row in found.collect()]
    assert [row[1] for row in rows] == ['{"a":1000.0,"b":{"c":[1,2.5,"x"]}}', "[null,true]", texts[2], '"é"']
    assert rows[0][2] == 2.5
    theirs = spark.createDataFrame([(text,) for text in texts], "text STRING").selectExpr("parse_json(text)").collect()
    assert [(bytes(row[3].metadata), bytes(row[3].value)) for row in rows] == [
        (bytes(row[0].metadata), bytes(row[0].value)) for row in theirs
    ]
