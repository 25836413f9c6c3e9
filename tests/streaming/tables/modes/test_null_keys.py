"""Rows without a key: the error tells NULL from zero dates. Columns that are no key."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from binlog_format.errors import SchemaError
from binlog_format.events.table_map import parse_table_map
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows.decoding import DEFAULT_DECODING
from binlog_format.rows.images import read_images
from binlog_streaming.modes.layout_cast import cast_layouts
from binlog_streaming.modes.row_batches import RowBatch, StepImages
from binlog_streaming.modes.row_keys import key_columns, null_key
from tests.format.rows.plain_blocks import plain_block
from tests.format.rows.plain_rows import WRITE, PlainColumn, date_bytes, gtid_event, rows_event, table_map
from tests.streaming.tables.modes.row_images import step_of

if TYPE_CHECKING:
    from collections.abc import Sequence

pytestmark = pytest.mark.usefixtures("shown_values")

DATE = PlainColumn(ColumnType.DATE)
FIELD = pa.field("c0", pa.date32())


def batch(dates: Sequence[bytes | None], *more: PlainColumn) -> RowBatch:
    layout = parse_table_map(table_map([DATE, *more]))
    count = len(layout.columns)
    rows = [[date, *(None for _ in more)] for date in dates]
    block = plain_block([[gtid_event(), rows_event(WRITE, rows, count)]])
    images = read_images(block.data, block.events, np.array([1]), layout)
    return RowBatch(images, block.events, block.groups, layout)


def reason(*batches: RowBatch) -> str:
    return str(null_key(StepImages("shop.orders", batches), 0, FIELD, 2))


def test_zero_date_is_named_as_the_server_writes_it() -> None:
    good, zero, partial = date_bytes(2024, 1, 1), date_bytes(0, 0, 0), date_bytes(2024, 0, 0)
    said = reason(batch([good, None]), batch([good, partial, zero]))
    assert "NULL_KEY] shop.orders: key column c0 has zero dates" in said
    assert "in 2 row images (the first is 2024-00-00); they become null" in said


def test_zero_date_is_found_under_common_columns() -> None:
    more = PlainColumn(ColumnType.LONG, unsigned=False)
    batches = (batch([date_bytes(2024, 1, 1)]), batch([date_bytes(0, 0, 0)], more))
    schema, cast = cast_layouts("shop.orders", batches, DEFAULT_DECODING)
    assert schema.names == ["c0", "c1"]
    assert "the first is 0000-00-00" in reason(*cast)


def test_date_that_is_null_is_not_called_a_zero_date() -> None:
    assert "is null in 2 row images, or has zero dates there" in reason(batch([None]))


@pytest.mark.parametrize("kind", [pa.date32(), pa.int32()])
def test_rows_without_their_bytes(kind: pa.DataType) -> None:
    schema = pa.schema([("id", kind)])
    error = null_key(step_of([(None, (None,))], schema), 0, schema.field(0), 1)
    assert "shop.orders: key column id is null in 1 row images" in str(error)
    assert ("zero dates" in str(error)) is pa.types.is_date(kind)


@pytest.mark.parametrize(("keys", "primary"), [((), (1,)), (("c0", "c1"), (0,))])
def test_geometry_is_no_key(keys: Sequence[str], primary: tuple[int, ...]) -> None:
    columns = [DATE, PlainColumn(ColumnType.GEOMETRY, b"\x04")]
    layout = parse_table_map(table_map(columns, key=primary))
    with pytest.raises(SchemaError, match=r"NO_PRIMARY_KEY\] shop\.orders: key column c1 is a geometry"):
        key_columns(layout, keys)
