"""Every mode on logs of real servers, with each kind of row images, against the tables that they had at the end."""

from __future__ import annotations

import functools
import itertools
import re
from typing import TYPE_CHECKING, cast

import pytest

from binlog_format import open_log
from binlog_format.errors import UnsupportedError
from binlog_format.rows.columns import arrow_schema
from binlog_format.rows.images import read_images
from binlog_format.views.filters import GroupFilter, TableFilter
from binlog_format.views.selection import Selection
from binlog_streaming.modes.mirror import mirror_change
from binlog_streaming.modes.mode_columns import mode_schema
from binlog_streaming.modes.row_batches import RowBatch, StepImages
from binlog_streaming.modes.scd2 import scd2_change
from binlog_streaming.modes.whole_rows import whole_row_change
from binlog_streaming.settings.choices import Deletes, Mode
from tests.streaming.tables.lake.model_sink import ModelTable
from tests.truth.reading import decoding_of_log
from tests.truth.replay import ANYTHING, row_differences
from tests.truth.truth_case import case
from tests.truth.truth_values import typed_difference

if TYPE_CHECKING:
    import datetime as dt
    from collections.abc import Collection

    import pyarrow as pa

    from tests.truth.truth_case import Case

CASES = (
    "mariadb-10.11/types_full",
    "mariadb-10.11/types_minimal_nolog",
    "mariadb-10.11/types_noblob_metamin",
    "mariadb-10.11/ops",
    "mariadb-10.11/ops_minimal",
    "mysql-9/types_full",
    "mysql-9/ops",
    "mysql-9/json_partial",
)


@functools.cache
def row_batches_of(name: str) -> dict[str, list[RowBatch]]:
    """The row images of each table, in row batches of a few events."""
    decoding = decoding_of_log(case(name).path)
    found: dict[str, list[RowBatch]] = {}
    with open_log(str(case(name).path)) as log:
        selection = Selection(TableFilter(), GroupFilter(None, None), decoding=decoding)
        for block in log.committed_blocks():
            for touched in selection.of(block):
                for start in range(0, len(touched.events), 5):
                    rows = touched.events[start : start + 5]
                    images = read_images(block.data, block.events, rows, touched.layout, decoding=decoding)
                    row_batch = RowBatch(
                        images, block.events, block.groups, touched.layout, block.gtid_sources, decoding
                    )
                    found.setdefault(touched.layout.full_name, []).append(row_batch)
    return {table: sorted(row_batches, key=RowBatch.start) for table, row_batches in found.items()}


def is_played_by_rows(truth: Case, table: str) -> bool:
    """Whether nothing but logged row changes makes the table what it is at the end."""
    if table not in truth.final or len(truth.epochs(table)) != 1:
        return False
    if any(change.mark and not change.is_undone for change in truth.changes if change.table == table):
        return False
    short = table.rpartition(".")[2]
    touching = re.compile(rf"(TRUNCATE|RENAME|CREATE OR REPLACE|PARTITION)\b.*\b{short}\b")
    schema = truth.schema_at(table, len(truth.steps))
    is_told = not (schema.is_versioned or schema.is_partitioned or schema.is_sequence)
    return is_told and not any(touching.search(str(step["sql"])) for step in truth.steps)


def tables(name: str, *, keyed: bool) -> list[str]:
    """The tables of a case that have a primary key, or none."""
    return [
        table
        for table, row_batches in row_batches_of(name).items()
        if is_played_by_rows(case(name), table) and bool(row_batches[0].layout.primary_key) == keyed
    ]


def steps(name: str, table: str) -> tuple[pa.Schema, tuple[int, ...], list[StepImages]]:
    """Columns, indices of the key, and the images in three batches."""
    row_batches = row_batches_of(name)[table]
    cuts = [len(row_batches) * part // 3 for part in range(4)]
    parts = [tuple(row_batches[low:high]) for low, high in itertools.pairwise(cuts)]
    layout = row_batches[0].layout
    schema = arrow_schema(layout, row_batches[0].decoding)
    return schema, layout.primary_key, [StepImages(table, part) for part in parts if part]


def check(name: str, table: str, rows: list[dict[str, object]], *, unsaid: Collection[str] = ()) -> None:
    """*rows* are what the server had at the end, but for the columns *unsaid*."""
    truth = case(name)
    columns = truth.schema_at(table, len(truth.steps)).columns
    got = [{name: ANYTHING if name in unsaid else value for name, value in row.items()} for row in rows]
    assert row_differences(table, got, truth.final[table], columns, difference=typed_difference, declared=True) == []


@pytest.mark.parametrize("name", CASES)
def test_mirror(name: str) -> None:
    for table in tables(name, keyed=True):
        schema, keys, parts = steps(name, table)
        virtual = case(name).schema_at(table, len(case(name).steps)).virtual
        target = ModelTable(schema, [schema.names[key] for key in keys])
        for step in parts:
            target.merge(mirror_change(step, schema, keys, computed_is_null=True, there=target.with_keys))
        unsaid = virtual if any(step.has_absent for step in parts) else set()
        assert all(row[column] is None for row in target.rows for column in unsaid & set(schema.names))
        check(name, table, target.rows, unsaid=unsaid)


@pytest.mark.parametrize("name", CASES)
def test_mirror_that_marks_deletes(name: str) -> None:
    for table in tables(name, keyed=True):
        schema, keys, parts = steps(name, table)
        target = ModelTable(mode_schema(Mode.MIRROR, schema, Deletes.MARK), [schema.names[key] for key in keys])
        for step in parts:
            change = mirror_change(
                step, schema, keys, deletes=Deletes.MARK, computed_is_null=True, there=target.with_keys
            )
            target.merge(change)
        unsaid = case(name).schema_at(table, len(case(name).steps)).virtual
        check(name, table, [row for row in target.rows if not row["_deleted"]], unsaid=unsaid)
        assert all(bool(row["_deleted"]) == (row["_deleted_at"] is not None) for row in target.rows)


@pytest.mark.parametrize("name", [name for name in CASES if case(name).has_full_images])
def test_scd2(name: str) -> None:
    for table in tables(name, keyed=True):
        schema, keys, parts = steps(name, table)
        target = ModelTable(mode_schema(Mode.SCD2, schema), [schema.names[key] for key in keys])
        for step in parts:
            target.merge(scd2_change(step, schema, keys))
        check(name, table, [row for row in target.rows if row["_is_current"]])
        assert all(row["_is_current"] == (row["_valid_to"] is None) for row in target.rows)
        times = [(row["_valid_from"], row["_valid_to"]) for row in target.rows if row["_valid_to"] is not None]
        assert all(cast("dt.datetime", start) <= cast("dt.datetime", end) for start, end in times)


def test_whole_rows() -> None:
    without_key = [(name, table) for name in CASES for table in tables(name, keyed=False)]
    assert len(without_key) > 3
    for name, table in without_key:
        schema, _, parts = steps(name, table)
        rows = schema.empty_table()
        for step in parts:
            rows = whole_row_change(rows.to_reader(), step, schema).read_all()
        check(name, table, rows.to_pylist())


def test_tables_of_all_kinds_are_compared() -> None:
    with_key = [(name, table) for name in CASES for table in tables(name, keyed=True)]
    assert len(with_key) > 60
    partial = {name for name, table in with_key if any(step.has_absent for step in steps(name, table)[2])}
    assert {"mariadb-10.11/types_minimal_nolog", "mariadb-10.11/types_noblob_metamin"} <= partial


def test_virtual_columns_that_images_leave_out_are_refused() -> None:
    name, table = "mariadb-10.11/types_minimal_nolog", "t.t_generated"
    assert table in tables(name, keyed=True)
    schema, keys, parts = steps(name, table)
    with pytest.raises(UnsupportedError, match=r"ROW_IMAGE\] t\.t_generated: .*generated columns that row images lack"):
        mirror_change(parts[0], schema, keys)
