"""Row boundaries: made events of all shapes, and what happens when they do not fit their table map."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_format.errors import BinlogError, CorruptError, SchemaError, UnsupportedError
from binlog_format.events.table_map import parse_table_map
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows import images as images_module
from binlog_format.rows.columns import arrow_schema
from binlog_format.rows.images import ABSENT, NULL, ImageKind, Images, read_images
from tests.chance import examples
from tests.format.rows.plain_blocks import plain_block
from tests.format.rows.plain_rows import (
    DELETE,
    UPDATE,
    WRITE,
    PlainColumn,
    bitmap,
    event,
    gtid_event,
    rows_event,
    sized,
    table_map,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

INT = PlainColumn(ColumnType.LONG, unsigned=False)
VARCHAR = PlainColumn(ColumnType.VARCHAR, b"\x64\x00", collation=45)
LONG_VARCHAR = PlainColumn(ColumnType.VARCHAR, b"\x00\x10", collation=45)
BLOB = PlainColumn(ColumnType.BLOB, b"\x03", collation=63)


def encoded(column: PlainColumn, value: Any) -> bytes | None:
    if value is None:
        return None
    if column is INT:
        return int(value).to_bytes(4, "little", signed=True)
    if column is BLOB:
        return sized(value, 3)
    return sized(value.encode(), 1 if column is VARCHAR else 2)


def read(columns: Sequence[PlainColumn], events: Sequence[bytes], **table: Any) -> Images:
    layout = parse_table_map(table_map(columns, **table))
    block = plain_block([[gtid_event(), *events]])
    return read_images(block.data, block.events, np.arange(1, len(events) + 1), layout, place=block.place)


def rows_of(images: Images) -> list[list[Any]]:
    columns = []
    for index in range(len(images.layout.columns)):
        values = images.column(index).to_pylist()
        for row in np.flatnonzero(images.absent_mask(index)):
            values[row] = "absent"
        columns.append(values)
    return [list(row) for row in zip(*columns, strict=True)]


@st.composite
def changes(draw: st.DrawFn) -> tuple[list[PlainColumn], list[tuple[int, list[list[Any]]]]]:
    columns = draw(st.lists(st.sampled_from([INT, VARCHAR, LONG_VARCHAR, BLOB]), min_size=1, max_size=20))
    values = {
        id(INT): st.integers(-(2**31), 2**31 - 1),
        id(VARCHAR): st.text(max_size=8),
        id(LONG_VARCHAR): st.text(max_size=8),
        id(BLOB): st.binary(max_size=8),
    }
    row = st.tuples(*(st.none() | values[id(column)] for column in columns)).map(list)
    kinds = st.sampled_from([WRITE, UPDATE, DELETE])
    events = []
    for kind in draw(st.lists(kinds, min_size=1, max_size=6)):
        rows = draw(st.lists(row, min_size=1, max_size=4))
        events.append((kind, rows + rows[::-1] if kind == UPDATE else rows))
    return columns, events


@given(changes())
@settings(max_examples=examples(200))
def test_every_row_is_found_with_its_values(case: tuple[list[PlainColumn], list[tuple[int, list[list[Any]]]]]) -> None:
    columns, events = case
    written = [
        rows_event(kind, [[encoded(c, v) for c, v in zip(columns, row, strict=True)] for row in rows], len(columns))
        for kind, rows in events
    ]
    images = read(columns, written)
    assert rows_of(images) == [row for _, rows in events for row in rows]
    assert not images.has_absent()
    table = []
    for number, (kind, rows) in enumerate(events, start=1):
        for i in range(len(rows)):
            if kind == UPDATE:
                table.append((number, i // 2, ImageKind.UPDATE_AFTER if i % 2 else ImageKind.UPDATE_BEFORE))
            else:
                table.append((number, i, ImageKind.INSERT if kind == WRITE else ImageKind.DELETE))
    assert [tuple(row) for row in images.table.tolist()] == table


@given(st.data())
@settings(max_examples=examples(200))
def test_columns_that_an_image_lacks_are_absent(data: st.DataObject) -> None:
    columns = [INT, VARCHAR] * data.draw(st.integers(1, 6))
    mask = st.lists(st.booleans(), min_size=len(columns), max_size=len(columns))
    events, wanted = [], []
    for _ in range(data.draw(st.integers(1, 3))):
        before, after = data.draw(mask), data.draw(mask)
        if not any(before):
            before[0] = True
        row = [data.draw(st.none() | st.integers(0, 99)) for _ in columns]
        values = [
            None if v is None else encoded(c, v if c is INT else str(v)) for c, v in zip(columns, row, strict=True)
        ]
        events.append(rows_event(UPDATE, [values, values], len(columns), present=before, after=after))
        for side in (before, after):
            texts = [v if v is None or c is INT else str(v) for c, v in zip(columns, row, strict=True)]
            wanted.append([value if there else "absent" for value, there in zip(texts, side, strict=True)])
    images = read(columns, events)
    assert rows_of(images) == wanted
    assert images.has_absent() == any("absent" in row for row in wanted)
    assert (images.offsets == ABSENT).tolist() == [[row[c] == "absent" for row in wanted] for c in range(len(columns))]


def test_columns_that_no_image_has_share_their_room() -> None:
    present = [True] + [False] * 299
    row = [encoded(INT, 7), *[None] * 299]
    images = read([INT] * 300, [rows_event(DELETE, [row] * 1000, 300, present=present)])
    assert len(images) == 1000
    assert images.cells.shape == (2, 1000)
    assert images.column(299).null_count == 1000
    assert images.column(0).to_pylist() == [7] * 1000


def test_row_without_any_column_is_one_row() -> None:
    """INSERT with a minimal image and nothing but defaults: no bytes at all."""
    images = read([INT, INT], [rows_event(WRITE, [[None, None]], 2, present=[False, False])])
    assert rows_of(images) == [["absent", "absent"]]


def test_unused_bits_of_the_present_columns_do_not_matter() -> None:
    body = (42).to_bytes(6, "little") + b"\x01\x00" + b"\x01"
    for bits in (b"\x01", b"\xff"):
        images = read([INT], [event(WRITE, body + bits + b"\xfe" + encoded(INT, 5))])  # type: ignore[operator]
        assert rows_of(images) == [[5]]


def test_many_small_rows_need_more_room_than_was_guessed() -> None:
    rows: list[list[bytes | None]] = [[None]] * 50_000
    images = read([INT], [rows_event(WRITE, rows[:10], 1), rows_event(WRITE, rows, 1), rows_event(DELETE, rows[:3], 1)])
    assert len(images) == 50_013
    assert (images.column_offsets(0) == NULL).all()
    assert images.table["event"].tolist() == [1] * 10 + [2] * 50_000 + [3] * 3
    assert images.table["row_no"][10:50_010].tolist() == list(range(50_000))


@pytest.mark.parametrize("count", [1, 7, 8, 9, 250, 251, 255, 256, 257, 4096])
def test_tables_of_all_widths(count: int) -> None:
    row = [None if i % 3 == 2 else encoded(INT, i) for i in range(count)]
    images = read([INT] * count, [rows_event(WRITE, [row, row], count)])
    assert rows_of(images) == [[None if i % 3 == 2 else i for i in range(count)]] * 2


def test_select_keeps_order_and_layout() -> None:
    columns = [INT, VARCHAR]
    rows = [[encoded(INT, i), encoded(VARCHAR, f"v{i}")] for i in range(6)]
    images = read(columns, [rows_event(UPDATE, rows, 2)])
    after = images.select(images.table["kind"] == ImageKind.UPDATE_AFTER)
    assert rows_of(after) == [[1, "v1"], [3, "v3"], [5, "v5"]]
    assert after.table["row_no"].tolist() == [0, 1, 2]
    assert rows_of(after.select(np.array([2, 0], dtype=np.int64))) == [[5, "v5"], [1, "v1"]]
    assert len(after.select(np.zeros(3, dtype=np.bool_))) == 0


def test_no_events_give_no_images() -> None:
    images = read([INT, VARCHAR], [])
    assert len(images) == 0
    assert rows_of(images) == []
    assert not images.has_absent()


def _cut(content: bytes, size: int) -> bytes:
    return content[:9] + size.to_bytes(4, "little") + content[13:size]


def test_every_event_that_is_cut_off_is_damage() -> None:
    columns = [INT, VARCHAR, BLOB]
    row = [encoded(INT, 1), encoded(VARCHAR, "text"), encoded(BLOB, b"blob")]
    for whole in (rows_event(WRITE, [row], 3), rows_event(UPDATE, [row, row], 3, present=[True, False, True])):
        for size in range(19, len(whole)):
            with pytest.raises(CorruptError, match=r"BAD_EVENT.*binlog file 1.*shop\.orders"):
                read(columns, [_cut(whole, size)])


def test_value_that_ends_after_the_event_names_column_row_and_place() -> None:
    row = [encoded(INT, 1), encoded(VARCHAR, "text")]
    bad = [encoded(INT, 1), b"\xffshort"]
    for present in ([True, True], None):
        with pytest.raises(CorruptError, match=r"byte 0x\w+: shop\.orders: .* row 2: .* shop\.orders\.c1 ends beyond"):
            read([INT, VARCHAR], [rows_event(WRITE, [row, row, bad], 2, present=present)])


def test_event_of_another_table_is_damage() -> None:
    with pytest.raises(CorruptError, match="3 columns, the table map has 2"):
        read([INT, INT], [rows_event(WRITE, [[encoded(INT, 1)] * 3], 3)])


@pytest.mark.parametrize("present", [[False], [True]])
def test_bytes_after_rows_that_take_none_are_damage(present: list[bool]) -> None:
    null_type = PlainColumn(ColumnType.NULL)
    body = (42).to_bytes(6, "little") + b"\x01\x00" + b"\x01" + bitmap(present)
    if present == [True]:  # one null bitmap byte for each row: the rest are rows
        assert len(read([null_type], [event(WRITE, body + b"\xff" * 9)])) == 9
    else:
        with pytest.raises(CorruptError, match="rows take no bytes, and bytes are left"):
            read([null_type], [event(WRITE, body + b"\xff" * 9)])


def test_row_event_of_another_kind_is_damage() -> None:
    layout = parse_table_map(table_map([INT]))
    block = plain_block([[gtid_event()]])
    with pytest.raises(CorruptError, match="not a row event"):
        read_images(block.data, block.events, np.array([0]), layout)


def test_event_longer_than_the_data_is_damage() -> None:
    layout = parse_table_map(table_map([INT]))
    block = plain_block([[rows_event(WRITE, [[encoded(INT, 1)]], 1)]])
    block.events["size"] += 1
    with pytest.raises(CorruptError, match="longer than what was read"):
        read_images(block.data, block.events, np.array([0]), layout)


def test_too_many_images_at_once_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images_module, "_CELLS_MAX", 10_000)
    rows: list[list[bytes | None]] = [[None] * 8] * 20_000
    with pytest.raises(UnsupportedError, match="ROW_IMAGE"):
        read([INT] * 8, [rows_event(WRITE, rows, 8)])


def test_table_with_a_type_that_is_not_read_still_has_rows() -> None:
    columns = [INT, PlainColumn(ColumnType.TYPED_ARRAY, b"\x03"), VARCHAR]
    row = [encoded(INT, 1), sized(b"array", 4), encoded(VARCHAR, "x")]
    images = read(columns, [rows_event(WRITE, [row, row], 3)])
    assert images.column(0).to_pylist() == [1, 1]
    assert images.column(2).to_pylist() == ["x", "x"]
    with pytest.raises(UnsupportedError, match=r"COLUMN_TYPE.*shop\.orders\.c1.*TYPED_ARRAY"):
        images.column(1)
    with pytest.raises(UnsupportedError, match=r"COLUMN_TYPE.*shop\.orders\.c1.*TYPED_ARRAY"):
        arrow_schema(images.layout)


@pytest.mark.parametrize(
    ("type_", "condition"),
    [
        (ColumnType.TIME, "NO_COLUMN_METADATA"),
        (ColumnType.DATETIME, "NO_COLUMN_METADATA"),
        (ColumnType.TIMESTAMP, "NO_COLUMN_METADATA"),
        (ColumnType.DECIMAL, "COLUMN_TYPE"),
    ],
)
def test_old_type_of_unknown_width_is_refused(type_: ColumnType, condition: str) -> None:
    with pytest.raises(BinlogError, match=rf"{condition}.*shop\.orders\.c1.*{type_.name}"):
        read([INT, PlainColumn(type_)], [rows_event(WRITE, [[encoded(INT, 1), b"\0\0\0"]], 2)])


@pytest.mark.parametrize(
    "column",
    [
        PlainColumn(ColumnType.BLOB, b"\x05", collation=45),
        PlainColumn(ColumnType.BLOB, b"\x00", collation=45),
        PlainColumn(ColumnType.DATETIME2, b"\x07"),
        PlainColumn(ColumnType.NEWDECIMAL, b"\x42\x00"),
        PlainColumn(ColumnType.NEWDECIMAL, b"\x05\x06"),
        PlainColumn(ColumnType.ENUM, b"\xf7\x03"),
        PlainColumn(ColumnType.SET, b"\xf8\x09"),
        PlainColumn(ColumnType.BIT, b"\x01\x08"),
        PlainColumn(ColumnType.BIT, b"\x00\x00"),
    ],
)
def test_type_metadata_that_no_server_writes_are_damage(column: PlainColumn) -> None:
    with pytest.raises(CorruptError, match=r"BAD_EVENT.*table map event: shop\.orders\.c0"):
        read([column], [rows_event(WRITE, [[b"\x00"]], 1)])


def test_schema_has_names_and_types() -> None:
    images = read([INT, VARCHAR, BLOB], [])
    assert str(arrow_schema(images.layout)) == "c0: int32\nc1: string\nc2: binary"
    nameless = read([INT], [], names=False)
    with pytest.raises(SchemaError, match=r"NO_COLUMN_METADATA.*shop\.orders.*binlog_row_metadata=FULL"):
        arrow_schema(nameless.layout)


@given(st.data())
@settings(max_examples=examples(400))
def test_any_damage_gives_rows_or_a_named_error(data: st.DataObject) -> None:
    columns = [
        INT,
        VARCHAR,
        BLOB,
        PlainColumn(ColumnType.DATETIME2, b"\x03"),
        PlainColumn(ColumnType.NEWDECIMAL, b"\x0c\x02"),
    ]
    row = [
        encoded(INT, 1),
        encoded(VARCHAR, "text"),
        encoded(BLOB, b"blob"),
        b"\x99\xb0\x00\x00\x00\x00\x00",
        b"\x80" + bytes(5),
    ]
    kind = data.draw(st.sampled_from([WRITE, UPDATE, DELETE]))
    content = bytearray(rows_event(kind, [row] * 4, len(columns)))
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(27, len(content) - 1))
        content[place] = data.draw(st.integers(0, 255))
    size = data.draw(st.integers(27, len(content)))
    try:
        images = read(columns, [_cut(bytes(content), size)])
        for index in range(len(columns)):
            images.column(index).validate(full=True)
    except CorruptError as error:
        assert error.subclass == "BAD_EVENT"  # noqa: PT017
        assert "shop.orders" in error.reason  # noqa: PT017
