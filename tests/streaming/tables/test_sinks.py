"""What every sink keeps to: a batch comes in once, whatever is cut off, and every value comes back as it was."""

from __future__ import annotations

import datetime as dt
from contextlib import closing
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings

from binlog_format.errors import OptionError, SchemaError, TableError, UnsupportedError
from binlog_streaming.settings import Mode, Sink, TableFormat
from binlog_streaming.tables.sinks import sink_type
from binlog_streaming.tables.steps import Step, watched
from tests.streaming.tables.sink_cases import INT_KEY, MIRROR_SINKS, SINKS, TICKET, Place, numbers
from tests.streaming.tables.test_delta import COLUMNS
from tests.streaming.tables.test_mirror import COMPOSITE, KEY_TYPES, histories

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_streaming.tables.target import Ticket
    from tests.streaming.tables.row_images import Change, Row

NESTED: dict[str, tuple[pa.DataType, list[object]]] = {
    "geometry": (
        pa.struct([("srid", pa.int32()), ("wkb", pa.binary())]),
        [{"srid": 4326, "wkb": b"\x01\x01\0\0\0" + b"\0" * 16}, {"srid": 0, "wkb": b""}, None],
    ),
    "vector": (pa.list_(pa.float32()), [[1.5, -0.0, 3.4028234663852886e38], [], None]),
    "year": (pa.int32(), [1901, 0, None]),
}
ALL_COLUMNS = {**COLUMNS, **NESTED}
STEPS = {
    # Delta writes files and commits in one call of its library.
    TableFormat.DELTA: (Step.LOOKED, Step.CREATED, Step.COMMITTED),
    TableFormat.ICEBERG: tuple(Step),
    TableFormat.PARQUET: tuple(Step),
}


class Cut(Exception):
    """The process ends here."""


@pytest.fixture(params=SINKS, ids=str)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(tmp_path, request.param)


@pytest.fixture(params=MIRROR_SINKS, ids=str)
def mirror_place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Place(tmp_path, request.param)


def all_types() -> pa.Table:
    schema = pa.schema([(name, kind) for name, (kind, _) in ALL_COLUMNS.items()])
    return pa.Table.from_arrays([pa.array(values, kind) for kind, values in ALL_COLUMNS.values()], schema=schema)


def same_values(got: pa.Table, wanted: pa.Table) -> None:
    """Iceberg has no integers of 8 and 16 bits, and its readers choose between small and large strings."""
    assert got.column_names == wanted.column_names
    for name in wanted.column_names:
        there, given_ = got.column(name), wanted.column(name)
        assert there.cast(given_.type).combine_chunks().equals(given_.combine_chunks()), name
        assert str(there.type).replace("large_", "").split("<")[0].rstrip("0123456789") == str(given_.type).split("<")[
            0
        ].rstrip("0123456789").replace("large_", "")


def test_every_type_comes_back_as_it_was(place: Place) -> None:
    rows = all_types()
    assert place.append(0, rows)
    same_values(place.content(), rows)
    with closing(place.target()) as target:
        target.check_schema(rows.schema, TICKET)


def test_every_type_survives_that_its_file_is_written_anew(mirror_place: Place) -> None:
    rows = all_types()
    schema = pa.schema([("id", pa.int32()), *rows.schema])
    values = [tuple(row.values()) for row in rows.to_pylist()]
    first: list[Change] = [(None, (number, *row)) for number, row in enumerate(values)]
    assert mirror_place.merge(0, first, schema)
    assert mirror_place.merge(1, [(None, (9, *values[0]))], schema)
    # Row 0 goes away, row 1 gets the values of row 2 (all NULL); row 2 and 9 stay.
    assert mirror_place.merge(2, [((0, *values[0]), None), ((1, *values[1]), (1, *values[2]))], schema)
    got = mirror_place.content().sort_by("id")
    wanted = rows.take(pa.array([2, 2, 0])).add_column(0, schema.field("id"), [pa.array([1, 2, 9], pa.int32())])
    same_values(got, wanted.combine_chunks())


def test_repeated_batch_changes_nothing(place: Place) -> None:
    assert place.append(0, numbers(1))
    assert place.append(1, numbers(2))
    before = place.state()
    assert not place.append(1, numbers(2))
    assert place.state() == before
    assert place.ids() == [1, 2]
    assert place.append(2, numbers(3))


def test_repeated_merge_changes_nothing(mirror_place: Place) -> None:
    assert mirror_place.merge(0, [(None, (1, "a")), (None, (2, "b"))])
    assert mirror_place.merge(1, [((1, "a"), (1, "c"))])
    before = mirror_place.state()
    assert not mirror_place.merge(1, [((1, "a"), (1, "c"))])
    assert mirror_place.state() == before
    assert sorted(mirror_place.rows()) == [(1, "c"), (2, "b")]


class CutAt:
    """Cuts the write off at a step."""

    def __init__(self, step: Step) -> None:
        self.step = step

    def __call__(self, step: Step) -> None:
        if step is self.step:
            raise Cut


@pytest.mark.parametrize("step", list(Step))
def test_append_cut_off_at_any_step_then_again(place: Place, step: Step) -> None:
    """The first batch, which makes the table, and a later one."""
    if step not in STEPS[place.format]:
        assert place.format is TableFormat.DELTA
        return
    for batch_id in range(2):
        if batch_id == 0 or step is not Step.CREATED:
            with pytest.raises(Cut), watched(CutAt(step)):
                place.append(batch_id, numbers(batch_id))
        assert place.append(batch_id, numbers(batch_id)) == (step is not Step.COMMITTED)
        assert place.ids() == list(range(batch_id + 1))


@pytest.mark.parametrize("step", list(Step))
def test_merge_cut_off_at_any_step_then_again(mirror_place: Place, step: Step) -> None:
    if step not in STEPS[mirror_place.format]:
        assert mirror_place.format is TableFormat.DELTA
        return
    batches: list[list[Change]] = [
        [(None, (1, "a")), (None, (2, "b")), (None, (3, "c"))],
        [((1, "a"), (7, "a")), ((2, "b"), None), ((3, "c"), (3, "d"))],
    ]
    for batch_id, changes in enumerate(batches):
        if batch_id == 0 or step is not Step.CREATED:
            with pytest.raises(Cut), watched(CutAt(step)):
                mirror_place.merge(batch_id, changes)
        assert mirror_place.merge(batch_id, changes) == (step is not Step.COMMITTED)
    assert sorted(mirror_place.rows()) == [(3, "d"), (7, "a")]


def test_twin_with_the_same_batch_is_a_conflict(place: Place) -> None:
    """A worker of a killed job may still be writing: whoever comes second must not write it again."""
    assert place.append(0, numbers(1))
    ticket = replace(TICKET, batch_id=1)
    with closing(place.target()) as late:
        assert not late.is_done(ticket)
        assert place.append(1, numbers(2))
        with pytest.raises(Exception, match=r".") as caught:
            late.append(numbers(2).to_reader(), ticket)
        assert late.is_conflict(caught.value)
    assert not place.append(1, numbers(2))
    assert place.ids() == [1, 2]


def test_twin_that_merges_the_same_batch_is_a_conflict(mirror_place: Place) -> None:
    assert mirror_place.merge(0, [(None, (1, "a")), (None, (2, "b"))])
    twin: list[bool] = []

    def faster(step: Step) -> None:
        if step is Step.LOOKED and not twin:
            twin.append(True)
            assert mirror_place.merge(1, [((1, "a"), (1, "c")), ((2, "b"), None)])

    with watched(faster), pytest.raises(Exception, match=r".") as caught:
        mirror_place.merge(1, [((1, "a"), (1, "c")), ((2, "b"), None)])
    with closing(mirror_place.target()) as target:
        assert target.is_conflict(caught.value)
    assert mirror_place.rows() == [(1, "c")]


def test_two_creations_at_once_are_a_conflict(place: Place) -> None:
    with closing(place.target()) as mine, closing(place.target()) as other:
        other.ensure(INT_KEY, TICKET)
        with pytest.raises(Exception, match="exist") as caught:
            mine.ensure(INT_KEY, TICKET)
        assert mine.is_conflict(caught.value)
    assert place.append(0, numbers(1))


@pytest.mark.parametrize(
    ("other", "condition"),
    [
        (replace(TICKET, query_id="q-2"), r"OTHER_WRITER\] shop\.orders: .* written by query q-1; .* query q-2"),
        (replace(TICKET, source_table="shop.items"), r"SAME_TARGET\] shop\.items: .* holds shop\.orders"),
        (replace(TICKET, mode=Mode.MIRROR), r"MODE_CHANGED\] .*made with mode changelog, the job now says mirror"),
        (replace(TICKET, keys=("id",)), r"KEYS_CHANGED\] "),
    ],
    ids=["checkpoint deleted", "two tables into one target", "mode changed", "keys changed"],
)
def test_target_of_somebody_else_is_refused(place: Place, other: Ticket, condition: str) -> None:
    place.append(0, numbers(1))
    with closing(place.target()) as target, pytest.raises(TableError, match=condition) as caught:
        target.check_owner(other)
    assert caught.value.hint is not None


@pytest.mark.parametrize(
    "older",
    [replace(TICKET, batch_id=2), replace(TICKET, batch_id=3, last_change="0:99:0:0")],
    ids=["earlier batch", "same number, other content"],
)
def test_checkpoint_older_than_the_table_is_refused(place: Place, older: Ticket) -> None:
    for batch_id in range(4):
        place.append(batch_id, numbers(batch_id))
    with closing(place.target()) as target:
        with pytest.raises(TableError, match=r"CHECKPOINT_BEHIND\] shop\.orders: .* holds batch 3.* at batch \d: "):
            target.is_done(older)
        assert target.is_done(replace(TICKET, batch_id=3))


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        (pa.schema([*INT_KEY, ("more", pa.int8())]), r"more \w+ is new"),
        (pa.schema([("id", pa.int32())]), "value is gone"),
        (pa.schema([("id", pa.int64()), ("value", pa.string())]), r"id was int\w+, now \w+"),
    ],
)
def test_changed_columns_are_refused_by_name(place: Place, schema: pa.Schema, told: str) -> None:
    place.append(0, numbers(1))
    with closing(place.target()) as target:
        with pytest.raises(SchemaError, match=rf"SCHEMA_CHANGED\] shop\.orders: .*{told}"):
            target.check_schema(schema, TICKET)
        target.check_schema(INT_KEY, TICKET)


def test_columns_in_another_order_go_to_their_names(place: Place) -> None:
    place.append(0, numbers(1))
    turned = numbers(2).select(["value", "id"])
    assert place.append(1, turned)
    assert sorted((row["id"], row["value"]) for row in place.content().to_pylist()) == [(1, "x"), (2, "x")]


def test_empty_append_is_a_batch_too(place: Place) -> None:
    place.append(0, numbers(1))
    assert place.append(1, numbers())
    assert not place.append(1, numbers())
    assert [row[0] for row in place.rows()] == [1]


def test_nothing_left_of_a_batch_makes_no_commit(mirror_place: Place) -> None:
    """Rows inserted and deleted again in one batch."""
    mirror_place.merge(0, [(None, (1, "a"))])
    before = mirror_place.state()
    assert not mirror_place.merge(1, [(None, (7, "x")), ((7, "x"), None)])
    assert mirror_place.state() == before
    assert mirror_place.merge(2, [((1, "a"), None)])
    assert mirror_place.rows() == []
    assert mirror_place.merge(3, [(None, (1, "b"))])
    assert mirror_place.rows() == [(1, "b")]


@pytest.mark.parametrize("name", [*KEY_TYPES, "double", "bit"])
def test_every_key_type_finds_its_row(mirror_place: Place, name: str) -> None:
    """One file for each key, then updates and deletes of each: nothing is doubled, nothing is missed."""
    more: dict[str, tuple[pa.DataType, list[object]]] = {
        "double": (pa.float64(), [5e-324, -1.5, 1e300]),
        "bit": (pa.bool_(), [False, True]),
    }
    key_type, keys = {**KEY_TYPES, **more}[name]
    schema = pa.schema([("k", key_type), ("value", pa.int32())])
    for number, key in enumerate(keys):
        assert mirror_place.merge(number, [(None, (key, 0))], schema)
    for number, key in enumerate(keys, start=len(keys)):
        assert mirror_place.merge(number, [((key, 0), (key, 1))], schema)
    assert sorted(mirror_place.rows()) == sorted((key, 1) for key in keys)
    assert mirror_place.merge(2 * len(keys), [((key, 1), None) for key in keys[1:]], schema)
    assert mirror_place.rows() == [(keys[0], 1)]


def test_odd_column_names_work(mirror_place: Place) -> None:
    schema = pa.schema(
        [('we"ird `id', pa.int32()), ("a.b", pa.string()), ("deleted", pa.int8()), ("ID s.c0", pa.int8())]
    )
    assert mirror_place.merge(0, [(None, (1, "x", 0, 0)), (None, (2, "y", 0, 0))], schema, 2)
    assert mirror_place.merge(1, [((1, "x", 0, 0), (1, "x", 5, 6)), ((2, "y", 0, 0), None)], schema, 2)
    assert mirror_place.rows() == [(1, "x", 5, 6)]


@pytest.mark.parametrize("table_format", MIRROR_SINKS, ids=str)
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=histories())
def test_mirror_equals_a_dict_however_the_changes_are_cut_into_batches(
    tmp_path_factory: pytest.TempPathFactory,
    table_format: TableFormat,
    history: tuple[list[list[Change]], dict[tuple[object, ...], Row]],
) -> None:
    """With updates of the key, empty batches, NULLs, and every batch tried twice."""
    batches, model = history
    place = Place(tmp_path_factory.mktemp("mirror"), table_format)
    for batch_id, batch in enumerate(batches):
        if place.merge(batch_id, batch, COMPOSITE, 3):
            assert not place.merge(batch_id, batch, COMPOSITE, 3)
    assert sorted(place.rows(), key=repr) == sorted(model.values(), key=repr)


def test_plain_files_cannot_be_mirrors(tmp_path: Path) -> None:
    with pytest.raises(UnsupportedError, match=r"FORMAT\] shop\.orders: .*mode mirror"):
        Place(tmp_path, TableFormat.PARQUET).merge(0, [(None, (1, "a"))])


@pytest.mark.parametrize("table_format", [TableFormat.ICEBERG, TableFormat.PARQUET], ids=str)
def test_formats_that_need_a_folder_say_so(table_format: TableFormat) -> None:
    sink = Sink(directory="s3://bucket/tables", format=table_format)
    with pytest.raises(OptionError, match=r"INVALID_VALUE\] sink\.directory: .* folder"):
        sink_type(table_format).at(sink, "s3://bucket/tables/shop/orders")


def test_dates_and_wide_decimals_do_not_lose_their_row_to_statistics(mirror_place: Place) -> None:
    """Statistics of wide decimals and long texts are cut or inexact; whoever prunes by them misses rows."""
    schema = pa.schema([("a", pa.decimal128(38, 10)), ("b", pa.date32()), ("value", pa.string())])
    first: Row = (Decimal("9999999999999999999999999999.0123456789"), dt.date(9999, 12, 31), "z" * 300)
    assert mirror_place.merge(0, [(None, first)], schema, 2)
    assert mirror_place.merge(1, [(first, (*first[:2], None))], schema, 2)
    assert mirror_place.rows() == [(*first[:2], None)]
