"""A comparison that misses a difference would make the whole demo worthless."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from binlog_streaming.demo.comparison import Comparison, compare_changelog, compare_mirror
from binlog_streaming.demo.truth import TableTruth

if TYPE_CHECKING:
    from pathlib import Path

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


def mirror_of(rows: pa.Table, folder: Path) -> Comparison:
    write_deltalake(str(folder / "t"), rows)
    return compare_mirror(TableTruth("d.t", ("a", "b"), ROWS), str(folder / "t"))


def told(comparison: Comparison) -> list[tuple[str, str | None, str, str]]:
    assert comparison.difference_count == len(comparison.differences)
    return [(one.key, one.column, one.expected, one.got) for one in comparison.differences]


def test_mirror_with_the_same_rows_in_another_order_is_equal(tmp_path: Path) -> None:
    comparison = mirror_of(ROWS.take([2, 0, 3, 1]), tmp_path)
    assert comparison.is_equal
    assert (comparison.expected, comparison.got) == (4, 4)


def test_mirror_tells_a_missing_row(tmp_path: Path) -> None:
    assert told(mirror_of(ROWS.take([0, 1, 3]), tmp_path)) == [("a=2, b=1", None, "a row", "none")]


def test_mirror_tells_a_row_too_many(tmp_path: Path) -> None:
    extra = pa.table({"a": [9], "b": [9], "name": ["x"], "money": [Decimal(0)]}, SCHEMA)
    assert told(mirror_of(pa.concat_tables([ROWS, extra]), tmp_path)) == [("a=9, b=9", None, "no row", "a row")]


def test_mirror_tells_a_row_that_is_there_twice(tmp_path: Path) -> None:
    assert told(mirror_of(ROWS.take([0, 1, 1, 2, 3]), tmp_path)) == [("a=1, b=2", None, "one row", "2 rows")]


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
def test_mirror_tells_a_value(
    tmp_path: Path, column: str, values: list[object], difference: tuple[str, str, str, str]
) -> None:
    index = SCHEMA.get_field_index(column)
    assert told(
        mirror_of(ROWS.set_column(index, SCHEMA.field(column), pa.array(values, SCHEMA.field(column).type)), tmp_path)
    ) == [difference]


def test_mirror_tells_values_also_beside_missing_rows(tmp_path: Path) -> None:
    changed = ROWS.set_column(2, SCHEMA.field("name"), pa.array(["one", None, "three", "4"])).take([1, 2, 3])
    assert told(mirror_of(changed, tmp_path)) == [
        ("a=1, b=1", None, "a row", "none"),
        ("a=3, b=1", "name", "'four'", "'4'"),
    ]


def test_differences_are_all_counted_but_not_all_told(tmp_path: Path) -> None:
    rows = pa.table({"a": pa.array(range(500), pa.int32()), "v": pa.array([0] * 500, pa.int64())})
    wrong = rows.set_column(1, "v", pa.array([1] * 500, pa.int64()))
    write_deltalake(str(tmp_path / "t"), wrong)
    comparison = compare_mirror(TableTruth("d.t", ("a",), rows), str(tmp_path / "t"))
    assert comparison.difference_count == 500
    assert 0 < len(comparison.differences) < 100


def test_table_that_is_not_there_is_a_difference(tmp_path: Path) -> None:
    comparison = compare_mirror(TableTruth("d.t", ("a", "b"), ROWS), str(tmp_path / "t"))
    assert told(comparison) == [("", None, "a table", "none")]


def test_column_that_is_not_there_is_a_difference(tmp_path: Path) -> None:
    assert told(mirror_of(ROWS.drop(["money"]), tmp_path)) == [("", "money", "a column", "none")]


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


def changelog_of(changes: pa.Table, folder: Path, *, known: pa.Table | None = CHANGES) -> Comparison:
    for name, values in ORDER.items():
        changes = changes.append_column(name, values.take(pa.array(range(changes.num_rows))))
    # In files, rows stand in any order.
    write_deltalake(str(folder / "t"), changes.take(list(reversed(range(changes.num_rows)))))
    return compare_changelog(TableTruth("d.t", ("a",), FINAL, known), str(folder / "t"))


def test_changelog_in_any_physical_order_is_equal(tmp_path: Path) -> None:
    assert changelog_of(CHANGES, tmp_path).is_equal


def test_changelog_tells_a_missing_image(tmp_path: Path) -> None:
    comparison = changelog_of(CHANGES.slice(0, 4), tmp_path)
    assert told(comparison) == [("", None, "5 row images", "4")]


def test_changelog_tells_changes_in_another_order(tmp_path: Path) -> None:
    swapped = CHANGES.take([0, 1, 3, 2, 4]).set_column(2, "_change_type", CHANGES.column("_change_type"))
    assert [(one.column, one.expected, one.got) for one in changelog_of(swapped, tmp_path).differences] == [
        ("v", "'x'", "'z'"),
        ("v", "'z'", "'x'"),
    ]


def test_changelog_tells_a_wrong_gtid(tmp_path: Path) -> None:
    wrong = CHANGES.set_column(3, "_gtid", pa.array(["0-1-1", "0-1-1", "0-1-2", "0-1-2", "0-1-4"]))
    assert told(changelog_of(wrong, tmp_path)) == [("a=2", "_gtid", "'0-1-3'", "'0-1-4'")]


def test_changelog_is_played_through_where_only_final_rows_are_known(tmp_path: Path) -> None:
    assert changelog_of(CHANGES, tmp_path, known=None).is_equal


def test_changelog_played_through_tells_a_row_that_should_be_gone(tmp_path: Path) -> None:
    assert told(changelog_of(CHANGES.slice(0, 4), tmp_path, known=None)) == [("a=2", None, "no row", "a row")]
