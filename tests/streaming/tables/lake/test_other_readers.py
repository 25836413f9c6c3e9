"""Delta tables as DuckDB reads them, with a Delta library of others: all rows, and those that a filter asks for.

A reader passes over files by their statistics: a wrong one hides rows, and only from those who filter.
"""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable

from binlog_format import open_log
from binlog_format.errors import TableError
from binlog_streaming.lake.evolution import SchemaChange
from binlog_streaming.settings import Merge, Mode, Sink, TableFormat, TableRule
from tests.streaming.tables.batches import cut, write
from tests.streaming.tables.lake.sink_cases import (
    ALL_COLUMNS,
    MIRROR_COMMIT_ID,
    Variant,
    all_types,
    change_of,
    numbers,
    rows_of,
)
from tests.streaming.tables.oltp import IMAGES, OLTP, TABLES, play, truth

if TYPE_CHECKING:
    from collections.abc import Mapping

    import duckdb

    from tests.streaming.tables.lake.sink_cases import Place


@pytest.fixture(params=[Merge.REWRITE, Merge.MARK], ids=str)
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> Sink:
    return Sink(directory=str(tmp_path), format=TableFormat.DELTA, merge=request.param)


@pytest.fixture(params=[Variant.DELTA, Variant.VECTORS], ids=str)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Variant(request.param).place(tmp_path)


def read(duck: duckdb.DuckDBPyConnection, path: str, **equal: object) -> pa.Table:
    """Rows of the table at *path*; *equal*: where these columns have these values."""
    from duckdb import ColumnExpression, ConstantExpression

    # As constants: by a parameter DuckDB does not pass over files.
    rows = duck.sql(f"FROM delta_scan('{path}')")
    for name, value in equal.items():
        column = ColumnExpression(name)
        rows = rows.filter(column.isnull() if value is None else column == ConstantExpression(value))
    return rows.fetch_arrow_table()


@pytest.mark.parametrize("mode", [Mode.MIRROR, Mode.SCD2, Mode.CHANGELOG], ids=str)
def test_tables_of_a_job_equal_the_server(duck: duckdb.DuckDBPyConnection, sink: Sink, mode: Mode) -> None:
    """In three batches, so that rows are marked where the sink marks them."""
    with open_log(str(OLTP)) as log:
        for batch_id, batch in enumerate(cut(log, 3)):
            write(log, batch, sink.directory, batch_id, (TableRule(mode=mode),), sink=sink)
    images = 0
    for name in TABLES:
        path = f"{sink.directory}/sb/{name}"
        if mode is Mode.CHANGELOG:
            rows = read(duck, path)
            images += rows.num_rows
            assert play(rows)[0] == truth(name)
            continue
        current: dict[str, object] = {"_is_current": True} if mode is Mode.SCD2 else {}
        columns = ["id", "k", "c", "pad"]
        rows = read(duck, path, **current).select(columns).sort_by("id")
        assert [tuple(row.values()) for row in rows.to_pylist()] == truth(name)
        one = truth(name)[40]
        rows = read(duck, path, id=one[0], c=one[2], **current).select(columns)
        assert [tuple(row.values()) for row in rows.to_pylist()] == [one]
    assert mode is not Mode.CHANGELOG or images == IMAGES


def test_marked_rows_are_in_no_answer(duck: duckdb.DuckDBPyConnection, place: Place) -> None:
    """Least and greatest values of a file may be those of marked rows."""
    place.append(0, numbers(*range(1000)), MIRROR_COMMIT_ID)
    place.bring(change_of([(500, "y"), (2000, "z")], [0, 1, 999]))
    place.bring(change_of([(2, "w")], [2000]), batch_id=2)
    held = dict.fromkeys(range(3, 999), "x") | {500: "y", 2: "w"}
    assert {row["id"]: row["value"] for row in read(duck, place.uri).to_pylist()} == held
    for number in (0, 1, 2, 3, 500, 998, 999, 2000):
        answer = read(duck, place.uri, id=number).to_pylist()
        assert answer == ([{"id": number, "value": held[number]}] if number in held else [])
    assert read(duck, place.uri, value="z").num_rows == 0


@pytest.mark.parametrize("kind", ALL_COLUMNS)
def test_every_value_is_read_and_found(duck: duckdb.DuckDBPyConnection, place: Place, kind: str) -> None:
    """In files that a merge has written."""
    column = all_types().column(kind)
    values = column.to_pylist()
    schema = pa.schema([("id", pa.int32()), ("value", column.type)])
    place.append(0, rows_of(schema, [(number, None) for number in range(len(values))]), MIRROR_COMMIT_ID)
    assert place.merge(1, [((number, None), (number, value)) for number, value in enumerate(values)], schema)
    assert read(duck, place.uri).sort_by("id").column("value").to_pylist() == values
    if pa.types.is_nested(column.type):
        return
    for number, value in enumerate(values):
        assert read(duck, place.uri, value=value).column("id").to_pylist() == [number], value


PLACE = pa.struct([("x", pa.int32()), ("y", pa.string())])
MAPPED = pa.schema([("id", pa.int32()), ("city", pa.string()), ("at", PLACE), ("value", pa.string())])


def with_mapping(place: Place, partitions: list[str], mode: str) -> None:
    """An empty table with column mapping; as Spark makes it."""
    with closing(place.target()) as target:
        target.create(MAPPED, MIRROR_COMMIT_ID)
    for commit in Path(place.uri, "_delta_log").glob("*.json"):
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        commit.write_text("".join(json.dumps(_mapped(action, partitions, mode)) + "\n" for action in actions))


def _mapped(action: dict[str, Any], partitions: list[str], mode: str) -> dict[str, Any]:
    if "protocol" in action:
        features = [*action["protocol"].get("readerFeatures", []), "columnMapping"]
        named = {"readerFeatures": features, "writerFeatures": features}
        return {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, **named}}
    if "metaData" in action:
        said = action["metaData"]
        said["configuration"] |= {"delta.columnMapping.mode": mode, "delta.columnMapping.maxColumnId": "6"}
        schema = json.loads(said["schemaString"])
        at = next(field for field in schema["fields"] if field["name"] == "at")
        for number, field in enumerate([*schema["fields"], *at["type"]["fields"]], 1):
            field["metadata"] = {
                "delta.columnMapping.id": number,
                "delta.columnMapping.physicalName": f"col-{number}",
            }
        said |= {"schemaString": json.dumps(schema), "partitionColumns": partitions}
    return action


@pytest.mark.parametrize("mode", ["name", "id"])
@pytest.mark.parametrize("partitions", [[], ["city"]], ids=["one partition", "partitions"])
def test_columns_with_other_names_in_files(
    duck: duckdb.DuckDBPyConnection, place: Place, partitions: list[str], mode: str
) -> None:
    """A table with column mapping, and a struct; columns come, get other names, and are filled."""
    with_mapping(place, partitions, mode)
    # DuckDB 1.4 takes the values of such partitions for null; deltalake and Spark (test_spark_tables.py) read them.
    reader = None if partitions else duck
    rows = [(key, "ab"[key % 2], {"x": key, "y": str(key)} if key % 3 else None, "v") for key in range(1, 9)]
    place.append(0, rows_of(MAPPED, rows), MIRROR_COMMIT_ID)
    place.bring(change_of([(1, "a", {"x": 0, "y": None}, "u")], [2], schema=MAPPED), batch_id=1, schema=MAPPED)
    files = set(Path(place.uri).rglob("*.parquet"))
    for file in files:
        schema = pq.read_schema(file)
        ids = [field.metadata[b"PARQUET:field_id"] for field in schema]
        numbers_there = [number for number in (1, 2, 3, 4) if number != 2 or not partitions]
        assert schema.names == [f"col-{number}" for number in numbers_there]
        assert ids == [str(number).encode() for number in numbers_there]
        assert [(one.name, one.metadata[b"PARQUET:field_id"]) for one in schema.field("col-3").type] == [
            ("col-5", b"5"),
            ("col-6", b"6"),
        ]
    # Names, and a new column, cost no file.
    note = pa.struct([("by", pa.string())])
    change = SchemaChange(renamed={"value": "word", "city": "town"}, added=pa.schema([("note", note)]))
    assert place.evolve(change, replace(MIRROR_COMMIT_ID, batch_id=2))
    assert set(Path(place.uri).rglob("*.parquet")) == files
    renamed = pa.schema(
        [("id", pa.int32()), ("town", pa.string()), ("at", PLACE), ("word", pa.string()), ("note", note)]
    )
    new = change_of([(20, "c", None, "w", {"by": "me"})], [3], schema=renamed)
    place.bring(new, batch_id=3, schema=renamed)
    held: list[tuple[object, ...]] = [(key, town, at, word, None) for key, town, at, word in rows[3:]]
    held = [(1, "a", {"x": 0, "y": None}, "u", None), *held, (20, "c", None, "w", {"by": "me"})]
    check_mapped(reader, place, renamed, held)
    filled = SchemaChange(retyped={"id": pa.int64()}, filled={"word": pa.scalar("f")}, renamed={"note": "said"})
    assert place.evolve(filled, replace(MIRROR_COMMIT_ID, batch_id=4))
    wide = pa.schema([("id", pa.int64()), *list(renamed)[1:4], ("said", note)])
    check_mapped(reader, place, wide, [(*row[:3], "f", row[4]) for row in held])
    metadata = DeltaTable(place.uri).metadata()
    assert metadata.partition_columns == ["town" for _ in partitions]
    assert metadata.configuration["delta.columnMapping.maxColumnId"] == "8"


def check_mapped(
    duck: duckdb.DuckDBPyConnection | None, place: Place, schema: pa.Schema, rows: list[tuple[object, ...]]
) -> None:
    """We, deltalake and DuckDB read these rows, and DuckDB finds each by its values."""
    wanted = rows_of(schema, rows).to_pylist()
    assert place.read().schema.equals(schema)
    found = [place.read(), pa.table(DeltaTable(place.uri).scan().read_all())]
    found += [] if duck is None else [read(duck, place.uri)]
    for one in found:
        assert sorted(one.to_pylist(), key=lambda row: row["id"]) == wanted
    if duck is not None:
        for row in wanted:
            assert read(duck, place.uri, id=row["id"], town=row["town"], word=row["word"]).to_pylist() == [row]


def test_columns_are_found_by_their_ids_alone(place: Place) -> None:
    """Files of another writer, in mode `id`, call columns and fields as they like, also as other columns are called.

    Spark reads such files in test_spark_tables.py; DuckDB 1.4 and deltalake look for the names all the same.
    """
    with_mapping(place, [], "id")
    rows = [(1, "a", {"x": 1, "y": "b"}, "v"), (2, "b", {"x": 2, "y": None}, "w")]
    place.append(0, rows_of(MAPPED, rows), MIRROR_COMMIT_ID)
    rename_in_files(place.uri, {b"1": "id", b"2": "col-4", b"4": "city", b"5": "y", b"6": "x"})
    assert place.read().sort_by("id").equals(rows_of(MAPPED, rows))
    place.bring(change_of([(1, "c", None, "u"), (3, "c", None, "n")], [2], schema=MAPPED), batch_id=1, schema=MAPPED)
    assert place.read().sort_by("id").equals(rows_of(MAPPED, [(1, "c", None, "u"), (3, "c", None, "n")]))
    # An id that the table does not know is that of a column which was dropped, whatever its name is.
    rename_in_files(place.uri, {b"4": "col-4"}, numbers={b"4": b"9"})
    assert place.read().sort_by("id").equals(rows_of(MAPPED, [(1, "c", None, None), (3, "c", None, None)]))
    rename_in_files(place.uri, {}, numbers={str(number).encode(): b"" for number in range(10)})
    with pytest.raises(TableError, match=r"TABLE_FEATURE\] .*\.parquet: .*columnMapping by id, and no column"):
        place.read()


def rename_in_files(uri: str, names: dict[bytes, str], numbers: Mapping[bytes, bytes] = MappingProxyType({})) -> None:
    """Another writer's commit, which writes all files anew: columns with some ids have other names there, or other ids.

    Args:
        numbers: Other ids; empty: the column has none.
    """

    def other(field: pa.Field) -> pa.Field:
        number = (field.metadata or {}).get(b"PARQUET:field_id", b"")
        kind = pa.struct([other(child) for child in field.type]) if pa.types.is_struct(field.type) else field.type
        name, number = names.get(number, field.name), numbers.get(number, number)
        return pa.field(name, kind, metadata={b"PARQUET:field_id": number} if number else None)

    def with_names(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
        array = column.combine_chunks()
        if pa.types.is_struct(kind):
            return pa.StructArray.from_arrays(array.flatten(), fields=list(kind), mask=array.is_null())
        return array

    commits = sorted(Path(uri, "_delta_log").glob("*[0-9].json"))
    live: dict[str, dict[str, Any]] = {}
    for commit in commits:
        actions = [json.loads(line) for line in commit.read_text().splitlines()]
        for path in (action["remove"]["path"] for action in actions if "remove" in action):
            del live[path]
        live |= {action["add"]["path"]: action["add"] for action in actions if "add" in action}
    lines: list[dict[str, object]] = []
    for path, add in live.items():
        file = Path(uri, path)
        rows = pq.ParquetFile(file).read()
        schema = pa.schema([other(field) for field in rows.schema])
        columns = [with_names(column, field.type) for column, field in zip(rows.columns, schema, strict=True)]
        anew = file.with_name(f"anew-{file.name}")
        pq.write_table(pa.Table.from_arrays(columns, schema=schema), anew, store_schema=False)
        facts = {"path": str(anew.relative_to(uri)), "size": anew.stat().st_size, "dataChange": False}
        vector = {"deletionVector": add["deletionVector"]} if "deletionVector" in add else {}
        lines += [{"remove": {"path": path, "deletionTimestamp": 1, "dataChange": False, **vector}}]
        lines += [{"add": add | facts}]
    commits[-1].with_name(f"{len(commits):020}.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
