"""Row events of all versions, and partial updates of JSON columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_format.errors import BinlogError, CorruptError, UnsupportedError
from binlog_format.events.table_map import parse_table_map
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows.images import ImageKind, Images, read_images
from tests.chance import examples
from tests.format.rows.plain_blocks import plain_block
from tests.format.rows.plain_json import INSERT, REMOVE, REPLACE, change, document
from tests.format.rows.plain_rows import (
    DELETE,
    UPDATE,
    WRITE,
    PlainColumn,
    bitmap,
    event,
    gtid_event,
    image,
    rows_event,
    sized,
    table_map,
    varint,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

Row = tuple["Sequence[bytes | None]", "Sequence[bool] | None", "Sequence[bytes | None]"]
"""An update: the image before, which JSON columns are partial, the image after."""

INT = PlainColumn(ColumnType.LONG, unsigned=False)
JSON = PlainColumn(ColumnType.JSON, b"\x04")
PARTIAL_UPDATE = 39
EXTRA = b"\x0a\x00\x00\x08ndb-info"[:10]


def number(value: int) -> bytes:
    return value.to_bytes(4, "little")


def read(columns: Sequence[PlainColumn], *events: bytes) -> Images:
    layout = parse_table_map(table_map(columns))
    block = plain_block([[gtid_event(), *events]])
    return read_images(block.data, block.events, np.arange(1, len(events) + 1), layout, place=block.place)


def v2(content: bytes, *, extra: bytes = b"\x02\x00") -> bytes:
    """A row event v1 as v2: other type, more data in its head."""
    return event(content[4] + 7, content[19:27] + extra + content[27:])


def v0(content: bytes, column_count: int) -> bytes:
    """A row event v1 as v0: other type, one bitmap in updates."""
    body = content[19:]
    if content[4] == UPDATE:
        start, size = 8 + len(varint(column_count)), (column_count + 7) // 8
        body = body[: start + size] + body[start + 2 * size :]
    return event(content[4] - 3, body)


@pytest.mark.parametrize("present", [None, [True, False]])
def test_all_versions_say_the_same(present: list[bool] | None) -> None:
    rows: list[list[bytes | None]] = [[number(1), number(2)], [number(3), None]]
    first = [rows_event(kind, rows, 2, present=present, after=present) for kind in (WRITE, UPDATE, DELETE)]
    wanted = read([INT, INT], *first)
    others = [
        [v0(content, 2) for content in first],
        [v2(content) for content in first],
        [v2(content, extra=EXTRA) for content in first],
        [v0(first[0], 2), first[1], v2(first[2], extra=EXTRA)],
    ]
    for events in others:
        images = read([INT, INT], *events)
        assert images.table.tolist() == wanted.table.tolist()
        for column in range(2):
            assert images.column(column).equals(wanted.column(column))
            assert images.absent_mask(column).tolist() == wanted.absent_mask(column).tolist()


@pytest.mark.parametrize("extra", [b"\x00\x00", b"\x01\x00", b"\xff\xff", b"\x40\x00", b"", b"\x02"])
def test_more_data_that_do_not_fit_are_damage(extra: bytes) -> None:
    content = rows_event(WRITE, [[number(1)]], 1)
    spoiled = v2(content, extra=extra) if len(extra) == 2 else event(30, content[19:27] + extra)
    with pytest.raises(CorruptError, match=r"BAD_EVENT.*shop\.orders: event of"):
        read([INT], spoiled)


def partial_update(
    rows: Sequence[Row],
    column_count: int,
    *,
    before: Sequence[bool] | None = None,
    after: Sequence[bool] | None = None,
    options: int = 1,
) -> bytes:
    """A PARTIAL_UPDATE_ROWS event."""
    before = [True] * column_count if before is None else before
    after = [True] * column_count if after is None else after
    body = number(42) + b"\0\0" + b"\1\0" + b"\2\0" + varint(column_count) + bitmap(before) + bitmap(after)
    for old, partial, new in rows:
        body += image(old, before)
        body += b"\0" if partial is None else varint(options) + bitmap(partial)
        body += image(new, after)
    return event(PARTIAL_UPDATE, body)


def doc(value: Any) -> bytes:
    return sized(document(value), 4)


def changes(*parts: bytes) -> bytes:
    return sized(b"".join(parts), 4)


def test_changes_are_applied_to_the_value_before() -> None:
    rows: list[Row] = [
        (
            [number(1), doc({"a": 1}), doc([1])],
            [True, False],
            [number(1), changes(change(REPLACE, "$.a", 2), change(INSERT, "$.b", "x")), doc([2])],
        ),
        ([number(2), doc({"a": 1}), doc([1])], None, [number(2), doc({"a": 3}), None]),
        (
            [number(3), doc({"a": 1}), doc([1, 2])],
            [True, True],
            [number(3), changes(), changes(change(REMOVE, "$[0]"))],
        ),
        ([number(4), None, doc([1])], [False, True], [number(4), doc("é"), changes()]),
        ([number(5), None, None], [True, True], [number(5), None, None]),
    ]
    images = read([INT, JSON, JSON], partial_update(rows, 3), rows_event(WRITE, [[number(6), doc(1), doc(2)]], 3))
    assert images.table["row_no"].tolist() == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 0]
    assert images.column(0).to_pylist() == [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6]
    assert images.column(1).to_pylist() == [
        '{"a": 1}',
        '{"a": 2, "b": "x"}',
        '{"a": 1}',
        '{"a": 3}',
        '{"a": 1}',
        '{"a": 1}',
        None,
        '"é"',
        None,
        None,
        "1",
    ]
    assert images.column(2).to_pylist() == ["[1]", "[2]", "[1]", None, "[1, 2]", "[2]", "[1]", "[1]", None, None, "2"]
    afters = images.select(images.table["kind"] == ImageKind.UPDATE_AFTER)
    assert afters.column(2).to_pylist() == ["[2]", None, "[2]", "[1]", None]


def test_values_whose_beginning_is_not_in_the_log_are_absent() -> None:
    rows = [
        ([number(1), None, None], [True, True], [None, changes(change(REPLACE, "$.a", 2)), changes()]),
        ([number(2), None, None], [True, False], [None, changes(), doc([7])]),
    ]
    content = partial_update(rows, 3, before=[True, False, False], after=[False, True, True])
    images = read([INT, JSON, JSON], content)
    assert images.absent_mask(1).tolist() == [True, True, True, True]
    assert images.absent_mask(2).tolist() == [True, True, True, False]
    assert images.column(2).to_pylist() == [None, None, None, "[7]"]
    # The first has no changes in its third column: there the value is the one before.
    with pytest.raises(UnsupportedError, match=r"ROW_IMAGE\] .*: updates are logged as changes to a JSON value"):
        images.check_changes()
    images.select(np.array([0, 2, 3])).check_changes()


def test_bits_count_columns_that_the_image_does_not_have() -> None:
    rows = [([number(1), doc(1), doc([5])], [False, True], [None, None, changes(change(INSERT, "$[0]", 4))])]
    images = read([INT, JSON, JSON], partial_update(rows, 3, after=[False, False, True]))
    assert images.column(2).to_pylist() == ["[5]", "[4, 5]"]
    assert images.absent_mask(1).tolist() == [False, True]


@pytest.mark.parametrize(
    ("rows", "options", "what"),
    [
        (
            [([doc(1)], [True], [changes(change(REPLACE, "$.a", 1))])],
            1,
            r"row 0: the value of shop\.orders\.c0: there is",
        ),
        ([([None], [True], [changes()])], 1, "changes to a value that was NULL"),
        (
            [([doc(1)], None, [doc(1)]), ([doc([1])], [True], [sized(b"\7", 4)])],
            1,
            "row 1: .* no change has the number 7",
        ),
        ([([doc([1])], [True], [sized(b"\0\xfd", 4)])], 1, "a change has no end"),
        ([([doc(1)], [True], [changes()])], 2, "options for its values"),
        ([([doc(1)], [True], [changes()])], 0xFB, "options for its values"),
    ],
)
def test_changes_that_do_not_fit_are_damage(rows: Any, options: int, what: str) -> None:
    with pytest.raises(CorruptError, match=rf"BAD_EVENT.*byte 0x\w+: shop\.orders: event of .*{what}"):
        read([JSON], partial_update(rows, 1, options=options))


def test_every_part_of_a_partial_update_is_damage() -> None:
    rows = [([number(1), doc({"a": 1})], [True], [number(1), changes(change(REPLACE, "$.a", 2))])]
    whole = partial_update(rows, 2)
    assert len(read([INT, JSON], whole)) == 2
    for size in range(27, len(whole)):
        with pytest.raises(CorruptError, match="BAD_EVENT"):
            read([INT, JSON], event(PARTIAL_UPDATE, whole[19:size]))


@given(st.data())
@settings(max_examples=examples(300))
def test_any_damage_gives_images_or_a_named_error(data: st.DataObject) -> None:
    rows: list[Any] = [
        ([number(1), doc({"a": [1, "x"]})], [True], [number(1), changes(change(REPLACE, "$.a[0]", {"b": 2.5}))]),
        ([number(1), doc([1])], None, [None, doc([2])]),
    ]
    content = bytearray(partial_update(rows, 2)[19:])
    for _ in range(data.draw(st.integers(1, 4))):
        content[data.draw(st.integers(8, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        images = read([INT, JSON], event(PARTIAL_UPDATE, bytes(content)))
        images.column(1)
    except BinlogError as error:
        assert error.subclass == "BAD_EVENT"  # noqa: PT017
