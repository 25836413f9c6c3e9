"""Rows of wide tables that take few bytes: columns of them come in parts."""

from __future__ import annotations

import itertools
import json

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format.events.layout import EventType
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows.images import ImageKind, Images, read_images
from binlog_format.rows.table_events import TableMaps
from binlog_format.vendor import Vendor
from binlog_format.views import columns as module
from binlog_format.views.changefeed import ChangefeedView
from binlog_format.views.changes import ChangesView
from binlog_format.views.columns import bounded
from tests.format.events.test_gtid import with_header
from tests.format.rows.plain_blocks import plain_block
from tests.fuzz.made_rows import MadeColumn, table_map_of

_WIDE = 4096


def _narrow_rows(column_count: int, row_count: int, *, is_update: bool = False) -> bytes:
    # Only the first column is in the images, and NULL in each: a row image is one byte.
    present = (1).to_bytes((column_count + 7) // 8, "little")
    count = bytes([column_count]) if column_count < 0xFB else b"\xfc" + column_count.to_bytes(2, "little")
    body = b"\7\0\0\0\0\0\1\0" + count + present * (1 + is_update) + b"\1" * row_count * (1 + is_update)
    return with_header(EventType.UPDATE_ROWS_V1 if is_update else EventType.WRITE_ROWS_V1, body)


def _table_map(column_count: int) -> bytes:
    return table_map_of([MadeColumn(ColumnType.LONGLONG, b"", 33, 0)] * column_count, Vendor.MARIADB)


@given(
    st.lists(st.tuples(st.integers(1, 9), st.booleans()), min_size=1, max_size=6),
    st.lists(st.sampled_from([1, 3]), min_size=6, max_size=6),
    st.integers(1, 30),
)
def test_parts_are_the_whole_in_order(events: list[tuple[int, bool]], widths: list[int], cells_max: int) -> None:
    group = []
    for (rows, is_update), width in zip(events, widths, strict=False):
        group += [_table_map(width), _narrow_rows(width, rows, is_update=is_update)]
    block = plain_block([group])
    images = [read_images(block.data, block.events, table.events, table.layout) for table in TableMaps().resolve(block)]
    parts = list(bounded(images, cells_max=cells_max))
    for part in parts:
        changes = sum(int((one.table["kind"] != ImageKind.UPDATE_AFTER).sum()) for one in part)
        assert changes <= 1 or sum(len(one) * len(one.layout.columns) for one in part) <= cells_max

    def rows_of(some: list[Images]) -> list[tuple[int, ...]]:
        table = np.concatenate([one.table for one in some])
        return sorted((int(row["event"]), int(row["row_no"]), int(row["kind"])) for row in table)

    assert list(itertools.chain(*map(rows_of, parts))) == rows_of(images)


@pytest.mark.thorough_where("None")
@pytest.mark.parametrize("table", [None, "shop.items"])
def test_changes_of_a_wide_table_come_in_small_batches(table: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    cells_max = 8 * _WIDE
    monkeypatch.setattr(module.bounded, "__kwdefaults__", {"cells_max": cells_max})
    block = plain_block([[_table_map(_WIDE), _narrow_rows(_WIDE, 100)]])
    batches = list(ChangesView(table=table).batches([block]))
    assert max(batch.num_rows for batch in batches) <= 8
    rows = pa.Table.from_batches(batches).select(["row_no", "after", "absent"]).to_pylist()
    assert [row["row_no"] for row in rows] == list(range(100))
    assert {len(row["absent"]) for row in rows} == {_WIDE - 1}
    assert {(json.loads(row["after"]) if table is None else row["after"])["c0"] for row in rows} == {None}


def test_changefeed_of_a_wide_table_comes_in_small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.bounded, "__kwdefaults__", {"cells_max": 8 * _WIDE})
    block = plain_block([[_table_map(_WIDE), _narrow_rows(_WIDE, 30, is_update=True)]])
    batches = list(ChangefeedView(table="shop.items", include_absent=True).batches([block]))
    assert max(batch.num_rows for batch in batches) <= 8
    kinds = [kind for batch in batches for kind in batch.column("_change_type").to_pylist()]
    assert kinds == ["update_preimage", "update_postimage"] * 30
