"""A comparison that misses a difference would make the whole demo worthless."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from binlog_lab.demo.proof.comparison import Comparison, compare_changelog, compare_mirror, compare_versions
from binlog_lab.demo.proof.expected_rows import ExpectedTable

SCHEMA = pa.schema([("a", pa.int32()), ("b", pa.int32()), ("name", pa.string()), ("money", pa.decimal128(12, 2))])
ROWS = pa.table(
    {
        "a": [1, 1, 2, 3],
        "b": [1, 2, 1, 1],
        "name": ["one", None, "three", "four"],
        "money": [Decimal("1.00"), Decimal("2.00"), None, Decimal("-4.50")],
    },
    SCHEMA,
)


def mirror_of(rows: pa.Table | None) -> Comparison:
    return compare_mirror(ExpectedTable("d.t", ("a", "b"), ROWS), rows)


def told(comparison: Comparison) -> list[tuple[str, str | None, str, str]]:
    assert comparison.difference_count == len(comparison.differences)
    return [(one.key, one.column, one.expected, one.got) for one in comparison.differences]


def test_mirror_with_the_same_rows_in_another_order_is_equal() -> None:
    comparison = mirror_of(ROWS.take([2, 0, 3, 1]))
    assert comparison.is_equal
    assert (comparison.expected, comparison.got) == (4, 4)


def test_mirror_tells_a_missing_row() -> None:
    assert told(mirror_of(ROWS.take([0, 1, 3]))) == [("a=2, b=1", None, "a row", "none")]


def test_mirror_tells_a_row_too_many() -> None:
    extra = pa.table({"a": [9], "b": [9], "name": ["x"], "money": [Decimal(0)]}, SCHEMA)
    assert told(mirror_of(pa.concat_tables([ROWS, extra]))) == [("a=9, b=9", None, "no row", "a row")]


def test_mirror_tells_a_row_that_is_there_twice() -> None:
    assert told(mirror_of(ROWS.take([0, 1, 1, 2, 3]))) == [("a=1, b=2", None, "one row", "2 rows")]


@pytest.mark.parametrize(
    ("column", "values", "difference"),
    [
        ("name", ["one", None, "THREE", "four"], ("a=2, b=1", "name", "'three'", "'THREE'")),
        ("name", ["one", "", "three", "four"], ("a=1, b=2", "name", "None", "''")),
        ("name", ["one", None, "three", None], ("a=3, b=1", "name", "'four'", "None")),
        (
            "money",
            [Decimal("1.00"), Decimal("2.01"), None, Decimal("-4.50")],
            ("a=1, b=2", "money", "Decimal('2.00')", "Decimal('2.01')"),
        ),
    ],
)
def test_mirror_tells_a_value(column: str, values: list[object], difference: tuple[str, str, str, str]) -> None:
    index = SCHEMA.get_field_index(column)
    assert told(
        mirror_of(ROWS.set_column(index, SCHEMA.field(column), pa.array(values, SCHEMA.field(column).type)))
    ) == [difference]


def test_mirror_tells_values_also_beside_missing_rows() -> None:
    changed = ROWS.set_column(2, SCHEMA.field("name"), pa.array(["one", None, "three", "4"])).take([1, 2, 3])
    assert told(mirror_of(changed)) == [
        ("a=1, b=1", None, "a row", "none"),
        ("a=3, b=1", "name", "'four'", "'4'"),
    ]


def test_differences_are_all_counted_but_not_all_told() -> None:
    rows = pa.table({"a": pa.array(range(500), pa.int32()), "v": pa.array([0] * 500, pa.int64())})
    wrong = rows.set_column(1, "v", pa.array([1] * 500, pa.int64()))
    comparison = compare_mirror(ExpectedTable("d.t", ("a",), rows), wrong)
    assert comparison.difference_count == 500
    assert 0 < len(comparison.differences) < 100


def test_table_that_is_not_there_is_a_difference() -> None:
    assert told(mirror_of(None)) == [("", None, "a table", "none")]


def test_column_that_is_not_there_is_a_difference() -> None:
    assert told(mirror_of(ROWS.drop(["money"]))) == [("", "money", "a column", "none")]


def reversed_rows(table: pa.Table) -> pa.Table:
    return table.take(pa.array(range(table.num_rows - 1, -1, -1), pa.int64()))


# --- changelog ----------------------------------------------------------------------------------------------------

CHANGES = pa.table(
    {
        "a": pa.array([1, 2, 1, 1, 2], pa.int32()),
        "v": ["x", "y", "x", "z", "y"],
        "_change_type": ["insert", "insert", "update_preimage", "update_postimage", "delete"],
        "_gtid": ["0-1-1", "0-1-1", "0-1-2", "0-1-2", "0-1-3"],
    }
)
ORDER = {
    "_commit_version": pa.array([5, 5, 7, 7, 9], pa.int64()),
    "_event_no": pa.array([2, 2, 2, 2, 2], pa.int32()),
    "_row_no": pa.array([0, 1, 0, 0, 0], pa.int32()),
}
FINAL = pa.table({"a": pa.array([1], pa.int32()), "v": ["z"]})


def changelog_of(changes: pa.Table, *, known: pa.Table | None = CHANGES) -> Comparison:
    for name, values in ORDER.items():
        changes = changes.append_column(name, values.take(pa.array(range(changes.num_rows))))
    # In files, rows stand in any order.
    return compare_changelog(ExpectedTable("d.t", ("a",), FINAL, known), reversed_rows(changes))


def test_changelog_in_any_physical_order_is_equal() -> None:
    assert changelog_of(CHANGES).is_equal


def test_changelog_tells_a_missing_image() -> None:
    comparison = changelog_of(CHANGES.slice(0, 4))
    assert told(comparison) == [("", None, "5 row images", "4")]


def test_changelog_tells_changes_in_another_order() -> None:
    swapped = CHANGES.take([0, 1, 3, 2, 4]).set_column(2, "_change_type", CHANGES.column("_change_type"))
    assert [(one.column, one.expected, one.got) for one in changelog_of(swapped).differences] == [
        ("v", "'x'", "'z'"),
        ("v", "'z'", "'x'"),
    ]


def test_changelog_tells_a_wrong_gtid() -> None:
    wrong = CHANGES.set_column(3, "_gtid", pa.array(["0-1-1", "0-1-1", "0-1-2", "0-1-2", "0-1-4"]))
    assert told(changelog_of(wrong)) == [("a=2", "_gtid", "'0-1-3'", "'0-1-4'")]


def test_changelog_is_played_through_where_only_final_rows_are_known() -> None:
    assert changelog_of(CHANGES, known=None).is_equal


def test_changelog_played_through_tells_a_row_that_should_be_gone() -> None:
    assert told(changelog_of(CHANGES.slice(0, 4), known=None)) == [("a=2", None, "no row", "a row")]


def test_changelog_played_through_knows_what_rows_got_and_are_called_since() -> None:
    """Images are as their time was: rows that nothing has touched since have null, or the old name."""
    images = pa.table(
        {
            "a": pa.array([1, 2, 3], pa.int32()),
            "old": ["x", None, None],
            "new": [None, None, "z"],
            "points": pa.array([None, None, 7], pa.int32()),
            "_change_type": ["insert"] * 3,
            "_gtid": ["0-1-1", "0-1-2", "0-1-3"],
        }
    )
    for name, values in ORDER.items():
        images = images.append_column(name, values.take(pa.array([0, 2, 4])))
    final = pa.table({"a": pa.array([1, 2, 3], pa.int32()), "new": ["x", None, "z"], "points": [100, 100, 7]})
    truth = ExpectedTable("d.t", ("a",), final, added={"points": 100}, renamed={"old": "new"})
    assert compare_changelog(truth, images).is_equal
    assert not compare_changelog(ExpectedTable("d.t", ("a",), final, renamed={"old": "new"}), images).is_equal


# --- scd2 ---------------------------------------------------------------------------------------------------------

TIMES = pa.array([10, 10, 10, 20, 30], pa.timestamp("us", "UTC"))
VERSIONS = pa.table(
    {
        "a": pa.array([1, 2, 1, 1, 2], pa.int32()),
        "v": ["x", "y", "z", "w", "y"],
        "_valid_from": TIMES,
        "_valid_to": pa.array([10, 20, 20, None, None], TIMES.type),
        "_is_current": [False, False, False, True, True],
    }
)
POSITION = pa.array(["1", "2", "3", "4", "5"])
NOW = pa.table({"a": pa.array([1, 2], pa.int32()), "v": ["w", "y"]})


def versions_of(
    versions: pa.Table, *, known: pa.Table | None = VERSIONS, now: pa.Table = NOW, position: pa.Array = POSITION
) -> Comparison:
    target = reversed_rows(versions.append_column("_position", position.slice(0, versions.num_rows)))
    return compare_versions(ExpectedTable("d.t", ("a",), now, versions=known), target)


def with_column(name: str, values: list[object]) -> pa.Table:
    field = VERSIONS.schema.field(name)
    return VERSIONS.set_column(VERSIONS.schema.get_field_index(name), field, pa.array(values, field.type))


@pytest.mark.parametrize("known", [VERSIONS, None])
def test_versions_in_any_physical_order_are_equal(known: pa.Table | None) -> None:
    assert versions_of(VERSIONS, known=known).is_equal


def test_versions_of_one_second_are_told_apart_by_their_position() -> None:
    comparison = versions_of(VERSIONS, position=pa.array(["3", "2", "1", "4", "5"]))
    assert ("a=1, version=0", "v", "'x'", "'z'") in told(comparison)


def test_versions_tell_one_that_is_missing() -> None:
    assert told(versions_of(VERSIONS.slice(0, 4))) == [("a=2, version=1", None, "a row", "none")]


@pytest.mark.parametrize(
    ("column", "values", "key"),
    [
        ("_valid_from", [10, 10, 11, 20, 30], "a=1, version=1"),
        ("_valid_to", [10, 21, 20, None, None], "a=2, version=0"),
        ("_is_current", [True, False, False, True, True], "a=1, version=0"),
        ("v", ["x", "y", "z", "w", None], "a=2, version=1"),
    ],
)
def test_versions_tell_a_value(column: str, values: list[object], key: str) -> None:
    assert [(one.key, one.column) for one in versions_of(with_column(column, values)).differences] == [(key, column)]


@pytest.mark.parametrize(
    ("column", "values", "difference"),
    [
        ("_is_current", [True, False, False, True, True], ("a=1, version=0", "_is_current")),
        ("_is_current", [False, False, False, False, True], ("a=1", None)),
        ("_valid_to", [10, 31, 20, None, None], ("a=2, version=0", "_valid_to")),
        ("_valid_to", [9, 20, 20, None, None], ("a=1, version=0", "_valid_to")),
        ("_valid_to", [None, 20, 20, None, None], ("a=1, version=0", "_valid_to")),
        ("v", ["x", "y", "z", "W", "y"], ("a=1", "v")),
    ],
)
def test_where_only_final_rows_are_known_a_broken_chain_is_told(
    column: str, values: list[object], difference: tuple[str, str | None]
) -> None:
    comparison = versions_of(with_column(column, values), known=None)
    assert comparison.mode == "current scd2"
    assert difference in [(one.key, one.column) for one in comparison.differences]


def test_table_without_rows_is_compared_too() -> None:
    empty = VERSIONS.slice(0, 0)
    for known in (empty, None):
        assert versions_of(empty, known=known, now=NOW.slice(0, 0)).is_equal
