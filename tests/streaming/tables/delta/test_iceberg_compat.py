"""Delta tables with Iceberg compatibility: files as the protocol has them, and refused by name what it forbids."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from msgspec.structs import replace as with_fields

from binlog_format.errors import TableError
from binlog_format.rows.json.variant_layout import JSON_FIELD
from binlog_streaming.lake.delta import log as log_module
from binlog_streaming.lake.delta.actions import Metadata, Protocol
from binlog_streaming.lake.delta.columns import created
from binlog_streaming.lake.delta.features import features, named_features, with_properties
from binlog_streaming.lake.delta.mapping import NESTED_IDS, ROW_ID_FEATURES, mapped, row_id_properties
from binlog_streaming.lake.delta.target import DeltaTarget
from binlog_streaming.lake.evolution import IDENTITY, SchemaChange
from binlog_streaming.settings import Json, Merge, Sink
from binlog_streaming.settings.choices import partition_rule
from tests.streaming.tables.lake.sink_cases import MIRROR_COMMIT_ID, change_of, rows_of

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS = pa.schema(
    [
        ("city", pa.string()),
        ("id", pa.int32()),
        ("value", pa.string()),
        ("at", pa.struct([("x", pa.int32()), ("tags", pa.list_(pa.string()))])),
        ("lists", pa.list_(pa.int32())),
    ]
)
DOCUMENT = pa.field("doc", pa.string(), metadata=JSON_FIELD)
PLAIN = pa.schema([field for field in COLUMNS if field.name in ("city", "id", "value")])


def find(path: Path, merge: Merge = Merge.AUTO, json_as: Json = Json.TEXT) -> DeltaTarget:
    return DeltaTarget.at(Sink(directory="", merge=merge, json=json_as), str(path))


def made(path: Path, columns: pa.Schema, version: int = 2, **more: str) -> None:
    """A partitioned table with Iceberg compatibility, and without rows."""
    target = find(path)
    properties = {
        **MIRROR_COMMIT_ID.table_properties(),
        "delta.columnMapping.mode": "name",
        f"delta.enableIcebergCompatV{version}": "true",
        **{f"delta.{name}": value for name, value in more.items()},
    }
    rules = [partition_rule("city")]
    (_, protocol), (_, metadata) = created(
        columns, name="t", description="", configuration=properties, partition_by=rules
    )
    assert isinstance(protocol, Protocol)
    assert isinstance(metadata, Metadata)
    schema, mapped_to = mapped(metadata, json.loads(metadata.schema_string))
    metadata = with_fields(with_properties(metadata, mapped_to), schema_string=json.dumps(schema))
    readers, writers = features(protocol)
    writers |= {"columnMapping", f"icebergCompatV{version}"} | (set(ROW_ID_FEATURES) if version == 3 else set())
    protocol = named_features(readers | {"columnMapping"}, writers)
    log = log_module.empty_log()
    log_module.make_commit(target.store, log, "CREATE TABLE", [("protocol", protocol), ("metaData", metadata)])


def fields(path: Path) -> list[dict[str, Any]]:
    log = find(path).log
    assert log is not None
    return json.loads(log.metadata.schema_string)["fields"]  # type: ignore[no-any-return]


def numbers(schema: pa.Schema | pa.DataType) -> dict[str, Any]:
    """Names and numbers in a file, with those of what is in a column."""
    found: dict[str, Any] = {}
    for field in schema:
        inner = [field.type.value_field] if pa.types.is_list(field.type) else []
        found[field.name] = [int(one.metadata[b"PARQUET:field_id"]) for one in (field, *inner)]
        if pa.types.is_struct(field.type):
            found[field.name].append(numbers(field.type))
    return found


@pytest.mark.parametrize("merge", [Merge.REWRITE, Merge.MARK])
def test_files_have_partitions_and_a_number_for_each_value(tmp_path: Path, merge: Merge) -> None:
    made(tmp_path, COLUMNS)
    row = ("a", 1, "x", {"x": 1, "tags": ["t", None]}, [1, None])
    find(tmp_path, merge).append(rows_of(COLUMNS, [row, (None, 2, None, None, None)]).to_reader(), MIRROR_COMMIT_ID)
    change = change_of([("b", 1, "y", None, [5])], schema=COLUMNS)
    find(tmp_path, merge).merge(change, replace(MIRROR_COMMIT_ID, batch_id=1))
    more = SchemaChange(added=pa.schema([("more", pa.list_(pa.int64()))]), retyped={"id": pa.int64()})
    find(tmp_path, merge).evolve(more, replace(MIRROR_COMMIT_ID, batch_id=2))
    find(tmp_path).maintain(Sink(directory=""))
    assert find(tmp_path).read().read_all().sort_by("id").to_pylist() == [
        {"city": "b", "id": 1, "value": "y", "at": None, "lists": [5], "more": None},
        {"city": None, "id": 2, "value": None, "at": None, "lists": None, "more": None},
    ]
    log = find(tmp_path).log
    assert log is not None
    city, key, value, at, lists, added = (field["metadata"] for field in fields(tmp_path))
    x, tags = (field["metadata"] for field in fields(tmp_path)[3]["type"]["fields"])
    physical, number, nested = "delta.columnMapping.physicalName", "delta.columnMapping.id", NESTED_IDS
    inner = {x[physical]: [x[number]], tags[physical]: [tags[number], tags[nested][f"{tags[physical]}.element"]]}
    expected = {
        key[physical]: [key[number]],
        value[physical]: [value[number]],
        at[physical]: [at[number], inner],
        lists[physical]: [lists[number], lists[nested][f"{lists[physical]}.element"]],
        added[physical]: [added[number], added[nested][f"{added[physical]}.element"]],
        city[physical]: [city[number]],
    }
    assert log.metadata.configuration["delta.columnMapping.maxColumnId"] == "11"
    assert sorted(map(int, re.findall(r"\d+\b(?=[,\]])", json.dumps(expected)))) == list(range(1, 12))
    for add in log.files.values():
        assert add.deletion_vector is None
        statistics = json.loads(add.stats or "")
        assert statistics["numRecords"] == 1
        assert city[physical] not in statistics["nullCount"]
        file = pq.read_schema(tmp_path / add.place)
        assert list(numbers(file).items()) == list(expected.items())
        values = pq.ParquetFile(tmp_path / add.place).read(columns=[city[physical]])
        assert values.column(0).to_pylist() == [add.partition_values[city[physical]]]
    assert log.metadata.schema.names == [*COLUMNS.names, "more"]


def test_rows_of_version_3_are_marked_and_their_ids_have_the_numbers_of_iceberg(tmp_path: Path) -> None:
    ids = {name.removeprefix("delta."): value for name, value in row_id_properties().items()}
    made(tmp_path, COLUMNS, 3, enableDeletionVectors="true", **ids)
    names = [ids["rowTracking.materializedRowIdColumnName"], ids["rowTracking.materializedRowCommitVersionColumnName"]]
    rows = [("a", number, "x", None, [number]) for number in range(3)]
    find(tmp_path, Merge.MARK).append(rows_of(COLUMNS, rows).to_reader(), MIRROR_COMMIT_ID)
    change = change_of([("a", 1, "y", None, None)], schema=COLUMNS)
    find(tmp_path, Merge.MARK).merge(change, replace(MIRROR_COMMIT_ID, batch_id=1))
    log = find(tmp_path).log
    assert log is not None
    marked, added = sorted(log.files.values(), key=lambda add: add.base_row_id or 0)
    assert marked.deletion_vector is not None
    kept = numbers(pq.read_schema(tmp_path / added.place))
    assert [kept[name] for name in names] == [[2147483540], [2147483539]]
    assert not {*names} & {*pq.read_schema(tmp_path / marked.place).names}
    for target in (find(tmp_path), by_number(tmp_path)):
        found = target.identified_rows().read_all().sort_by("id")
        assert found.column(IDENTITY.names[0]).to_pylist() == [0, 1, 2]
        assert found.column("value").to_pylist() == ["x", "y", "x"]


def by_number(path: Path) -> DeltaTarget:
    """The same table, whose columns are found by their numbers alone."""
    target = find(path)
    target.log.metadata = with_properties(target.log.metadata, {"delta.columnMapping.mode": "id"})
    return target


@pytest.mark.parametrize(
    ("columns", "version", "more", "told"),
    [
        (PLAIN, 3, {}, "icebergCompatV3 without rowTracking"),
        (PLAIN, 4, {}, "icebergCompatV4"),
        (PLAIN, 2, {"enableIcebergCompatV1": "true"}, "icebergCompatV1, icebergCompatV2"),
        (PLAIN, 2, {"columnMapping.mode": "none"}, "icebergCompatV2 without columnMapping"),
        (PLAIN, 2, {"enableDeletionVectors": "true"}, "icebergCompatV2 with deletionVectors"),
        (COLUMNS, 1, {}, r"icebergCompatV1 with lists \(column at\), icebergCompatV1 with lists \(column lists\)"),
    ],
)
def test_what_iceberg_cannot_follow_is_refused(
    tmp_path: Path, columns: pa.Schema, version: int, more: dict[str, str], told: str
) -> None:
    made(tmp_path, columns, version, **more)
    with pytest.raises(TableError, match=rf"TABLE_FEATURE\] .* only Spark writes correctly: {told}(\. |, )") as refused:
        find(tmp_path)
    property_name = "UNSET TBLPROPERTIES ('delta.enableIcebergCompatV"
    assert (property_name in (refused.value.hint or "")) == (version < 3)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (SchemaChange(renamed={"city": "town"}), r"with other partitions \(town\)"),
        (SchemaChange(retyped={"id": pa.string()}), r"with a change of type from integer to string \(column id\)"),
        (SchemaChange(retyped={"id": pa.float64()}), "with a change of type from integer to double"),
        (SchemaChange(added=pa.schema([DOCUMENT])), r"with type variant \(column doc\)"),
    ],
)
def test_changes_of_columns_that_iceberg_cannot_follow_are_refused(
    tmp_path: Path, change: SchemaChange, told: str
) -> None:
    made(tmp_path, PLAIN, enableTypeWidening="true")
    version = find(tmp_path).version()
    with pytest.raises(TableError, match=rf"TABLE_FEATURE\] .*icebergCompatV2 {told}"):
        find(tmp_path, json_as=Json.VARIANT).evolve(change, MIRROR_COMMIT_ID)
    assert find(tmp_path).version() == version


def test_partitions_stay_when_all_rows_are_replaced(tmp_path: Path) -> None:
    made(tmp_path, PLAIN)
    rows = pa.table({"id": pa.array([1], pa.int32()), "value": ["x"]})
    with pytest.raises(TableError, match=r"icebergCompatV2 with other partitions \(none\)"):
        find(tmp_path).replace(rows.to_reader(), MIRROR_COMMIT_ID)
