"""Statements and table maps of real logs: what statements contain of columns is what table maps contain."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from binlog_connector.schema.effects.column_facts import default_facts
from binlog_connector.schema.history import SchemaHistory
from binlog_connector.schema.log_ddl import DdlStatement, table_statements
from binlog_connector.schema.statement_rows import find_statement_rows
from binlog_connector.schema.table_changes import (
    PartitionsDropped,
    TableAltered,
    TableCreated,
    UnsupportedChange,
    table_changes,
)
from binlog_format import open_log
from binlog_format.events.table_map_layout import OLD_TEMPORAL_TYPES, ColumnType
from binlog_format.rows.columns import arrow_schema
from binlog_format.rows.declared.completion import declared_layout
from binlog_format.rows.decoding import Decoding
from binlog_format.transactions.expansion import expanded
from binlog_format.vendor import Vendor
from binlog_format.views.tables import STATEMENT_TYPE, TABLES_SCHEMA, TablesView
from tests.connector.schema.layouts import seen_layouts
from tests.corpus import SERVER_CASES

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_format.events.table_map import Column, TableLayout

CASES = [path.parent for path in sorted(SERVER_CASES.glob("*/*/mysql-bin.index")) if path.parent.name != "encrypted"]
NOT_TODAY_S = OLD_TEMPORAL_TYPES | {ColumnType.BLOB_COMPRESSED, ColumnType.VARCHAR_COMPRESSED}


def _name(case: Path) -> str:
    return f"{case.parent.name}/{case.name}"


def _vendor(case: Path) -> Vendor:
    return Vendor.MYSQL if case.parent.name.startswith("mysql") else Vendor.MARIADB


def _code(column: Column) -> tuple[ColumnType, int]:
    return column.type, column.metadata


def _typed(case: Path) -> list[tuple[TableLayout, TableLayout]]:
    """Each layout of a case, and what the statements before it make of its columns."""
    history = SchemaHistory()
    found = {}
    with open_log(str(case)) as log:
        for layout, position in seen_layouts(history.observed(expanded(log.blocks()))):
            definition = history.definition(layout.database, layout.table, position)
            if definition is not None and definition.columns is not None:
                said = declared_layout(layout.database, layout.table, definition.completion(), layout.vendor)
                found[layout.digest] = (history.completed(layout, position), said)
    return list(found.values())


@pytest.mark.thorough
@pytest.mark.parametrize("case", CASES, ids=_name)
def test_columns_from_statements_have_the_types_of_table_maps(case: Path) -> None:
    found = _typed(case)
    for layout, said in found:
        assert arrow_schema(said).equals(arrow_schema(layout)), layout.full_name
        for logged, ours in zip(layout.columns, said.columns, strict=True):
            if logged.type not in NOT_TODAY_S:
                assert _code(ours) == _code(logged), (layout.full_name, logged)
    assert found


@pytest.mark.thorough_where("rotation|ops_|types_[mno]|huge|json|torn|oltp")
@pytest.mark.parametrize("case", CASES, ids=_name)
def test_every_statement_is_understood_and_comes_through_the_view(case: Path) -> None:
    kinds: Counter[type] = Counter()
    with open_log(str(case)) as log:
        statements = [one for block in log.committed_blocks() for _, _, one in table_statements(block)]
        history = SchemaHistory()
        view = TablesView(decoding=Decoding(history), find_statements=find_statement_rows)
        batches = view.batches(history.observed(log.committed_blocks()))
        rows = [row for batch in batches for row in batch.to_pylist() if row["index"] is None]
    for statement in statements:
        for change in table_changes(statement):
            kinds[type(change)] += 1
            assert not isinstance(change, UnsupportedChange) or isinstance(change, PartitionsDropped), statement
            if isinstance(change, TableCreated) and change.columns is None:
                assert "LIKE" in statement.text.upper() or "SELECT" in statement.text.upper(), statement
            if isinstance(change, TableAltered):
                assert change
            assert statement.commit_time >= 1_000_000_000
            assert statement.gtid is not None
    told = [one for row in rows for one in map(DdlStatement.from_row, row["ddl"]) if one.rows is None]
    assert told == [one for one in statements if one in set(told)]
    assert all(not table_changes(one) for one in statements if one not in set(told))
    assert kinds[TableCreated]


def test_row_of_a_statement_has_the_columns_of_the_view() -> None:
    with open_log(str(SERVER_CASES / "mariadb-10.11" / "ops")) as log:
        row = next(row for block in log.committed_blocks() for _, row in find_statement_rows(block))
    assert list(row) == STATEMENT_TYPE.names
    assert TABLES_SCHEMA.field("ddl").type.value_type == STATEMENT_TYPE


def test_two_phase_alter_comes_once() -> None:
    with open_log(str(SERVER_CASES / "mariadb-10.11" / "ops")) as log:
        statements = [one for block in log.committed_blocks() for _, _, one in table_statements(block)]
    twice = "ALTER TABLE many ADD COLUMN extra INT, ALGORITHM=COPY"
    (statement,) = [one for one in statements if one.text == twice]
    (change,) = table_changes(statement)
    assert isinstance(change, TableAltered)
    assert [one.name for one in change.added] == ["extra"]


def test_defaults_are_known_of_the_columns_of_every_type() -> None:
    history = SchemaHistory()
    unknown: Counter[str] = Counter()
    case = SERVER_CASES / "mariadb-10.11" / "types_full"
    with open_log(str(case)) as log:
        for layout, position in seen_layouts(history.observed(expanded(log.blocks()))):
            definition = history.definition(layout.database, layout.table, position)
            assert definition is not None
            for column, logged in zip(definition.columns or (), layout.columns, strict=True):
                facts = default_facts(replace(column, nullable=logged.nullable), _vendor(case))
                unknown[facts.unknown or ""] += 1
    assert unknown[""] > 100
    assert sum(unknown.values()) - unknown[""] < 0.2 * unknown[""], unknown
