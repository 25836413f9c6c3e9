"""Compare target tables with the expected rows: `compare_mirror`, `compare_changelog`, `compare_versions`."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from binlog_lab.demo.proof.expected_rows import CHANGE_TYPE, GTID, IS_CURRENT, VALID_FROM, VALID_TO, ExpectedTable

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DETAILS_MAX = 20
"""Differences that are told one by one; all are counted."""

NET_CHANGELOG = "net changelog"
CURRENT_VERSIONS = "current scd2"

LOG_ORDER = [
    ("_commit_version", "ascending"),
    ("_event_no", "ascending"),
    ("_row_no", "ascending"),
    (CHANGE_TYPE, "descending"),
]
"""Order of the changelog. Of an update the image before comes first, which is the later word."""

_ROW_STAYS = ("insert", "update_postimage")
_TIME_TYPE = pa.timestamp("us", "UTC")
_VERSION_ORDER = "_position"
_VERSION_FIELDS = (pa.field(VALID_FROM, _TIME_TYPE), pa.field(VALID_TO, _TIME_TYPE), pa.field(IS_CURRENT, pa.bool_()))
_VERSION_NO = "version"


@dataclass(frozen=True, slots=True)
class TableDifference:
    """One value, or a whole row, that is not what it must be; *column* is None for a row."""

    key: str
    column: str | None
    expected: str
    got: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """Result of the comparison of one target table.

    Attributes:
        table: `database.table`.
        mode: `mirror`, `changelog`, `scd2`; where only the final rows are known, `net changelog`: the rows that its
            changes leave, and `current scd2`: the versions that hold now.
        expected: Rows that there must be.
        got: Rows that there are.
        differences: The first `DETAILS_MAX`.
    """

    table: str
    mode: str
    expected: int
    got: int
    differences: tuple[TableDifference, ...]
    difference_count: int

    @property
    def is_equal(self) -> bool:
        """True if there is no difference."""
        return self.difference_count == 0


def compare_mirror(expected_table: ExpectedTable, target: pa.Table | None) -> Comparison:
    """The table's rows against the final rows, in any order."""
    found = _columns(target, expected_table.rows.schema)
    if isinstance(found, TableDifference):
        return _comparison(expected_table, "mirror", (expected_table.rows.num_rows, 0), [found])
    differences = list(_row_differences(expected_table.rows, found, expected_table.key))
    return _comparison(expected_table, "mirror", (expected_table.rows.num_rows, found.num_rows), differences)


def compare_changelog(expected_table: ExpectedTable, target: pa.Table | None) -> Comparison:
    """Compare every row image with the committed ones, in commit order.

    Where only the final rows are known, the changes are played through, and what they leave is compared.
    """
    if expected_table.changes is None:
        return _compare_net(expected_table, target)
    order = pa.schema([("_commit_version", pa.int64()), ("_event_no", pa.int32()), ("_row_no", pa.int32())])
    found = _columns(target, pa.schema([*expected_table.changes.schema, *order]))
    if isinstance(found, TableDifference):
        return _comparison(expected_table, "changelog", (expected_table.changes.num_rows, 0), [found])
    found = found.sort_by(LOG_ORDER).select(expected_table.changes.column_names)
    differences = list(_sequence_differences(expected_table.changes, found, expected_table.key))
    return _comparison(expected_table, "changelog", (expected_table.changes.num_rows, found.num_rows), differences)


def compare_versions(expected_table: ExpectedTable, target: pa.Table | None) -> Comparison:
    """Compare every version of every row with the expected ones, each row's in the order in which they began.

    Where only the final rows are known, those are compared with the versions that hold now, and the versions of each
    row must follow one another.
    """
    if expected_table.versions is None:
        return _compare_current(expected_table, target)
    found = _columns(target, pa.schema([*expected_table.versions.schema, (_VERSION_ORDER, pa.string())]))
    if isinstance(found, TableDifference):
        return _comparison(expected_table, "scd2", (expected_table.versions.num_rows, 0), [found])
    # Sorting is stable: expected rows in the order of the log stay so for each key.
    expected = _numbered(expected_table.versions.sort_by(_ascending(expected_table.key)), expected_table.key)
    found = _numbered(found.sort_by(_ascending([*expected_table.key, _VERSION_ORDER])), expected_table.key).drop(
        [_VERSION_ORDER]
    )
    differences = list(_row_differences(expected, found, [*expected_table.key, _VERSION_NO]))
    return _comparison(expected_table, "scd2", (expected.num_rows, found.num_rows), differences)


def final_rows(changes: pa.Table, key: Sequence[str]) -> pa.Table:
    """Rows after row images in log order: the last image of each key, if the row exists after it."""
    numbered = changes.append_column("_number", pa.array(np.arange(changes.num_rows)))
    last = numbered.group_by(list(key)).aggregate([("_number", "max")]).column("_number_max")
    kept = numbered.take(last)
    return kept.filter(pc.is_in(kept.column(CHANGE_TYPE), pa.array(_ROW_STAYS)))


def _compare_net(expected_table: ExpectedTable, target: pa.Table | None) -> Comparison:
    schema = expected_table.rows.schema
    old = [schema.field(new).with_name(name) for name, new in expected_table.renamed.items()]
    order = [("_commit_version", pa.int64()), ("_event_no", pa.int32()), ("_row_no", pa.int32())]
    own = [pa.field(CHANGE_TYPE, pa.string()), pa.field(GTID, pa.string())]
    found = _columns(target, pa.schema([*schema, *old, *own, *(pa.field(*one) for one in order)]))
    if isinstance(found, TableDifference):
        return _comparison(expected_table, NET_CHANGELOG, (expected_table.rows.num_rows, 0), [found])
    final = final_rows(found.sort_by(LOG_ORDER), expected_table.key)
    # Images are as their time was: rows that no change has touched since have the columns of before.
    for name, new in expected_table.renamed.items():
        values = pc.coalesce(final.column(new), final.column(name))
        final = final.set_column(final.column_names.index(new), schema.field(new), values)
    for name, value in expected_table.added.items():
        filled = final.column(name).fill_null(pa.scalar(value, schema.field(name).type))
        final = final.set_column(final.column_names.index(name), schema.field(name), filled)
    final = final.select(schema.names)
    differences = list(_row_differences(expected_table.rows, final, expected_table.key))
    return _comparison(expected_table, NET_CHANGELOG, (expected_table.rows.num_rows, final.num_rows), differences)


def _compare_current(expected_table: ExpectedTable, target: pa.Table | None) -> Comparison:
    own = [*_VERSION_FIELDS, pa.field(_VERSION_ORDER, pa.string())]
    found = _columns(target, pa.schema([*expected_table.rows.schema, *own]))
    if isinstance(found, TableDifference):
        return _comparison(expected_table, CURRENT_VERSIONS, (expected_table.rows.num_rows, 0), [found])
    current = found.filter(found.column(IS_CURRENT)).select(expected_table.rows.column_names)
    differences = list(_row_differences(expected_table.rows, current, expected_table.key))
    versions = _numbered(found.sort_by(_ascending([*expected_table.key, _VERSION_ORDER])), expected_table.key)
    differences += _broken_chains(versions, expected_table.key)
    return _comparison(expected_table, CURRENT_VERSIONS, (expected_table.rows.num_rows, current.num_rows), differences)


def _broken_chains(versions: pa.Table, key: Sequence[str]) -> Iterator[TableDifference]:
    # *versions* are sorted by key and beginning. Each ends, not before it began, when or before the next begins.
    if not versions.num_rows:
        return
    begins, ends = versions.column(VALID_FROM), versions.column(VALID_TO)
    is_last = np.ones(versions.num_rows, np.bool_)
    is_last[:-1] = versions.column(_VERSION_NO).to_numpy()[1:] == 0
    next_begins = pa.chunked_array([pa.concat_arrays([*begins.slice(1).chunks, pa.nulls(1, _TIME_TYPE)])])
    checks = (
        (IS_CURRENT, "true while it has no end", pc.equal(versions.column(IS_CURRENT), pc.is_null(ends))),
        (VALID_TO, "not before _valid_from", pc.fill_null(pc.less_equal(begins, ends), fill_value=True)),
        (VALID_TO, "an end: a later version began", pc.or_(pa.array(is_last), pc.is_valid(ends))),
        (
            VALID_TO,
            "not after the next version's _valid_from",
            pc.or_(pa.array(is_last), pc.fill_null(pc.less_equal(ends, next_begins), fill_value=True)),
        ),
    )
    for column, expected, holds in checks:
        for row in np.flatnonzero(~holds.to_numpy(zero_copy_only=False)).tolist():
            (text,) = _keys(versions.slice(row, 1), [*key, _VERSION_NO])
            yield TableDifference(text, column, expected, _text(versions.column(column)[row]))


def _numbered(rows: pa.Table, key: Sequence[str]) -> pa.Table:
    # *rows* are sorted by key; those with the same key are numbered from 0.
    numbers = np.arange(rows.num_rows)
    begins = np.ones(rows.num_rows, np.bool_)
    if rows.num_rows:
        keys = rows.select(key)
        same = [pc.equal(column.slice(1), column.slice(0, rows.num_rows - 1)).to_numpy() for column in keys.columns]
        begins[1:] = ~np.logical_and.reduce(same)
    first = np.maximum.accumulate(np.where(begins, numbers, 0)) if rows.num_rows else numbers
    return rows.append_column(_VERSION_NO, pa.array(numbers - first))


def _columns(target: pa.Table | None, schema: pa.Schema) -> pa.Table | TableDifference:
    if target is None:
        return TableDifference("", None, "a table", "none")
    missing = [name for name in schema.names if name not in target.column_names]
    if missing:
        return TableDifference("", ", ".join(missing), "a column", "none")
    try:
        return target.select(schema.names).cast(schema)
    except pa.ArrowException as error:
        return TableDifference("", None, "columns " + ", ".join(map(str, schema.types)), str(error))


def _comparison(
    expected_table: ExpectedTable, mode: str, counts: tuple[int, int], differences: list[TableDifference]
) -> Comparison:
    kept = tuple(differences[:DETAILS_MAX])
    return Comparison(expected_table.name, mode, *counts, kept, len(differences))


def _ascending(names: Sequence[str]) -> list[tuple[str, str]]:
    return [(name, "ascending") for name in names]


def _row_differences(expected: pa.Table, got: pa.Table, key: Sequence[str]) -> Iterator[TableDifference]:
    expected, got = expected.sort_by(_ascending(key)), got.sort_by(_ascending(key))
    if not expected.select(key).equals(got.select(key)):
        # Only then keys are looked at one by one, in Python.
        expected_keys, got_keys = _keys(expected, key), _keys(got, key)
        yield from _key_differences(expected_keys, got_keys)
        wanted, there = set(expected_keys), set(got_keys)
        expected = expected.filter(pa.array([expected_key in there for expected_key in expected_keys], pa.bool_()))
        first = [one in wanted and (i == 0 or got_keys[i - 1] != one) for i, one in enumerate(got_keys)]
        got = got.filter(pa.array(first, pa.bool_()))
    yield from _value_differences(expected, got, key)


def _key_differences(expected: list[str], got: list[str]) -> Iterator[TableDifference]:
    wanted, there = set(expected), set(got)
    yield from (TableDifference(key, None, "a row", "none") for key in expected if key not in there)
    yield from (TableDifference(key, None, "no row", "a row") for key in dict.fromkeys(got) if key not in wanted)
    for key, group in itertools.groupby(got):
        count = len(list(group))
        if count > 1:
            yield TableDifference(key, None, "one row", f"{count} rows")


def _sequence_differences(expected: pa.Table, got: pa.Table, key: Sequence[str]) -> Iterator[TableDifference]:
    common = min(expected.num_rows, got.num_rows)
    if expected.num_rows != got.num_rows:
        yield TableDifference("", None, f"{expected.num_rows:,} row images", f"{got.num_rows:,}")
    yield from _value_differences(expected.slice(0, common), got.slice(0, common), key)


def _value_differences(expected: pa.Table, got: pa.Table, key: Sequence[str]) -> Iterator[TableDifference]:
    # Both have the same columns and as many rows; row by row.
    for name in expected.column_names:
        wanted, there = expected.column(name), got.column(name)
        if wanted.equals(there):
            continue
        one_is_null = pc.xor(pc.is_null(wanted), pc.is_null(there))
        differs = pc.or_(one_is_null, pc.fill_null(pc.not_equal(wanted, there), fill_value=False))
        rows = np.flatnonzero(differs.to_numpy())
        keys = _keys(expected.take(rows[:DETAILS_MAX]), key)
        for number, row in enumerate(rows.tolist()):
            if number < DETAILS_MAX:
                yield TableDifference(keys[number], name, _text(wanted[row]), _text(there[row]))
            else:
                yield TableDifference("", name, "", "")


def _keys(table: pa.Table, key: Sequence[str]) -> list[str]:
    columns = [table.column(name).to_pylist() for name in key]
    rows = zip(*columns, strict=True)
    return [", ".join(f"{name}={value}" for name, value in zip(key, row, strict=True)) for row in rows]


def _text(value: pa.Scalar) -> str:
    text = repr(value.as_py())
    return text if len(text) <= 60 else f"{text[:57]}..."
