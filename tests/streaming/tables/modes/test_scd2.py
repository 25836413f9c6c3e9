from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_format.block import EVENT_DTYPE, GROUP_DTYPE
from binlog_format.errors import TableError, UnsupportedError
from binlog_format.rows.images import IMAGE_DTYPE
from binlog_streaming.modes.absent_columns import AbsentFacts
from binlog_streaming.modes.mode_columns import mode_schema, place_texts
from binlog_streaming.modes.scd2 import scd2_change
from binlog_streaming.settings.choices import Mode
from tests.chance import examples
from tests.streaming.tables.lake.model_sink import ModelTable
from tests.streaming.tables.modes.histories import KEY_NAMES, KEYS, SCHEMA, RowImage, histories
from tests.streaming.tables.modes.row_images import ABSENT, row_batch_of, step_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.streaming.tables.modes.histories import Batch
    from tests.streaming.tables.modes.row_images import Change, Row

INT_KEY = pa.schema([("id", pa.int32()), ("value", pa.string())])
A = ABSENT


def at(number: int | None) -> dt.datetime | None:
    """Commit time of the change with this number."""
    return None if number is None else dt.datetime.fromtimestamp(number, dt.UTC)


def place(number: int) -> str:
    """`_position` of the change with this number."""
    return f"00000000:{number:08}:00000:0000000002:0000000000"


def version(row: Row, start: int, end: int | None = None) -> Row:
    return (*row, at(start), at(end), end is None, place(start))


def versions(changes: Sequence[Change]) -> list[Row]:
    change = scd2_change(step_of(changes, INT_KEY), INT_KEY, [0])
    assert change.appends is not None
    assert (change.upserts.num_rows, change.deletes.num_rows, change.current) == (0, 0, "_is_current")
    return [tuple(row.values()) for row in change.appends.to_pylist()]


def closed(changes: Sequence[Change]) -> list[Row]:
    """Keys whose current version ends, and when."""
    patches = scd2_change(step_of(changes, INT_KEY), INT_KEY, [0]).patches
    assert patches is not None
    assert patches.present.num_columns == 0
    rows = patches.rows.to_pylist()
    assert not any(row["_is_current"] for row in rows)
    return sorted((row["id"], row["_valid_to"].timestamp()) for row in rows)


def test_every_change_is_a_version_also_those_that_the_step_supersedes() -> None:
    changes: list[Change] = [
        (None, (1, "a")),
        ((1, "a"), (1, "b")),
        (None, (2, "x")),
        ((1, "b"), (1, "c")),
        ((2, "x"), None),
    ]
    assert versions(changes) == [
        version((1, "a"), 0, 1),
        version((1, "b"), 1, 3),
        version((2, "x"), 2, 4),
        version((1, "c"), 3),
    ]


def test_current_versions_end_with_the_first_change_of_their_key() -> None:
    changes: list[Change] = [((7, "a"), None), ((8, "a"), (8, "b")), ((8, "b"), None)]
    assert closed(changes) == [(7, 0), (8, 1)]
    assert versions(changes) == [version((8, "b"), 1, 2)]


def test_key_update_ends_the_old_key_and_begins_the_new_one() -> None:
    changes: list[Change] = [((1, "a"), (2, "a")), (None, (1, "z"))]
    assert closed(changes) == [(1, 0), (2, 0)]
    assert versions(changes) == [version((2, "a"), 0), version((1, "z"), 1)]


def test_key_that_comes_again_begins_anew() -> None:
    changes: list[Change] = [((1, "a"), None), (None, (1, "a"))]
    assert closed(changes) == [(1, 0)]
    assert versions(changes) == [version((1, "a"), 1)]


def test_update_that_changes_nothing_makes_no_version() -> None:
    assert versions([((1, None), (1, None)), ((2, "b"), (2, None))]) == [version((2, None), 1)]
    assert scd2_change(step_of([((1, "a"), (1, "a"))], INT_KEY), INT_KEY, [0]).patches is None


@pytest.mark.parametrize(
    ("kind", "before", "after"),
    [
        (pa.float32(), 0.0, -0.0),
        (
            pa.struct([("srid", pa.int32()), ("wkb", pa.binary())]),
            {"srid": 0, "wkb": b"a"},
            {"srid": 4326, "wkb": b"a"},
        ),
        (pa.struct([("srid", pa.int32()), ("wkb", pa.binary())]), None, {"srid": None, "wkb": None}),
        (pa.list_(pa.float32()), [1.0, 2.0], [2.0, 1.0]),
        (pa.list_(pa.float32()), None, []),
        (pa.string(), "a", "A"),
        (pa.binary(), b"", None),
    ],
    ids=["zeros", "struct", "null struct", "list", "null list", "letter case", "empty"],
)
def test_changes_are_seen_in_every_type(kind: pa.DataType, before: object, after: object) -> None:
    schema = pa.schema([("id", pa.int32()), ("value", kind)])
    changes: list[Change] = [((1, before), (1, before)), ((2, after), (2, after)), ((3, before), (3, after))]
    change = scd2_change(step_of(changes, schema), schema, [0])
    assert change.appends is not None
    assert change.appends.column("id").to_pylist() == [3]


def test_versions_of_one_second_are_told_apart_by_position() -> None:
    piece = row_batch_of([(None, (1, "a")), ((1, "a"), (1, "b")), ((1, "b"), (1, "c"))], INT_KEY, [2, 9, 10])
    piece.groups["timestamp"] = 7
    step = step_of([], INT_KEY)
    change = scd2_change(type(step)("shop.orders", (piece,)), INT_KEY, [0])
    assert change.appends is not None
    rows = change.appends.sort_by([("_valid_from", "ascending"), ("_position", "ascending")])
    assert rows.column("value").to_pylist() == ["a", "b", "c"]
    assert rows.column("_is_current").to_pylist() == [False, False, True]
    assert rows.column("_valid_to").to_pylist() == [at(7), at(7), None]


@given(
    st.lists(st.tuples(*(st.integers(0, top) for top in (1 << 20, 1 << 20, 1 << 13, 1 << 20, 1 << 20))), max_size=20)
)
def test_places_sort_as_text_as_they_do_as_numbers(places: list[tuple[int, ...]]) -> None:
    images, events = np.zeros(len(places), IMAGE_DTYPE), np.zeros(len(places), EVENT_DTYPE)
    groups = np.zeros(len(places), GROUP_DTYPE)
    images["event"] = events["group"] = np.arange(len(places))
    for number, (file_no, page, chunk, event_no, row_no) in enumerate(places):
        groups[number]["file_no"], groups[number]["page"], groups[number]["chunk"] = file_no, page, chunk
        events[number]["event_no"], images[number]["row_no"] = event_no, row_no
    texts = place_texts(images, events, groups).to_pylist()
    assert [tuple(map(int, text.split(":"))) for text in texts] == places
    assert sorted(texts) == [texts[number] for number in sorted(range(len(places)), key=lambda one: places[one])]


def test_images_that_lack_columns_are_refused() -> None:
    changes: list[Change] = [(None, (1, "a")), ((1, A), (A, "b")), ((1, A), None)]
    with pytest.raises(UnsupportedError, match=r"ROW_IMAGE\] shop\.orders: value: missing from 1 row images; .*FULL"):
        scd2_change(step_of([*changes, (None, (2, A))], INT_KEY), INT_KEY, [0])
    assert versions(changes) == [version((1, "a"), 0, 1), version((1, "b"), 1, 2)]


def test_generated_columns_that_updates_leave_out_are_refused_or_null() -> None:
    facts = AbsentFacts(generated=frozenset({"value"}), unchanged=frozenset({"id"}))
    for before in (A, "a"):  # as MariaDB logs them, without FULL_NODUP and with it
        step = step_of([(None, (1, "a")), ((1, before), (1, A))], INT_KEY, known=facts)
        with pytest.raises(UnsupportedError, match=r'value: generated columns .*generated = "null"'):
            scd2_change(step, INT_KEY, [0])
        appends = scd2_change(step, INT_KEY, [0], computed_is_null=True).appends
        assert appends is not None
        assert appends.column("value").to_pylist() == ["a", None]


def test_column_that_may_be_generated_is_not_taken_from_the_image_before() -> None:
    step = step_of([((1, "a"), (1, A))], INT_KEY, known=AbsentFacts(unchanged=frozenset({"id"})))
    with pytest.raises(UnsupportedError, match=r"value: missing .*not known whether .* generated"):
        scd2_change(step, INT_KEY, [0], computed_is_null=True)


def test_null_in_a_key_is_refused() -> None:
    with pytest.raises(TableError, match="NULL_KEY"):
        scd2_change(step_of([(None, (None, "a"))], INT_KEY), INT_KEY, [0])


@settings(max_examples=examples(120))
@given(histories(st.sampled_from([RowImage.FULL, RowImage.FULL_NODUP])), st.tuples(st.integers(1, 3), st.booleans()))
def test_versions_do_not_depend_on_batches(batches: list[Batch], cuts: tuple[int, bool]) -> None:
    table = ModelTable(mode_schema(Mode.SCD2, SCHEMA), KEY_NAMES)
    expected: list[tuple[Row, int, int | None]] = []
    current: dict[Row, int] = {}
    number = 0
    for batch in batches:
        step = step_of(batch.changes, SCHEMA, row_batches=cuts[0], interleaved=cuts[1], start=number)
        table.merge(scd2_change(step, SCHEMA, KEYS))
        for before, after in batch.whole:
            if before != after:
                if before is not None:
                    row, start, _ = expected[current[before[:2]]]
                    expected[current.pop(before[:2])] = row, start, number
                if after is not None:
                    current[after[:2]] = len(expected)
                    expected.append((after, number, None))
            number += 1
    rows = [tuple(row.values()) for row in table.rows]
    assert sorted(rows, key=repr) == sorted((version(*one) for one in expected), key=repr)
