from __future__ import annotations

import datetime as dt
from collections import Counter
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_format.errors import UnsupportedError
from binlog_streaming.modes.whole_rows import whole_row_change
from tests.chance import examples
from tests.streaming.tables.modes.row_images import ABSENT, step_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.streaming.tables.modes.row_images import Change, Row

PLAIN = pa.schema([("n", pa.int8()), ("text", pa.string())])
GEOMETRY = pa.struct([("srid", pa.int32()), ("wkb", pa.binary())])
SCHEMA = pa.schema(
    [("n", pa.int8()), ("x", pa.float64()), ("text", pa.string()), ("place", GEOMETRY), ("v", pa.list_(pa.float32()))]
)


def reader(rows: Sequence[Row], schema: pa.Schema, batch_rows: int = 3) -> pa.RecordBatchReader:
    columns = [pa.array([row[index] for row in rows], field.type) for index, field in enumerate(schema)]
    table = pa.Table.from_arrays(columns, schema=schema)
    return pa.RecordBatchReader.from_batches(schema, table.to_batches(max_chunksize=batch_rows))


def changed(rows: Sequence[Row], changes: Sequence[Change], schema: pa.Schema = PLAIN) -> list[Row]:
    result = whole_row_change(reader(rows, schema), step_of(changes, schema), schema)
    return [tuple(row.values()) for row in result.read_all().to_pylist()]


def test_equal_rows_are_counted() -> None:
    rows: list[Row] = [(1, "a"), (1, "a"), (2, None), (1, "a"), (2, None)]
    changes: list[Change] = [((1, "a"), None), ((2, None), (3, "c")), (None, (2, None)), ((1, "a"), None)]
    assert Counter(changed(rows, changes)) == Counter([(1, "a"), (2, None), (2, None), (3, "c")])


def test_rows_that_nothing_is_said_of_stay_as_they_stand() -> None:
    rows: list[Row] = [(n, "a") for n in range(10)]
    assert changed(rows, [((4, "a"), (4, "b"))]) == [*rows[:4], *rows[5:], (4, "b")]
    assert changed(rows, [(None, (4, "b")), ((4, "b"), None)]) == rows


def test_delete_of_a_row_that_is_not_there_takes_no_later_one() -> None:
    """As when a job starts in the middle of a log, and however the changes are cut into batches."""
    changes: list[Change] = [((1, "a"), None), (None, (1, "a"))]
    assert changed([], changes) == [(1, "a")]
    assert changed(changed([], changes[:1]), changes[1:]) == [(1, "a")]


def test_columns_that_only_the_target_has_tell_no_rows_apart() -> None:
    there = pa.schema([("dropped", pa.string()), ("n", pa.int32()), ("text", pa.large_string())])
    rows: list[Row] = [("x", 1, "a"), ("y", 2, "b")]
    changes: list[Change] = [((1, "a"), None), (None, (3, "c"))]
    result = whole_row_change(reader(rows, there), step_of(changes, PLAIN), PLAIN)
    assert result.schema == there
    assert [tuple(row.values()) for row in result.read_all().to_pylist()] == [("y", 2, "b"), (None, 3, "c")]


def test_images_that_lack_columns_are_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"ROW_IMAGE\] shop\.orders: text: missing from 1 row images"):
        changed([], [(None, (1, ABSENT))])


def test_target_is_read_a_batch_at_a_time() -> None:
    """What it gives comes before the next batch is read."""
    read = []

    def batches() -> object:
        for number in range(5):
            read.append(number)
            yield pa.record_batch([pa.array([number], pa.int8()), pa.array(["a"])], schema=PLAIN)

    there = pa.RecordBatchReader.from_batches(PLAIN, batches())
    result = whole_row_change(there, step_of([((2, "a"), None)], PLAIN), PLAIN)
    assert read == []
    assert result.read_next_batch().num_rows == 1
    assert len(read) <= 2
    assert sum(batch.num_rows for batch in result) == 3


def bits(row: Row) -> object:
    """What tells rows apart: -0.0 is not 0.0."""
    return repr(row)


_ROWS = st.tuples(
    st.integers(0, 1),
    st.sampled_from([None, 0.0, -0.0]),
    st.sampled_from([None, "", "a", "A"]),
    st.sampled_from([None, {"srid": 0, "wkb": b"a"}, {"srid": 0, "wkb": None}]),
    st.sampled_from([None, [], [1.0], [1.0, -0.0]]),
)
_FEW_ROWS = st.lists(_ROWS, min_size=1, max_size=3)


@settings(max_examples=examples(100))
@given(st.data())
def test_target_equals_a_bag_however_changes_are_cut_into_batches(data: st.DataObject) -> None:
    """Deletes of rows that are not there, too."""
    values = st.sampled_from(data.draw(_FEW_ROWS))
    rows: list[Row] = data.draw(st.lists(values, max_size=8))
    bag = Counter(map(bits, rows))
    for _ in range(data.draw(st.integers(1, 3))):
        changes: list[Change] = data.draw(
            st.lists(st.tuples(st.none() | values, st.none() | values).filter(any), max_size=8)
        )
        for before, after in changes:
            if before is not None and bag[bits(before)]:
                bag[bits(before)] -= 1
            if after is not None:
                bag[bits(after)] += 1
        step = step_of(changes, SCHEMA, row_batches=data.draw(st.integers(1, 3)), interleaved=data.draw(st.booleans()))
        table = whole_row_change(reader(rows, SCHEMA), step, SCHEMA).read_all()
        rows = [tuple(row.values()) for row in table.to_pylist()]
        assert Counter(map(bits, rows)) == +bag


STORED: dict[str, tuple[pa.DataType, pa.DataType, list[object]]] = {
    "bit(1)": (pa.bool_(), pa.bool_(), [True, False]),
    "tinyint": (pa.int8(), pa.int32(), [1, -1]),
    "bigint unsigned": (pa.decimal128(20, 0), pa.decimal128(20, 0), [Decimal(2**64 - 1), Decimal(1)]),
    "decimal(10,4)": (pa.decimal128(10, 4), pa.decimal128(12, 4), [Decimal("1.2345"), Decimal("-1.2345")]),
    "float": (pa.float32(), pa.float64(), [0.5, -0.5]),
    "date": (pa.date32(), pa.date32(), [dt.date(2020, 1, 1), dt.date(1, 1, 1)]),
    "datetime": (pa.timestamp("us"), pa.timestamp("us"), [dt.datetime(2020, 1, 1), dt.datetime(1, 1, 1)]),  # noqa: DTZ001
    "text": (pa.string(), pa.large_string(), ["a", "a "]),
    "blob": (pa.binary(), pa.large_binary(), [b"", b"\0"]),
    "point": (GEOMETRY, GEOMETRY, [{"srid": 1, "wkb": b"x"}, {"srid": 2, "wkb": b"x"}]),
    "vector": (pa.list_(pa.float32()), pa.large_list(pa.field("element", pa.float32())), [[1.0, 2.0], [1.0]]),
}


@pytest.mark.parametrize("name", STORED)
def test_rows_of_every_type_are_found(name: str) -> None:
    kind, stored, (one, other) = STORED[name]
    schema, there = pa.schema([("value", kind)]), pa.schema([("value", stored)])
    rows: list[Row] = [(one,), (other,), (None,), (one,), (other,)]
    changes: list[Change] = [((one,), (None,)), ((other,), None), (None, (one,)), ((None,), None)]
    result = whole_row_change(reader(rows, there), step_of(changes, schema), schema)
    got = Counter(map(repr, result.read_all().column("value").to_pylist()))
    assert got == Counter(map(repr, [one, other, None, one]))
