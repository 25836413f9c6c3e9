"""A REPLACE that MariaDB logs as an update, with columns that got their defaults and are not in the image."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.history import SchemaHistory
from binlog_connector.schema.log_ddl import DdlStatement
from binlog_connector.schema.replaced_rows import row_statements
from binlog_format.block import EVENT_DTYPE, EXTENT_DTYPE, GROUP_DTYPE, Block
from binlog_format.events.layout import EventType
from binlog_format.events.table_map_layout import TABLE_ID_SIZE
from binlog_format.kernels import as_bytes
from binlog_format.position import Position
from binlog_format.vendor import Vendor
from binlog_lab.event_encoding.event_encoding import Origin, encode_annotate_rows, encode_event
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableEncoder, TableSpec

if TYPE_CHECKING:
    from binlog_format.events.table_map import TableLayout

TABLE_ID = 18
FROM = Origin(17, 3)
UPDATE = EventType.UPDATE_ROWS_V1
INSERT = EventType.WRITE_ROWS_V1
KEY_ALONE, KEY_AND_A, ALL = 0b001, 0b011, 0b111


def table_map(database: str = "shop", table: str = "item", columns: str = "id") -> bytes:
    made = tuple(ColumnSpec(name, "int") for name in columns.split())
    return TableEncoder(TableSpec(database, table, made), TABLE_ID).table_map(FROM)


def row_event(kind: EventType, count: int, *bitmaps: int) -> bytes:
    width = (count + 7) // 8
    number = bytes([count]) if count < 0xFB else b"\xfc" + count.to_bytes(2, "little")
    head = TABLE_ID.to_bytes(TABLE_ID_SIZE, "little") + b"\x01\x00" + number
    return encode_event(kind, head + b"".join(bits.to_bytes(width, "little") for bits in bitmaps) + b"rows", FROM)


def group_of(*events: bytes, begins: bool = True, ends: bool = True, vendor: Vendor = Vendor.MARIADB) -> Block:
    groups, table, extents = np.zeros(1, GROUP_DTYPE), np.zeros(len(events), EVENT_DTYPE), np.zeros(1, EXTENT_DTYPE)
    sizes = np.array([len(event) for event in events], dtype=np.int64)
    groups["file_no"], groups["event_count"], groups["begins"], groups["ends"] = 1, len(events), begins, ends
    table["start"], table["size"] = np.cumsum(sizes) - sizes, sizes
    table["type"], table["event_no"] = [event[4] for event in events], np.arange(len(events))
    extents["size"] = sizes.sum()
    return Block(as_bytes(b"".join(events)), groups, table, extents, Position(1, 0, int(sizes.sum())), vendor=vendor)


def found(block: Block) -> list[tuple[int, str, tuple[TableName, ...] | None]]:
    return [(row, one.text, one.rows.names if one.rows else None) for row, _, one in row_statements(block)]


def updated(text: str | None, after: int = KEY_AND_A, before: int = KEY_ALONE) -> Block:
    texts = [] if text is None else [encode_annotate_rows(text, FROM)]
    return group_of(*texts, table_map(), row_event(UPDATE, 3, before, after))


@pytest.mark.parametrize(
    "text",
    [
        "REPLACE INTO item (id, a) VALUES (1, 2)",
        "-- 7\n /* from INSERT INTO item */ replace item (id, a) VALUES (1, 2)",
        "/*M!100100 REPLACE */ INTO item (id, a) VALUES (1, 2)",
        "LOAD DATA INFILE 'x' REPLACE INTO TABLE item (id, a)",
        "SET STATEMENT binlog_row_image = MINIMAL FOR REPLACE INTO item (id, a) VALUES (1, 2)",
        # Of a table with a trigger:
        "INSERT INTO other (id) VALUES (1)",
        "INSERT INTO other (item) VALUES ('item')",
        "UPDATE other, item SET other.id = 1",
        "UPDATE elsewhere.item SET id = 1, a = 3",
        "",
    ],
)
def test_what_is_or_may_be_a_replace_is_found(text: str) -> None:
    assert found(updated(text)) == [(2, text, (TableName("shop", "item"),))]


def test_without_a_text_nothing_tells_a_replace() -> None:
    assert found(updated(None)) == [(1, "", (TableName("shop", "item"),))]


@pytest.mark.parametrize(
    "text",
    [
        "INSERT INTO item (id, a) VALUES (1, 2) ON DUPLICATE KEY UPDATE a = 3",
        "/* from REPLACE */ insert into `shop`.`ITEM` (id, a) VALUES (1, 2) ON DUPLICATE KEY UPDATE a = 3",
        "UPDATE item SET id = 1, a = 3",
        "UPDATE LOW_PRIORITY IGNORE shop . item AS i SET i.id = 1, i.a = 3",
        "INSERT /* now */ INTO item VALUES (1, 2, 3) ON DUPLICATE KEY UPDATE a = 3",
        "UPDATE other JOIN item USING (id) SET item.id = 1, a = 3",
        'UPDATE other JOIN "item" AS i USING (id) SET i.id = 1, a = 3',
    ],
)
def test_statements_that_keep_the_other_columns_are_no_replace(text: str) -> None:
    assert found(updated(text)) == []


@pytest.mark.parametrize(("written", "expected"), [("item", [(3, "shop")]), ("shop.item", [])])
def test_a_namesake_in_another_database_may_be_what_the_statement_named(
    written: str, expected: list[tuple[int, str]]
) -> None:
    text = encode_annotate_rows(f"UPDATE {written} SET id = 1, a = 3", FROM)
    block = group_of(text, table_map("elsewhere"), table_map(), row_event(UPDATE, 3, KEY_ALONE, KEY_AND_A))
    assert [(row, names[0].database) for row, _, names in found(block) if names] == expected


@pytest.mark.parametrize("written", ['`o``d"d`', '"o`d""d"'])
def test_a_name_with_quotes_is_found_as_it_is_written(written: str) -> None:
    text = encode_annotate_rows(f"UPDATE {written} SET id = 1, a = 3", FROM)
    odd = group_of(text, table_map(table='o`d"d'), row_event(UPDATE, 3, KEY_ALONE, KEY_AND_A))
    assert found(odd) == []


def test_whole_images_and_other_updates_cost_no_look_at_the_text() -> None:
    assert found(updated("REPLACE INTO item (id, a, b) VALUES (1, 2, 3)", ALL)) == []
    assert found(updated(None, after=0b010)) == []
    assert found(group_of(table_map(), row_event(UPDATE, 3, KEY_ALONE, KEY_AND_A), vendor=Vendor.MYSQL)) == []


def test_of_a_group_in_pieces_the_first_is_asked_about_its_inserts() -> None:
    replacing = encode_annotate_rows("REPLACE INTO item (id, a) SELECT 1, 2", FROM)
    inserting = encode_annotate_rows("INSERT INTO item (id, a) SELECT 1, 2", FROM)
    insert, update = row_event(INSERT, 3, KEY_AND_A), row_event(UPDATE, 3, KEY_ALONE, KEY_AND_A)
    assert found(group_of(replacing, table_map(), insert)) == []
    assert [row for row, _, _ in found(group_of(replacing, table_map(), insert, ends=False))] == [2]
    assert found(group_of(inserting, table_map(), insert, ends=False)) == []
    assert found(group_of(table_map(), update, begins=False)) == []


@pytest.mark.parametrize(("last", "expected"), [("INT AS (a + 1) VIRTUAL", []), ("INT DEFAULT 5", [2])])
def test_generated_columns_are_none_that_a_replace_could_have_named(last: str, expected: list[int]) -> None:
    text = f"CREATE TABLE item (id INT PRIMARY KEY, a INT, g {last})"
    definitions = SchemaHistory()
    definitions.note(DdlStatement(Position(0, 0, 1), 0, text, "shop"))
    replacing = encode_annotate_rows("REPLACE INTO item (id, a) VALUES (1, 2)", FROM)
    block = group_of(replacing, table_map(columns="id a g"), row_event(UPDATE, 3, KEY_ALONE, KEY_AND_A))
    assert [row for row, _, _ in row_statements(block, schemas=definitions)] == expected


class OnlyAsked(SchemaHistory):
    """Tells of a table whose table map leaves nothing open only what is asked for."""

    def completed(self, layout: TableLayout, position: Position, *, needs_generated: bool = False) -> TableLayout:
        return super().completed(layout, position) if needs_generated else layout


def test_generated_columns_are_asked_for_where_the_table_map_leaves_nothing_open() -> None:
    definitions = OnlyAsked()
    text = "CREATE TABLE item (id INT PRIMARY KEY, a INT, g INT AS (a + 1) STORED)"
    definitions.note(DdlStatement(Position(0, 0, 1), 0, text, "shop"))
    replacing = encode_annotate_rows("REPLACE INTO item (id, a) VALUES (1, 2)", FROM)
    block = group_of(replacing, table_map(columns="id a g"), row_event(UPDATE, 3, KEY_ALONE, KEY_AND_A))
    assert list(row_statements(block, schemas=definitions)) == []


def test_each_statement_and_table_is_given_once() -> None:
    replacing = encode_annotate_rows("REPLACE INTO item (id, a) VALUES (1, 2), (2, 3)", FROM)
    update = row_event(UPDATE, 3, KEY_ALONE, KEY_AND_A)
    assert [row for row, _, _ in found(group_of(replacing, table_map(), update, update, update))] == [2]
    twice = group_of(replacing, table_map(), update, replacing, table_map(table="other"), update)
    assert [(row, names) for row, _, names in found(twice)] == [
        (2, (TableName("shop", "item"),)),
        (5, (TableName("shop", "other"),)),
    ]


def test_damaged_heads_are_left_to_who_reads_the_rows() -> None:
    short = encode_event(UPDATE, bytes(TABLE_ID_SIZE + 2) + b"\xfc", FROM)
    beyond = encode_event(UPDATE, bytes(TABLE_ID_SIZE + 2) + b"\x40\x01", FROM)
    assert found(group_of(short, beyond)) == []


@given(st.data())
def test_updates_are_told_by_their_bitmaps_whatever_their_width(data: st.DataObject) -> None:
    counts = data.draw(
        st.lists(st.integers(1, 600) | st.integers(1, 20) | st.integers(248, 260), min_size=1, max_size=9)
    )
    version = data.draw(st.sampled_from([None, 100219, 100500, 110809]))
    events, expected = [encode_annotate_rows("REPLACE INTO item SELECT 1", FROM), table_map()], []
    for count in counts:
        whole = (1 << count) - 1
        before, after = (data.draw(st.integers(0, whole) | st.just(whole)) for _ in range(2))
        after = data.draw(st.sampled_from([after, after | before]))
        if after != whole:
            expected.append(len(events))
        # A text of its own for each, so that each is given.
        events += [row_event(UPDATE, count, before, after), encode_annotate_rows("REPLACE INTO item SELECT 1", FROM)]
    assert [row for row, _, _ in found(replace(group_of(*events), server_version=version))] == expected


@pytest.mark.parametrize("version", [100108, 100219, 100500, 110809])
@pytest.mark.parametrize("text", ["UPDATE item SET a = 2", "DELETE FROM other", "", None])
def test_updates_with_images_of_an_update_are_a_replace_where_the_text_says_so(text: str | None, version: int) -> None:
    assert found(replace(updated(text, after=0b010), server_version=version)) == []
    replacing = updated("REPLACE INTO item (a) VALUES (2)", after=0b010)
    assert len(found(replace(replacing, server_version=version))) == 1


@pytest.mark.parametrize(
    ("version", "before", "may_replace"),
    [
        (100108, KEY_ALONE, False),
        (100108, ALL, False),
        (100219, KEY_ALONE, False),
        (100219, ALL, True),
        (100500, KEY_ALONE, True),
        (100500, ALL, False),
        (None, KEY_ALONE, True),
        (None, ALL, True),
    ],
)
def test_a_server_tells_by_the_old_image_what_may_be_a_replace(
    version: int | None, before: int, may_replace: bool
) -> None:
    assert bool(found(replace(updated(None, KEY_AND_A, before), server_version=version))) is may_replace
