"""Steps dealt out by key: what shards make of a table together is what the step makes of it."""

from __future__ import annotations

import datetime as dt
import itertools
import random
import subprocess
import sys
from decimal import Decimal
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_format.errors import TableError
from binlog_streaming.modes.mode_columns import mode_schema
from binlog_streaming.modes.row_batches import StepImages
from binlog_streaming.modes.shards import IndivisibleError, failed, gathered, shard_numbers, sharded
from binlog_streaming.settings.choices import Deletes, Mode, UnknownValues
from binlog_streaming.settings.model import TableRule
from binlog_streaming.tables.rows_step import KeyedImages
from tests.chance import examples
from tests.streaming.tables.lake.model_sink import ModelTable
from tests.streaming.tables.modes.histories import KEY_NAMES, KEYS, KNOWN, SCHEMA, RowImage, histories
from tests.streaming.tables.modes.row_images import step_of

if TYPE_CHECKING:
    from binlog_streaming.lake.change import Change
    from tests.streaming.tables.modes.histories import Batch

_SHARDS = settings(max_examples=examples(60))
_CASES = [(Mode.MIRROR, Deletes.REMOVE), (Mode.MIRROR, Deletes.MARK), (Mode.SCD2, Deletes.REMOVE)]


class _ModelTarget:
    """A model table as `KeyedImages.change` asks a target."""

    def __init__(self, table: ModelTable) -> None:
        self._table = table

    def read(self) -> pa.RecordBatchReader:
        return pa.Table.from_pylist(self._table.rows, self._table.schema).to_reader()


def _change(images: StepImages, mode: Mode, rule: TableRule, table: ModelTable) -> Change:
    return KeyedImages(images, SCHEMA, KEY_NAMES, mode, rule).change(_ModelTarget(table))  # type: ignore[arg-type]


def _dealt(batch: Batch, start: int, count: int, cuts: list[int], *, last_only: bool) -> list[StepImages]:
    """The shards of a batch that is dealt out in several runs; messages come in any order."""
    messages: dict[int, list[bytes]] = {}
    edges = [0, *sorted({cut % (len(batch.changes) + 1) for cut in cuts}), len(batch.changes)]
    for low, high in itertools.pairwise(edges):
        if low < high:
            images = step_of(batch.changes[low:high], SCHEMA, row_batches=2, start=start + low, known=KNOWN)
            for shard, message in sharded(images, SCHEMA, KEYS, count, last_only=last_only):
                messages.setdefault(shard, []).append(message)
    for some in messages.values():
        random.Random(start).shuffle(some)
    return [StepImages("shop.orders", tuple(gathered(some))) for _, some in sorted(messages.items())]


@pytest.mark.parametrize("image", ["whole", "any"])
@pytest.mark.parametrize(("mode", "deletes"), _CASES)
@_SHARDS
@given(data=st.data(), count=st.integers(1, 5), cuts=st.lists(st.integers(0, 12), max_size=3))
def test_shards_together_are_the_step(
    image: str, mode: Mode, deletes: Deletes, data: st.DataObject, count: int, cuts: list[int]
) -> None:
    kinds = [RowImage.FULL, RowImage.FULL_NODUP] if image == "whole" else list(RowImage)
    if mode is Mode.SCD2 and image == "any":
        kinds = [RowImage.FULL]  # and it wants whole rows
    rule = TableRule(mode=mode, deletes=deletes, unknown_values=UnknownValues.FAIL)
    schema = mode_schema(mode, SCHEMA, deletes)
    whole, parted = ModelTable(schema, KEY_NAMES), ModelTable(schema, KEY_NAMES)
    last_only = mode is Mode.MIRROR and deletes is Deletes.REMOVE
    start = 0
    for batch in data.draw(histories(st.sampled_from(kinds))):
        if batch.changes:
            step = step_of(batch.changes, SCHEMA, start=start, known=KNOWN)
            try:
                shards = _dealt(batch, start, count, cuts, last_only=last_only)
            except IndivisibleError:
                assert step.has_absent
                assert count > 1
                shards = [step]
            changes = [_change(images, mode, rule, parted) for images in shards]
            whole.merge(_change(step, mode, rule, whole))
            for change in changes:
                parted.merge(change)
        start += len(batch.changes)
        assert _sorted(parted) == _sorted(whole)


def _sorted(table: ModelTable) -> list[tuple[object, ...]]:
    return sorted((tuple(row.values()) for row in table.rows), key=repr)


KEY_COLUMNS = {
    "int8": pa.array([-1, 0, 1], pa.int8()),
    "uint64": pa.array([0, 1, 2**64 - 1], pa.uint64()),
    "bool": pa.array([True, False, True]),
    "double": pa.array([0.0, -0.0, 1.5]),
    "decimal": pa.array([Decimal("1.50"), Decimal("-1.50"), Decimal("0.00")], pa.decimal128(30, 2)),
    "date": pa.array([dt.date(2026, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31)]),
    "timestamp": pa.array([0, 1, -1], pa.timestamp("us", "UTC")),
    "time": pa.array([0, 1, 2], pa.time64("us")),
    "text": pa.array(["", "a", "é" * 100]),
    "binary": pa.array([b"", b"\0", b"\0\0"]),
    "fixed": pa.array([b"aa", b"ab", b"ba"], pa.binary(2)),
}


@pytest.mark.parametrize("name", KEY_COLUMNS)
def test_shard_of_a_key_depends_on_its_value_alone(name: str) -> None:
    array = KEY_COLUMNS[name]
    many = pa.concat_arrays([array, array.slice(1), array[:1]]).slice(1)
    numbers = shard_numbers(pa.table({"k0": many}), 1_000_003)
    by_value: dict[object, set[int]] = {}
    for value, number in zip(many.to_pylist(), numbers.tolist(), strict=True):
        by_value.setdefault(repr(value), set()).add(number)
    assert all(len(found) == 1 for found in by_value.values())
    assert len(set(numbers.tolist())) == len(by_value)


def test_shards_are_the_same_in_every_process() -> None:
    code = (
        "import pyarrow as pa; from binlog_streaming.modes.shards import shard_numbers; "
        "print(shard_numbers(pa.table({'k0': ['a', 'b', 'c'], 'k1': [1, 2, 3]}), 1000).tolist())"
    )
    here = shard_numbers(pa.table({"k0": ["a", "b", "c"], "k1": [1, 2, 3]}), 1000).tolist()
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == str(here)


def test_neighbours_are_spread_evenly() -> None:
    for column in (
        pa.array(np.arange(100_000)),
        pa.array(np.arange(0, 6_400_000, 64)),
        pa.array(map(str, range(100_000))),
    ):
        counts = np.bincount(shard_numbers(pa.table({"k0": column}), 7), minlength=7)
        assert counts.min() > 0.9 * 100_000 / 7


def test_failure_reaches_whoever_gathers() -> None:
    with pytest.raises(TableError, match="null in 3 row images"):
        gathered([failed(TableError("NULL_KEY", "shop.orders: key column id is null in 3 row images"))])
