"""Messages under rules: what is skipped, and what statements tell.

Statements after which hidden values would be shown under another name.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from binlog_connector.envelope.messages import MessagesView
from binlog_connector.envelope.options import EnvelopeFormat, EnvelopeOptions, MessageOperation
from binlog_connector.rules.revealing_statements import RevealingStatements
from binlog_connector.rules.row_rule import RowRule
from binlog_connector.rules.row_rules import TableRules, read_rules
from binlog_connector.rules.rules_on_tables import BoundRule
from binlog_connector.schema.log_ddl import ServerRuns, all_statements
from binlog_format import open_log
from binlog_format.errors import OptionError, SchemaError
from binlog_format.rows.decoding import Decoding
from binlog_format.views.filters import GroupFilter
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from tests.connector.envelope.test_avro_messages import avro_encoding
from tests.connector.schema.layouts import block_of, query
from tests.corpus import SERVER_CASES
from tests.faults.schema_registry import SchemaRegistryServer
from tests.streaming.tables.shop import ShopLog

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_format.block import Block


COLUMNS = (ColumnSpec("id", "int"), ColumnSpec("stock", "int"), ColumnSpec("name", "text"))
ITEMS = TableSpec("shop", "items", COLUMNS, ("id",))
WHERE = RowRule(where="stock > 0", mask={"name": "last 1"})


@pytest.fixture
def log(tmp_path: Path) -> Path:
    with ShopLog(tmp_path / "log") as log:
        log.insert(ITEMS, (1, 0, "aa"), (2, 5, "bb"), (3, 1, "cc"))
        log.update(ITEMS, ((1, 0, "aa"), (1, 7, "aa")), ((2, 5, "bb"), (2, 0, "bb")), ((3, 1, "cc"), (3, 2, "cc")))
        log.statement("ALTER TABLE items ADD COLUMN note VARCHAR(20) DEFAULT 'secret'")
        log.delete(ITEMS, (1, 7, "aa"), (2, 0, "bb"))
    return tmp_path / "log"


def messages(log: Path, rule: RowRule, options: EnvelopeOptions, **bound: Any) -> list[dict[str, Any] | None]:
    decoding = Decoding(rules=TableRules([BoundRule(rule, needs_key=True, **bound)]))
    with open_log(str(log)) as opened:
        batches = list(MessagesView(options, decoding=decoding).batches(opened.blocks()))
    found = [row for batch in batches for row in batch.to_pylist()]
    return [None if row["value"] is None else json.loads(row["value"]) for row in found]


def told(found: list[dict[str, Any] | None]) -> list[str]:
    rows = [value and (value["after"] or value["before"]) for value in found]
    return [
        f"{value['op']} {row['id']}" if value and row else "tombstone" for value, row in zip(found, rows, strict=True)
    ]


@pytest.mark.parametrize(
    "skipped", [(), (MessageOperation.CREATE,), (MessageOperation.UPDATE,), (MessageOperation.DELETE,)]
)
def test_rows_that_enter_or_leave_are_skipped_as_what_they_are(
    log: Path, skipped: tuple[MessageOperation, ...]
) -> None:
    every = ["c 2", "c 3", "c 1", "d 2", "tombstone", "u 3", "d 1", "tombstone"]
    if MessageOperation.DELETE in skipped:
        every = [one for one in every if one != "tombstone"]
    found = messages(log, WHERE, EnvelopeOptions("t", skipped_operations=frozenset(skipped)))
    assert told(found) == [one for one in every if one[0] not in skipped]
    assert {(value["after"] or value["before"])["name"] for value in found if value} <= {"****a", "****b", "****c"}


def test_flat_rows(log: Path) -> None:
    found = messages(log, WHERE, EnvelopeOptions("t", format=EnvelopeFormat.FLAT, tombstones=False))
    assert [(value["id"], value["name"], value["__op"]) for value in found if value] == [
        (2, "****b", "c"),
        (3, "****c", "c"),
        (1, "****a", "c"),
        (2, "****b", "d"),
        (3, "****c", "u"),
        (1, "****a", "d"),
    ]


def test_avro_says_the_same_and_schemas_have_no_hidden_columns(log: Path) -> None:
    rule = RowRule(drop_columns=("stock",), mask={"name": "last 1"})
    options = EnvelopeOptions("shop")
    decoding = Decoding(rules=TableRules([BoundRule(rule, needs_key=True)]))
    with SchemaRegistryServer() as server, open_log(str(log)) as opened:
        view = MessagesView(options, decoding=decoding, encoding=avro_encoding(server, options))
        rows = [row for batch in view.batches(opened.blocks()) for row in batch.to_pylist()]
        found = [row["value"] and server.decode(row["value"]) for row in rows]
        schemas = [str(version) for subject in server.subjects() for version in server.versions(subject)]
    expected = messages(log, rule, options)
    of_rows = ("before", "after", "source", "op")
    assert [value and [value[part] for part in of_rows] for value in found] == [
        value and [value[part] for part in of_rows] for value in expected
    ]
    assert schemas
    assert not any("stock" in schema for schema in schemas)


def test_statements_have_no_texts(log: Path) -> None:
    options = EnvelopeOptions("t", schema_changes=True, skipped_operations=frozenset(MessageOperation))
    (found,) = messages(log, RowRule(drop_columns=("name",)), options)
    assert found is not None
    assert (found["ddl"], found["tableChanges"]) == (None, [{"type": "ALTER", "id": '"shop"."items"'}])


def test_key_of_messages_is_one(log: Path) -> None:
    with pytest.raises(OptionError, match="column id is not shown, and rows are told apart by it"):
        messages(log, RowRule(drop_columns=("id",)), EnvelopeOptions("t"))
    keyed = EnvelopeOptions("t", key_columns={"shop.items": ("stock",)})
    assert len(messages(log, RowRule(drop_columns=("id",)), keyed, keys=("stock",))) > 5


MASKED = {
    "select": "shop.people",
    "mask": {"email?": "null", "mail?": "null", "card?": "last 4"},
    "drop_columns": ["pin?"],
}
PLAIN = {"select": "shop.(people_old|orders)"}
LOG = str(SERVER_CASES / "mariadb-10.11" / "ops")


def refused(*texts: str, before: tuple[str, ...] = (), folds: bool | None = None) -> list[Block]:
    """The blocks that come through, each of one statement; *before*: statements before the part that is read."""
    rules = read_rules(json.dumps([MASKED, PLAIN]))
    assert rules is not None
    blocks = [block_of(query(text), first=number) for number, text in enumerate(texts, 1)]
    with open_log(LOG) as log:
        server_runs = ServerRuns(log)

        def statements_before() -> Iterator[DdlStatement]:
            for text in before:
                yield from (statement for _, _, statement in all_statements(block_of(query(text)), server_runs))

        statements = RevealingStatements(rules, statements_before, folds_names=folds)
        return list(statements.refused(blocks, GroupFilter(), server_runs))


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE people CHANGE email address VARCHAR(20)",
        "ALTER TABLE people RENAME COLUMN card TO card_no",
        "ALTER TABLE people RENAME COLUMN card TO email",
        "ALTER TABLE people RENAME COLUMN pin TO pin_code",
        "ALTER TABLE people RENAME COLUMN pin TO mail",
        "ALTER TABLE people RENAME COLUMN id TO email, RENAME COLUMN email TO id",
    ],
)
def test_column_whose_hidden_values_get_another_name_is_refused(text: str) -> None:
    with pytest.raises(SchemaError, match=r"SCHEMA_CHANGED\] shop\.people: column \w+ is called \w+ now"):
        refused(text)


@pytest.mark.parametrize(
    "text",
    [
        "ALTER TABLE people CHANGE email mail VARCHAR(30)",
        "ALTER TABLE people RENAME COLUMN id TO pin",
        "ALTER TABLE people RENAME COLUMN id TO card",
        "ALTER TABLE people RENAME COLUMN email TO pin",
        "ALTER TABLE people RENAME COLUMN id TO number, MODIFY email TEXT, DROP COLUMN card",
        "ALTER TABLE orders RENAME COLUMN email TO address",
        "ALTER TABLE elsewhere RENAME COLUMN email TO address",
        "RENAME TABLE orders TO people",
        "RENAME TABLE people TO elsewhere",
        "RENAME TABLE people TO _people_old, _people_gho TO people",
        "RENAME TABLE orders TO passing, passing TO people_old",
        "RENAME TABLE people TO passing; DROP TABLE passing",
        "ALTER TABLE people no statement at all",
    ],
)
def test_what_shows_no_more_than_before_is_let_through(text: str) -> None:
    texts = text.split("; ")
    assert len(refused(*texts)) == len(texts)


@pytest.mark.parametrize(
    "texts",
    [
        ("RENAME TABLE people TO people_old",),
        ("ALTER TABLE people RENAME TO orders",),
        ("RENAME TABLE people TO passing, passing TO people_old",),
        ("RENAME TABLE people TO passing", "RENAME TABLE passing TO people_old"),
    ],
)
def test_table_whose_hidden_values_get_another_name_is_refused(texts: tuple[str, ...]) -> None:
    with pytest.raises(SchemaError, match=r"TABLE_RENAMED\] shop\.\w+ was shop\.people before"):
        refused(*texts)


def test_name_in_between_that_another_table_has_since_is_forgotten() -> None:
    gone = ("DROP TABLE passing", "CREATE TABLE passing (id INT)")
    assert len(refused("RENAME TABLE people TO passing", *gone, "RENAME TABLE passing TO people_old")) == 4


def test_temporary_table_from_before_the_part_is_not_the_table_of_its_name() -> None:
    made, renamed = "CREATE TEMPORARY TABLE people (email INT)", "ALTER TABLE people RENAME COLUMN email TO address"
    assert len(refused(renamed, before=(made,))) == 1
    assert len(refused(made, renamed)) == 2
    with pytest.raises(SchemaError, match="SCHEMA_CHANGED"):
        refused(renamed, "DROP TEMPORARY TABLE people", renamed, before=(made,))


def test_names_are_compared_as_the_server_compares_them() -> None:
    renamed = "ALTER TABLE People RENAME COLUMN email TO address"
    assert len(refused(renamed, folds=False)) == 1
    for folds in (True, None):  # where it is not known, the server may take both for one
        with pytest.raises(SchemaError, match=r"SCHEMA_CHANGED\] shop\.people"):
            refused(renamed, folds=folds)
        with pytest.raises(SchemaError, match=r"TABLE_RENAMED\] shop\.people_old was shop\.people before"):
            refused("RENAME TABLE PEOPLE TO passing", "RENAME TABLE Passing TO People_old", folds=folds)


def test_name_in_between_is_looked_for_before_the_part() -> None:
    with pytest.raises(SchemaError, match=r"TABLE_RENAMED\] shop\.people_old was shop\.people before"):
        refused("RENAME TABLE passing TO people_old", before=("RENAME TABLE people TO passing",))
    since = ("RENAME TABLE people TO passing", "DROP TABLE passing", "CREATE TABLE passing (id INT)")
    assert len(refused("RENAME TABLE passing TO people_old", before=since)) == 1
