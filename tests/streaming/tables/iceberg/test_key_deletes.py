"""Iceberg tables with equality delete files, as Flink's upserts write them: everybody sees the same rows.

The files are written to the specification, and so is `after`: a row goes by a later commit that deletes its values.
"""

from __future__ import annotations

import pickle
from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.typedef import Record
from pyiceberg.types import LongType, StringType

from binlog_format.errors import TableError
from binlog_streaming.lake.evolution import IDENTITY, SchemaChange
from binlog_streaming.lake.iceberg import maintenance
from binlog_streaming.lake.iceberg.commit import IcebergCommit
from binlog_streaming.lake.iceberg.maintenance import compact
from binlog_streaming.lake.iceberg.table_files import live_files
from binlog_streaming.lake.iceberg.target import IcebergTarget
from binlog_streaming.lake.key_lookup import Search
from binlog_streaming.settings import Merge, Sink, TableFormat
from binlog_streaming.settings.choices import partition_rule
from tests.chance import examples
from tests.faults.joint_catalog import JointCatalog
from tests.streaming.tables.iceberg.iceberg_cases import key_delete_file, reader, upsert
from tests.streaming.tables.lake.sink_cases import INT_KEY, MIRROR_COMMIT_ID, Place, change_of, numbers, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import duckdb

    from binlog_streaming.lake.target import Target

NEXT = replace(MIRROR_COMMIT_ID, batch_id=1)
NO_ROWS = INT_KEY.empty_table()
Row = tuple[int | None, str | None]


@pytest.fixture(params=[Merge.REWRITE, Merge.AUTO], ids=str)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return begun(Place(tmp_path, TableFormat.ICEBERG, merge_kind=request.param))


def begun(place: Place) -> Place:
    place.append(0, numbers(1, 2, 3), MIRROR_COMMIT_ID)
    return place


def ids_of(*ids: int | None) -> pa.Table:
    return pa.table({"id": pa.array(ids, pa.int32())})


def rows_in(place: Place) -> list[Row]:
    return sorted((tuple(row.values()) for row in place.read().to_pylist()), key=repr)


def compacted(place: Place) -> None:
    with closing(place.target()) as target:
        compact(target.table, place.uri, file_size=place.file_size)  # type: ignore[attr-defined]


def delete_files(place: Place) -> list[str]:
    """Kinds of delete files in the table."""
    with reader(place) as table:
        contents = table.inspect.files().column("content").to_pylist()
    return sorted("by key" if content == 2 else "by position" for content in contents if content != 0)


def test_an_upsert_of_flink_takes_rows_from_before_it_alone(place: Place, duck: duckdb.DuckDBPyConnection) -> None:
    upsert(place, rows_of(INT_KEY, [(2, "flink"), (4, "new")]), ids_of(2, 4))
    wanted = [(1, "x"), (2, "flink"), (3, "x"), (4, "new")]
    assert rows_in(place) == wanted
    with reader(place) as table:
        read = duck.sql(f"FROM iceberg_scan('{table.metadata_location}')").fetchall()
    assert sorted(read) == wanted


STEPS: dict[str, tuple[Callable[[Target], object], list[tuple[object, ...]]]] = {
    "append": (lambda target: target.append(numbers(2).to_reader(), NEXT), [(1, "x"), (2, "x"), (3, "x")]),
    "upsert": (
        lambda target: target.merge(change_of([(2, "again"), (1, "y")]), NEXT),
        [(1, "y"), (2, "again"), (3, "x")],
    ),
    "delete": (lambda target: target.merge(change_of([], [2, 3]), NEXT), [(1, "x")]),
    "rename": (lambda target: target.evolve(SchemaChange(renamed={"id": "number"}), NEXT), [(1, "x"), (3, "x")]),
    "retype": (lambda target: target.evolve(SchemaChange(retyped={"id": pa.string()}), NEXT), [("1", "x"), ("3", "x")]),
    "widen": (lambda target: target.evolve(SchemaChange(retyped={"id": pa.int64()}), NEXT), [(1, "x"), (3, "x")]),
    "replace": (lambda target: target.replace(target.read(), NEXT), [(1, "x"), (3, "x")]),
}


@pytest.mark.parametrize(("write", "wanted"), STEPS.values(), ids=STEPS)
def test_rows_that_are_deleted_by_key_stay_gone_through_every_step(
    place: Place, write: Callable[[Target], object], wanted: list[Row]
) -> None:
    upsert(place, NO_ROWS, ids_of(2))
    with closing(place.target()) as target:
        write(target)
        everything = Search((target.schema().names[-1],), lambda batch: [True] * len(batch))  # type: ignore[arg-type,return-value]
        assert len(target.select(everything, target.schema().names)) == len(wanted)
    assert rows_in(place) == wanted
    compacted(place)
    assert "by key" not in delete_files(place)
    assert place.sorted_rows() == rows_in(place) == wanted


def test_a_compaction_puts_marks_or_new_files_in_their_place(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    place.append(1, numbers(11, 12, 13, 14), NEXT)
    upsert(place, NO_ROWS, ids_of(1, 2, 11))
    upsert(place, NO_ROWS, ids_of(99))
    assert delete_files(place) == ["by key"] * 2
    compacted(place)  # of the first file too many rows have gone, of the second one few
    assert delete_files(place) == ["by position"]
    assert place.sorted_rows() == rows_in(place) == [(12, "x"), (13, "x"), (14, "x"), (3, "x")]
    monkeypatch.setattr(maintenance, "MARKED_SHARE_MAX", 0)
    compacted(place)
    assert delete_files(place) == []
    assert place.ids() == [3, 12, 13, 14]


def test_deletes_that_take_nothing_go_without_another_file(place: Place) -> None:
    with reader(place) as table:
        before = [live.file.file_path for live in live_files(table.metadata, table.io, place.uri)]
    upsert(place, NO_ROWS, ids_of(99), rows_of(INT_KEY, [(1, "other")]))
    compacted(place)
    with reader(place) as table:
        assert [live.file.file_path for live in live_files(table.metadata, table.io, place.uri)] == before
    assert delete_files(place) == []


def test_null_is_equal_to_null(place: Place) -> None:
    place.append(1, rows_of(INT_KEY, [(5, None), (6, None), (None, "n"), (None, None)]), NEXT)
    with closing(place.target()) as target:
        target.evolve(SchemaChange(added=pa.schema([("late", pa.float64())])), replace(NEXT, step=1))
    schema = pa.schema([*INT_KEY, ("late", pa.float64())])
    upsert(place, schema.empty_table(), rows_of(INT_KEY, [(5, None), (1, "n"), (None, "n")]))
    assert [row[:2] for row in rows_in(place)] == [(1, "x"), (2, "x"), (3, "x"), (6, None), (None, None)]
    upsert(place, schema.empty_table(), rows_of(INT_KEY, [(None, None)]))
    upsert(place, rows_of(schema, [(7, "x", 1.5)]), pa.table({"late": pa.array([0.5])}))
    assert [row[0] for row in rows_in(place)] == [1, 2, 3, 6, 7]
    upsert(place, schema.empty_table(), pa.table({"late": pa.array([None], pa.float64())}))
    assert [row[0] for row in rows_in(place)] == [7]
    compacted(place)
    assert place.ids() == [7]


def test_columns_are_found_by_their_numbers(place: Place) -> None:
    """Widened, renamed, gone, and with the name of one that has gone."""
    with reader(place) as table, table.update_schema() as update:
        update.update_column("id", LongType())
        update.rename_column("value", "old")
    with reader(place) as table, table.update_schema() as update:
        update.add_column("value", StringType())
    schema = pa.schema([("id", pa.int64()), ("old", pa.string()), ("value", pa.string())])
    upsert(place, rows_of(schema, [(2**40, "kept", "new"), (4, "x", "gone")]), pa.table({"old": ["y"], "value": ["x"]}))
    upsert(place, schema.empty_table(), ids_of(3), pa.table({"id": [2**41]}))  # also one from before
    upsert(place, schema.empty_table(), pa.table({"old": ["x"], "value": ["gone"]}))
    with reader(place) as table, table.update_schema() as update:
        update.delete_column("old")
    wanted = [(1, None), (1 << 40, "new"), (2, None)]
    assert rows_in(place) == wanted
    compacted(place)
    assert place.sorted_rows() == wanted


def test_deletes_are_about_their_partition_or_all(tmp_path: Path) -> None:
    place = Place(tmp_path, TableFormat.ICEBERG)
    commit_id = replace(MIRROR_COMMIT_ID, partition_by=(partition_rule("value"),))
    rows = rows_of(INT_KEY, [(1, "a"), (2, "a"), (3, "a"), (1, "b"), (2, "b"), (3, "b")])
    place.append(0, rows, commit_id)
    upsert(place, NO_ROWS, ids_of(1), partition=Record("a"))
    assert rows_in(place) == [(1, "b"), (2, "a"), (2, "b"), (3, "a"), (3, "b")]
    with reader(place) as table, table.update_spec() as update:
        update.remove_field("value")
    upsert(place, NO_ROWS, ids_of(2))
    assert rows_in(place) == [(1, "b"), (3, "a"), (3, "b")]
    compacted(place)
    assert place.sorted_rows() == [(1, "b"), (3, "a"), (3, "b")]


def test_deletes_beneath_another_are_refused_by_name(place: Place) -> None:
    with reader(place) as table:
        deletes = key_delete_file(table, ids_of(1))
        assert deletes.equality_ids is not None
        deletes.equality_ids[0] = 77
        IcebergCommit(added=[deletes]).on(table)
    with closing(place.target()) as target, pytest.raises(TableError, match=r"TABLE_FEATURE\] .*\(ids 77\)") as caught:
        target.read()
    assert caught.value.hint is not None


def test_files_in_another_process_have_their_deletes(place: Place) -> None:
    upsert(place, NO_ROWS, ids_of(2))
    with reader(place) as table:
        (live,) = pickle.loads(pickle.dumps(live_files(table.metadata, table.io, place.uri)))
        (deletes,) = live.key_deletes
        assert deletes.rows(table.metadata, table.io, live.file, live.sequence_number).tolist() == [1]


def test_a_delete_between_the_look_and_the_commit_is_seen(place: Place) -> None:
    """Also by a compaction, whose new files would else be newer than the delete."""
    with closing(place.target()) as target:
        upsert(place, NO_ROWS, ids_of(2))
        with pytest.raises(CommitFailedException):
            target.merge(change_of([(1, "y")]), NEXT)
    upsert(place, NO_ROWS, ids_of(1))
    with closing(place.target()) as target:
        upsert(place, NO_ROWS, ids_of(3))
        with pytest.raises(CommitFailedException):
            compact(target.table, place.uri, file_size=place.file_size)  # type: ignore[attr-defined]
    assert rows_in(place) == []


def test_rows_of_version_3_keep_their_ids_when_deletes_by_key_become_vectors(tmp_path: Path) -> None:
    with JointCatalog() as catalog:
        sink = Sink(
            directory=str(tmp_path),
            format=TableFormat.ICEBERG,
            catalog=catalog.settings(),
            merge=Merge.MARK,
            row_ids=True,
        )
        uri = f"{tmp_path}/shop/orders"

        def ids() -> dict[int, int]:
            with closing(IcebergTarget.at(sink, uri)) as target:
                rows = target.identified_rows().read_all().to_pylist()
            return {row["id"]: row[IDENTITY.names[0]] for row in rows}

        with closing(IcebergTarget.at(sink, uri)) as target:
            target.create(INT_KEY, MIRROR_COMMIT_ID)
            target.append(numbers(1, 2, 3, 4).to_reader(), MIRROR_COMMIT_ID)
            target.merge(change_of([(1, "u")], [4]), NEXT)
            before = ids()
            IcebergCommit(added=[key_delete_file(target.table, ids_of(2, 4))]).on(target.table)
        with closing(IcebergTarget.at(sink, uri)) as target:
            compact(target.table, uri, file_size=1 << 20)
            deletes = [live.own_deletes for live in live_files(target.table.refresh().metadata, target.table.io, uri)]
        assert ids() == {key: number for key, number in before.items() if key in (1, 3)}
        assert not any(deletes)
        with closing(IcebergTarget.at(sink, uri)) as target:
            target.merge(change_of([(3, "u"), (5, "n")]), replace(NEXT, batch_id=2))
        assert ids().items() >= {1: before[1], 3: before[3]}.items()


def after(known: list[Row], rows: list[Row], by_id: list[int | None], by_both: list[Row]) -> list[Row]:
    """The specification: deletes are about rows of commits before."""
    return sorted([*(row for row in known if row[0] not in by_id and row not in by_both), *rows], key=repr)


class Upsert(NamedTuple):
    """A commit of Flink's: rows, and deletes by the columns `id`, and by both."""

    rows: list[Row]
    ids: list[int | None]
    both: list[Row]


class Merged(NamedTuple):
    """A step of ours."""

    upserts: dict[int, str | None]
    deleted: int


IDS = st.none() | st.integers(0, 5)
UPSERTS = st.builds(
    Upsert,
    st.lists(st.tuples(IDS, st.sampled_from(["a", "b", None])), max_size=4),
    st.lists(IDS, max_size=2),
    st.lists(st.tuples(IDS, st.sampled_from(["a", None])), max_size=2),
)
MERGED = st.builds(
    Merged, st.dictionaries(st.integers(0, 5), st.sampled_from(["m", None]), max_size=3), st.integers(6, 9)
)


@settings(max_examples=examples(150))
@given(
    actions=st.lists(UPSERTS | MERGED | st.just("compact"), min_size=2, max_size=7),
    kind=st.sampled_from([Merge.REWRITE, Merge.AUTO]),
)
def test_every_history_leaves_the_rows_that_the_specification_leaves(
    tmp_path_factory: pytest.TempPathFactory, actions: list[Upsert | Merged | str], kind: Merge
) -> None:
    place = begun(Place(tmp_path_factory.mktemp("table"), TableFormat.ICEBERG, merge_kind=kind))
    model: list[Row] = [(1, "x"), (2, "x"), (3, "x")]
    for number, action in enumerate(actions):
        if isinstance(action, Upsert):
            upsert(place, rows_of(INT_KEY, action.rows), ids_of(*action.ids), rows_of(INT_KEY, action.both))
            model = after(model, *action)
        elif isinstance(action, Merged):
            place.bring(change_of(action.upserts.items(), [action.deleted]), batch_id=number + 1)
            model = after(model, [*action.upserts.items()], [*action.upserts, action.deleted], [])
        else:
            compacted(place)
            assert "by key" not in delete_files(place)
            assert place.sorted_rows() == model
        assert rows_in(place) == model
