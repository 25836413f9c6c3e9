"""Columns of Iceberg tables change: files from before and from after are read rightly, by us and by a fresh reader."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from binlog_streaming.lake.evolution import SchemaChange
from binlog_streaming.settings import TableFormat
from tests.streaming.tables.iceberg.iceberg_cases import files_of, reader, snapshots_of
from tests.streaming.tables.lake.sink_cases import MIRROR_COMMIT_ID, Place, change_of, rows_of

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from tests.streaming.tables.modes.row_images import Row

POINT = pa.struct([("srid", pa.int32()), ("wkb", pa.binary())])
SCHEMA = pa.schema(
    [
        ("id", pa.int32()),
        ("name", pa.string()),
        ("price", pa.decimal128(5, 2)),
        ("weight", pa.float32()),
        ("place", POINT),
        ("vector", pa.list_(pa.float32())),
    ]
)
VALUES: list[dict[str, object]] = [
    {"id": 1, "name": "a", "price": None, "weight": 1.5, "place": {"srid": 1, "wkb": b"x"}, "vector": [1.0, 2.0]},
    {"id": 2, "name": None, "price": None, "weight": -2.25, "place": None, "vector": None},
]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path, TableFormat.ICEBERG)
    place.append(0, pa.Table.from_pylist(VALUES, SCHEMA), MIRROR_COMMIT_ID)
    return place


def evolve(place: Place, step: int, **change: object) -> None:
    assert place.evolve(SchemaChange(**change), replace(MIRROR_COMMIT_ID, batch_id=1, step=step))  # type: ignore[arg-type]


def ids_of(place: Place) -> dict[str, int]:
    with reader(place) as table:
        return {field.name: field.field_id for field in table.schema().fields}


def seen(place: Place) -> list[dict[str, object]]:
    """What a fresh reader sees, which is what the target itself reads, and what the files say by their field ids."""
    with reader(place) as table:
        there = table.scan().to_arrow()
        columns = {field.name: field.field_id for field in table.schema().fields}
        files = [task.file.file_path for task in table.scan().plan_files()]
    wanted = sorted(there.to_pylist(), key=repr)
    assert sorted(place.read().to_pylist(), key=repr) == wanted
    raw = [row for file in files for row in raw_rows(file, columns)]
    assert sorted(map(repr, raw)) == sorted(map(repr, wanted))
    return sorted(wanted, key=lambda row: repr(next(iter(row.values()))))


def raw_rows(file: str, columns: Mapping[str, int]) -> list[dict[str, object]]:
    """Rows of a file by the field ids in it, without any library for Iceberg."""
    content = pq.ParquetFile(file).read()
    by_id = {int((field.metadata or {})[b"PARQUET:field_id"]): field.name for field in content.schema}
    return [
        {name: row[by_id[number]] if number in by_id else None for name, number in columns.items()}
        for row in content.to_pylist()
    ]


def test_metadata_alone_changes_where_no_value_changes(place: Place) -> None:
    files = files_of(place)
    evolve(
        place,
        1,
        renamed={"name": "title"},
        retyped={"id": pa.int64(), "price": pa.decimal128(12, 2), "weight": pa.float64()},
        added=pa.schema([("note", pa.string()), ("spot", POINT)]),
        filled={"note": pa.scalar(None, pa.string())},
    )
    assert files_of(place) == files
    assert len(snapshots_of(place)) == 2
    assert list(seen(place)[0]) == ["id", "title", "price", "weight", "place", "vector", "note", "spot"]
    rows: list[Row] = [(2**40, "b", None, 1e300, None, [3.0], "n", {"srid": 7, "wkb": b""})]
    with closing(place.target()) as target:
        schema = target.schema()
    assert [str(schema.field(name).type) for name in ("id", "price", "weight")] == [
        "int64",
        "decimal128(12, 2)",
        "double",
    ]
    place.append(2, rows_of(schema, rows), MIRROR_COMMIT_ID)
    assert [(row["id"], row["title"], row["weight"], row["note"]) for row in seen(place)] == [
        (1, "a", 1.5, None),
        (2**40, "b", 1e300, "n"),
        (2, None, -2.25, None),
    ]


def test_a_key_is_found_in_files_from_before_it_was_widened(place: Place) -> None:
    """Their statistics are shorter."""
    evolve(place, 1, retyped={"id": pa.int64()}, added=pa.schema([("note", pa.string())]))
    with closing(place.target()) as target:
        schema = target.schema()
    row: Row = (1, "A", None, 2.5, None, [9.0], "n")
    place.bring(change_of([row, (2**40, *row[1:])], [2], schema=schema), batch_id=2)
    assert [(row["id"], row["name"], row["note"]) for row in seen(place)] == [(1, "A", "n"), (2**40, "A", "n")]


def test_values_are_filled_and_types_become_others_in_one_commit(place: Place) -> None:
    before = ids_of(place)
    evolve(
        place,
        1,
        renamed={"name": "title"},
        retyped={"id": pa.string(), "weight": pa.float64()},
        added=pa.schema([("state", pa.string()), ("spot", POINT)]),
        filled={"state": pa.scalar("new"), "price": pa.scalar(None, pa.decimal128(5, 2))},
    )
    after = ids_of(place)
    assert len(snapshots_of(place)) == 2
    assert [(row["id"], row["title"], row["weight"], row["state"]) for row in seen(place)] == [
        ("1", "a", 1.5, "new"),
        ("2", None, -2.25, "new"),
    ]
    assert (after["title"], after["weight"], after["vector"]) == (before["name"], before["weight"], before["vector"])
    assert after["id"] > max(before.values())  # what was a number and is a text now is another column to Iceberg


def test_structs_and_lists_are_filled(place: Place) -> None:
    value = {"srid": 5, "wkb": b"w"}
    evolve(
        place,
        1,
        added=pa.schema([("spot", POINT), ("more", pa.list_(pa.float32()))]),
        filled={"spot": pa.scalar(value, POINT), "more": pa.scalar([1.5], pa.list_(pa.float32()))},
    )
    assert [(row["spot"], row["more"]) for row in seen(place)] == [(value, [1.5])] * 2


def test_names_change_places(place: Place) -> None:
    before = ids_of(place)
    evolve(place, 1, renamed={"price": "weight", "weight": "price"})
    assert [row["price"] for row in seen(place)] == [1.5, -2.25]
    assert ids_of(place) == {**before, "price": before["weight"], "weight": before["price"]}


def test_a_name_that_was_given_away_can_come_back_in_the_same_step(place: Place) -> None:
    evolve(place, 1, renamed={"name": "title"}, added=pa.schema([("name", pa.int64())]))
    assert [(row["title"], row["name"]) for row in seen(place)] == [("a", None), (None, None)]
    evolve(place, 2, renamed={"name": "number", "title": "name"})
    assert [(row["name"], row["number"]) for row in seen(place)] == [("a", None), (None, None)]


def test_rows_are_replaced_with_other_columns(place: Place) -> None:
    """Same and wider columns stay the same ones to a reader of old snapshots; others are new."""
    before = ids_of(place)
    schema = pa.schema([("weight", pa.float64()), ("id", pa.int32()), ("name", pa.int32()), ("new", pa.bool_())])
    assert place.replace(rows_of(schema, [(0.5, 7, 8, True)]), replace(MIRROR_COMMIT_ID, batch_id=1))
    assert seen(place) == [{"weight": 0.5, "id": 7, "name": 8, "new": True}]
    after = ids_of(place)
    assert (after["weight"], after["id"]) == (before["weight"], before["id"])
    assert min(after["name"], after["new"]) > max(before.values())
    with reader(place) as table:
        first = table.scan(snapshot_id=table.metadata.snapshots[0].snapshot_id).to_arrow()
    assert first.to_pylist() == VALUES


def test_a_column_that_went_and_came_again_is_another_one(place: Place) -> None:
    """Files from before have something under that name, and it is not its."""
    without = pa.schema([field for field in SCHEMA if field.name != "name"])
    with closing(place.target()) as target:
        target.replace(
            target.read().read_all().select(without.names).to_reader(), replace(MIRROR_COMMIT_ID, batch_id=1)
        )
    evolve(place, 1, added=pa.schema([("name", pa.string())]))
    assert [row["name"] for row in seen(place)] == [None, None]


def test_a_table_is_replaced_by_what_it_holds_itself(place: Place) -> None:
    before = seen(place)
    with closing(place.target()) as target:
        target.replace(target.read(), replace(MIRROR_COMMIT_ID, batch_id=1))
    assert seen(place) == before
    assert place.merge(2, [((1, *[None] * 5), None)], SCHEMA)
    assert [row["id"] for row in seen(place)] == [2]


def test_odd_names_change(place: Place) -> None:
    evolve(
        place, 1, renamed={"name": "a.b c`d"}, added=pa.schema([("ä.ö", pa.string())]), filled={"ä.ö": pa.scalar("ü")}
    )
    assert [(row["a.b c`d"], row["ä.ö"]) for row in seen(place)] == [("a", "ü"), (None, "ü")]
