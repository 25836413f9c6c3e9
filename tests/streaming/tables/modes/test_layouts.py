"""Tables whose layout changes in the log, or which lack something."""

from __future__ import annotations

import datetime as dt
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

from binlog_format import open_log
from binlog_format.errors import SchemaError
from binlog_format.position import Position
from binlog_format.rows.decoding import Decoding, TimeType
from binlog_format.views.table_index import TableIndex
from binlog_format.views.tables import TablesView
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_streaming.modes.row_batches import NO_IMAGE, RowBatch, StepImages, load_row_batches
from binlog_streaming.settings import Deletes, Mode, TableRule, UnknownValues
from tests.streaming.tables import batches
from tests.streaming.tables.batches import cut
from tests.streaming.tables.modes.row_images import row_batch_of, step_of
from tests.streaming.tables.shop import ShopLog

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from tests.streaming.tables.modes.row_images import Change


ID, NAME, EMAIL = ColumnSpec("id", "int"), ColumnSpec("name", "varchar(20)"), ColumnSpec("email", "varchar(50)")
CUSTOMERS = TableSpec("shop", "customers", (ID, NAME), ("id",))


def write(log: Path, directory: Path, batch_id: int, rule: TableRule) -> None:
    """One batch of the whole log."""
    with open_log(str(log)) as opened:
        (batch,) = cut(opened, 1)
        batches.write(opened, batch, directory, batch_id, (rule,))


def rows(directory: Path) -> list[tuple[object, ...]]:
    table = DeltaTable(str(directory / "shop" / "customers")).to_pyarrow_table()
    return sorted(tuple(row.values())[:2] for row in table.to_pylist())


def test_layouts_with_the_same_columns_are_one_table(tmp_path: Path) -> None:
    """Columns that an outer join makes NULL-able are another layout, but the same for a reader; changes interleave."""
    columns = tuple(replace(column, nullable=True) for column in CUSTOMERS.columns)
    joined = replace(CUSTOMERS, columns=columns)
    with ShopLog(tmp_path / "log") as log:
        log.insert(CUSTOMERS, (1, "a"), (2, "b"))
        log.update(joined, ((1, "a"), (1, "c")))
        log.update(CUSTOMERS, ((1, "c"), (1, "d")), ((2, "b"), (3, "b")))
        log.delete(joined, (3, "b"))
        log.insert(joined, (2, "e"))
        log.update(CUSTOMERS, ((2, "e"), (2, "f")))
    write(tmp_path / "log", tmp_path, 0, TableRule())
    assert rows(tmp_path) == [(1, "d"), (2, "f")]


@pytest.mark.parametrize(
    "rule",
    [TableRule(), TableRule(unknown_values=UnknownValues.NULL), TableRule(mode=Mode.CHANGELOG)],
    ids=["mirror", "mirror with nulls", "changelog"],
)
@pytest.mark.parametrize("together", [True, False], ids=["in a batch", "between batches"])
def test_columns_that_no_statement_explains_are_unknown_in_rows_before(
    tmp_path: Path, rule: TableRule, together: bool
) -> None:
    """SET sql_log_bin = 0 hides a statement, which may give the column a default."""
    wider = TableSpec("shop", "customers", (ColumnSpec("id", "bigint"), NAME, EMAIL), ("id",))
    more = "log" if together else "log2"
    with ShopLog(tmp_path / "log") as log:
        log.insert(CUSTOMERS, (1, "a"))
        if together:
            log.insert(wider, (2**40, "b", "c"))
    if not together:
        write(tmp_path / "log", tmp_path, 0, rule)
        with ShopLog(tmp_path / "log2") as log:
            log.insert(wider, (2**40, "b", "c"))
    if rule == TableRule():
        with pytest.raises(SchemaError, match=r"SCHEMA_CHANGED\] shop\.customers: column email is new, .* no"):
            write(tmp_path / more, tmp_path, 1, rule)
        return
    write(tmp_path / more, tmp_path, 1, rule)
    table = DeltaTable(str(tmp_path / "shop" / "customers")).to_pyarrow_table().sort_by("id")
    assert table.select(["id", "name", "email"]).to_pylist() == [
        {"id": 1, "name": "a", "email": None},
        {"id": 2**40, "name": "b", "email": "c"},
    ]


@pytest.mark.parametrize("mode", [Mode.MIRROR, Mode.CHANGELOG])
def test_type_that_does_not_hold_the_values_before_is_refused(tmp_path: Path, mode: Mode) -> None:
    with ShopLog(tmp_path / "log") as log:
        log.insert(CUSTOMERS, (1, "a"))
    with ShopLog(tmp_path / "log2") as log:
        log.insert(TableSpec("shop", "customers", (ID, ColumnSpec("name", "int")), ("id",)), (2, 5))
    write(tmp_path / "log", tmp_path, 0, TableRule(mode=mode))
    with pytest.raises(SchemaError, match=r"SCHEMA_CHANGED\] shop\.customers: column name was .* and is int.* now"):
        write(tmp_path / "log2", tmp_path, 1, TableRule(mode=mode))
    assert rows(tmp_path) == [(1, "a")]


def test_another_primary_key_in_a_batch_is_refused(tmp_path: Path) -> None:
    with ShopLog(tmp_path / "log") as log:
        log.insert(CUSTOMERS, (1, "a"))
        log.insert(TableSpec("shop", "customers", (ID, NAME), ("name",)), (2, "b"))
    with pytest.raises(SchemaError, match=r"SCHEMA_CHANGED\] shop\.customers: its primary key was id and is name now"):
        write(tmp_path / "log", tmp_path, 0, TableRule())


def test_table_without_primary_key_takes_keys_or_the_whole_row(tmp_path: Path) -> None:
    spec = TableSpec("shop", "customers", (ID, NAME))
    with ShopLog(tmp_path / "log") as log:
        log.insert(spec, (1, "a"), (2, "b"), (2, "b"))
        log.update(spec, ((1, "a"), (1, "c")))
        log.delete(spec, (2, "b"))
    write(tmp_path / "log", tmp_path, 0, TableRule())
    assert rows(tmp_path) == [(1, "c"), (2, "b")]
    for mode in (Mode.SCD2, Mode.MIRROR):
        rule = TableRule(mode=mode, deletes=Deletes.MARK, target="{mode}")
        with pytest.raises(SchemaError, match=r"NO_PRIMARY_KEY\] shop\.customers: .*keys in \[\[tables\]\]"):
            write(tmp_path / "log", tmp_path, 0, rule)
    write(tmp_path / "log", tmp_path / "keys", 0, TableRule(keys=("id",)))
    assert rows(tmp_path / "keys") == [(1, "c")]


def test_job_says_how_values_become_columns(tmp_path: Path) -> None:
    spec = TableSpec("shop", "customers", (ID, ColumnSpec("opens", "time")), ("id",))
    with ShopLog(tmp_path / "log") as log:
        log.insert(spec, (1, dt.timedelta(hours=-1, seconds=1)))
    micros = Decoding(time_type=TimeType.MICROS)
    for rule in (TableRule(), TableRule(mode=Mode.CHANGELOG, target="changes/{table}")):
        with open_log(str(tmp_path / "log")) as opened:
            (batch,) = cut(opened, 1)
            batches.write(opened, batch, tmp_path, 0, (rule,), decoding=micros)
    assert rows(tmp_path) == [(1, -3_599_000_000)]
    assert DeltaTable(str(tmp_path / "changes" / "customers")).to_pyarrow_table().column("opens").to_pylist() == [
        -3_599_000_000
    ]


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
