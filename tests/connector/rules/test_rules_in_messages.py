"""Messages under rules: what is skipped, and what statements tell."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from binlog_connector.envelope.messages import MessagesView
from binlog_connector.envelope.options import EnvelopeFormat, EnvelopeOptions, MessageOperation
from binlog_connector.rules.row_rule import RowRule
from binlog_connector.rules.row_rules import TableRules
from binlog_connector.rules.rules_on_tables import BoundRule
from binlog_format import open_log
from binlog_format.errors import OptionError
from binlog_format.rows.decoding import Decoding
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from tests.connector.envelope.test_avro_messages import avro_encoding
from tests.faults.schema_registry import SchemaRegistryServer
from tests.streaming.tables.shop import ShopLog

if TYPE_CHECKING:
    from pathlib import Path

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
