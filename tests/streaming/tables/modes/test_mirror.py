from __future__ import annotations

import datetime as dt
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_format.errors import TableError, UnsupportedError
from binlog_streaming.modes.absent_columns import AbsentFacts
from binlog_streaming.modes.mirror import mirror_change
from binlog_streaming.modes.mode_columns import mode_schema
from binlog_streaming.modes.row_batches import StepImages
from binlog_streaming.settings.choices import Deletes, Mode
from tests.chance import examples
from tests.streaming.tables.lake.model_sink import ModelTable
from tests.streaming.tables.modes.histories import KEY_NAMES, KEYS, KNOWN, SCHEMA, RowImage, histories
from tests.streaming.tables.modes.row_images import ABSENT, step_of

if TYPE_CHECKING:
    from collections.abc import Sequence, Set

    from binlog_streaming.lake.change import Change as TableChange
    from tests.streaming.tables.modes.histories import Batch
    from tests.streaming.tables.modes.row_images import Change, Row

INT_KEY = pa.schema([("id", pa.int32()), ("value", pa.string())])
WIDE = pa.schema([("id", pa.int32()), ("value", pa.string()), ("note", pa.string())])
A = ABSENT
FACTS = AbsentFacts({"note": pa.scalar("n")}, unchanged=frozenset(WIDE.names))


def tuples(rows: pa.Table) -> list[Row]:
    return [tuple(row.values()) for row in rows.to_pylist()]


def second(number: int) -> dt.datetime:
    """Commit time of the change with this number."""
    return dt.datetime.fromtimestamp(number, dt.UTC)


def test_last_image_of_a_key_decides() -> None:
    changes: list[Change] = [
        (None, (1, "a")),
        ((1, "a"), (1, "b")),
        (None, (2, "c")),
        ((2, "c"), None),
        ((3, "old"), None),
        (None, (3, "new")),
    ]
    change = mirror_change(step_of(changes, INT_KEY), INT_KEY, [0])
    assert tuples(change.upserts) == [(1, "b"), (3, "new")]
    assert tuples(change.deletes) == [(2,)]
    assert (change.patches, change.appends, change.current) == (None, None, None)


def test_key_update_deletes_the_old_key_and_inserts_the_new_one() -> None:
    """Also when one statement moves every key by one, so that each new key is another row's old key."""
    changes: list[Change] = [((n, str(n)), (n + 1, str(n))) for n in (3, 2, 1)]
    change = mirror_change(step_of(changes, INT_KEY), INT_KEY, [0])
    assert sorted(tuples(change.upserts)) == [(2, "1"), (3, "2"), (4, "3")]
    assert tuples(change.deletes) == [(1,)]


@pytest.mark.parametrize(
    ("changes", "rows", "deleted"),
    [
        ([((1, A, A), None)], [], [1]),
        ([((1, A, A), (A, "new", A)), ((1, A, A), None)], [], [1]),
        ([((1, A, A), (1, "new", "note"))], [(1, "new", "note")], []),
        ([((1, A, A), (7, "new", "note"))], [(7, "new", "note")], [1]),
        ([((1, A, A), (A, "new", A)), ((1, A, A), None), (None, (1, "x", None))], [(1, "x", None)], []),
        ([((1, A, A), (7, A, A)), ((7, A, A), None)], [], [1, 7]),
        ([(None, (1, "a", "b")), ((1, A, A), (A, A, "c"))], [(1, "a", "c")], []),
        ([(None, (1, "a", A)), ((1, A, A), (A, "b", A))], [(1, "b", "n")], []),
        ([((1, A, A), (A, "a", A)), ((1, A, A), (A, A, None))], [(1, "a", None)], []),
        ([(None, (1, "a", "b")), ((1, A, A), (7, A, A)), ((7, A, A), (8, A, "c"))], [(8, "a", "c")], [1, 7]),
        ([((1, "old", "n"), (A, A, "m"))], [(1, "old", "m")], []),
        ([((1, "old", "n"), (7, A, A))], [(7, "old", "n")], [1]),
    ],
    ids=[
        "delete",
        "update then delete",
        "whole update",
        "key update",
        "new row in its place",
        "key update, delete",
        "update of an inserted row",
        "insert with a default",
        "two updates",
        "key updates of an inserted row",
        "FULL_NODUP",
        "key update, FULL_NODUP",
    ],
)
def test_rows_that_the_step_knows_as_a_whole_are_upserts(
    changes: list[Change], rows: list[Row], deleted: list[int]
) -> None:
    change = mirror_change(step_of(changes, WIDE, known=FACTS), WIDE, [0])
    assert tuples(change.upserts) == rows
    assert sorted(change.deletes.column("id").to_pylist()) == deleted
    assert change.patches is None


def test_of_other_rows_only_the_columns_change_that_are_in_images() -> None:
    changes: list[Change] = [
        ((1, A, A), (A, "a", A)),
        ((2, A, A), (A, A, "b")),
        ((3, A, A), (A, "x", A)),
        ((3, A, A), (A, "c", A)),
    ]
    change = mirror_change(step_of(changes, WIDE), WIDE, [0])
    assert (change.upserts.num_rows, change.deletes.num_rows) == (0, 0)
    assert change.patches is not None
    assert sorted(tuples(change.patches.rows)) == [(1, "a", None), (2, None, "b"), (3, "c", None)]
    assert change.patches.present.to_pydict() == {"value": [True, False, True], "note": [False, True, False]}


def test_columns_that_no_image_has_are_not_in_patches() -> None:
    change = mirror_change(step_of([((1, A, A), (A, A, "b"))], WIDE), WIDE, [0])
    assert change.patches is not None
    assert change.patches.rows.to_pylist() == [{"id": 1, "note": "b"}]
    assert change.patches.present.num_columns == 0


@pytest.mark.parametrize(
    ("changes", "told"),
    [
        (
            [(None, (1, "a", A))],
            r"note: missing from inserts, and their defaults are not known from the log \(1 row\)",
        ),
        (
            [((1, A, A), (7, "b", A))],
            r"note: missing from updates that change the key \(1 row\)",
        ),
        ([(None, (A, "a", "b"))], r"key column id is missing from 1 row images \(the first is of kind INSERT\)"),
        ([((A, "a", A), None)], r"key column id is missing from 1 row images \(the first is of kind DELETE\)"),
        ([((A, "a", A), (A, "b", A))], r"key column id is missing from 2 row images .*kind UPDATE_BEFORE"),
    ],
    ids=["default", "moved", "key by default", "delete, no key", "update, no key"],
)
def test_columns_whose_value_is_not_in_the_log_are_refused(changes: list[Change], told: str) -> None:
    with pytest.raises(UnsupportedError, match=rf"ROW_IMAGE\] shop\.orders: {told}.*binlog_row_image=FULL"):
        mirror_change(step_of(changes, WIDE), WIDE, [0])


def test_rows_whose_key_changes_bring_along_what_only_the_target_has() -> None:
    """Also when they go round, and when the target has stored a wider type."""
    target = ModelTable(pa.schema([("id", pa.int64()), ("value", pa.large_string()), ("note", pa.string())]), ["id"])
    target.rows = [{"id": key, "value": f"v{key}", "note": f"n{key}"} for key in (1, 2, 3)]
    changes: list[Change] = [
        ((1, A, A), (9, A, A)),
        ((2, A, A), (1, A, "new")),
        ((9, A, A), (2, A, A)),
        ((3, A, A), (4, A, A)),
        ((4, A, A), None),
        ((7, A, A), (8, A, A)),
    ]
    change = mirror_change(step_of(changes, WIDE), WIDE, [0], there=target.with_keys)
    assert sorted(tuples(change.upserts)) == [(1, "v2", "new"), (2, "v1", "n1")]
    assert sorted(change.deletes.column("id").to_pylist()) == [3, 4, 7, 9]
    assert change.patches is None


def test_key_that_an_insert_leaves_out_is_its_default() -> None:
    step = step_of(
        [(None, (A, "a", "b"))], WIDE, known=AbsentFacts({"id": pa.scalar(0)}, unchanged=frozenset(WIDE.names))
    )
    assert tuples(mirror_change(step, WIDE, [0]).upserts) == [(0, "a", "b")]


def test_generated_columns_that_updates_leave_out_are_refused_or_null() -> None:
    """The server leaves them out, whether their base changed or not; before FULL_NODUP's update they are there."""
    facts = AbsentFacts(generated=frozenset({"note"}), unchanged=frozenset({"id", "value"}))
    for before in (A, "va"):
        changes: list[Change] = [(None, (1, "a", "va")), ((1, "a", before), (A, "b", A))]
        step = step_of(changes, WIDE, known=facts)
        with pytest.raises(UnsupportedError, match=r'ROW_IMAGE\] shop\.orders: note: generated .*generated = "null"'):
            mirror_change(step, WIDE, [0])
        assert tuples(mirror_change(step, WIDE, [0], computed_is_null=True).upserts) == [(1, "b", None)]


def test_column_that_may_be_generated_is_not_taken_for_unchanged() -> None:
    """Not even where the image before has it: so has FULL_NODUP with a column that the server computes anew."""
    facts = AbsentFacts(unchanged=frozenset({"id"}), nullable=frozenset({"value", "note"}))
    for before in ((1, A, A), (1, "a", "va")):
        step = step_of([(None, (1, "a", "va")), (before, (A, "b", A))], WIDE, known=facts)
        with pytest.raises(UnsupportedError, match=r"note: missing .* not known whether .*snapshot --definitions"):
            mirror_change(step, WIDE, [0], computed_is_null=True)
    later: Change = ((1, A, A), (A, "c", "vc"))
    assert tuples(mirror_change(step_of([((1, A, A), (A, "b", A)), later], WIDE, known=facts), WIDE, [0]).upserts) == [
        (1, "c", "vc")
    ]


@pytest.mark.parametrize(
    ("blobs", "reason"), [(frozenset[str](), "generated columns"), ({"note"}, "not known whether")]
)
def test_image_that_is_whole_but_for_a_column_tells_that_this_is_generated(blobs: Set[str], reason: str) -> None:
    """MINIMAL has columns of keys before an update, which are never NULL; NOBLOB all but blobs."""
    nullable = frozenset({"value", "note"})
    facts = AbsentFacts(unchanged=frozenset({"id"}), nullable=nullable, blobs=frozenset(blobs))
    step = step_of([((1, "a", A), (1, "b", A))], WIDE, known=facts)
    with pytest.raises(UnsupportedError, match=f"note: .*{reason}"):
        mirror_change(step, WIDE, [0])


def test_default_is_that_of_the_place_where_a_row_was_inserted() -> None:
    steps = [
        step_of(
            [(None, (number, "a", A))], WIDE, start=number, known=replace(FACTS, defaults={"note": pa.scalar(note)})
        )
        for number, note in enumerate("xy")
    ]
    step = StepImages("shop.orders", (*steps[0].row_batches, *steps[1].row_batches))
    assert tuples(mirror_change(step, WIDE, [0]).upserts) == [(0, "a", "x"), (1, "a", "y")]


def test_null_in_a_key_is_refused() -> None:
    step = step_of([(None, (1, None))], INT_KEY)
    with pytest.raises(TableError, match=r"NULL_KEY\] shop\.orders: key column value is null in 1 row images"):
        mirror_change(step, INT_KEY, [1])


class TestMarkedDeletes:
    """deletes="mark"."""

    @staticmethod
    def changed(changes: Sequence[Change], schema: pa.Schema = INT_KEY) -> TableChange:
        return mirror_change(step_of(changes, schema), schema, [0], deletes=Deletes.MARK)

    def test_delete_marks_the_row_that_is_there(self) -> None:
        change = self.changed([(None, (9, "x")), ((1, "a"), None)])
        assert tuples(change.upserts) == [(9, "x", False, None)]
        assert change.deletes.num_rows == 0
        assert change.patches is not None
        assert change.patches.rows.to_pylist() == [{"id": 1, "_deleted": True, "_deleted_at": second(1)}]

    def test_row_that_came_in_the_same_step_is_kept_as_it_was_last(self) -> None:
        change = self.changed([(None, (1, "a")), ((1, "a"), (1, "b")), ((1, "b"), None)])
        assert tuples(change.upserts) == [(1, "b", True, second(2))]
        assert change.patches is None

    def test_key_that_comes_again_is_not_deleted(self) -> None:
        change = self.changed([((1, "a"), None), (None, (1, "b"))])
        assert tuples(change.upserts) == [(1, "b", False, None)]

    def test_key_update_marks_the_old_key(self) -> None:
        change = self.changed([((1, "a"), (2, "a"))])
        assert tuples(change.upserts) == [(2, "a", False, None)]
        assert change.patches is not None
        assert tuples(change.patches.rows) == [(1, True, second(0))]

    def test_partly_known_rows_are_patched_and_marked(self) -> None:
        change = self.changed(
            [((1, A, A), (A, "b", A)), ((1, A, A), None), ((2, A, A), None), ((3, A, A), (A, A, "c"))], WIDE
        )
        assert change.upserts.num_rows == 0
        assert change.patches is not None
        named = {row["id"]: tuple(row.values())[1:] for row in change.patches.rows.to_pylist()}
        columns = ["value", "note", "_deleted", "_deleted_at"]
        assert set(change.patches.rows.column_names[1:]) == set(columns)
        rows = {row["id"]: [row[name] for name in columns] for row in change.patches.rows.to_pylist()}
        assert rows == {
            1: ["b", None, True, second(1)],
            2: [None, None, True, second(2)],
            3: [None, "c", False, None],
        }, named
        present = dict(
            zip(change.patches.rows.column("id").to_pylist(), change.patches.present.to_pylist(), strict=True)
        )
        assert present == {
            1: {"value": True, "note": False},
            2: {"value": False, "note": False},
            3: {"value": False, "note": True},
        }


_CUTS = st.tuples(st.integers(1, 3), st.booleans())


def mirrored(batches: Sequence[Batch], deletes: Deletes, cuts: tuple[int, bool]) -> ModelTable:
    """The target behind all batches; it must be right behind each."""
    table = ModelTable(mode_schema(Mode.MIRROR, SCHEMA, deletes), KEY_NAMES)
    start = 0
    for batch in batches:
        step = step_of(batch.changes, SCHEMA, row_batches=cuts[0], interleaved=cuts[1], start=start, known=KNOWN)
        table.merge(mirror_change(step, SCHEMA, KEYS, deletes=deletes, there=table.with_keys))
        start += len(batch.changes)
        there = [tuple(row[name] for name in SCHEMA.names) for row in table.rows if not row.get("_deleted")]
        assert sorted(there, key=repr) == sorted(batch.rows, key=repr)
    return table


@settings(max_examples=examples(150))
@given(histories(st.just(RowImage.FULL)), _CUTS)
def test_mirror_of_whole_images_equals_the_table(batches: list[Batch], cuts: tuple[int, bool]) -> None:
    mirrored(batches, Deletes.REMOVE, cuts)


@settings(max_examples=examples(150))
@given(histories(st.sampled_from(RowImage)), _CUTS)
def test_mirror_of_any_images_equals_the_table(batches: list[Batch], cuts: tuple[int, bool]) -> None:
    mirrored(batches, Deletes.REMOVE, cuts)


@settings(max_examples=examples(100))
@given(st.one_of(histories(st.just(RowImage.FULL)), histories(st.sampled_from(RowImage))), _CUTS)
def test_marked_rows_stay_as_they_were_last(batches: list[Batch], cuts: tuple[int, bool]) -> None:
    last: dict[object, object] = {}
    number = 0
    for batch in batches:
        for before, after in batch.whole:
            if before is not None and (after is None or after[:2] != before[:2]):
                last[before[:2]] = (*before, True, second(number))
            if after is not None:
                last[after[:2]] = (*after, False, None)
            number += 1
    table = mirrored(batches, Deletes.MARK, cuts)
    assert sorted((tuple(row.values()) for row in table.rows), key=repr) == sorted(last.values(), key=repr)


def test_columns_of_the_mode_must_not_be_taken() -> None:
    schema = pa.schema([("id", pa.int32()), ("_Deleted", pa.bool_())])
    assert mode_schema(Mode.MIRROR, schema) == schema
    with pytest.raises(TableError, match=r"COLUMN_NAME\] mode mirror .*: _Deleted"):
        mode_schema(Mode.MIRROR, schema, Deletes.MARK)
