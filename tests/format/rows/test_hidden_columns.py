"""Columns that MariaDB adds for unique keys that are too long for an index."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from binlog_format.errors import CorruptError, SchemaError
from binlog_format.events.table_map import TableLayout, parse_table_map
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows.columns import arrow_schema
from binlog_format.rows.declared.completion import ColumnCompletion, LayoutCompletion, apply_completion
from binlog_format.rows.images import Images, read_images
from binlog_format.vendor import Vendor
from tests.format.rows.plain_blocks import plain_block
from tests.format.rows.plain_rows import UPDATE, WRITE, PlainColumn, gtid_event, rows_event, table_map

INT = PlainColumn(ColumnType.LONG, unsigned=False)
HASH = PlainColumn(ColumnType.LONGLONG, unsigned=True)
SIGNED = PlainColumn(ColumnType.LONGLONG, unsigned=False)
BARE = [PlainColumn(ColumnType.LONG), PlainColumn(ColumnType.LONGLONG), PlainColumn(ColumnType.LONGLONG)]


def named(*names: str, columns: tuple[PlainColumn, ...] = (INT, HASH), vendor: Vendor = Vendor.MARIADB) -> TableLayout:
    return parse_table_map(table_map(columns, names=names), vendor)


def shown(layout: TableLayout) -> list[str | None]:
    return [column.name for column in layout.columns]


def read(layout: TableLayout, *events: bytes) -> Images:
    block = plain_block([[gtid_event(), *events]])
    return read_images(block.data, block.events, np.arange(1, len(events) + 1), layout, place=block.place)


def test_hashes_are_no_columns() -> None:
    layout = named("id", "DB_ROW_HASH_1", "DB_ROW_HASH_12", columns=(INT, HASH, HASH))
    assert shown(layout) == arrow_schema(layout).names == ["id"]
    assert [column.name for column in layout.hidden] == ["DB_ROW_HASH_1", "DB_ROW_HASH_12"]


@pytest.mark.parametrize(
    "layout",
    [
        named("DB_ROW_HASH_1", "id"),
        named("id", "db_row_hash_1"),
        named("id", "DB_ROW_HASH_"),
        named("id", "DB_ROW_HASH_1", columns=(INT, INT)),
        named("id", "DB_ROW_HASH_1", columns=(INT, SIGNED)),
        named("id", "DB_ROW_HASH_1", vendor=Vendor.MYSQL),
    ],
)
def test_other_columns_are_no_hashes(layout: TableLayout) -> None:
    assert len(layout.columns) == 2
    assert layout.hidden == ()


def test_rows_are_read_without_their_hashes() -> None:
    layout = named("id", "DB_ROW_HASH_1")
    images = read(layout, rows_event(WRITE, [[b"\7\0\0\0", bytes(8)], [b"\x08\0\0\0", None]], 2))
    assert images.column(0).to_pylist() == [7, 8]
    assert len(images.slots) == 1
    assert not images.has_absent()


def test_hash_that_an_image_lacks_is_not_absent() -> None:
    # MariaDB 11.8 leaves columns that it computes out of images of UPDATE.
    layout = named("id", "DB_ROW_HASH_1")
    rows = [[b"\7\0\0\0", None], [b"\x08\0\0\0", None]]
    images = read(layout, rows_event(UPDATE, rows, 2, present=[True, False], after=[True, False]))
    assert images.column(0).to_pylist() == [7, 8]
    assert not images.has_absent()
    present = read(layout, rows_event(UPDATE, rows, 2, present=[False, False], after=[True, False]))
    assert present.absent_mask(0).tolist() == [True, False]


def test_damage_is_told_with_all_columns() -> None:
    layout = named("id", "DB_ROW_HASH_1")
    with pytest.raises(CorruptError, match="3 columns, the table map has 2"):
        read(layout, rows_event(WRITE, [[b"\7\0\0\0", None, None]], 3))
    with pytest.raises(CorruptError, match=r"the value of shop\.orders\.DB_ROW_HASH_1 ends beyond the event"):
        read(layout, rows_event(WRITE, [[b"\7\0\0\0", b"\1"]], 2))


def test_columns_that_statements_do_not_have_are_hashes_where_keys_have_some() -> None:
    completion = LayoutCompletion((ColumnCompletion("id", "int(11)"),), hashes=2)
    layout = parse_table_map(table_map(BARE, names=False))
    completed = apply_completion(layout, completion.to_json())
    assert shown(completed) == ["id"]
    assert len(completed.hidden) == 2
    assert LayoutCompletion.from_json(completion.to_json()) == completion
    for other in (replace(completion, hashes=1), replace(completion, hashes=0)):
        with pytest.raises(SchemaError, match="COLUMN_COUNT_MISMATCH"):
            apply_completion(layout, other.to_json())
    with pytest.raises(SchemaError, match="COLUMN_COUNT_MISMATCH"):
        apply_completion(replace(layout, vendor=Vendor.MYSQL), completion.to_json())
    numbers = parse_table_map(table_map([BARE[0], BARE[0]], names=False))
    with pytest.raises(SchemaError, match="COLUMN_COUNT_MISMATCH"):
        apply_completion(numbers, completion.to_json())


def test_declared_column_of_that_name_is_shown() -> None:
    layout = named("id", "DB_ROW_HASH_1", "DB_ROW_HASH_2", columns=(INT, HASH, HASH))
    columns = (ColumnCompletion("id", "int(11)"), ColumnCompletion("DB_ROW_HASH_1", "bigint(20)"))
    completed = apply_completion(layout, LayoutCompletion(columns, hashes=1).to_json())
    assert shown(completed) == ["id", "DB_ROW_HASH_1"]
    assert [column.name for column in completed.hidden] == ["DB_ROW_HASH_2"]
