"""Existing rows of a snapshot among changes: dealt out by key, as versions, and where images lack columns."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from binlog_format.errors import UnsupportedError
from binlog_streaming.modes.absent_columns import AbsentFacts
from binlog_streaming.modes.row_batches import StepImages
from binlog_streaming.modes.scd2 import scd2_change
from binlog_streaming.modes.shards import gathered, sharded
from binlog_streaming.settings.choices import Mode
from binlog_streaming.settings.model import TableRule
from binlog_streaming.tables.rows_step import KeyedImages
from tests.streaming.tables.modes.row_images import ABSENT, row_batch_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.streaming.tables.modes.row_images import Change

SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("price", pa.int64())])
KEYS = 40


def step(*parts: tuple[str, Sequence[tuple[int, Change]]]) -> StepImages:
    """Images of a step: of each part the snapshot, and changes with their places."""
    row_batches = [
        replace(
            row_batch_of([change for _, change in some], SCHEMA, [place for place, _ in some]),
            snapshot=snapshot,
            facts=AbsentFacts(unchanged=frozenset(SCHEMA.names)),
        )
        for snapshot, some in parts
    ]
    return StepImages("shop.orders", tuple(row_batches))


def inserted(key: int, name: str) -> Change:
    return None, (key, name, key)


class Table:
    """A target that has some rows."""

    def __init__(self, *rows: tuple[object, ...]) -> None:
        self._rows = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)

    def read(self) -> pa.RecordBatchReader:
        return self._rows.to_reader()


@pytest.mark.parametrize("count", [1, 3])
def test_shards_know_which_rows_are_existing_ones(count: int) -> None:
    changes = [(2 * key, inserted(key, "changed")) for key in range(KEYS)]
    chunk = [(2 * key + 1, inserted(key, "copied")) for key in range(KEYS)]
    other = [(2 * KEYS + key, inserted(key, "again")) for key in range(3)]
    images = step(("", changes), ("one", chunk), ("two", other))
    messages: dict[int, list[bytes]] = {}
    for shard, message in sharded(images, SCHEMA, [0], count, last_only=False):
        messages.setdefault(shard, []).append(message)
    found = []
    for some in messages.values():
        for row_batch in gathered(some):
            of_shard = StepImages("shop.orders", (row_batch,))
            names = of_shard.values(1, pa.string()).to_pylist()
            keys = of_shard.values(0, pa.int64()).to_pylist()
            assert of_shard.existing.all() == bool(row_batch.snapshot)
            found += [(row_batch.snapshot, name, key) for name, key in zip(names, keys, strict=True)]
    wanted = [("", "changed", key) for key in range(KEYS)] + [("one", "copied", key) for key in range(KEYS)]
    assert sorted(found) == sorted(wanted + [("two", "again", key) for key in range(3)])


def test_rows_that_say_nothing_new_make_no_version() -> None:
    numbers = list(range(10))
    random.Random(1).shuffle(numbers)
    changes = [(key, inserted(key, "a")) for key in range(10)]
    deleted = (20, ((3, "a", 3), None))
    chunk = [(30, inserted(3, "a")), *((31, inserted(key, "b" if key == 5 else "a")) for key in numbers if key != 3)]
    images = step(("", [*changes, deleted]), ("one", chunk))
    made = scd2_change(images, SCHEMA, [0])
    assert made.appends is not None
    versions = sorted((row["id"], row["name"], row["_is_current"]) for row in made.appends.to_pylist())
    # One comes after its delete, one has another value; all others are there.
    assert versions == sorted(
        [(key, "a", key not in (3, 5)) for key in range(10)] + [(3, "a", True), (5, "b", True)],
    )


@pytest.mark.parametrize("is_there", [True, False])
def test_a_new_key_of_a_row_that_no_chunk_has_brought_is_refused(is_there: bool) -> None:
    moved: Change = ((1, ABSENT, ABSENT), (2, "b", ABSENT))
    images = step(("", [(1, moved)]))
    table = Table((1, "a", 10)) if is_there else Table((7, "a", 10))
    keyed = KeyedImages(images, SCHEMA, ("id",), Mode.MIRROR, TableRule(), completing=True)
    if is_there:
        assert keyed.change(table).upserts.to_pylist() == [{"id": 2, "name": "b", "price": 10}]  # type: ignore[arg-type]
        return
    with pytest.raises(UnsupportedError, match=r"ROW_IMAGE\] shop\.orders: an update changes the key of a row"):
        keyed.change(table)  # type: ignore[arg-type]


def test_an_update_of_a_row_that_no_chunk_has_brought_waits_for_it() -> None:
    """It lacks columns, and the chunk that comes after it has all of them."""
    updated: Change = ((1, ABSENT, ABSENT), (ABSENT, "b", ABSENT))
    images = step(("", [(1, updated)]), ("one", [(2, (None, (1, "b", 10)))]))
    keyed = KeyedImages(images, SCHEMA, ("id",), Mode.MIRROR, TableRule(), completing=True)
    change = keyed.change(Table())  # type: ignore[arg-type]
    assert change.upserts.to_pylist() == [{"id": 1, "name": "b", "price": 10}]
    alone = KeyedImages(step(("", [(1, updated)])), SCHEMA, ("id",), Mode.MIRROR, TableRule(), completing=True)
    change = alone.change(Table())  # type: ignore[arg-type]
    assert change.upserts.num_rows == 0  # a patch, which changes nothing where no row is
