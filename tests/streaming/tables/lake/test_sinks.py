"""What every sink keeps to: a step comes in once, whatever is cut off, and every value comes back as it was."""

from __future__ import annotations

import datetime as dt
import itertools
import random
import shutil
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from binlog_connector.crash_points import watched
from binlog_format.errors import OptionError, TableError, UnsupportedError
from binlog_lab.simulator.disk import Disk, Killed
from binlog_lab.simulator.machine import forget_process
from binlog_streaming.lake.change import Patches
from binlog_streaming.lake.delta import log as delta_log
from binlog_streaming.lake.evolution import SchemaChange
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.lake.target import CrashPoint
from binlog_streaming.settings import Mode, Sink, TableFormat
from tests.chance import examples
from tests.faults.processes import Cut, CutAt
from tests.streaming.tables.lake.sink_cases import (
    COMMIT_ID,
    COMPOSITE,
    INT_KEY,
    KEY_TYPES,
    MIRROR_COMMIT_ID,
    MIRROR_VARIANTS,
    VARIANTS,
    Place,
    Variant,
    all_types,
    change_of,
    histories,
    numbers,
    rows_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from binlog_streaming.lake.commit_id import CommitId
    from binlog_streaming.lake.target import Target
    from tests.streaming.tables.modes.row_images import Change as RowChange
    from tests.streaming.tables.modes.row_images import Row


@pytest.fixture(params=VARIANTS, ids=str)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Variant(request.param).place(tmp_path)


@pytest.fixture(params=MIRROR_VARIANTS, ids=str)
def mirror_place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Variant(request.param).place(tmp_path)


@pytest.mark.parametrize("variant", [Variant.DELTA, Variant.PARQUET])
def test_a_step_that_is_found_stays_after_a_loss_of_power(variant: Variant, tmp_path: Path) -> None:
    """Who made it may have been killed before it was safe."""
    found = 0
    for call, seed in itertools.product(range(1, 25), range(3)):
        disk = Disk(tmp_path / f"{call}-{seed}", tmp_path / "log", random.Random(seed))
        disk.root.mkdir()
        place = variant.place(disk.root)
        with disk.installed():
            place.append(0, numbers(1, 5))
            disk.restart()
            disk.at_write[call] = disk.kill
            with suppress(Killed):
                place.append(1, numbers(5, 9))
            disk.restart()
            forget_process()
            with closing(place.target()) as target:
                is_found = target.is_done(replace(COMMIT_ID, batch_id=1))
            with suppress(Killed):
                disk.lose_power()
            disk.restart()
            forget_process()
            with closing(place.target()) as target:
                assert target.is_done(replace(COMMIT_ID, batch_id=1)) or not is_found
        found += is_found
    assert 0 < found < 72


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
    same_values(place.read(), rows)
    with closing(place.target()) as target:
        assert target.schema().equals(target.stored_schema(rows.schema))
        assert target.stored_schema(target.schema()).equals(target.schema())


def test_every_type_survives_that_its_file_is_written_anew(mirror_place: Place) -> None:
    rows = all_types()
    schema = pa.schema([("id", pa.int32()), *rows.schema])
    values = [tuple(row.values()) for row in rows.to_pylist()]
    first: list[RowChange] = [(None, (number, *row)) for number, row in enumerate(values)]
    assert mirror_place.merge(0, first, schema)
    assert mirror_place.merge(1, [(None, (9, *values[0]))], schema)
    # Row 0 goes away, row 1 gets the values of row 2 (all NULL); row 2 and 9 stay.
    assert mirror_place.merge(2, [((0, *values[0]), None), ((1, *values[1]), (1, *values[2]))], schema)
    got = mirror_place.content().sort_by("id")
    wanted = rows.take(pa.array([2, 2, 0])).add_column(0, schema.field("id"), [pa.array([1, 2, 9], pa.int32())])
    same_values(got, wanted.combine_chunks())


def test_a_type_that_no_format_has_is_refused(place: Place) -> None:
    schema = pa.schema([("id", pa.int32()), ("span", pa.duration("us"))])
    with closing(place.target()) as target, pytest.raises(UnsupportedError, match=r"COLUMN_TYPE\] .*span.*duration"):
        target.stored_schema(schema)


# --- Once, and only once ---


@dataclass(frozen=True)
class Operation:
    """A step on a table that holds the rows 1, 2, 3; what the table holds then; and who can do it."""

    write: Callable[[Target, CommitId], object]
    rows: list[Row]
    sinks: tuple[Variant, ...] = VARIANTS


ROWS: list[Row] = [(1, "x"), (2, "x"), (3, "x")]
NOTE = pa.schema([("note", pa.string())])
OPERATIONS = {
    "append": Operation(
        lambda target, commit_id: target.append(numbers(4, 5).to_reader(), commit_id), [*ROWS, (4, "x"), (5, "x")]
    ),
    "merge": Operation(
        lambda target, commit_id: target.merge(change_of([(1, "y"), (7, "y")], [2]), commit_id),
        [(1, "y"), (3, "x"), (7, "y")],
        MIRROR_VARIANTS,
    ),
    "merge of new keys": Operation(
        lambda target, commit_id: target.merge(change_of([(100, "y")]), commit_id), [(100, "y"), *ROWS], MIRROR_VARIANTS
    ),
    "merge with patches and appends": Operation(
        lambda target, commit_id: target.merge(
            change_of(patches=Patches(numbers(1), no_flags(1)), appends=numbers(1)), commit_id
        ),
        [(1, "x"), *ROWS],
        MIRROR_VARIANTS,
    ),
    "new column": Operation(
        lambda target, commit_id: target.evolve(SchemaChange(added=NOTE), commit_id), [(*row, None) for row in ROWS]
    ),
    "new column with a value": Operation(
        lambda target, commit_id: target.evolve(SchemaChange(added=NOTE, filled={"note": pa.scalar("n")}), commit_id),
        [(*row, "n") for row in ROWS],
        MIRROR_VARIANTS,
    ),
    "renamed and wider": Operation(
        lambda target, commit_id: target.evolve(
            SchemaChange(renamed={"id": "key"}, retyped={"key": pa.int64()}), commit_id
        ),
        ROWS,
        MIRROR_VARIANTS,
    ),
    "wider": Operation(
        lambda target, commit_id: target.evolve(SchemaChange(retyped={"id": pa.int64()}), commit_id), ROWS
    ),
    "replace": Operation(
        lambda target, commit_id: target.replace(numbers(8).to_reader(), commit_id), [(8, "x")], MIRROR_VARIANTS
    ),
    "replace by nothing": Operation(
        lambda target, commit_id: target.replace(INT_KEY.empty_table().to_reader(), commit_id), [], MIRROR_VARIANTS
    ),
    "replace by itself": Operation(
        lambda target, commit_id: target.replace(target.read(), commit_id), ROWS, MIRROR_VARIANTS
    ),
}


def no_flags(count: int) -> pa.Table:
    """Patches that all change the same columns."""
    return pa.table({"none": [True] * count}).select([])


@dataclass(frozen=True)
class Prepared:
    """A table that holds batch 0, and an operation that is to be the third step of batch 1."""

    place: Place
    operation: Operation
    commit_id: CommitId

    def step(self) -> bool:
        """Do it, unless it is done; whether it wrote."""
        return self.place.step(self.commit_id, self.write)

    def write(self, target: Target) -> object:
        """Do it."""
        return self.operation.write(target, self.commit_id)

    def check(self) -> None:
        """See that the table holds what it should."""
        assert self.place.sorted_rows() == sorted(self.operation.rows, key=repr)


@pytest.fixture(
    params=[(variant, name) for name, operation in OPERATIONS.items() for variant in operation.sinks],
    ids=lambda param: f"{param[0]}-{param[1]}",
)
def prepared(request: pytest.FixtureRequest, tmp_path: Path) -> Prepared:
    variant, name = request.param
    place = variant.place(tmp_path)
    assert place.append(0, numbers(1, 2, 3, *([50] if variant is Variant.VECTORS else [])), MIRROR_COMMIT_ID)
    if variant is Variant.VECTORS:  # a row is marked already
        assert place.bring(change_of(deletes=[50]), batch_id=0, step=1)
    return Prepared(place, OPERATIONS[name], replace(MIRROR_COMMIT_ID, batch_id=1, step=3))


def test_a_repeated_step_changes_nothing(prepared: Prepared) -> None:
    place, commit_id = prepared.place, prepared.commit_id
    assert prepared.step()
    prepared.check()
    before = place.state()
    for repeated in (commit_id, replace(commit_id, step=1), replace(commit_id, step=2)):
        assert not place.step(repeated, prepared.write)
    assert place.state() == before
    with closing(place.target()) as target:
        applied = target.applied(commit_id)
        assert applied is not None
        assert (applied.place, applied.last_change) == ((1, 3), commit_id.last_change)
        for later in (replace(commit_id, step=4), replace(commit_id, batch_id=2, step=0)):
            assert not target.is_done(later)


def test_cut_off_at_any_step_then_again(prepared: Prepared) -> None:
    """At each step that the operation reaches: those that it reaches when nothing happens."""
    steps: list[CrashPoint] = []
    with taken_back(prepared.place.directory), watched(steps.append):
        assert prepared.step()
    assert {CrashPoint.LOOKED, CrashPoint.COMMITTED} <= set(steps)
    for step in dict.fromkeys(steps):
        with taken_back(prepared.place.directory):
            check_cut_off(prepared, step)


@contextmanager
def taken_back(folder: Path) -> Iterator[None]:
    """What happens to a folder is taken back."""
    kept = folder.with_name(f"{folder.name}-kept")
    shutil.copytree(folder, kept)
    yield
    shutil.rmtree(folder)
    kept.rename(folder)
    delta_log._seen.clear()  # no process was there


def check_cut_off(prepared: Prepared, step: CrashPoint) -> None:
    """Cut an operation off at a step that it reaches, and do it again."""
    with pytest.raises(Cut), watched(CutAt(step)):
        prepared.step()
    assert prepared.step() == (step is not CrashPoint.COMMITTED)
    prepared.check()


def test_twin_with_the_same_step_is_a_conflict(prepared: Prepared) -> None:
    """A worker of a killed job may still be writing: whoever comes second must not write it again."""
    with closing(prepared.place.target()) as late:
        assert not late.is_done(prepared.commit_id)
        assert prepared.step()
        with pytest.raises(Exception, match=r".") as caught:
            prepared.write(late)
        assert late.is_conflict(caught.value)
    assert not prepared.step()
    prepared.check()


@pytest.mark.parametrize(
    ("variant", "step"),
    [
        (variant, step)
        for variant in VARIANTS
        for step in (CrashPoint.LOOKED, CrashPoint.CREATED, CrashPoint.FILES_WRITTEN, CrashPoint.COMMITTED)
    ],
    ids=str,
)
def test_first_batch_cut_off_at_any_step_then_again(tmp_path: Path, variant: Variant, step: CrashPoint) -> None:
    """The one that makes the table."""
    place = variant.place(tmp_path)
    with pytest.raises(Cut), watched(CutAt(step)):
        place.append(0, numbers(0))
    assert place.append(0, numbers(0)) == (step is not CrashPoint.COMMITTED)
    assert place.ids() == [0]


def test_two_creations_at_once_are_a_conflict(place: Place) -> None:
    with closing(place.target()) as mine, closing(place.target()) as other:
        other.create(INT_KEY, COMMIT_ID)
        with pytest.raises(Exception, match="exist") as caught:
            mine.create(INT_KEY, COMMIT_ID)
        assert mine.is_conflict(caught.value)
    assert place.append(0, numbers(1))


def test_steps_of_a_batch_follow_each_other_on_one_look(place: Place) -> None:
    """The target knows what it holds without a second look."""
    commit_ids = [replace(COMMIT_ID, batch_id=4, step=step, last_change=f"0:1:{step}:0") for step in range(5)]
    with closing(place.target()) as target:
        target.create(INT_KEY, commit_ids[0])
        for commit_id, ids in zip(commit_ids[::2], (1, 2, 3), strict=True):
            assert not target.is_done(commit_id)
            target.append(numbers(ids).to_reader(), commit_id)
            assert target.is_done(commit_id)
            applied = target.applied(commit_id)
            assert applied is not None
            assert applied.place == commit_id.place
            if commit_id.step == 2:
                target.evolve(SchemaChange(added=NOTE), commit_ids[3])
                assert target.schema().names == ["id", "value", "note"]
                assert target.is_done(commit_ids[3])
        assert all(target.is_done(commit_id) for commit_id in commit_ids)
    assert place.ids() == [1, 2, 3]
    assert place.content().column_names == ["id", "value", "note"]


def test_columns_change_between_two_merges_on_one_look(mirror_place: Place) -> None:
    commit_ids = [replace(MIRROR_COMMIT_ID, batch_id=1, step=step) for step in range(3)]
    with closing(mirror_place.target()) as target:
        target.create(INT_KEY, commit_ids[0])
        target.merge(change_of([(1, "a"), (2, "b")]), commit_ids[0])
        target.evolve(SchemaChange(renamed={"value": "name"}, added=NOTE), commit_ids[1])
        target.merge(change_of([(2, "B", "n")], [1], schema=target.schema()), commit_ids[2])
    assert mirror_place.content().to_pylist() == [{"id": 2, "name": "B", "note": "n"}]


# --- Whose table it is ---


@pytest.mark.parametrize(
    ("other", "condition"),
    [
        (replace(COMMIT_ID, query_id="q-2"), r"OTHER_WRITER\] shop\.orders: .* written by query q-1; .* query q-2"),
        (replace(COMMIT_ID, source_table="shop.items"), r"SAME_TARGET\] shop\.items: .* holds shop\.orders"),
        (replace(COMMIT_ID, mode=Mode.MIRROR), r"MODE_CHANGED\] .*made with mode changelog, the job now sets mirror"),
        (replace(COMMIT_ID, keys=("id",)), r"KEYS_CHANGED\] "),
    ],
    ids=["checkpoint deleted", "two tables into one target", "mode changed", "keys changed"],
)
def test_target_of_somebody_else_is_refused(place: Place, other: CommitId, condition: str) -> None:
    place.append(0, numbers(1))
    with closing(place.target()) as target, pytest.raises(TableError, match=condition) as caught:
        target.check_owner(other)
    assert caught.value.hint is not None


@pytest.mark.parametrize(
    "older",
    [replace(COMMIT_ID, batch_id=2), replace(COMMIT_ID, batch_id=3, last_change="0:99:0:0")],
    ids=["earlier batch", "same number, other content"],
)
def test_checkpoint_older_than_the_table_is_refused(place: Place, older: CommitId) -> None:
    for batch_id in range(4):
        place.append(batch_id, numbers(batch_id))
    with closing(place.target()) as target:
        with pytest.raises(TableError, match=r"CHECKPOINT_BEHIND\] shop\.orders: .* holds batch 3.* at batch \d: "):
            target.is_done(older)
        assert target.is_done(replace(COMMIT_ID, batch_id=3))


def test_table_says_new_things_about_itself_once(place: Place) -> None:
    place.append(0, numbers(1), MIRROR_COMMIT_ID)
    commit_id = replace(MIRROR_COMMIT_ID, batch_id=1, keys=("id", "value"))
    with closing(place.target()) as target:
        target.set_properties(commit_id, recorded={"binlog-stream.dropped": "0:9:9"})
        target.check_owner(commit_id)
        assert not target.is_done(commit_id)
    before = place.state()
    with closing(place.target()) as target:
        properties = target.properties()
        assert properties is not None
        assert properties.items() >= {**commit_id.table_properties(), "binlog-stream.dropped": "0:9:9"}.items()
        target.set_properties(commit_id, recorded={"binlog-stream.dropped": "0:9:9"})
        target.set_properties(commit_id)
    assert place.state() == before
    with closing(place.target()) as target:
        target.set_properties(commit_id, recorded={"binlog-stream.dropped": ""})
        assert (target.properties() or {})["binlog-stream.dropped"] == ""
    assert place.state() != before
    assert place.ids() == [1]
    with closing(place.target()) as target:
        assert (target.properties() or {})["binlog-stream.dropped"] == ""


def test_what_a_table_says_about_itself_survives_every_step(prepared: Prepared) -> None:
    with closing(prepared.place.target()) as target:
        target.set_properties(prepared.commit_id, recorded={"binlog-stream.dropped": "0:9:9"})
        recorded = {**(target.properties() or {})}
        prepared.write(target)
        assert recorded.items() <= {**(target.properties() or {})}.items()
    with closing(prepared.place.target()) as target:
        assert recorded.items() <= {**(target.properties() or {})}.items()


# --- Rows and columns find each other ---


def test_columns_in_another_order_go_to_their_names(place: Place) -> None:
    place.append(0, numbers(1))
    turned = pa.schema([INT_KEY.field("value"), INT_KEY.field("id")])
    place.append(1, pa.table({"value": ["y"], "id": pa.array([2], pa.int32())}, schema=turned))
    assert place.content().column_names == ["id", "value"]
    assert place.sorted_rows() == [(1, "x"), (2, "y")]


def test_appended_rows_may_lack_columns_and_be_narrower(place: Place) -> None:
    schema = pa.schema([("id", pa.int64()), ("value", pa.string()), ("price", pa.decimal128(12, 2))])
    place.append(0, rows_of(schema, [(2**40, "a", Decimal("1.50"))]))
    narrow = pa.schema([("price", pa.decimal128(5, 2)), ("id", pa.int8())])
    commit_id = replace(COMMIT_ID, batch_id=1)
    with closing(place.target()) as target:
        target.append(rows_of(narrow, [(Decimal("2.25"), 7)]).to_reader(), commit_id)
    with closing(place.target()) as target:
        assert target.schema().equals(target.stored_schema(schema))
    assert place.sorted_rows() == [(2**40, "a", Decimal("1.50")), (7, None, Decimal("2.25"))]


def test_empty_append_still_counts(place: Place) -> None:
    place.append(0, numbers(1))
    place.append(1, numbers())
    assert not place.append(1, numbers())
    assert [row[0] for row in place.rows()] == [1]


WIDE = pa.schema([("id", pa.int64()), ("a", pa.string()), ("b", pa.int32()), ("c", pa.string())])
WIDE_ROWS: list[Row] = [(1, "a1", 1, "c1"), (2, "a2", 2, "c2"), (3, "a3", 3, "c3")]


@pytest.fixture
def wide(mirror_place: Place) -> Place:
    mirror_place.append(0, rows_of(WIDE, WIDE_ROWS), MIRROR_COMMIT_ID)
    return mirror_place


def test_merged_rows_may_lack_columns_and_be_narrower(wide: Place) -> None:
    """The column stays as it is in a row that is there, and is null in a new one."""
    narrow = pa.schema([("id", pa.int8()), ("b", pa.int16()), ("a", pa.string())])
    assert wide.bring(change_of([(2, 20, "A"), (9, 90, "B")], [1], schema=narrow))
    assert wide.sorted_rows() == [(2, "A", 20, "c2"), (3, "a3", 3, "c3"), (9, "B", 90, None)]


def test_new_keys_may_lack_columns(wide: Place) -> None:
    """No file can hold them, so they are appended."""
    narrow = pa.schema([("id", pa.int8()), ("b", pa.int16())])
    assert wide.bring(change_of([(100, 20)], [120], schema=narrow, appends=rows_of(narrow, [(101, 5)])))
    assert wide.sorted_rows() == [*WIDE_ROWS[:1], (100, None, 20, None), (101, None, 5, None), *WIDE_ROWS[1:]]


def patches(schema: pa.Schema, rows: list[Row], **present: list[bool]) -> Patches:
    """Patches of `WIDE`."""
    return Patches(rows_of(schema, rows), pa.table(present) if present else no_flags(len(rows)))


def test_patches_change_only_the_columns_that_they_have(wide: Place) -> None:
    """A NULL in a patch is a value; a key that is not there changes nothing."""
    some = pa.schema([("id", pa.int64()), ("a", pa.string()), ("b", pa.int32())])
    rows: list[Row] = [(1, "new", None), (2, None, 20), (3, None, None), (77, "x", 7)]
    change = change_of(
        schema=WIDE, patches=patches(some, rows, a=[True, False, True, True], b=[False, True, True, True])
    )
    assert wide.bring(change)
    assert wide.sorted_rows() == [(1, "new", 1, "c1"), (2, "a2", 20, "c2"), (3, None, None, "c3")]


def test_a_column_without_flags_is_changed_by_all_patches(wide: Place) -> None:
    some = pa.schema([("id", pa.int32()), ("b", pa.int8()), ("c", pa.string())])
    change = change_of(schema=WIDE, patches=patches(some, [(1, 10, "x"), (3, None, "y")], c=[False, True]))
    assert wide.bring(change)
    assert wide.sorted_rows() == [(1, "a1", 10, "c1"), WIDE_ROWS[1], (3, "a3", None, "y")]


def test_upserts_deletes_patches_and_appends_are_one_commit(wide: Place) -> None:
    some = pa.schema([("id", pa.int64()), ("a", pa.string())])
    change = change_of(
        [(1, "U", 10, "U"), (8, "U", 80, "U")],
        [2],
        schema=WIDE,
        patches=patches(some, [(3, "P")], a=[True]),
        appends=rows_of(WIDE, [(1, "A", 0, "A"), (2, "A", 0, "A"), (9, "A", 0, "A")]),
    )
    assert wide.bring(change)
    assert wide.sorted_rows() == [
        (1, "A", 0, "A"),
        (1, "U", 10, "U"),
        (2, "A", 0, "A"),
        (3, "P", 3, "c3"),
        (8, "U", 80, "U"),
        (9, "A", 0, "A"),
    ]
    before = wide.state()
    assert not wide.bring(change)
    assert wide.state() == before


def test_only_appends_leave_rows_with_their_keys_alone(wide: Place) -> None:
    assert wide.bring(change_of(schema=WIDE, appends=rows_of(WIDE, [(1, "A", 0, "A")])))
    assert wide.sorted_rows() == [(1, "A", 0, "A"), *WIDE_ROWS]


VERSIONS = pa.schema([("id", pa.int32()), ("value", pa.string()), ("_is_current", pa.bool_())])
CLOSING = pa.schema([("id", pa.int32()), ("_is_current", pa.bool_())])
MARKS = pa.schema([("id", pa.int32()), ("_deleted", pa.bool_())])


def test_only_current_rows_are_there(mirror_place: Place) -> None:
    """Versions: the one that was current is closed, a new one comes, older ones stay as they are."""
    first: list[Row] = [(1, "old", False), (1, "now", True), (2, "old", False), (3, "x", None)]
    mirror_place.append(0, rows_of(VERSIONS, first), MIRROR_COMMIT_ID)
    change = change_of(
        schema=VERSIONS,
        patches=patches(CLOSING, [(1, False), (2, False), (3, False)]),
        appends=rows_of(VERSIONS, [(1, "new", True), (2, "again", True)]),
        current="_is_current",
    )
    assert mirror_place.bring(change)
    assert mirror_place.sorted_rows() == [
        (1, "new", True),
        (1, "now", False),
        (1, "old", False),
        (2, "again", True),
        (2, "old", False),
        (3, "x", None),
    ]
    assert mirror_place.bring(
        change_of([(1, "up", True), (3, "up", True)], [2], schema=VERSIONS, current="_is_current"), batch_id=2
    )
    assert mirror_place.sorted_rows() == [
        (1, "now", False),
        (1, "old", False),
        (1, "up", True),
        (2, "old", False),
        (3, "up", True),
        (3, "x", None),
    ]


MARKED = pa.schema([("id", pa.int32()), ("value", pa.string()), ("_deleted", pa.bool_())])


def test_of_rows_with_one_key_only_one_changes_and_marked_ones_stay(mirror_place: Place) -> None:
    """A statement changed the key of the table: marked rows had other keys when they went."""
    for batch, rows in enumerate([[(1, "a", True), (1, "b", False), (2, "c", True)], [(2, "d", True), (3, "e", True)]]):
        mirror_place.append(batch, rows_of(MARKED, rows), MIRROR_COMMIT_ID)
    change = change_of(
        [(3, "up", False)], schema=MARKED, patches=patches(MARKS, [(1, False), (2, False)]), gone="_deleted"
    )
    assert mirror_place.bring(change, batch_id=2)
    assert mirror_place.sorted_rows() == [
        (1, "a", True),
        (1, "b", False),
        (2, "c", True),
        (2, "d", False),
        (3, "up", False),
    ]


def test_nothing_left_of_a_batch_makes_no_commit(mirror_place: Place) -> None:
    """Rows inserted and deleted again in one batch."""
    mirror_place.merge(0, [(None, (1, "a"))])
    before = mirror_place.state()
    assert not mirror_place.merge(1, [(None, (7, "x")), ((7, "x"), None)])
    assert not mirror_place.bring(change_of(), batch_id=1)
    assert mirror_place.state() == before
    assert mirror_place.merge(2, [((1, "a"), None)])
    assert mirror_place.rows() == []
    assert mirror_place.merge(3, [(None, (1, "b"))])
    assert mirror_place.rows() == [(1, "b")]


@pytest.mark.parametrize("name", KEY_TYPES)
def test_every_key_type_finds_its_row(mirror_place: Place, name: str) -> None:
    """One file for each key, then updates and deletes of each: nothing is doubled, nothing is missed."""
    key_type, keys = KEY_TYPES[name]
    schema = pa.schema([("k", key_type), ("value", pa.int32())])
    for number, key in enumerate(keys):
        assert mirror_place.merge(number, [(None, (key, 0))], schema)
    for number, key in enumerate(keys, start=len(keys)):
        assert mirror_place.merge(number, [((key, 0), (key, 1))], schema)
    assert sorted(mirror_place.rows()) == sorted((key, 1) for key in keys)
    assert mirror_place.merge(2 * len(keys), [((key, 1), None) for key in keys[1:]], schema)
    assert mirror_place.rows() == [(keys[0], 1)]


ODD = pa.schema([('we"ird `id', pa.int32()), ("a.b", pa.string()), ("deleted", pa.int8()), ("ID s.c0", pa.int8())])


def test_odd_column_names_work(mirror_place: Place) -> None:
    assert mirror_place.merge(0, [(None, (1, "x", 0, 0)), (None, (2, "y", 0, 0))], ODD, 2)
    assert mirror_place.merge(1, [((1, "x", 0, 0), (1, "x", 5, 6)), ((2, "y", 0, 0), None)], ODD, 2)
    assert mirror_place.rows() == [(1, "x", 5, 6)]
    commit_id = replace(MIRROR_COMMIT_ID, batch_id=2, keys=tuple(ODD.names[:2]))
    with closing(mirror_place.target()) as target:
        target.evolve(
            SchemaChange(renamed={"deleted": "t.`c`", "ID s.c0": 's"p0'}, added=pa.schema([("kind", pa.int8())])),
            commit_id,
        )
        rows = target.schema()
        keys = rows_of(pa.schema(list(rows)[:2]), [])
        change = replace(
            change_of(schema=INT_KEY),
            upserts=rows.empty_table(),
            deletes=keys,
            patches=Patches(rows_of(rows, [(1, "x", 7, None, 8)]), pa.table({'s"p0': [False], "t.`c`": [True]})),
        )
        target.merge(change, replace(commit_id, step=1))
    assert mirror_place.content().to_pylist() == [{'we"ird `id': 1, "a.b": "x", "t.`c`": 7, 's"p0': 6, "kind": 8}]


@pytest.mark.parametrize("variant", MIRROR_VARIANTS, ids=str)
@settings(max_examples=examples(12), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(history=histories())
def test_mirror_equals_a_dict_however_the_changes_are_cut_into_batches(
    tmp_path_factory: pytest.TempPathFactory,
    variant: Variant,
    history: tuple[list[list[RowChange]], dict[tuple[object, ...], Row]],
) -> None:
    """With updates of the key, empty batches, NULLs, and every batch tried twice."""
    batches, model = history
    place = variant.place(tmp_path_factory.mktemp("mirror"))
    for batch_id, batch in enumerate(batches):
        if place.merge(batch_id, batch, COMPOSITE, 3):
            assert not place.merge(batch_id, batch, COMPOSITE, 3)
    assert place.sorted_rows() == sorted(model.values(), key=repr)


PATCHED = pa.schema([("id", pa.int32()), ("a", pa.string()), ("b", pa.int32())])
_TEXT, _NUMBER = st.sampled_from([None, "x", "y", "z"]), st.one_of(st.none(), st.integers(-9, 9))
_UPSERT = st.tuples(st.just("upsert"), _TEXT, _NUMBER)
_PATCH = st.tuples(st.just("patch"), _TEXT, _NUMBER, st.booleans(), st.booleans())
_ACTIONS = st.dictionaries(st.integers(0, 12), st.one_of(_UPSERT, st.just(("delete",)), _PATCH), max_size=8)


@pytest.mark.parametrize("variant", MIRROR_VARIANTS, ids=str)
@settings(max_examples=examples(15), suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(batches=st.lists(_ACTIONS, min_size=1, max_size=4))
def test_upserts_deletes_and_patches_equal_a_dict(
    tmp_path_factory: pytest.TempPathFactory, variant: Variant, batches: list[dict[int, tuple[object, ...]]]
) -> None:
    place = variant.place(tmp_path_factory.mktemp("mirror"))
    model: dict[int, Row] = {0: (0, "x", 1), 5: (5, None, 2), 11: (11, "y", None)}
    place.append(0, rows_of(PATCHED, model.values()), MIRROR_COMMIT_ID)
    for batch_id, actions in enumerate(batches, start=1):
        upserts = {key: (key, *action[1:]) for key, action in actions.items() if action[0] == "upsert"}
        deletes = [key for key, action in actions.items() if action == ("delete",)]
        patched = {key: action for key, action in actions.items() if action[0] == "patch"}
        some = Patches(
            rows_of(PATCHED, [(key, *action[1:3]) for key, action in patched.items()]),
            pa.table({"a": pa.array([action[3] for action in patched.values()], pa.bool_())}).append_column(
                "b", pa.array([action[4] for action in patched.values()], pa.bool_())
            ),
        )
        place.bring(
            change_of(upserts.values(), deletes, schema=PATCHED, patches=some), batch_id=batch_id, schema=PATCHED
        )
        for key, (_, a, b, has_a, has_b) in patched.items():
            if key in model:
                model[key] = (key, a if has_a else model[key][1], b if has_b else model[key][2])
        model = {key: row for key, row in model.items() if key not in deletes} | upserts
        assert place.sorted_rows() == sorted(model.values(), key=repr)


def test_dates_and_wide_decimals_do_not_lose_their_row_to_statistics(mirror_place: Place) -> None:
    """Statistics of wide decimals and long texts are cut or inexact; whoever prunes by them misses rows."""
    schema = pa.schema([("a", pa.decimal128(38, 10)), ("b", pa.date32()), ("value", pa.string())])
    first: Row = (Decimal("9999999999999999999999999999.0123456789"), dt.date(9999, 12, 31), "z" * 300)
    assert mirror_place.merge(0, [(None, first)], schema, 2)
    assert mirror_place.merge(1, [(first, (*first[:2], None))], schema, 2)
    assert mirror_place.rows() == [(*first[:2], None)]


# --- Columns that change ---

WIDENINGS: dict[str, tuple[pa.DataType, object, pa.DataType, object]] = {
    "tinyint to smallint": (pa.int8(), -128, pa.int16(), -(2**15)),
    "smallint to int": (pa.int16(), 2**15 - 1, pa.int32(), 2**31 - 1),
    "int to bigint": (pa.int32(), -(2**31), pa.int64(), 2**63 - 1),
    "tinyint to bigint": (pa.int8(), 127, pa.int64(), -(2**63)),
    "bigint to bigint unsigned": (pa.int64(), 2**63 - 1, pa.decimal128(20, 0), Decimal(2**64 - 1)),
    "float to double": (pa.float32(), 1.5, pa.float64(), 1e300),
    "decimal, more digits": (pa.decimal128(5, 2), Decimal("-999.99"), pa.decimal128(12, 2), Decimal("9999999999.99")),
    "decimal, finer": (pa.decimal128(5, 2), Decimal("-999.99"), pa.decimal128(38, 10), Decimal("0.0000000001")),
    "date to datetime": (
        pa.date32(),
        dt.date(1, 1, 1),
        pa.timestamp("us"),
        dt.datetime.fromisoformat("9999-12-31T23:59"),
    ),
    "bit(1) to bit(8)": (pa.bool_(), True, pa.int64(), 255),
}


@pytest.mark.parametrize("name", WIDENINGS)
def test_a_type_grows_and_keeps_its_values(mirror_place: Place, name: str) -> None:
    """Then a value comes that only the wider type holds, and one that comes narrow still."""
    narrow, small, wide_type, great = WIDENINGS[name]
    schema = pa.schema([("id", pa.int32()), ("value", narrow)])
    assert mirror_place.append(0, rows_of(schema, [(1, small), (2, None)]), MIRROR_COMMIT_ID)
    assert mirror_place.evolve(SchemaChange(retyped={"value": wide_type}), replace(MIRROR_COMMIT_ID, batch_id=1))
    with closing(mirror_place.target()) as target:
        assert target.schema().equals(target.stored_schema(pa.schema([("id", pa.int32()), ("value", wide_type)])))
    wider = pa.schema([("id", pa.int32()), ("value", wide_type)])
    assert mirror_place.bring(change_of([(3, great)], schema=wider), batch_id=2)
    assert mirror_place.bring(change_of([(4, small), (2, small)], schema=schema), batch_id=3)
    grown = pa.scalar(small, narrow).cast(wide_type).as_py()
    assert sorted(mirror_place.rows()) == [(1, grown), (2, grown), (3, great), (4, grown)]


@pytest.mark.parametrize(
    ("change", "rows"),
    [
        (
            SchemaChange(added=pa.schema([("d", pa.int32()), ("e", pa.string())])),
            [{"id": 1, "a": "a1", "b": 1, "c": "c1", "d": None, "e": None}],
        ),
        (
            SchemaChange(
                added=pa.schema([("d", pa.int64()), ("e", pa.string())]), filled={"d": pa.scalar(7, pa.int8())}
            ),
            [{"id": 1, "a": "a1", "b": 1, "c": "c1", "d": 7, "e": None}],
        ),
        (
            SchemaChange(filled={"a": pa.scalar("all"), "b": pa.scalar(None, pa.int32())}),
            [{"id": 1, "a": "all", "b": None, "c": "c1"}],
        ),
        (SchemaChange(renamed={"a": "c", "c": "a"}), [{"id": 1, "c": "a1", "b": 1, "a": "c1"}]),
        (
            SchemaChange(
                renamed={"a": "z", "id": "key"},
                retyped={"b": pa.int64()},
                added=pa.schema([("a", pa.bool_())]),
                filled={"a": pa.scalar(value=True), "z": pa.scalar("Z")},
            ),
            [{"key": 1, "z": "Z", "b": 1, "c": "c1", "a": True}],
        ),
    ],
    ids=["added", "added with a value", "filled", "names swapped", "all at once"],
)
def test_columns_change(mirror_place: Place, change: SchemaChange, rows: list[dict[str, object]]) -> None:
    mirror_place.append(0, rows_of(WIDE, WIDE_ROWS[:1]), MIRROR_COMMIT_ID)
    assert mirror_place.evolve(change, replace(MIRROR_COMMIT_ID, batch_id=1, step=1))
    assert mirror_place.content().to_pylist() == rows
    assert mirror_place.read().to_pylist() == rows
    with closing(mirror_place.target()) as target:
        # A sink may leave columns in the order that they had.
        assert set(target.schema()) == set(target.stored_schema(change.applied_to(WIDE)))
    # Rows with the new columns come in by them.
    with closing(mirror_place.target()) as target:
        schema = target.schema()
        key = schema.field(0)
        commit_id = replace(MIRROR_COMMIT_ID, batch_id=2, keys=(key.name,))
        new = {**rows[0], key.name: 5}
        upserts = pa.Table.from_pylist([new], schema)
        target.merge(replace(change_of(), upserts=upserts, deletes=rows_of(pa.schema([key]), [(1,)])), commit_id)
    assert mirror_place.content().to_pylist() == [new]


@pytest.mark.parametrize("kind", all_types().schema.names)
def test_a_column_of_every_type_is_added_and_filled(mirror_place: Place, kind: str) -> None:
    column = all_types().column(kind)
    mirror_place.append(0, numbers(1), MIRROR_COMMIT_ID)
    change = SchemaChange(added=pa.schema([("new", column.type)]), filled={"new": column[0]})
    assert mirror_place.evolve(change, replace(MIRROR_COMMIT_ID, batch_id=1))
    filled = mirror_place.content().column("new").cast(column.type)
    assert filled.combine_chunks().equals(column.slice(0, 1).combine_chunks())


def test_a_column_of_every_type_is_added(place: Place) -> None:
    place.append(0, numbers(1))
    types = all_types()
    assert place.evolve(SchemaChange(added=types.schema), replace(COMMIT_ID, batch_id=1, step=1))
    with closing(place.target()) as target:
        assert target.schema().equals(target.stored_schema(pa.schema([*INT_KEY, *types.schema])))
    rows = numbers(2, 3, 4)
    for field in types.schema:
        rows = rows.append_column(field, types.column(field.name))
    place.append(2, rows)
    got = place.read().sort_by("id")
    assert got.slice(0, 1).select(types.column_names).to_pylist() == [dict.fromkeys(types.column_names)]
    same_values(got.slice(1).select(types.column_names), types)


def test_an_empty_table_changes_its_columns(mirror_place: Place) -> None:
    change = SchemaChange(renamed={"value": "name"}, added=NOTE, filled={"note": pa.scalar("n")})
    assert mirror_place.evolve(change, replace(MIRROR_COMMIT_ID, batch_id=1, step=1))
    assert mirror_place.rows() == []
    assert mirror_place.content().column_names == ["id", "name", "note"]


def test_rows_and_columns_are_replaced(mirror_place: Place) -> None:
    mirror_place.append(0, numbers(1, 2, 3))
    other = rows_of(pa.schema([("name", pa.string()), ("id", pa.int64())]), [("a", 2**40), (None, 5)])
    commit_id = replace(COMMIT_ID, batch_id=1, step=1)
    assert mirror_place.replace(other, commit_id)
    assert mirror_place.read().to_pylist() == other.to_pylist()
    assert sorted(mirror_place.content().to_pylist(), key=repr) == sorted(other.to_pylist(), key=repr)
    assert not mirror_place.replace(other, commit_id)
    assert mirror_place.append(2, other)
    assert mirror_place.content().num_rows == 4


def test_one_table_is_replaced_by_another(mirror_place: Place) -> None:
    """A renamed table goes to where the new name's is."""
    mirror_place.append(0, numbers(1, 2, 3))
    renamed = replace(mirror_place, name="shop/renamed")
    commit_id = replace(COMMIT_ID, source_table="shop.renamed", batch_id=1, step=1)
    with closing(mirror_place.target()) as old, closing(renamed.target()) as new:
        new.create(old.schema(), commit_id)
        new.replace(old.read(), commit_id)
    assert renamed.ids() == [1, 2, 3]
    assert mirror_place.ids() == [1, 2, 3]


# --- What a sink cannot do ---


@pytest.mark.parametrize(
    "operation",
    [operation for operation in OPERATIONS.values() if Variant.PARQUET not in operation.sinks],
    ids=[name for name, operation in OPERATIONS.items() if Variant.PARQUET not in operation.sinks],
)
def test_plain_files_say_what_they_cannot_do(tmp_path: Path, operation: Operation) -> None:
    """Rows that are there cannot be changed."""
    place = Place(tmp_path, TableFormat.PARQUET)
    place.append(0, numbers(1, 2, 3))
    before = place.state()
    commit_id = replace(COMMIT_ID, batch_id=1)
    with pytest.raises(UnsupportedError, match=r"FORMAT\] shop\.orders: .*Parquet files") as caught:
        place.step(commit_id, lambda target: operation.write(target, commit_id))
    assert caught.value.hint is not None
    assert place.state() == before


def test_formats_that_need_a_folder_say_so() -> None:
    sink = Sink(directory="s3://bucket/tables", format=TableFormat.ICEBERG)
    with pytest.raises(OptionError, match=r"INVALID_VALUE\] option sink\.directory: .* folder"):
        sink_type(TableFormat.ICEBERG).at(sink, "s3://bucket/tables/shop/orders")
