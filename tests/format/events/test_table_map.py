"""What the log records about a table's columns."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_format.errors import BinlogError, CorruptError, UnsupportedError
from binlog_format.events.charset_layout import CHARSET_OF_COLLATION
from binlog_format.events.table_map import TableLayout, parse_table_map
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.vendor import Vendor
from tests.chance import examples
from tests.corpus import SERVER_CASES, corpus
from tests.format.rows.plain_blocks import plain_events
from tests.format.rows.plain_rows import PlainColumn, event, table_map

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

INT = PlainColumn(ColumnType.LONG, unsigned=False)
TEXT = PlainColumn(ColumnType.VARCHAR, b"\x40\x00", collation=45)
GEOMETRY = PlainColumn(ColumnType.GEOMETRY, b"\x04")
FULL = [
    INT,
    PlainColumn(ColumnType.LONGLONG, unsigned=True, nullable=False),
    TEXT,
    PlainColumn(ColumnType.ENUM, b"\xf7\x01", collation=45, labels=("a", "é")),
    PlainColumn(ColumnType.SET, b"\xf8\x01", collation=8, labels=("x", "y")),
]


def layouts(case: Path) -> Iterator[TableLayout]:
    for path in sorted(case.glob("*-bin.0*")):
        for content in plain_events(path):
            if content[4] == 19:
                yield parse_table_map(content, Vendor.MYSQL if "mysql" in str(case) else Vendor.MARIADB)


def _differs(layout: TableLayout, schema: dict[str, Any], *, names: bool, enums: bool) -> str:
    # What the server reports otherwise in information_schema.
    for column, truth in zip(layout.columns, schema["columns"], strict=True):
        said = {
            "name": column.name if names else truth["name"],
            "unsigned": column.unsigned if column.type is not ColumnType.YEAR else None,
            "charset": None if column.charset == "binary" else column.charset,
            "nullable": column.nullable,
        }
        kind = truth["type"]
        is_number = kind in ("tinyint", "smallint", "mediumint", "int", "bigint", "float", "double", "decimal")
        wanted = {
            "name": truth["name"],
            "unsigned": "unsigned" in truth["column_type"] if is_number else None,
            "charset": truth["charset"] if enums or kind not in ("enum", "set") else None,
            "nullable": truth["nullable"] == "YES",
        }
        if said != wanted:
            return f"{layout.full_name}: {said}, the server said {wanted}"
    if names and layout.table != "t_uniq":  # the first unique key stands in for a primary key
        key = [layout.columns[index].name for index in layout.primary_key]
        if key != schema["pk"]:
            return f"{layout.full_name}: key {key}, the server said {schema['pk']}"
    return ""


@pytest.mark.parametrize(
    ("case", "metadata"),
    [
        ("mariadb-10.11/types_full", "full"),
        ("mariadb-10.11/ops", "full"),
        ("mariadb-10.11/types_noblob_metamin", "minimal"),
        ("mysql-9/types_full", "full"),
        ("mysql-9/ops", "full"),
    ],
)
def test_columns_are_those_of_information_schema(case: str, metadata: str) -> None:
    folder = corpus("servers") / case
    schemas: dict[str, list[dict[str, Any]]] = {}
    for schema in json.loads((folder / "expected.json").read_text())["schemas"]:
        if not schema.get("dropped"):
            schemas.setdefault(schema["table"], []).append(schema)
    is_full = metadata == "full"
    seen = {}
    for layout in layouts(folder):
        assert layout.has_names == is_full
        if layout.columns[-1].name == "row_end":  # a system-versioned table: information_schema does not list these
            continue
        seen[layout.digest] = layout
    assert len(seen) > 25
    for layout in seen.values():
        candidates = [s for s in schemas[layout.full_name] if len(s["columns"]) == len(layout.columns)]
        differences = [_differs(layout, schema, names=is_full, enums=is_full) for schema in candidates]
        assert "" in differences, differences[0]


def test_log_without_metadata_says_no_more_than_types() -> None:
    for layout in layouts(corpus("servers") / "mariadb-10.11" / "types_minimal_nolog"):
        assert not layout.has_names
        assert layout.primary_key == ()
        assert all((c.unsigned, c.charset, c.enum_values) == (None, None, None) for c in layout.columns)


def test_labels_come_in_their_character_set() -> None:
    found = {layout.table: layout for layout in layouts(corpus("servers") / "mariadb-10.11" / "types_full")}
    labels = {column.name: column.enum_values for column in found["t_enumset"].columns}
    assert labels["e1"] == ("a", "b", "it's", "c,d", "")
    assert labels["e1l"] == ("é", "ü", "x")
    assert labels["eu"] == ("日本", "中国", "😀")
    assert labels["s64"] == tuple(f"s{i:02}" for i in range(64))


def test_layout_comes_back_from_its_own_table_map() -> None:
    for layout in layouts(SERVER_CASES / "mariadb-10.11" / "oltp_small"):
        assert parse_table_map(layout.table_map) == layout
        assert layout.database == "sb"
        assert [column.name for column in layout.columns] == ["id", "k", "c", "pad"]
        assert layout.primary_key == (0,)


def test_digest_says_whether_layouts_are_equal() -> None:
    first = parse_table_map(table_map(FULL, table_id=1))
    assert parse_table_map(table_map(FULL, table_id=2**40)).digest == first.digest
    assert len(first.digest) == 16
    others = [
        parse_table_map(table_map(FULL, table="other")),
        parse_table_map(table_map(FULL[:-1])),
        parse_table_map(table_map([*FULL[:-1], TEXT])),
        parse_table_map(table_map(FULL, key=[0])),
    ]
    assert len({first.digest, *(other.digest for other in others)}) == 5


def test_key_columns_come_in_key_order() -> None:
    assert parse_table_map(table_map(FULL, key=[2, 0])).primary_key == (2, 0)


def test_key_of_prefixes_is_a_key_of_its_columns() -> None:
    whole = table_map([INT, TEXT])
    content = whole[19:] + bytes([9, 4, 1, 10, 0, 0])
    assert parse_table_map(event(19, content)).primary_key == (1, 0)


@pytest.mark.parametrize(
    ("vendor", "content", "charsets"),
    [
        (Vendor.MYSQL, bytes([2, 1, 45]), ["utf8mb4", None, "utf8mb4"]),
        (Vendor.MYSQL, bytes([2, 3, 45, 1, 8]), ["utf8mb4", None, "latin1"]),
        (Vendor.MYSQL, bytes([3, 2, 45, 8]), ["utf8mb4", None, "latin1"]),
        (Vendor.MARIADB, bytes([2, 3, 45, 1, 63]), ["utf8mb4", None, "utf8mb4"]),
        (Vendor.MARIADB, bytes([2, 5, 63, 0, 45, 2, 8]), ["utf8mb4", None, "latin1"]),
        (Vendor.MARIADB, bytes([3, 3, 45, 63, 8]), ["utf8mb4", None, "latin1"]),
    ],
)
def test_geometry_columns_count_as_text_in_mariadb_only(
    vendor: Vendor, content: bytes, charsets: list[str | None]
) -> None:
    plain = PlainColumn(ColumnType.VARCHAR, b"\x40\x00")
    base = table_map([plain, GEOMETRY, plain], names=False)
    layout = parse_table_map(event(19, base[19:] + content), vendor)
    assert layout.vendor is vendor
    assert [column.charset for column in layout.columns] == charsets


def test_mysql_says_what_is_visible_and_more() -> None:
    vector = PlainColumn(ColumnType.VECTOR, b"\x04", collation=63)
    base = table_map([INT, GEOMETRY, vector, GEOMETRY], names=False)
    content = bytes([7, 2, 1, 0, 12, 1, 0b10110000, 13, 3, 0xFC, 0x00, 0x10])
    columns = parse_table_map(event(19, base[19:] + content), Vendor.MYSQL).columns
    assert [column.visible for column in columns] == [True, False, True, True]
    assert [column.geometry_type for column in columns] == [None, 1, None, 0]
    assert [column.dimensions for column in columns] == [None, None, 4096, None]
    assert all(column.visible is None for column in parse_table_map(base, Vendor.MYSQL).columns)


_YEAR = PlainColumn(ColumnType.YEAR, b"")


@given(
    st.lists(st.tuples(st.sampled_from([INT, TEXT, _YEAR]), st.booleans()), min_size=1, max_size=20),
    st.sampled_from([8_00_01, 8_00_12, 8_00_20, 8_00_21, 8_00_28, 8_00_29, 9_07_04]),
    st.booleans(),
)
def test_early_mysql_has_no_bits_for_years(columns: list[tuple[PlainColumn, bool]], version: int, early: bool) -> None:
    """Between two versions nobody knows which: there it is right, or not told."""
    has_years = version >= 8_00_29 or (version > 8_00_20 and not early)
    unsigned = [None if kind is TEXT else kind is _YEAR or flag for kind, flag in columns]
    bits = "".join("01"[bool(sign)] for (kind, _), sign in zip(columns, unsigned, strict=True) if kind is not TEXT)
    if not has_years:
        kinds = [kind for kind, _ in columns if kind is not TEXT]
        bits = "".join(bit for bit, kind in zip(bits, kinds, strict=True) if kind is not _YEAR)
    content = bytes(int(bits[at : at + 8].ljust(8, "0"), 2) for at in range(0, len(bits), 8))
    size = (len(columns) + 7) // 8
    fields = bytes([1, len(content)]) + content + bytes([12, size]) + b"\xff" * size
    base = table_map([kind for kind, _ in columns], names=False)
    layout = parse_table_map(event(19, base[19:] + fields[0 if content else 2 :]), Vendor.MYSQL, version)
    found = [column.unsigned for column in layout.columns]
    untold = [None] * len(columns)
    assert found == unsigned or (found == untold and (not content or 8_00_20 < version < 8_00_29))
    assert all(column.visible for column in layout.columns)
    assert parse_table_map(layout.table_map, Vendor.MYSQL) == layout


@pytest.mark.parametrize("content", [bytes([7, 1, 1]), bytes([7, 3, 1, 2, 3]), bytes([13, 1, 8]), bytes([12, 0])])
def test_numbers_that_do_not_fit_the_columns_are_damage(content: bytes) -> None:
    base = table_map([GEOMETRY, GEOMETRY], names=False)
    with pytest.raises(CorruptError, match="BAD_EVENT"):
        parse_table_map(event(19, base[19:] + content), Vendor.MYSQL)


@pytest.mark.parametrize("metadata", [b"\x03", b"\x0f\x40\x00\x00", b"\xf6\x0a\x02"])
def test_typed_array_has_the_metadata_of_its_elements(metadata: bytes) -> None:
    layout = parse_table_map(table_map([INT, PlainColumn(ColumnType.TYPED_ARRAY, metadata), TEXT]), Vendor.MYSQL)
    assert [column.type for column in layout.columns] == [ColumnType.LONG, ColumnType.TYPED_ARRAY, ColumnType.VARCHAR]
    assert layout.columns[2].metadata == 64


def test_mysql_marks_invisible_columns() -> None:
    folder = corpus("servers") / "mysql-9" / "types_full"
    invisible = {column.name for layout in layouts(folder) for column in layout.columns if column.visible is False}
    truth = {
        column["name"]
        for schema in json.loads((folder / "expected.json").read_text())["schemas"]
        if not schema.get("dropped")
        for column in schema["columns"]
        if "INVISIBLE" in column.get("extra", "")
    }
    assert invisible == truth != set()


@pytest.mark.parametrize(
    ("collation", "charset"),
    [
        (8, "latin1"),
        (45, "utf8mb4"),
        (255, "utf8mb4"),  # MySQL's utf8mb4_0900_ai_ci
        (33, "utf8mb3"),
        (63, "binary"),
        (11, "ascii"),
        (1069, "utf8mb4"),  # MariaDB's utf8mb4_general_nopad_ci
        (1032, "latin1"),
        (2304, "utf8mb4"),  # MariaDB's utf8mb4_uca1400_ai_ci
        (2048, "utf8mb3"),
        (9999, "collation 9999"),
    ],
)
def test_character_set_of_a_collation(collation: int, charset: str) -> None:
    assert CHARSET_OF_COLLATION[collation] == charset


def test_unknown_metadata_fields_are_left_alone() -> None:
    known = parse_table_map(table_map(FULL))
    layout = parse_table_map(event(19, table_map(FULL)[19:] + b"\xc8\x03abc"))
    assert layout.columns == known.columns


def test_unknown_type_is_refused_with_the_table() -> None:
    content = bytearray(table_map([INT]))
    content[content.index(b"orders\0") + 8] = 200
    with pytest.raises(UnsupportedError, match=r"COLUMN_TYPE.*shop\.orders: column 0 has the unknown type 200"):
        parse_table_map(bytes(content))


def test_every_part_of_a_table_map_is_damage_or_has_less_metadata() -> None:
    whole = table_map(FULL, key=[0, 1])
    known = parse_table_map(whole)
    fewer = 0
    for size in range(len(whole)):
        try:
            layout = parse_table_map(whole[:size])
        except CorruptError as error:
            assert error.subclass == "BAD_EVENT"  # noqa: PT017
        else:
            fewer += 1
            assert [c.type for c in layout.columns] == [c.type for c in known.columns]
    assert fewer == 7  # between the fields


@given(st.data())
@settings(max_examples=examples(500))
def test_any_damage_gives_a_layout_or_a_named_error(data: st.DataObject) -> None:
    content = bytearray(table_map(FULL, key=[0, 1]))
    for _ in range(data.draw(st.integers(1, 5))):
        content[data.draw(st.integers(0, len(content) - 1))] = data.draw(st.integers(0, 255))
    try:
        parse_table_map(bytes(content))
    except BinlogError as error:
        assert error.subclass in ("BAD_EVENT", "COLUMN_TYPE")  # noqa: PT017


@pytest.mark.parametrize("nullable", [False, True])
def test_a_column_of_the_primary_key_cannot_be_null_whatever_an_outer_join_marks(nullable: bool) -> None:
    """Of the inner side of an outer join the server marks each column as NULL-able."""
    columns = [replace(column, nullable=nullable) for column in (INT, TEXT, INT)]
    layout = parse_table_map(table_map(columns, key=[2]))
    assert layout.joined is nullable
    assert [column.nullable for column in layout.columns] == [nullable, nullable, False]
