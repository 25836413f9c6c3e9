from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format import open_log
from binlog_format.position import Position
from binlog_format.views.table_index import TableIndex
from binlog_format.views.tables import TablesView
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_streaming.modes.row_batches import NO_IMAGE, RowBatch, StepImages, load_row_batches
from tests.streaming.tables.modes.row_images import row_batch_of, step_of
from tests.streaming.tables.shop import ShopLog

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.streaming.tables.modes.row_images import Change

SCHEMA = pa.schema([("id", pa.int32()), ("value", pa.string())])
CHANGES: list[Change] = [(None, (0, "a")), ((0, "a"), (0, "b")), (None, (1, "c")), ((1, "c"), None), (None, (2, None))]
VALUES = ["a", "a", "b", "c", "c", None]
"""Of the images of `CHANGES`."""


def before(change: int) -> tuple[Position, int]:
    """The place of a statement before the change with this number; changes are event 2 of their groups."""
    return Position(0, change, 0), 0


def values(step: StepImages) -> list[str | None]:
    """In log order."""
    taken: list[str | None] = step.values(1, pa.string(), step.in_log_order()).to_pylist()
    return taken


def cut_at(row_batches: Sequence[RowBatch], places: Sequence[tuple[Position, int]]) -> list[StepImages]:
    """The images before, between and after the statements at *places*, which ascend: one more than there are places."""
    steps = []
    for start, end in itertools.pairwise([None, *places, None]):
        cut = (row_batch.between(start, end) for row_batch in row_batches)
        parts = sorted((row_batch for row_batch in cut if row_batch is not None), key=RowBatch.start)
        steps.append(StepImages("shop.orders", tuple(parts)))
    return steps


@pytest.mark.parametrize(
    ("cuts", "parts"),
    [
        ([], [VALUES]),
        ([before(1)], [["a"], ["a", "b", "c", "c", None]]),
        ([before(1), before(3)], [["a"], ["a", "b", "c"], ["c", None]]),
        ([before(0)], [[], VALUES]),
        ([before(7), before(7)], [VALUES, [], []]),
        ([(Position(0, 1, 0), 2)], [["a"], ["a", "b", "c", "c", None]]),
        ([(Position(0, 1, 0), 3)], [["a", "a", "b"], ["c", "c", None]]),
    ],
    ids=["whole", "two", "three", "before all", "behind all", "at an event", "behind an event"],
)
def test_images_are_cut_at_statements(cuts: list[tuple[Position, int]], parts: list[list[str | None]]) -> None:
    row_batches = [row_batch_of(CHANGES[:2], SCHEMA, [0, 1]), row_batch_of(CHANGES[2:], SCHEMA, [2, 3, 4])]
    assert [values(step) for step in cut_at(row_batches, cuts)] == parts


def test_what_lies_outside_is_nothing() -> None:
    row_batch = row_batch_of(CHANGES, SCHEMA)
    assert row_batch.between(None, None) is row_batch
    assert row_batch.between(before(0), before(5)) is row_batch
    assert row_batch.between(before(2), before(2)) is None
    assert row_batch.between(before(5), None) is None


@given(st.integers(1, 3), st.booleans(), st.lists(st.integers(0, 5)))
def test_values_come_in_the_order_asked_for(row_batches: int, interleaved: bool, ranks: list[int]) -> None:
    step = step_of(CHANGES, SCHEMA, row_batches=row_batches, interleaved=interleaved)
    assert values(step) == VALUES
    assert (step.ranks is None) == (row_batches == 1 or not interleaved)
    numbers = step.in_log_order()[np.array(ranks, dtype=np.int64)]
    assert step.values(1, pa.string(), numbers).to_pylist() == [VALUES[rank] for rank in ranks]
    seconds = [0, 1, 1, 2, 3, 4]
    assert [time.timestamp() for time in step.times(numbers).to_pylist()] == [seconds[rank] for rank in ranks]


def test_no_image_is_null() -> None:
    step = step_of(CHANGES, SCHEMA, row_batches=2)
    numbers = np.array([NO_IMAGE, 5, 0, NO_IMAGE])
    assert step.values(1, pa.string(), numbers).to_pylist() == [None, None, "a", None]
    assert step.times(numbers).is_null().to_pylist() == [True, False, False, True]


def test_step_without_images() -> None:
    step = StepImages("shop.orders", ())
    assert (len(step), len(step.kinds), step.has_absent, step.ranks) == (0, 0, False, None)
    assert step.values(1, pa.string()) == pa.chunked_array([], pa.string())


def test_pieces_of_a_log_are_cut_where_a_transaction_ends(tmp_path: Path) -> None:
    spec = TableSpec("shop", "customers", (ColumnSpec("id", "int"), ColumnSpec("name", "varchar(20)")), ("id",))
    with ShopLog(tmp_path) as log:
        for number in range(4):
            log.insert(spec, (number, str(number)))
    with open_log(str(tmp_path)) as opened:
        batches = TablesView().batches(opened.committed_blocks())
        indexes = [TableIndex.from_bytes(row["index"]) for batch in batches for row in batch.to_pylist()]
        row_batches: list[RowBatch] = load_row_batches(indexes, opened)
        last = row_batches[0].end()
        first, second = cut_at(row_batches, [(last.position, last.event_no)])
    assert first.values(1, pa.string()).to_pylist() == ["0", "1", "2"]
    assert second.values(1, pa.string()).to_pylist() == ["3"]
