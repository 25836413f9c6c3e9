from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_streaming.lake.key_lookup import KeyLookup
from tests.streaming.tables.sink_cases import KEY_TYPES

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


def table(rows: list[tuple[str | None, int, bool]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


def empty(schema: pa.Schema) -> list[pa.Array]:
    return [pa.array([], field.type) for field in schema]
