"""What a schema contains, put into the layout of a table map."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format.errors import SchemaError
from binlog_format.events.table_map import Column, TableLayout
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows.declared.completion import DDL_SOURCE, ColumnCompletion, LayoutCompletion, apply_completion
from binlog_format.rows.declared.declared_types import DeclaredDefault, DefaultKind, Generated, fits
from binlog_format.rows.declared.default_values import layout_defaults
from binlog_format.vendor import Vendor

LAYOUT = TableLayout(
    "shop",
    "orders",
    (
        Column(None, ColumnType.LONG, 0, nullable=False),
        Column(None, ColumnType.VARCHAR, 200, nullable=True),
        Column(None, ColumnType.ENUM, 247 | 1 << 8, nullable=True),
        Column(None, ColumnType.STRING, 254 | 16 << 8, nullable=False),
    ),
    (),
    "0" * 16,
    bytes(30) + b"body",
)
COMPLETION = LayoutCompletion(
    (
        ColumnCompletion("id", "int(10)", unsigned=True),
        ColumnCompletion("v", "varchar(50)", charset="utf8mb4"),
        ColumnCompletion("e", "enum", charset="latin1", enum_values=("a", "é")),
        ColumnCompletion("u", "uuid", charset="binary"),
    ),
    ((1,), (0, 3)),
)


def test_completion_says_what_the_table_map_leaves_open() -> None:
    layout = apply_completion(LAYOUT, COMPLETION.to_json())
    assert layout.columns == (
        Column("id", ColumnType.LONG, 0, False, unsigned=True, declared="int(10)"),
        Column("v", ColumnType.VARCHAR, 200, True, charset="utf8mb4", declared="varchar(50)"),
        Column("e", ColumnType.ENUM, 247 | 1 << 8, True, charset="latin1", enum_values=("a", "é"), declared="enum"),
        Column("u", ColumnType.STRING, 254 | 16 << 8, False, charset="binary", declared="uuid"),
    )
    assert layout.primary_key == (0, 3), "the first key may be NULL"
    assert layout.has_names


def test_marks_of_an_outer_join_are_no_contradiction() -> None:
    """The table map of the inner side marks all columns as NULL-able, those of the key too."""
    columns = tuple(replace(column, nullable=True) for column in LAYOUT.columns)
    number, *others, uuid = COMPLETION.columns
    said = replace(COMPLETION, columns=(replace(number, nullable=False), *others, replace(uuid, nullable=False)))
    layout = apply_completion(replace(LAYOUT, columns=columns), said.to_json())
    assert [column.nullable for column in layout.columns] == [False, True, True, False]
    assert layout.primary_key == (0, 3)
    # Not all of them are marked: the definition is not true any more.
    columns = (columns[0], replace(columns[1], nullable=False), *columns[2:])
    layout = apply_completion(replace(LAYOUT, columns=columns), said.to_json())
    assert [column.nullable for column in layout.columns] == [True, False, True, True]


def test_table_map_wins_where_it_says_something() -> None:
    columns = list(LAYOUT.columns)
    columns[0] = replace(columns[0], name="Id", unsigned=True)
    columns[1] = replace(columns[1], charset="cp1251", metadata=50)
    columns[2] = replace(columns[2], enum_values=("a", "b", "c"), charset="utf8mb3")
    said = replace(LAYOUT, columns=tuple(columns), primary_key=(3,))
    layout = apply_completion(said, COMPLETION.to_json())
    assert [(one.name, one.charset, one.enum_values) for one in layout.columns[:3]] == [
        ("Id", None, None),
        ("v", "cp1251", None),
        ("e", "utf8mb3", ("a", "b", "c")),
    ]
    assert layout.primary_key == (3,)


def test_completion_says_what_columns_hold_that_rows_leave_out() -> None:
    number, text, label, uuid = COMPLETION.columns
    said = (
        replace(number, default=DeclaredDefault(DefaultKind.NUMBER, "7")),
        text,
        replace(label, generated=Generated.STORED),
        replace(uuid, declared=None),
    )
    layout = apply_completion(LAYOUT, LayoutCompletion(said).to_json())
    seven, null, computed, unsaid = layout_defaults(layout)
    assert (seven.value, seven.unknown) == (pa.scalar(7, pa.int64()), None)
    assert (null.value, null.unknown) == (pa.scalar(None, pa.string()), None)
    assert (computed.value, computed.generated) == (None, "stored")
    assert (unsaid.value, unsaid.unknown) == (None, "the log has no statement that sets its default")
    assert all(one.value is None and one.unknown for one in layout_defaults(LAYOUT))


@pytest.mark.parametrize(
    ("declared", "text", "is_known"),
    [
        ("float", "16777217", False),
        ("float", "0.1234567", False),
        ("float", "1.5", True),
        ("float(20,10)", "0.1234567", True),
    ],
)
def test_a_float_that_servers_round_later_is_no_known_default(declared: str, text: str, is_known: bool) -> None:
    column = replace(LAYOUT.columns[0], type=ColumnType.FLOAT, metadata=4, declared=declared)
    completion = ColumnCompletion("f", declared=declared, default=DeclaredDefault(DefaultKind.NUMBER, text))
    layout = apply_completion(replace(LAYOUT, columns=(column,)), LayoutCompletion((completion,)).to_json())
    (default,) = layout_defaults(layout)
    assert (default.value is not None) is is_known
    assert is_known or "FLOAT" in str(default.unknown)


def test_digest_covers_table_map_and_completion() -> None:
    text = COMPLETION.to_json()
    layout = apply_completion(LAYOUT, text)
    assert layout.completion == text
    assert apply_completion(LAYOUT, text).digest == layout.digest != LAYOUT.digest
    other = replace(COMPLETION, keys=())
    assert apply_completion(LAYOUT, other.to_json()).digest != layout.digest
    assert apply_completion(replace(LAYOUT, table_map=bytes(30) + b"BODY"), text).digest != layout.digest
    assert apply_completion(LAYOUT, "") is LAYOUT


def test_other_number_of_columns_is_an_error_with_both_lists() -> None:
    text = replace(COMPLETION, columns=COMPLETION.columns[:3]).to_json()
    with pytest.raises(SchemaError) as raised:
        apply_completion(LAYOUT, text, "schema.sql")
    assert str(raised.value).startswith(
        "[BINLOG_SCHEMA.COLUMN_COUNT_MISMATCH] shop.orders: the log has 4 columns, schema.sql has 3: "
        "log: [LONG, VARCHAR(200 bytes), ENUM(1 bytes), STRING(16 bytes)]; "
        "schema: [id int(10) unsigned, v varchar(50), e enum]. Give a schema file"
    )


def test_definition_from_the_log_lacks_a_statement() -> None:
    text = replace(COMPLETION, columns=COMPLETION.columns[:3]).to_json()
    with pytest.raises(SchemaError, match=r"the DDL at 1:0:3 has 3: .* A statement that changed the table is not in"):
        apply_completion(LAYOUT, text, f"{DDL_SOURCE} at 1:0:3")
    other = replace(COMPLETION, columns=(replace(COMPLETION.columns[0], declared="date"), *COMPLETION.columns[1:]))
    with pytest.raises(SchemaError, match=r"COLUMN_MISMATCH.* A statement that changed the table is not in this log"):
        apply_completion(LAYOUT, other.to_json(), DDL_SOURCE)


@pytest.mark.parametrize(
    ("number", "change", "said"),
    [
        (0, {"declared": "bigint(20)"}, "column 1: the log has LONG, the schema id bigint(20) unsigned"),
        (1, {"declared": "varchar(51)"}, "column 2: the log has VARCHAR(200 bytes), the schema v varchar(51)"),
        (1, {"declared": "text"}, "column 2: the log has VARCHAR(200 bytes), the schema v text"),
        (2, {"enum_values": tuple(map(str, range(256)))}, "column 3: the log has ENUM(1 bytes), the schema e enum"),
        (3, {"declared": "inet4"}, "column 4: the log has STRING(16 bytes), the schema u inet4"),
    ],
)
def test_column_that_cannot_be_the_declared_one_is_an_error(number: int, change: dict[str, object], said: str) -> None:
    columns = list(COMPLETION.columns)
    columns[number] = replace(columns[number], **change)  # type: ignore[arg-type]
    with pytest.raises(SchemaError) as raised:
        apply_completion(LAYOUT, LayoutCompletion(tuple(columns)).to_json())
    assert raised.value.condition == "BINLOG_SCHEMA.COLUMN_MISMATCH"
    assert said in str(raised.value)
    assert "log: [LONG, VARCHAR(200 bytes), ENUM(1 bytes), STRING(16 bytes)]; schema: [" in str(raised.value)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"name": "nr"}, "the log calls it 'nr', the schema 'id'"),
        ({"unsigned": False}, "the log has LONG, the schema id int(10) unsigned"),
    ],
)
def test_other_names_and_signs_are_errors(change: dict[str, object], said: str) -> None:
    first = replace(LAYOUT.columns[0], **change)  # type: ignore[arg-type]
    with pytest.raises(SchemaError, match="COLUMN_MISMATCH") as raised:
        apply_completion(replace(LAYOUT, columns=(first, *LAYOUT.columns[1:])), COMPLETION.to_json())
    assert said in str(raised.value)


BAD_DEFAULT = '{"columns":[{"name":"a","default":["text","a","b","c"]}],"keys":[]}'


@pytest.mark.parametrize("text", ["[]", "{}", '{"columns":[{}],"keys":[]}', BAD_DEFAULT, "x"])
def test_text_that_is_no_completion_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"completion|Expecting"):
        apply_completion(LAYOUT, text)


NAMES = st.text(st.characters(exclude_categories=["Cs"]), max_size=10)


@given(
    st.lists(
        st.builds(
            ColumnCompletion,
            NAMES,
            st.none() | NAMES,
            st.none() | st.booleans(),
            st.none() | NAMES,
            st.none() | st.lists(NAMES).map(tuple),
            st.none() | st.builds(DeclaredDefault, st.sampled_from(DefaultKind), NAMES, st.none() | NAMES),
            st.none() | st.sampled_from(Generated),
        ),
        max_size=5,
    ).map(tuple),
    st.lists(st.lists(st.integers(0, 9)).map(tuple), max_size=3).map(tuple),
)
def test_completions_come_back_from_their_text(
    columns: tuple[ColumnCompletion, ...], keys: tuple[tuple[int, ...], ...]
) -> None:
    completion = LayoutCompletion(columns, keys)
    assert LayoutCompletion.from_json(completion.to_json()) == completion


@pytest.mark.parametrize(
    ("declared", "type_", "metadata", "other"),
    [
        ("decimal(10,2)", ColumnType.NEWDECIMAL, 10 | 2 << 8, 10 | 3 << 8),
        ("bit(9)", ColumnType.BIT, 1 | 1 << 8, 1 << 8),
        ("datetime(3)", ColumnType.DATETIME2, 3, 0),
        ("time", ColumnType.TIME2, 0, 3),
        ("mediumtext", ColumnType.BLOB, 3, 2),
        ("longblob", ColumnType.BLOB_COMPRESSED, 4, 3),
        ("varbinary(40)", ColumnType.VARCHAR, 40, 41),
        ("varchar(40)", ColumnType.VARCHAR_COMPRESSED, 161, 42),
        ("char(255)", ColumnType.STRING, 0xCE | 0xFC << 8, 254 | 255 << 8),  # 1020 bytes: two bits lie in the type
        ("binary(16)", ColumnType.STRING, 254 | 16 << 8, 254 | 32 << 8),
        ("set", ColumnType.SET, 248 | 2 << 8, 248 | 1 << 8),
        ("vector(3)", ColumnType.VARCHAR, 12, 3),
        ("json", ColumnType.BLOB, 4, 2),
    ],
)
def test_metadata_tells_declared_types_apart(declared: str, type_: ColumnType, metadata: int, other: int) -> None:
    labels = 9 if declared == "set" else None
    assert fits(Column(None, type_, metadata, True), declared, "utf8mb4", labels, Vendor.MARIADB)
    assert not fits(Column(None, type_, other, True), declared, "utf8mb4", labels, Vendor.MARIADB)
    assert not fits(Column(None, ColumnType.LONG, 0, True), declared, "utf8mb4", labels, Vendor.MARIADB)


def test_old_temporal_types_have_no_metadata_and_fit_any_precision() -> None:
    for declared, type_ in (("time(3)", ColumnType.TIME), ("datetime(6)", ColumnType.DATETIME), ("timestamp", 7)):
        assert fits(Column(None, ColumnType(type_), 0, True), declared, None, None, Vendor.MARIADB)


def test_size_of_a_text_fits_any_charset_where_none_is_known() -> None:
    for size in (50, 100, 150, 200):
        assert fits(Column(None, ColumnType.VARCHAR, size, True), "varchar(50)", None, None, Vendor.MARIADB)
    for size, does in ((100, False), (150, True), (200, True)):
        assert fits(Column(None, ColumnType.VARCHAR, size, True), "varchar(50)", "utf8", None, Vendor.MARIADB) is does
    assert not fits(Column(None, ColumnType.VARCHAR, 199, True), "varchar(50)", None, None, Vendor.MARIADB)


def test_type_that_is_not_known_may_be_anything() -> None:
    assert fits(Column(None, ColumnType.BLOB, 2, True), "something_new(3)", None, None, Vendor.MARIADB)
