"""`docs/spark.md` says what the source does: its options, the columns of its views, its conditions, its links."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from binlog_connector.envelope.options import (
    BinaryHandling,
    DecimalHandling,
    EnvelopeFormat,
    TimePrecision,
    UnsignedBigintHandling,
)
from binlog_connector.options.message_view import MESSAGE_ROWS_SCHEMA
from binlog_connector.options.option_values import OPTIONS
from binlog_connector.options.source_options import SourceOptions, View
from binlog_connector.options.view_options import KAFKA_VALUE, MESSAGE_OPTIONS
from binlog_connector.spark.schema import to_spark
from binlog_format.log_format import Bound
from binlog_format.rows.decoding import TimeType, ZeroDates
from binlog_format.structured.view import LOGS_SCHEMA
from binlog_format.views.changefeed import ChangefeedView
from binlog_format.views.changes import ChangesView
from binlog_format.views.events import EVENTS_SCHEMA
from binlog_format.views.snapshot_events import MARK_TYPE
from binlog_format.views.tables import STATEMENT_TYPE, TABLES_SCHEMA
from binlog_format.views.transactions import TRANSACTIONS_SCHEMA
from tests.connector.shop import Shop
from tests.docs.markdown import REPO, table_rows

if TYPE_CHECKING:
    from pathlib import Path

GUIDE = "docs/spark.md"
ANCHORED = ("README.md", GUIDE, "docs/reading.md")


def plain(cell: str) -> str:
    return cell.replace("`", "")


def rows_of_options() -> dict[str, list[str]]:
    return {plain(row[0]): row[1:] for row in table_rows(GUIDE, "## Options")}


def test_table_of_options_is_the_one_in_the_code() -> None:
    documented = [(name, plain(row[1]), plain(row[2])) for name, row in rows_of_options().items()]
    assert documented == [(option.name, option.default, str(option.queries)) for option in OPTIONS]
    assert all(row[0] and row[3] for row in rows_of_options().values())


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("view", set(View)),
        ("timeType", set(TimeType)),
        ("zeroDates", set(ZeroDates)),
        ("bound", set(Bound)),
        ("failOnDataLoss", {"true", "false"}),
        ("failOnStatement", {"true", "false"}),
        ("skipDamaged", {"true", "false"}),
        ("kafkaValue", {EnvelopeFormat.DEBEZIUM, EnvelopeFormat.FLAT}),
        ("decimalHandling", set(DecimalHandling)),
        ("unsignedBigintHandling", set(UnsignedBigintHandling)),
        ("binaryHandling", set(BinaryHandling)),
        ("timePrecision", set(TimePrecision)),
        ("messageVersion", {"1", "2", "3"}),
    ],
)
def test_values_of_an_option_are_those_in_the_code(name: str, values: set[str]) -> None:
    documented = set(re.findall(r"`([^`]+)`", rows_of_options()[name][0]))
    assert documented == {str(value) for value in values}


def test_documented_defaults_are_what_holds() -> None:
    bare = SourceOptions.parse({"path": "x"})
    said = {"path": "x"} | {
        name: plain(row[1])
        for name, row in rows_of_options().items()
        if row[1].startswith("`") and not name.startswith("ending")
    }
    of_messages = {name: said.pop(name) for name in MESSAGE_OPTIONS if name in said}
    assert SourceOptions.parse(said) == bare
    assert len(said) > 8
    asked = {"path": "x", KAFKA_VALUE: "flat", "topicPrefix": "x"}
    assert SourceOptions.parse(asked | of_messages) == SourceOptions.parse(asked)
    assert len(of_messages) > 5


@pytest.mark.parametrize(
    ("heading", "view"),
    [
        ("### `changes`: one changed row", View.CHANGES),
        ("### `events`: one replication event", View.EVENTS),
        ("### `transactions`: one event group", View.TRANSACTIONS),
        ("### `tables`: one table touched in a partition", View.TABLES),
        ("### `logs`: one event of a structured log", View.LOGS),
    ],
)
def test_columns_of_a_view_are_those_in_the_code(heading: str, view: View) -> None:
    schemas = {
        View.CHANGES: ChangesView().schema(None),
        View.EVENTS: EVENTS_SCHEMA,
        View.TRANSACTIONS: TRANSACTIONS_SCHEMA,
        View.TABLES: TABLES_SCHEMA,
        View.LOGS: LOGS_SCHEMA,
    }
    documented = [(plain(row[0]), plain(row[1])) for row in table_rows(GUIDE, heading)]
    statement = to_spark(pa.schema(list(STATEMENT_TYPE))).simpleString()  # it has a table of its own
    mark = to_spark(pa.schema(list(MARK_TYPE))).simpleString()
    fields = [(field.name, field.dataType.simpleString()) for field in to_spark(schemas[view])]
    assert documented == [(name, kind.replace(statement, "DDL").replace(mark, "MARK")) for name, kind in fields]


def test_columns_of_messages_are_those_in_the_code() -> None:
    documented = [(plain(row[0]), plain(row[1])) for row in table_rows(GUIDE, "#### Messages for Kafka")]
    assert documented == [(field.name, field.dataType.simpleString()) for field in to_spark(MESSAGE_ROWS_SCHEMA)]


@pytest.mark.parametrize(
    ("heading", "kind"), [("A statement in `ddl` has", STATEMENT_TYPE), ("A mark in `marks` has", MARK_TYPE)]
)
def test_fields_of_a_statement_are_those_in_the_code(heading: str, kind: pa.StructType) -> None:
    documented = [(plain(row[0]), plain(row[1])) for row in table_rows(GUIDE, heading)]
    fields = to_spark(pa.schema(list(kind)))
    assert documented == [(field.name, field.dataType.simpleString()) for field in fields]


def test_columns_of_the_changefeed_follow_the_table_s(tmp_path: Path) -> None:
    from binlog_format import open_log

    with Shop(tmp_path) as shop:
        shop.sell(1)
    with open_log(str(tmp_path)) as log:
        view = ChangefeedView(table="shop.items", include_absent=True, include_sequence=True)
        schema = next(iter(view.batches(log.committed_blocks()))).schema
    columns = [(field.name, field.dataType.simpleString()) for field in to_spark(schema)]
    documented = [
        (plain(row[0]), plain(row[1])) for row in table_rows(GUIDE, "### `changefeed`: one row image of one table")
    ]
    assert columns == [("id", "bigint"), ("name", "string"), *documented]


@pytest.mark.parametrize("document", ANCHORED)
def test_links_to_headings_lead_to_one(document: str) -> None:
    folder = (REPO / document).parent
    wrong = []
    for target, anchor in re.findall(r"\]\((?!https?://)([^)#]*)#([^)]+)\)", (REPO / document).read_text()):
        text = (folder / target if target else REPO / document).read_text()
        headings = re.findall(r"^#+ (.*)$", text, flags=re.MULTILINE)
        anchors = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
        if anchor not in anchors:
            wrong.append(f"{target}#{anchor}")
    assert wrong == []


def test_named_conditions_are_described() -> None:
    errors = (REPO / "docs/errors.md").read_text()
    losses = [row[1] for row in table_rows(GUIDE, "### What happens after a purge, a reset, a crash")]
    names = [name for cell in losses for name in re.findall(r"`([A-Z_]+)`", cell)]
    assert len(names) >= 7
    assert [name for name in names if name not in errors] == []
