from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_streaming.lake.key_kernels import find_candidates
from binlog_streaming.lake.key_lookup import KeyLookup
from tests.streaming.tables.lake.sink_cases import KEY_TYPES

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
