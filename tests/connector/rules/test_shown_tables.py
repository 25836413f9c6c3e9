"""What a rule makes of a table's columns and keys, and where it does not fit."""

from __future__ import annotations

import pickle
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from binlog_connector.options.source_options import SourceOptions
from binlog_connector.rules.row_rule import Mask, MaskKind, RowRule
from binlog_connector.rules.row_rules import TableRules, read_rules
from binlog_connector.rules.rules_on_tables import BoundRule
from binlog_connector.schema.definitions import TableName, origin_of
from binlog_format.errors import BinlogError, OptionError, SchemaError
from binlog_format.events.table_map import parse_table_map
from binlog_format.rows.columns import arrow_schema
from binlog_format.rows.declared.completion import ColumnCompletion, LayoutCompletion, apply_completion
from binlog_format.rows.declared.declared_types import Generated
from binlog_format.rows.declared.default_values import layout_defaults
from binlog_format.rows.decoding import Decoding
from binlog_format.vendor import Vendor
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableEncoder, TableSpec
from tests.streaming.tables.shop import ORIGIN

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_format.events.table_map import TableLayout

COLUMNS = (
    ColumnSpec("tenant", "varchar(20)"),
    ColumnSpec("id", "int"),
    ColumnSpec("name", "varchar(20)"),
    ColumnSpec("price", "decimal(8,2)"),
    ColumnSpec("at", "datetime"),
    ColumnSpec("kind", "enum('a','b')"),
    ColumnSpec("body", "varbinary(10)"),
)


def layout_of(name: str = "items") -> TableLayout:
    return parse_table_map(TableEncoder(TableSpec("shop", name, COLUMNS, ("tenant", "id")), 1).table_map(ORIGIN))


def shown(rule: RowRule, layout: TableLayout | None = None, **bound: Any) -> TableLayout:
    layout = layout or layout_of()
    rules = TableRules([BoundRule(rule, **bound)])
    return rules.shown(layout, Decoding(rules=rules))


def test_columns_are_those_that_are_shown_with_the_types_of_their_masks() -> None:
    mask = {"NAME": "last 2", "at": "sha256", "price": "null", "kind": "text x", "id": "sha256"}
    rule = RowRule(drop_columns=("Body",), mask=mask, salt_variable="S")
    table = shown(rule, needs_key=True)
    assert arrow_schema(table, Decoding()) == pa.schema(
        [
            ("tenant", pa.string()),
            ("id", pa.string()),
            ("name", pa.string()),
            ("price", pa.decimal128(8, 2)),
            ("at", pa.string()),
            ("kind", pa.string()),
        ]
    )
    assert table.primary_key == (0, 1)
    assert [column.nullable for column in table.columns] == [False, False, False, True, True, False]
    assert [column.enum_values for column in table.columns] == [None] * 6


def test_what_is_shown_already_is_not_hidden_again() -> None:
    rules = TableRules([BoundRule(RowRule(drop_columns=("body",)))])
    decoding = Decoding(rules=rules)
    once = rules.shown(layout_of(), decoding)
    assert rules.shown(once, decoding) is once
    assert arrow_schema(once, decoding) == arrow_schema(layout_of(), decoding)
    assert rules.shown(layout_of("others"), Decoding()).logged is not None
    other = TableRules([BoundRule(RowRule(select="shop.x", drop_columns=("body",)))])
    assert other.shown(layout_of(), Decoding(rules=other)).logged is None


@pytest.mark.parametrize(
    ("rule", "told"),
    [
        (
            RowRule(drop_columns=("nmae",)),
            "drop_columns names column nmae, and its columns are tenant, id, name",
        ),
        (RowRule(columns=("id", "tenant", "nmae")), "columns names column nmae"),
        (RowRule(mask={"nmae": "null"}), "mask names column nmae"),
        (RowRule(mask={"price": "last 2"}), "shop.items.price: the mask last 2 is for columns of text or a number"),
        (RowRule(mask={"price": "text x"}), "shop.items.price: the mask text x is for columns of text"),
        (RowRule(mask={"body": "text x"}), "shop.items.body: the mask text x is for columns of text"),
        (RowRule(where="nmae = 'a'"), "shop.items: where: at character 1 (nmae = 'a'): there is no column nmae"),
        (RowRule(where="price = 'a'"), "where: at character 9 ('a'): a number expected, got 'a'"),
        (RowRule(drop_columns=("id",)), "shop.items: column id is not shown, and rows are told apart by it"),
        (RowRule(columns=("id",)), "shop.items: column tenant is not shown, and rows are told apart by it"),
        (RowRule(mask={"tenant": "last 2"}), "shop.items: column tenant has the mask last 2, and rows are told apart"),
        (RowRule(mask={"id": "null"}), "shop.items: column id has the mask null, and rows are told apart by it"),
    ],
)
def test_rule_that_does_not_fit_says_so(rule: RowRule, told: str) -> None:
    rule.check()
    with pytest.raises(OptionError) as caught:
        shown(rule, needs_key=True)
    assert told in caught.value.reason


def test_a_column_may_be_one_that_the_table_does_not_have() -> None:
    assert shown(RowRule(drop_columns=("nmae?", "body?"))).columns == layout_of().columns[:-1]


def test_key_may_go_where_nobody_looks_for_rows_or_others_are_named() -> None:
    rule = RowRule(drop_columns=("id",))
    assert shown(rule).primary_key == ()
    assert shown(rule, keys=("name",), needs_key=True).primary_key == ()
    with pytest.raises(OptionError, match="column id is not shown"):
        shown(rule, keys=("id",), needs_key=True)
    assert shown(RowRule(mask={"tenant": "null"})).primary_key == ()
    assert shown(RowRule(mask={"body": "null"})).primary_key == (0, 1)


def test_columns_need_names() -> None:
    layout = layout_of()
    nameless = replace(layout, columns=(replace(layout.columns[0], name=None), *layout.columns[1:]))
    with pytest.raises(SchemaError, match="NO_COLUMN_METADATA"):
        shown(RowRule(drop_columns=("body",)), nameless)


def test_defaults_of_masked_columns_are_not_told() -> None:
    said = [ColumnCompletion(column.name, column.sql_type) for column in COLUMNS]
    said[2] = replace(said[2], charset="utf8mb4")
    layout = apply_completion(layout_of(), LayoutCompletion(tuple(said), ((0, 1),)).to_json())
    table = shown(RowRule(drop_columns=("tenant",), mask={"name": "last 2", "price": "null"}), layout)
    id_, name, price = layout_defaults(table)[:3]
    assert id_.value == pa.scalar(0, pa.int32())
    assert (name.value, price.value) == (None, pa.scalar(None, pa.decimal128(8, 2)))
    assert table.primary_key == ()


class WithoutGenerated(RowRule, frozen=True, kw_only=True):
    """A rule of settings that leave out generated columns."""

    @property
    def drops_generated(self) -> bool:
        return True


def defined(layout: TableLayout, generated: tuple[str, ...], unknown: str = "") -> TableLayout:
    charsets = {"varchar(20)": "utf8mb4", "enum('a','b')": "utf8mb4", "varbinary(10)": "binary"}
    said = [
        ColumnCompletion(column.name)
        if column.name == unknown
        else ColumnCompletion(
            column.name,
            column.sql_type.partition("('")[0],
            charset=charsets.get(column.sql_type),
            enum_values=("a", "b") if column.name == "kind" else None,
            generated=Generated.STORED if column.name in generated else None,
        )
        for column in COLUMNS
    ]
    return apply_completion(layout, LayoutCompletion(tuple(said), ((0, 1),)).to_json())


def test_generated_columns_are_left_out_where_a_rule_asks_for_that() -> None:
    layout = defined(layout_of(), ("price", "at"))
    table = shown(WithoutGenerated(mask={"at": "null"}), layout, needs_key=True)
    assert [column.name for column in table.columns] == ["tenant", "id", "name", "kind", "body"]
    assert table.primary_key == (0, 1)
    assert shown(RowRule(drop_columns=("body",)), layout).columns == layout.columns[:-1]
    with pytest.raises(OptionError, match="column id is generated, which generated = "):
        shown(WithoutGenerated(), defined(layout_of(), ("id",)), needs_key=True)
    assert shown(WithoutGenerated(), defined(layout_of(), ("id",))).primary_key == ()


def test_column_that_may_be_generated_is_named() -> None:
    layout = layout_of()
    # MariaDB has no generated columns that are NOT NULL.
    assert shown(WithoutGenerated(), layout).columns == layout.columns
    columns = tuple(replace(column, nullable=column.name == "at") for column in layout.columns)
    for unknown in (replace(layout, columns=columns), defined(replace(layout, columns=columns), ("price",), "at")):
        with pytest.raises(SchemaError, match="not known whether column at is generated") as caught:
            shown(WithoutGenerated(), unknown)
        assert "snapshot JOB.toml --definitions" in str(caught.value)
    assert len(shown(WithoutGenerated(drop_columns=("at",)), replace(layout, columns=columns)).columns) == 6
    with pytest.raises(SchemaError, match="not known whether column tenant is generated"):
        shown(WithoutGenerated(), replace(layout, vendor=Vendor.MYSQL))


def test_what_tools_make_beside_a_table_has_its_rule() -> None:
    hiding, rest = RowRule(select="shop.items", drop_columns=("body",)), RowRule(select="shop.*")
    rules = TableRules([BoundRule(hiding), BoundRule(rest)])
    names = (
        "items",
        "_items_gho",
        "_items_new",
        "__items_new",
        "_items_old",
        "_items_del",
        "_items_20260131120000_del",
    )
    for name in names:
        assert rules.shown(layout_of(name), Decoding(rules=rules)).columns == layout_of().columns[:-1], name
    assert rules.of("shop", "others") is None
    assert origin_of(TableName("shop", "items")) is None
    assert rules.shows_alike(TableName("shop", "items"), TableName("shop", "_items_del"))
    assert not rules.shows_alike(TableName("shop", "items"), TableName("shop", "old_items"))
    assert rules.shows_alike(TableName("shop", "items"), TableName("else", "items"))


def test_rules_travel_and_do_not_show_their_salt() -> None:
    rule = RowRule(mask={"name": "sha256"}, salt_variable="S")
    rules = TableRules([BoundRule(rule, salt=b"a secret")])
    there = pickle.loads(pickle.dumps(rules))
    found = there.of("shop", "items")
    assert found is not None
    assert found.salt == b"a secret"
    assert "a secret" not in repr(found) + repr(rules) + repr(found.mask("name")) + str(found.mask("name"))


def test_at_most_half_of_a_text_is_shown() -> None:
    texts = pa.array(["", "abc", "abcd", "äöüß", "abcdefgh"])
    assert Mask(MaskKind.LAST, count=2).masked(texts).to_pylist() == ["****", "****", "****cd", "****üß", "****gh"]
    assert Mask(MaskKind.LAST, count=60).masked(pa.array(["\U0001f600" * 120]))[0].as_py() == "****" + "\U0001f600" * 60


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[1]", r"option rules: Expected `object`, got `int`"),
        ('[{"where": 5}]', "Expected `str"),
        ('{"wher": "id = 5"}', "unknown field `wher`"),
        ('{"mask": {"a": "last 0"}}', r"option rules: \[0\]\.mask\.a: expected null, sha256"),
        ('{"mask": {"a": "sha256"}, "salt_variable": "NO_SALT_HERE"}', "environment variable NO_SALT_HERE is not set"),
        ("[{", "option rules: "),
        ("no/such/file.toml", "no/such/file.toml"),
    ],
)
def test_text_that_holds_no_rules(text: str, told: str) -> None:
    with pytest.raises(BinlogError, match=told):
        read_rules(text)


def test_messages_for_spark_s_kafka_sink_keep_their_keys() -> None:
    given = {"path": "log", "rules": '{"mask": {"id": "null"}}'}
    messages = SourceOptions.parse({**given, "kafkaValue": "debezium", "topicPrefix": "shop"}).rules
    assert messages is not None
    with pytest.raises(OptionError, match="column id has the mask null, and rows are told apart by it"):
        messages.shown(layout_of(), Decoding(rules=messages))
    rows = SourceOptions.parse(given).rules
    assert rows is not None
    assert rows.shown(layout_of(), Decoding(rules=rows)).primary_key == ()


@pytest.mark.parametrize("options", [{"view": "events"}, {"includeQuery": "true"}, {"view": "tables"}])
def test_what_shows_the_log_as_it_is_has_no_rules(options: dict[str, str]) -> None:
    with pytest.raises(OptionError, match=r"nothing beside (view|option rules)"):
        SourceOptions.parse({"path": "log", "rules": '{"where": "id > 5"}', **options})


def test_rules_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "rules.toml"
    path.write_text("[[tables]]\nselect = 'shop.items'\ndrop_columns = ['body']\n")
    rules = read_rules(str(path))
    assert rules is not None
    assert rules.of("shop", "items") is not None
    path.write_text("[tables]\n")
    with pytest.raises(OptionError, match=r"rules\.toml: option rules: Expected `array`"):
        read_rules(str(path))
    path.write_text("[[tables]]\nselect = 'shop.items'\n")
    assert read_rules(str(path)) is None
