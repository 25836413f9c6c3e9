"""Iceberg tables that somebody gave what this writer does not keep: refused by its name, before anything is written."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.schema import Schema
from pyiceberg.transforms import IdentityTransform
from pyiceberg.types import IntegerType, NestedField, StringType

from binlog_format.errors import TableError
from binlog_streaming.lake.evolution import SchemaChange
from binlog_streaming.settings import TableFormat
from tests.streaming.tables.iceberg.iceberg_cases import delete_row, files_of, reader
from tests.streaming.tables.lake.sink_cases import MIRROR_COMMIT_ID, Place, change_of, numbers

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_streaming.lake.target import Target

NEXT = replace(MIRROR_COMMIT_ID, batch_id=1)
WRITES: dict[str, Callable[[Target], object]] = {
    "append": lambda target: target.append(numbers(9).to_reader(), NEXT),
    "merge": lambda target: target.merge(change_of([(1, "b")]), NEXT),
    "evolve": lambda target: target.evolve(SchemaChange(renamed={"value": "name"}), NEXT),
    "replace": lambda target: target.replace(numbers(9).to_reader(), NEXT),
}


@pytest.fixture
def place(tmp_path: Path) -> Place:
    place = Place(tmp_path, TableFormat.ICEBERG)
    place.append(0, numbers(1, 2), MIRROR_COMMIT_ID)
    return place


def other_files(place: Place) -> None:
    with reader(place) as table, table.transaction() as transaction:
        transaction.set_properties({"write.format.default": "orc"})


def version_3(place: Place) -> None:
    """The table's metadata say so; the library cannot make such a table."""
    with reader(place) as table:
        path = place.directory / table.metadata_location.removeprefix(f"{place.directory}/")
    path.write_text(path.read_text().replace('"format-version":2', '"format-version":3,"next-row-id":2'))


@pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
@pytest.mark.parametrize(
    ("give", "named"),
    [
        (other_files, "files in orc"),
        (version_3, "format version 3"),
    ],
    ids=["other files", "version 3"],
)
def test_what_is_not_kept_is_refused_by_name(
    place: Place, give: Callable[[Place], None], named: str, write: Callable[[Target], object]
) -> None:
    give(place)
    check_refused(place, named, write)


def check_refused(place: Place, named: str, write: Callable[[Target], object]) -> None:
    before, paths = place.state(), set(place.directory.rglob("*"))
    condition = rf"TABLE_FEATURE\] .*/shop/orders has {named}"
    with closing(place.target()) as target, pytest.raises(TableError, match=condition) as caught:
        write(target)
    assert caught.value.hint is not None
    assert place.state() == before
    assert set(place.directory.rglob("*")) == paths


def test_not_null_and_the_identifier_of_another_writer_are_kept(place: Place) -> None:
    """Through every kind of step; a row without a value is refused before anything is written."""
    with reader(place) as table, table.update_schema(allow_incompatible_changes=True) as update:
        update.update_column("id", required=True)
        update.set_identifier_fields("id")
    steps = [*WRITES.values(), lambda target: target.evolve(SchemaChange(retyped={"id": pa.int64()}), NEXT)]
    for step, write in enumerate(steps):
        with closing(place.target()) as target:
            write(target)  # type: ignore[no-untyped-call]
        with reader(place) as table:
            columns = table.schema()
            kept = [field.required for field in columns.fields]
            assert (kept, columns.identifier_field_names()) == ([True, False], {"id"}), step
    assert place.ids() == [9]
    before, paths = place.state(), files_of(place)
    rows = pa.table({"id": pa.array([None], pa.int64()), "value": ["x"]})
    named = r"TABLE_FEATURE\] .* no value in column id, .*NOT NULL"
    with closing(place.target()) as target, pytest.raises(TableError, match=named):
        target.append(rows.to_reader(), NEXT)
    assert (place.state(), files_of(place)) == (before, paths)


def test_old_rows_keep_the_default_of_a_column_that_another_writer_added(place: Place) -> None:
    """Files from before do not have it; who writes them anew, or changes columns, must not make it null."""
    with reader(place) as table, table.update_schema() as update:
        update.add_column("note", StringType())
    with reader(place) as table:
        path = Path(table.metadata_location)
    note = '"name":"note","type":"string",'
    text = path.read_text()
    assert note in text
    path.write_text(text.replace(note, f'{note}"initial-default":"before","write-default":"later",'))
    added = pa.schema([("more", pa.int32())])
    changes = [SchemaChange(renamed={"value": "name"}), SchemaChange(added=added, filled={"more": pa.scalar(7)})]
    for step, change in enumerate(changes):
        with closing(place.target()) as target:
            target.evolve(change, replace(NEXT, step=step))
            assert target.read().read_all().column("note").to_pylist() == ["before", "before"]
        with reader(place) as table:
            field = table.schema().find_field("note")
            assert (field.initial_default, field.write_default) == ("before", "later")
    with closing(place.target()) as target, pytest.raises(TableError, match=r"TABLE_FEATURE\] .* no column note, "):
        target.append(numbers(9).to_reader(), NEXT)


@pytest.mark.parametrize("is_for_all", [False, True], ids=["one file", "all files"])
def test_rows_that_another_writer_marked_stay_gone(place: Place, is_for_all: bool) -> None:
    place.append(1, numbers(5, 6), replace(NEXT, step=1))
    delete_row(place, 0, is_for_all=is_for_all)
    assert place.ids() == [2, 5, 6]
    with closing(place.target()) as target:
        assert sorted(target.read().read_all().column("id").to_pylist()) == [2, 5, 6]
    assert place.bring(change_of([(1, "again"), (2, "b")], [5]), batch_id=2)
    assert place.sorted_rows() == [(1, "again"), (2, "b"), (6, "x")]


def test_rows_are_appended_and_columns_added_beside_delete_files(place: Place) -> None:
    delete_row(place, 0)
    for batch_id in range(1, 20):
        with closing(place.target()) as target:
            commit_id = replace(MIRROR_COMMIT_ID, batch_id=batch_id)
            target.append(numbers(2 + batch_id).to_reader(), commit_id)
            target.maintain(place.sink)
    assert place.ids() == list(range(2, 22))


def test_a_sort_order_is_no_obstacle_as_long_as_its_column_stays(place: Place) -> None:
    """It is a wish; files say for themselves in which order they are."""
    with reader(place) as table, table.update_sort_order() as update:
        update.asc("id", IdentityTransform())
    assert place.bring(change_of([(1, "b"), (0, "c")]))
    with closing(place.target()) as target:
        target.evolve(SchemaChange(renamed={"id": "key"}), replace(NEXT, step=1))
    assert place.sorted_rows() == [(0, "c"), (1, "b"), (2, "x")]
    with reader(place) as table:
        assert {task.file.sort_order_id for task in table.scan().plan_files()} <= {None, 0}
    with closing(place.target()) as target:
        change = SchemaChange(retyped={"key": pa.string()})
        with pytest.raises(TableError, match=r"TABLE_FEATURE\] .* has a sort order by key, which changes"):
            target.evolve(change, replace(NEXT, step=2))


def test_files_of_other_writers_are_rewritten(place: Place) -> None:
    """They have no numbers of batches; rows are rows."""
    with reader(place) as table:
        table.append(numbers(7))
    files = files_of(place)
    assert place.bring(change_of([(7, "b")], [1]))
    assert not files & files_of(place)
    assert place.sorted_rows() == [(2, "x"), (7, "b")]


def test_a_table_of_the_first_version_is_written(tmp_path: Path) -> None:
    place = Place(tmp_path, TableFormat.ICEBERG)
    with closing(place.target()):  # the catalog
        pass
    uri = f"sqlite:///{tmp_path}/iceberg-catalog.db"
    fields = [
        NestedField(1, "id", IntegerType(), required=False),
        NestedField(2, "value", StringType(), required=False),
    ]
    with closing(SqlCatalog("binlog_stream", uri=uri, warehouse=str(tmp_path))) as catalog:
        catalog.create_namespace("shop")
        properties = {**MIRROR_COMMIT_ID.table_properties(), "format-version": "1"}
        catalog.create_table("shop.orders", Schema(*fields), location=place.uri, properties=properties)
    for batch_id in range(3):
        assert place.bring(change_of([(batch_id, "a"), (9, str(batch_id))]), batch_id=batch_id)
    assert place.sorted_rows() == [(0, "a"), (1, "a"), (2, "a"), (9, "2")]
    with reader(place) as table:
        assert table.metadata.format_version == 1
