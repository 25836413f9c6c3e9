"""Compare Delta tables with the truth, row by row: `compare_mirror`, `compare_changelog`."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable

from binlog_streaming.demo.truth import CHANGE_TYPE, GTID, TableTruth

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

DETAILS_MAX = 20
"""Differences that are told one by one; all are counted."""

NET_CHANGELOG = "net changelog"

# Order of the changelog. Of an update the image before comes first, which is the later word.
_LOG_ORDER = [
    ("_commit_version", "ascending"),
    ("_event_no", "ascending"),
    ("_row_no", "ascending"),
    (CHANGE_TYPE, "descending"),
]
_ROW_STAYS = ("insert", "update_postimage")


@dataclass(frozen=True, slots=True)
class Difference:
    """One value, or a whole row, that is not what it must be; *column* is None for a row."""

    key: str
    column: str | None
    expected: str
    got: str


@dataclass(frozen=True, slots=True)
class Comparison:
    """What became of one Delta table.

    Attributes:
        table: `database.table`.
        mode: `mirror`, `changelog`, or `net changelog`: the rows that its changes leave.
        target: Folder of the Delta table.
        expected: Rows that there must be.
        got: Rows that there are.
        differences: The first `DETAILS_MAX`.
        difference_count: All.
    """

    table: str
    mode: str
    target: str
    expected: int
    got: int
    differences: tuple[Difference, ...]
    difference_count: int

    @property
    def is_equal(self) -> bool:
        """Whether there is no difference."""
        return self.difference_count == 0


def compare_mirror(truth: TableTruth, target: str) -> Comparison:
    """The table's rows against the final rows, in any order."""
    found = _read(target, truth.rows.schema)
    if isinstance(found, Difference):
        return _comparison(truth, "mirror", target, (truth.rows.num_rows, 0), [found])
    differences = list(_row_differences(truth.rows, found, truth.key))
    return _comparison(truth, "mirror", target, (truth.rows.num_rows, found.num_rows), differences)


def compare_changelog(truth: TableTruth, target: str) -> Comparison:
    """Every row image against the committed ones, in commit order.

    Where only the final rows are known, the changes are played through, and what they leave is compared.
    """
    order = pa.schema([("_commit_version", pa.int64()), ("_event_no", pa.int32()), ("_row_no", pa.int32())])
    columns = truth.rows.schema if truth.changes is None else truth.changes.schema
    if truth.changes is None:
        columns = columns.append(pa.field(CHANGE_TYPE, pa.string())).append(pa.field(GTID, pa.string()))
    found = _read(target, pa.schema([*columns, *order]))
    expected_rows = truth.rows.num_rows if truth.changes is None else truth.changes.num_rows
    if isinstance(found, Difference):
        return _comparison(truth, "changelog", target, (expected_rows, 0), [found])
    found = found.sort_by(_LOG_ORDER).select(columns.names)
    if truth.changes is None:
        final = final_rows(found, truth.key).select(truth.rows.column_names)
        differences = list(_row_differences(truth.rows, final, truth.key))
        return _comparison(truth, NET_CHANGELOG, target, (expected_rows, final.num_rows), differences)
    differences = list(_sequence_differences(truth.changes, found, truth.key))
    return _comparison(truth, "changelog", target, (expected_rows, found.num_rows), differences)


def final_rows(changes: pa.Table, key: Sequence[str]) -> pa.Table:
    """What row images in log order leave: of each key the last image, if the row is there after it."""
    numbered = changes.append_column("_number", pa.array(np.arange(changes.num_rows)))
    last = numbered.group_by(list(key)).aggregate([("_number", "max")]).column("_number_max")
    kept = numbered.take(last)
    return kept.filter(pc.is_in(kept.column(CHANGE_TYPE), pa.array(_ROW_STAYS)))


def _read(target: str, schema: pa.Schema) -> pa.Table | Difference:
    if not DeltaTable.is_deltatable(target):
        return Difference("", None, "a table", "none")
    table = DeltaTable(target).to_pyarrow_table()
    missing = [name for name in schema.names if name not in table.column_names]
    if missing:
        return Difference("", ", ".join(missing), "a column", "none")
    try:
        return table.select(schema.names).cast(schema)
    except pa.ArrowException as error:
        return Difference("", None, "columns " + ", ".join(map(str, schema.types)), str(error))


def _comparison(
    truth: TableTruth, mode: str, target: str, counts: tuple[int, int], differences: list[Difference]
) -> Comparison:
    kept = tuple(differences[:DETAILS_MAX])
    return Comparison(truth.name, mode, target, *counts, kept, len(differences))


def _row_differences(expected: pa.Table, got: pa.Table, key: Sequence[str]) -> Iterator[Difference]:
    order = [(name, "ascending") for name in key]
    expected, got = expected.sort_by(order), got.sort_by(order)
    if not expected.select(key).equals(got.select(key)):
        # Only then keys are looked at one by one, in Python.
        expected_keys, got_keys = _keys(expected, key), _keys(got, key)
        yield from _key_differences(expected_keys, got_keys)
        wanted, there = set(expected_keys), set(got_keys)
        expected = expected.filter(pa.array([one in there for one in expected_keys], pa.bool_()))
        first = [one in wanted and (i == 0 or got_keys[i - 1] != one) for i, one in enumerate(got_keys)]
        got = got.filter(pa.array(first, pa.bool_()))
    yield from _value_differences(expected, got, key)


def _key_differences(expected: list[str], got: list[str]) -> Iterator[Difference]:
    wanted, there = set(expected), set(got)
    yield from (Difference(key, None, "a row", "none") for key in expected if key not in there)
    yield from (Difference(key, None, "no row", "a row") for key in dict.fromkeys(got) if key not in wanted)
    for key, group in itertools.groupby(got):
        count = len(list(group))
        if count > 1:
            yield Difference(key, None, "one row", f"{count} rows")


def _sequence_differences(expected: pa.Table, got: pa.Table, key: Sequence[str]) -> Iterator[Difference]:
    common = min(expected.num_rows, got.num_rows)
    if expected.num_rows != got.num_rows:
        yield Difference("", None, f"{expected.num_rows:,} row images", f"{got.num_rows:,}")
    yield from _value_differences(expected.slice(0, common), got.slice(0, common), key)


def _value_differences(expected: pa.Table, got: pa.Table, key: Sequence[str]) -> Iterator[Difference]:
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
                yield Difference(keys[number], name, _text(wanted[row]), _text(there[row]))
            else:
                yield Difference("", name, "", "")


def _keys(table: pa.Table, key: Sequence[str]) -> list[str]:
    columns = [table.column(name).to_pylist() for name in key]
    rows = zip(*columns, strict=True)
    return [", ".join(f"{name}={value}" for name, value in zip(key, row, strict=True)) for row in rows]


def _text(value: pa.Scalar) -> str:
    text = repr(value.as_py())
    return text if len(text) <= 60 else f"{text[:57]}..."
