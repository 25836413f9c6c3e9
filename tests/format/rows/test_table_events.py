"""Which layout each row event has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_format.errors import BinlogError, CorruptError, UnsupportedError
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows import table_events
from binlog_format.rows.columns import arrow_schema
from binlog_format.rows.images import read_images
from binlog_format.rows.table_events import TableEvents, TableMaps
from binlog_format.vendor import Vendor
from tests.chance import examples
from tests.corpus import SERVER_CASES, corpus
from tests.format.rows.plain_blocks import plain_block, plain_groups
from tests.format.rows.plain_rows import DELETE, UPDATE, WRITE, PlainColumn, event, gtid_event, rows_event, table_map

INT = PlainColumn(ColumnType.LONG, unsigned=False)
TEXT = PlainColumn(ColumnType.VARCHAR, b"\x40\x00", collation=45)
DUMMY_ID = 0x00FFFFFF


def insert(table_id: int, count: int = 1) -> bytes:
    return rows_event(WRITE, [[b"\0\0\0\0"] * count], count, table_id=table_id)


def tables(resolved: list[TableEvents]) -> dict[str, list[int]]:
    return {touched.layout.table: touched.events.tolist() for touched in resolved}


def test_row_events_are_sorted_by_table() -> None:
    first, second = table_map([INT], table_id=1, table="a"), table_map([INT], table_id=2, table="b")
    groups = [
        [gtid_event(), first, second, insert(2), insert(1), insert(2)],
        [gtid_event(), second, insert(2)],
    ]
    resolved = TableMaps().resolve(plain_block(groups))
    assert tables(resolved) == {"a": [4], "b": [3, 5, 8]}
    assert all(touched.events.dtype == np.int64 for touched in resolved)


def test_table_number_means_what_the_last_table_map_said() -> None:
    old, new = table_map([INT], table_id=7, table="t"), table_map([INT, INT], table_id=7, table="t")
    group = [gtid_event(), old, insert(7), new, insert(7, 2), old, insert(7)]
    resolved = TableMaps().resolve(plain_block([group]))
    assert [(len(t.layout.columns), t.events.tolist()) for t in resolved] == [(1, [2, 6]), (2, [4])]


@pytest.mark.parametrize("readers", [1, 4])
def test_equal_tables_are_one_layout_whatever_their_number_block_and_reader(readers: int) -> None:
    maps = [TableMaps() for _ in range(readers)]
    layouts = set()
    for number, table_id in enumerate((5, 6, 5 + 1024, 2**47)):
        group = [gtid_event(), table_map([INT, TEXT], table_id=table_id), insert(table_id, 2)]
        (touched,) = maps[number % readers].resolve(plain_block([group]))
        layouts.add(id(touched.layout))
    assert len(layouts) == 1


def test_tables_of_a_group_last_over_its_pieces() -> None:
    maps = TableMaps()
    first = plain_block([[gtid_event(), table_map([INT], table_id=3), insert(3)]], ends=False)
    middle = plain_block([[insert(3), insert(3)]], begins=False, ends=False, event_no=3)
    last = plain_block([[insert(3)], [gtid_event(), table_map([INT], table_id=3), insert(3)]], begins=False, event_no=5)
    assert [tables(maps.resolve(block)) for block in (first, middle, last)] == [
        {"orders": [2]},
        {"orders": [0, 1]},
        {"orders": [0, 3]},
    ]


def test_tables_of_another_group_do_not_count() -> None:
    groups = [[gtid_event(), table_map([INT], table_id=3), insert(3)], [gtid_event(2), insert(3)]]
    with pytest.raises(CorruptError, match=r"BAD_EVENT.*binlog file 1: byte 0x\w+: WRITE_ROWS_V1 event: no table map"):
        TableMaps().resolve(plain_block(groups))
    maps = TableMaps()
    maps.resolve(plain_block(groups[:1]))
    with pytest.raises(CorruptError, match="no table map"):
        maps.resolve(plain_block(groups[1:]))


def test_piece_without_its_beginning_has_no_tables() -> None:
    for table_id in (0, 3):
        with pytest.raises(CorruptError, match="no table map"):
            TableMaps().resolve(plain_block([[insert(table_id)]], begins=False))


def test_event_that_only_ends_a_statement_is_no_row_event() -> None:
    dummy = event(WRITE, DUMMY_ID.to_bytes(6, "little") + b"\x01\x00" + b"\x01\xff")
    group = [gtid_event(), table_map([INT], table_id=3), insert(3), dummy]
    assert tables(TableMaps().resolve(plain_block([group]))) == {"orders": [2]}


@pytest.mark.parametrize("kind", [20, 21, 22, 23, 24, 25, 30, 31, 32, 39])
def test_row_events_of_all_versions_have_a_table(kind: int) -> None:
    body = insert(3)[19:]
    group = [gtid_event(), table_map([INT], table_id=3), event(kind, body)]
    assert tables(TableMaps().resolve(plain_block([group]))) == {"orders": [2]}


@pytest.mark.parametrize("kind", [40, 166, 167, 168, 169, 170, 171])
def test_compressed_rows_are_not_passed_over(kind: int) -> None:
    with pytest.raises(UnsupportedError, match=rf"EVENT_TYPE.*binlog file 1: byte 0x\w+: event type {kind}"):
        TableMaps().resolve(plain_block([[gtid_event(), event(kind, bytes(20))]]))


def test_the_same_bytes_of_another_server_are_another_layout() -> None:
    geometry = PlainColumn(ColumnType.GEOMETRY, b"\x04")
    content = table_map([TEXT, geometry], table_id=3)
    block = plain_block([[gtid_event(), content, insert(3, 2)]])
    maps = TableMaps()
    (of_mariadb,) = maps.resolve(block)
    assert "1 collations for 2 columns" in str(of_mariadb.layout.problem)
    (of_mysql,) = maps.resolve(replace(block, vendor=Vendor.MYSQL))
    assert of_mysql.layout.columns[0].charset == "utf8mb4"


def test_table_of_an_unknown_type_stops_only_those_who_want_it() -> None:
    unknown = bytearray(table_map([INT], table_id=4, table="unknown"))
    unknown[unknown.index(b"unknown\0") + 9] = 200
    group = [gtid_event(), bytes(unknown), table_map([INT], table_id=5, table="known"), insert(5), insert(4)]
    block = plain_block([group])
    first, second = TableMaps().resolve(block)
    assert (first.layout.table, first.events.tolist()) == ("unknown", [4])
    assert second.layout.problem is None
    assert len(read_images(block.data, block.events, second.events, second.layout)) == 1
    for use in (
        lambda: read_images(block.data, block.events, first.events, first.layout),
        lambda: arrow_schema(first.layout),
    ):
        with pytest.raises(UnsupportedError, match=r"COLUMN_TYPE.*byte 0x\w+: shop\.unknown: column 0 .* type 200"):
            use()


@pytest.mark.parametrize("kind", [19, WRITE, UPDATE, DELETE])
def test_event_without_table_number_is_damage(kind: int) -> None:
    with pytest.raises(CorruptError, match=r"BAD_EVENT.* event: 20 bytes, at least 27 expected"):
        TableMaps().resolve(plain_block([[gtid_event(), event(kind, b"\0")]]))


def test_many_tables_in_one_group() -> None:
    count = 3000
    group = [gtid_event()]
    group += [table_map([INT], table_id=4096 * i, table=f"t{i}") for i in range(count)]
    group += [insert(4096 * i) for i in range(count)]
    maps = TableMaps()
    for _ in range(2):
        resolved = maps.resolve(plain_block([group]))
        assert tables(resolved) == {f"t{i}": [1 + count + i] for i in range(count)}


def test_old_layouts_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_events, "_EXEMPLAR_BYTES_MAX", 1000)
    maps = TableMaps()
    for i in range(200):
        group = [gtid_event(), table_map([INT], table_id=i, table=f"t{i}"), insert(i)]
        assert tables(maps.resolve(plain_block([group]))) == {f"t{i}": [2]}
        assert len(maps._layouts) < 50


def test_damaged_table_map_says_where() -> None:
    good = table_map([INT], table_id=1)
    bad = good[:-6] + b"\xff" * 6
    (touched,) = TableMaps().resolve(plain_block([[gtid_event(), bad, insert(1)]]))
    assert touched.layout.full_name == "shop.orders"
    with pytest.raises(CorruptError, match=r"BAD_EVENT.*binlog file 1: byte 0x\w+: table map event"):
        raise touched.layout.problem or AssertionError


def test_table_map_that_names_no_table_is_damage() -> None:
    nameless = event(19, table_map([INT], table_id=1)[19:29])
    with pytest.raises(CorruptError, match=r"BAD_EVENT.*binlog file 1: byte 0x\w+: table map event"):
        TableMaps().resolve(plain_block([[gtid_event(), nameless]]))


def test_empty_block_has_no_tables() -> None:
    assert TableMaps().resolve(plain_block([])) == []


def test_log_of_a_real_server_resolves_as_in_plain_python() -> None:
    groups = plain_groups(SERVER_CASES / "mariadb-10.11" / "oltp_small" / "mysql-bin.000001")
    block = plain_block(groups)
    wanted: dict[str, list[int]] = {}
    row = 0
    for group in groups:
        names: dict[bytes, str] = {}
        for content in group:
            if content[4] == 19:
                database_size = content[27]
                start = 27 + 1 + database_size + 1
                names[content[19:25]] = content[start + 1 : start + 1 + content[start]].decode()
            elif content[4] in (WRITE, UPDATE, DELETE):
                wanted.setdefault(names[content[19:25]], []).append(row)
            row += 1
    assert sum(map(len, wanted.values())) > 1000
    assert tables(TableMaps().resolve(block)) == wanted


def test_compressed_row_events_are_refused() -> None:
    case = corpus("servers") / "mariadb-10.11" / "ops_compressed"
    with pytest.raises(UnsupportedError, match=r"EVENT_TYPE.*_COMPRESSED_V1"):
        TableMaps().resolve(plain_block(plain_groups(case / "mysql-bin.000001")))


@given(st.data())
@settings(max_examples=examples(300))
def test_any_damage_gives_layouts_or_a_named_error(data: st.DataObject) -> None:
    group = [gtid_event(), table_map([INT, TEXT], table_id=1, key=[0]), insert(1, 2), insert(1, 2)]
    block = plain_block([group])
    for _ in range(data.draw(st.integers(1, 4))):
        block.data[data.draw(st.integers(len(group[0]), block.data.size - 1))] = data.draw(st.integers(0, 255))
    try:
        resolved = TableMaps().resolve(block)
    except BinlogError as error:
        assert error.subclass in ("BAD_EVENT", "EVENT_TYPE", "COLUMN_TYPE")  # noqa: PT017
    else:
        assert sum(len(touched.events) for touched in resolved) <= 2
