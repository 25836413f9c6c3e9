"""Real logs against the server's own answers: every value of every column that is read."""

from __future__ import annotations

import csv
import gzip
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from binlog_format.errors import CorruptError, SchemaError, UnsupportedError
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows.columns import arrow_schema, arrow_type
from binlog_format.rows.images import ImageKind, read_images
from binlog_format.rows.table_events import TableMaps
from tests.corpus import SERVER_CASES, corpus
from tests.format.rows.plain_blocks import gtid_of, plain_block, plain_groups
from tests.format.rows.server_truth import logged_changes, same

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from binlog_format.events.table_map import TableLayout
    from binlog_format.rows.images import Images

ABSENT = object()
# Tables with periods and versions: the log records with an update and inserts what SELECT shows as other changes.
PERIOD_TABLES = {"t.per", "t.sv2"}
OLD_TYPES = {ColumnType.TIME, ColumnType.DATETIME, ColumnType.TIMESTAMP}
OPS = {ImageKind.INSERT: "insert", ImageKind.DELETE: "delete", ImageKind.UPDATE_BEFORE: "update"}


def _rows(images: Images) -> list[list[Any]]:
    """Python values of all images; `ABSENT` where a column is absent, the error where it is not read."""
    columns: list[list[Any]] = []
    for index in range(len(images.layout.columns)):
        try:
            array = images.column(index)
        except SchemaError as error:
            columns.append([error] * len(images))
            continue
        array.validate(full=True)
        assert array.type == arrow_type(images.layout, index)
        values = array.to_pylist()
        for row in np.flatnonzero(images.absent_mask(index)):
            assert values[row] is None
            values[row] = ABSENT
        columns.append(values)
    return [list(row) for row in zip(*columns, strict=True)]


def _changes_in_log(case: Path) -> Iterator[tuple[str, str, TableLayout, list[Any] | None, list[Any] | None]]:
    """GTID, operation, layout, before, after of every change, in log order."""
    for path in sorted(case.glob("*-bin.0*")):
        groups = plain_groups(path)
        block = plain_block(groups)
        found = []
        for touched in TableMaps().resolve(block):
            images = read_images(block.data, block.events, touched.events, touched.layout, place=block.place)
            rows = _rows(images)
            kinds = images.table["kind"]
            for i in np.flatnonzero(kinds != ImageKind.UPDATE_AFTER):
                kind = ImageKind(kinds[i])
                before = None if kind is ImageKind.INSERT else rows[i]
                after = None if kind is ImageKind.DELETE else rows[i]
                if kind is ImageKind.UPDATE_BEFORE:
                    assert kinds[i + 1] == ImageKind.UPDATE_AFTER
                    assert images.table["row_no"][i] == images.table["row_no"][i + 1]
                    after = rows[i + 1]
                key = (int(images.table["event"][i]), int(images.table["row_no"][i]))
                found.append((key, OPS[kind], touched.layout, before, after))
        for key, op, layout, before, after in sorted(found, key=lambda change: change[0]):
            yield gtid_of(groups[int(block.events["group"][key[0]])]), op, layout, before, after


def _compare_row(row: list[Any], truth: list[Any], layout: TableLayout, columns: list[Any]) -> tuple[str, int]:
    # Compares what the image has: what is wrong, and how many values were compared.
    compared = 0
    for i, (value, wanted, column) in enumerate(zip(row, truth, columns, strict=True)):
        name = f"{layout.full_name}.{column['name']} {column['column_type']}"
        if value is ABSENT:
            continue
        if isinstance(value, SchemaError):
            assert (layout.columns[i].unsigned, layout.columns[i].charset) == (None, None), name
            continue
        labels = layout.columns[i].enum_values is not None
        if not same(value, wanted, column, has_labels=labels):
            return f"{name}: {value!r}, the server said {wanted!r}", compared
        compared += 1
    return "", compared


def _compare(case: Path, *, ordered: bool) -> int:
    """Compare all images with the server's rows; how many values that were.

    Args:
        ordered: Whether the rows of a statement are in the server's order; else they are a set.
    """
    truth, skipped = logged_changes(case)
    # A system-versioned table has columns and changes that SELECT does not show.
    in_log = [found for found in _changes_in_log(case) if found[0] not in skipped]
    versioned = {found[2].full_name for found in in_log if "row_end" in {c.name for c in found[2].columns}}
    versioned |= PERIOD_TABLES
    wanted: dict[tuple[str, str, str, str], list[tuple[Any, Any]]] = {}
    for change in truth:
        if change.gtid not in skipped and change.table not in versioned:
            for side, row in (("before", change.before), ("after", change.after)):
                if row is not None:
                    wanted.setdefault((change.gtid, change.op, change.table, side), []).append((row, change.columns))
    compared = 0
    for gtid, op, layout, before, after in in_log:
        for side, row in (("before", before), ("after", after)):
            if row is None or layout.full_name in versioned:
                continue
            candidates = wanted.get((gtid, op, layout.full_name, side), [])
            assert candidates, f"{gtid}: {op} of {layout.full_name}: the server has no such change"
            results = [_compare_row(row, *candidate[:1], layout, candidate[1]) for candidate in candidates]
            fitting = [i for i, (wrong, _) in enumerate(results) if not wrong]
            assert fitting, f"{gtid}: {results[0][0]}"
            assert not ordered or fitting[0] == 0, f"{gtid}: {results[0][0]}"
            compared += results[fitting[0]][1]
            candidates.pop(fitting[0])
    assert [key for key, rows in wanted.items() if rows] == []
    return compared


def test_every_value_of_every_type_is_what_the_server_said() -> None:
    assert _compare(corpus("servers") / "mariadb-10.11" / "types_full", ordered=True) > 33000


def test_values_are_the_same_without_names() -> None:
    case = corpus("servers") / "mariadb-10.11" / "types_noblob_metamin"
    assert _compare(case, ordered=True) > 14000
    for _, _, layout, _, _ in _changes_in_log(case):
        assert not layout.has_names
        with pytest.raises(SchemaError, match=r"NO_COLUMN_METADATA.*binlog_row_metadata=FULL"):
            arrow_schema(layout)


def test_images_with_absent_columns_hold_the_values_that_changed() -> None:
    case = corpus("servers") / "mariadb-10.11" / "types_minimal_nolog"
    assert _compare(case, ordered=True) > 2000
    assert any(row and ABSENT in row for *_, before, after in _changes_in_log(case) for row in (before, after))


def test_all_kinds_of_statements_give_the_changes_that_the_server_made() -> None:
    assert _compare(corpus("servers") / "mariadb-10.11" / "ops", ordered=False) > 2900


def test_old_temporal_types_need_a_schema() -> None:
    case = corpus("servers") / "mariadb-10.11" / "types_oldtemporal"
    block = plain_block(plain_groups(case / "mysql-bin.000001"))
    refused = set()
    for touched in TableMaps().resolve(block):
        if {column.type for column in touched.layout.columns} & OLD_TYPES:
            refused.add(touched.layout.table)
            with pytest.raises(SchemaError, match=r"NO_COLUMN_METADATA.*mysql56_temporal_format=OFF"):
                read_images(block.data, block.events, touched.events, touched.layout)
        else:
            read_images(block.data, block.events, touched.events, touched.layout)
    assert refused == {"t_time", "t_datetime", "t_timestamp"}


def test_applied_changes_give_the_final_tables() -> None:
    case = SERVER_CASES / "mariadb-10.11" / "oltp_small"
    tables: dict[str, dict[int, list[Any]]] = {}
    for _, _, layout, before, after in _changes_in_log(case):
        rows = tables.setdefault(layout.table, {})
        if before is not None:
            assert rows.pop(before[0]) == before
        if after is not None:
            rows[after[0]] = after
    assert sorted(tables) == ["sbtest1", "sbtest2", "sbtest3", "sbtest4"]
    for table, rows in tables.items():
        with gzip.open(case / f"{table}.csv.gz", "rt", newline="") as file:
            wanted = list(csv.reader(file))[1:]
        assert [[str(value) for value in rows[key]] for key in sorted(rows)] == wanted


def test_damaged_log_gives_values_or_a_named_error() -> None:
    """Every type's kernels see bytes that no server wrote."""
    case = corpus("servers") / "mariadb-10.11" / "types_full"
    block = plain_block(plain_groups(case / "mysql-bin.000001"))
    good = block.data.copy()
    touched_tables = TableMaps().resolve(block)
    random = np.random.default_rng(7)
    outcomes = set()
    for touched in touched_tables * 4:
        starts, sizes = block.events["start"][touched.events], block.events["size"][touched.events]
        for start, size in zip(starts.tolist(), sizes.tolist(), strict=True):
            places = random.integers(27, size, size=random.integers(1, 6)) + start
            block.data[places] = random.integers(0, 256, size=len(places))
        for event in touched.events:
            try:
                images = read_images(block.data, block.events, np.array([event]), touched.layout)
            except CorruptError:
                outcomes.add("bad rows")
                continue
            for index in range(len(touched.layout.columns)):
                try:
                    images.column(index).validate(full=True)
                    outcomes.add("values")
                except (CorruptError, UnsupportedError):
                    outcomes.add("bad value")
        block.data[:] = good
    assert outcomes == {"bad rows", "bad value", "values"}
