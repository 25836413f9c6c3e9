"""Integers in order: places, numbers, unions and complements.

Rows found by any of their columns: what is found is in the table, and files that cannot hold it are left alone.
"""

from __future__ import annotations

import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_streaming.lake.change import Change
from binlog_streaming.lake.key_kernels import find_candidates
from binlog_streaming.lake.key_lookup import (
    KeyLookup,
    Search,
    ascending,
    complement,
    cover,
    distinct,
    integers,
    key_cover,
    meeting,
    union,
)
from binlog_streaming.modes.reference_values import rows_matching
from binlog_streaming.settings import TableFormat
from tests.chance import examples
from tests.streaming.tables.lake.sink_cases import KEY_TYPES, MIRROR_VARIANTS, VARIANTS, Place, Variant

if TYPE_CHECKING:
    from numpy.typing import NDArray


_ROWS = st.lists(st.tuples(st.sampled_from(["", "a", "A", None]), st.integers(0, 3), st.booleans()), max_size=30)


@given(keys=_ROWS, rows=_ROWS)
def test_rows_are_found_by_several_columns(
    keys: list[tuple[str | None, int, bool]], rows: list[tuple[str | None, int, bool]]
) -> None:
    """Null is no value of a key."""
    schema = pa.schema([("a", pa.string()), ("b", pa.int64()), ("c", pa.bool_())])
    wanted = list(dict.fromkeys(key for key in keys if key[0] is not None))
    if not wanted:
        return
    lookup = KeyLookup(table(wanted, schema))
    found, numbers = lookup.find(
        table(rows, schema).combine_chunks().to_batches()[0].columns if rows else empty(schema)
    )
    assert [wanted[number] for number in numbers] == [rows[row] for row in found]
    assert found.tolist() == [place for place, row in enumerate(rows) if row in wanted]


@pytest.mark.parametrize("name", KEY_TYPES)
def test_every_key_type_is_found(name: str) -> None:
    key_type, keys = KEY_TYPES[name]
    lookup = KeyLookup(pa.table({"k": pa.chunked_array([pa.array(keys[1:], key_type)])}))
    rows, numbers = lookup.find([pa.array([None, *keys, None, *reversed(keys)], key_type)])
    count = len(keys)
    assert rows.tolist() == [*range(2, count + 1), *range(count + 2, 2 * count + 1)]
    assert numbers.tolist() == [*range(count - 1), *reversed(range(count - 1))]


@given(
    keys=st.sets(st.integers(-(2**63), 2**63 - 1) | st.integers(-40, 40), min_size=1, max_size=60),
    rows=st.lists(st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-40, 40), max_size=60),
)
def test_integers_are_found(keys: set[int], rows: list[int | None]) -> None:
    """Whatever others fall onto their flags; null is none of them, 0 neither."""
    wanted = list(keys)
    found, numbers = KeyLookup(pa.table({"k": pa.array(wanted, pa.int64())})).find([pa.array(rows, pa.int64())])
    assert found.tolist() == [place for place, row in enumerate(rows) if row in keys]
    assert [wanted[number] for number in numbers] == [row for row in rows if row in keys]


def test_no_flag_is_looked_for_where_there_is_none() -> None:
    """Nor is a row written where there is no room."""
    values, flags, rows = np.arange(100, dtype=np.uint64), np.full(128, 255, np.uint8), np.full(100, -1)
    assert find_candidates(values, flags, np.uint64(54), rows) == 100
    assert rows.tolist() == list(range(100))
    rows[:] = -1
    for shift in (0, 53, 55, 62, 64):
        assert find_candidates(values, flags, np.uint64(shift), rows) == -1
    assert find_candidates(values, flags, np.uint64(54), rows[:99]) == -1
    assert (rows == -1).all()


def table(rows: list[tuple[str | None, int, bool]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


def empty(schema: pa.Schema) -> list[pa.Array]:
    return [pa.array([], field.type) for field in schema]


_NUMBERS = st.integers(-(2**63), 2**63 - 1)


@given(st.lists(_NUMBERS, min_size=1, max_size=60, unique=True), st.integers(1, 20))
def test_cover_holds_all_values_in_few_ranges(values: list[int], count_max: int) -> None:
    starts, ends = cover(np.array(sorted(values), np.int64), count_max)
    assert len(starts) == len(ends) <= count_max
    assert (starts <= ends).all()
    assert (ends[:-1] < starts[1:]).all()
    assert all(((starts <= value) & (value <= ends)).any() for value in values)
    assert set(starts.tolist()) | set(ends.tolist()) <= set(values)


def test_cover_cuts_at_the_widest_gaps() -> None:
    starts, ends = cover(np.array([1, 2, 3, 100, 101, 5000], np.int64), 3)
    assert list(zip(starts.tolist(), ends.tolist(), strict=True)) == [(1, 3), (100, 101), (5000, 5000)]


@given(st.lists(_NUMBERS, min_size=1, max_size=30), st.lists(st.tuples(_NUMBERS, _NUMBERS), max_size=20))
def test_files_meet_ranges_when_a_value_of_a_range_may_be_in_them(
    values: list[int], files: list[tuple[int, int]]
) -> None:
    ranges = key_cover(pa.chunked_array([values], pa.int64()))
    assert ranges is not None
    least, greatest = (np.array([pick(file) for file in files], np.int64) for pick in (min, max))
    expected = [
        any(start <= max(file) and min(file) <= end for start, end in zip(*ranges, strict=True)) for file in files
    ]
    assert meeting(ranges, least, greatest).tolist() == expected


def test_keys_without_ranges() -> None:
    assert key_cover(pa.chunked_array([["a"]])) is None
    assert key_cover(pa.chunked_array([], pa.int32())) is None


_INT64 = st.integers(-(2**63), 2**63 - 1)


@given(st.one_of(st.lists(st.integers(-3, 3)), st.lists(_INT64), st.lists(st.integers(2**62, 2**62 + 9))))
def test_places_are_those_of_a_stable_sort(numbers: list[int]) -> None:
    values = np.array(numbers, np.int64)
    order, begins = ascending(values)
    assert order.tolist() == np.argsort(values, kind="stable").tolist()
    ordered = sorted(numbers)
    assert begins.tolist() == [place == 0 or ordered[place] != ordered[place - 1] for place in range(len(ordered))]


@given(st.one_of(st.lists(st.integers(-3, 3)), st.lists(_INT64)))
def test_each_value_has_its_number(numbers: list[int]) -> None:
    values = np.array(numbers, np.int64)
    known, own = distinct(values)
    assert known.tolist() == sorted(set(numbers))
    assert known[own].tolist() == numbers


@given(st.lists(st.lists(_INT64), min_size=1))
def test_union_has_each_value_once(runs: list[list[int]]) -> None:
    found = union([np.array(run, np.int64) for run in runs])
    assert found.tolist() == sorted({number for run in runs for number in run})


@given(st.integers(0, 50), st.sets(st.integers(0, 60)))
def test_complement_has_what_is_left(count: int, numbers: set[int]) -> None:
    left = complement(count, np.array(sorted(numbers), np.int64))
    assert left.tolist() == [number for number in range(count) if number not in numbers]


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([1, -1], pa.int8()), [1, -1]),
        (pa.array([2**64 - 1, 0], pa.uint64()), [-1, 0]),
        (pa.chunked_array([[1], [2]]), [1, 2]),
        (pa.array([], pa.int32()), []),
        (pa.array([1, None]), None),
        (pa.array(["a"]), None),
        (pa.array([True]), None),
    ],
)
def test_what_counts_as_integers(column: pa.Array, expected: list[int] | None) -> None:
    values = integers(column)
    assert (None if values is None else values.tolist()) == expected


SCHEMA = pa.schema([("id", pa.int32()), ("p", pa.int32()), ("code", pa.string())])
PARENT = pa.schema([("p", pa.int64()), ("code", pa.string())])
_PARENTS = st.one_of(st.none(), st.integers(-3, 3), st.just(2**31 - 1))
_CODES = st.sampled_from([None, "", "a", "b"])
_VALUES = st.lists(st.tuples(_PARENTS, _CODES), max_size=4)


def rows(*values: tuple[int, int | None, str | None]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, one, strict=True)) for one in values], SCHEMA)


def search_of(wanted: list[pa.Table]) -> Search:
    def matches(batch: pa.RecordBatch) -> NDArray[np.bool_]:
        assert set(batch.schema.names) >= {"p", "code"}
        mask = np.zeros(batch.num_rows, np.bool_)
        for one in wanted:
            mask |= rows_matching(batch, one)
        return mask

    return Search(("p", "code"), matches, tuple(wanted))


def add(place: Place, batch_id: int, new: pa.Table) -> None:
    """One more file."""
    if place.format is TableFormat.PARQUET:
        place.append(batch_id, new)
    else:
        place.bring(Change(new, new.select(["id"]).slice(0, 0)), batch_id=batch_id, schema=SCHEMA)


def selected(place: Place, search: Search, *names: str) -> list[tuple[object, ...]]:
    with closing(place.target()) as target:
        found = target.select(search, names)
    assert found.column_names == list(names)
    return sorted((tuple(row.values()) for row in found.to_pylist()), key=repr)


@pytest.mark.parametrize("variant", VARIANTS)
@given(
    batches=st.lists(st.lists(st.tuples(_PARENTS, _CODES), min_size=1, max_size=5), min_size=1, max_size=3),
    deleted=st.sets(st.integers(0, 14), max_size=5),
    by_both=_VALUES,
    by_one=st.lists(_PARENTS, max_size=3),
)
@settings(max_examples=examples(12))
def test_what_is_found_is_what_a_look_at_all_rows_finds(
    variant: Variant,
    batches: list[list[tuple[int | None, str | None]]],
    deleted: set[int],
    by_both: list[tuple[int | None, str | None]],
    by_one: list[int | None],
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = variant.place(Path(folder))
        for number, batch in enumerate(batches):
            add(place, number, rows(*((5 * number + at, *one) for at, one in enumerate(batch))))
        if variant in MIRROR_VARIANTS:
            gone = pa.table({"id": pa.array(sorted(deleted), pa.int32())})
            place.bring(Change(SCHEMA.empty_table(), gone), batch_id=len(batches), schema=SCHEMA)
        wanted = [
            pa.Table.from_pylist([{"p": p, "code": code} for p, code in by_both], PARENT),
            pa.table({"p": pa.array(by_one, pa.int64())}),
        ]
        search = search_of(wanted)
        table = place.read()
        mask = [bool(search.matches(batch)[0]) for batch in table.to_batches(max_chunksize=1)]
        expected = table.filter(pa.array(mask, pa.bool_())).select(["code", "id"]).to_pylist()
        assert selected(place, search, "code", "id") == sorted((tuple(row.values()) for row in expected), key=repr)


@pytest.mark.parametrize("variant", MIRROR_VARIANTS)
def test_files_whose_statistics_exclude_the_values_are_not_read(tmp_path: Path, variant: Variant) -> None:
    place = variant.place(tmp_path)
    for number in range(3):
        add(place, number, rows(*((10 * number + at, 10 * number + at, "x") for at in range(10))))
    for file in tmp_path.rglob("*.parquet"):
        if pc.min(pq.read_table(file).column("p")).as_py() != 10:
            file.unlink()
    wanted = pa.table({"p": pa.array([15, None, 19], pa.int64())})
    assert selected(place, search_of([wanted]), "id") == [(15,), (19,)]
    with pytest.raises(OSError, match="parquet"):
        place.read()
