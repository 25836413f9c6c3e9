"""What a reader chooses (`Decoding`) reaches the values and the schemas of every view."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from binlog_format.errors import UnsupportedError
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows.decoding import Decoding, TimeType, ZeroDates
from binlog_format.rows.json.json_rows import json_lines
from binlog_format.views.changefeed import ChangefeedView, changefeed_schema
from binlog_format.views.changes import ChangesView
from tests.format.rows.plain_blocks import plain_block
from tests.format.rows.plain_rows import WRITE, PlainColumn, gtid_event, rows_event, sized, table_map, time_bytes

if TYPE_CHECKING:
    from binlog_format.block import Block

pytestmark = pytest.mark.usefixtures("shown_values")

TABLE = "shop.orders"
COLUMNS = [
    PlainColumn(ColumnType.TIME2, b"\x03"),
    PlainColumn(ColumnType.DATE),
    PlainColumn(ColumnType.VARCHAR, b"\x10\x00", collation=45),
    PlainColumn(ColumnType.GEOMETRY, b"\x04", collation=63),
]
ROW = [time_bytes(-1, 1, 2, 3, 500_000, 3), b"\x21\xd0\x0f", sized(b"ok", 1), sized(b"\xe6\x10\x00\x00\x01", 4)]
CHOSEN = Decoding(time_type=TimeType.MICROS, replace_invalid_text=True)


def block(*changed: tuple[int, bytes]) -> Block:
    row = list(ROW)
    for index, value in changed:
        row[index] = value
    return plain_block([[gtid_event(), table_map(COLUMNS), rows_event(WRITE, [row], len(row))]])


def image(view: ChangesView | ChangefeedView, of: Block) -> dict[str, Any]:
    (batch,) = view.batches([of])
    batch.validate(full=True)
    assert batch.schema == view.schema(view._typed.layout)
    (row,) = [json.loads(line) for line in bytes(json_lines(batch, view.json_styles())).splitlines()]
    values: dict[str, Any] = row.get("after", row)
    return values


@pytest.mark.parametrize("make", [ChangesView, ChangefeedView])
@pytest.mark.parametrize("table", [None, TABLE])
def test_values_are_as_chosen(make: Any, table: str | None) -> None:
    if make is ChangefeedView and table is None:
        return
    damaged = block((2, sized(b"a\xff", 1)))
    plain = image(make(table=table), block())
    assert plain["c0"] == "-01:02:03.500"
    assert plain["c1"] == "2024-01-01"
    assert plain["c3"] == {"srid": 4326, "wkb": "AQ=="}
    chosen = image(make(table=table, decoding=CHOSEN), damaged)
    assert (chosen["c0"], chosen["c2"]) == (-3_723_500_000, "a\ufffd")
    with pytest.raises(UnsupportedError, match=r"shop\.orders\.c2: value 0: 2 bytes 61ff are not utf8mb4"):
        image(make(table=table), damaged)
    zero = block((1, b"\0\0\0"))
    assert image(make(table=table), zero)["c1"] is None
    with pytest.raises(UnsupportedError, match=r"ZERO_DATE\] shop\.orders\.c1"):
        image(make(table=table, decoding=Decoding(zero_dates=ZeroDates.ERROR)), zero)


def test_schema_is_as_chosen() -> None:
    view = ChangefeedView(table=TABLE)
    list(view.batches([block()]))
    assert view.layout is not None
    assert changefeed_schema(view.layout).field("c0").type == pa.string()
    assert changefeed_schema(view.layout, CHOSEN).field("c0").type == pa.int64()
