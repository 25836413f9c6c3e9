"""Definitions against those of real servers: SHOW CREATE TABLE, information_schema, FULL metadata."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from binlog_connector.schema.catalog import Catalog, parse_dump
from binlog_connector.schema.definitions import TableDefinition
from binlog_connector.schema.history import SchemaHistory
from binlog_connector.schema.parsing.ddl import parse_ddl
from binlog_connector.schema.parsing.session import StatementSession
from binlog_format import open_log
from binlog_format.transactions.expansion import expanded
from tests.connector.schema.layouts import differences, log_layouts, seen_layouts, undeclared
from tests.corpus import SERVER_CASES
from tests.truth.truth_case import expected_json

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_connector.schema.definitions import ColumnDefinition
    from binlog_format.events.table_map import Column

CASES = sorted(path.parent for path in SERVER_CASES.glob("*/*/mysql-bin.index"))
READABLE = [case for case in CASES if case.name != "encrypted"]


def _name(case: Path) -> str:
    return f"{case.parent.name}/{case.name}"


def _schemas(case: Path) -> list[dict[str, Any]]:
    return [schema for schema in expected_json(case).get("schemas", []) if schema.get("create")]


def _defined(create: str) -> TableDefinition:
    catalog = Catalog()
    for operation in parse_ddl(create, StatementSession("x")):
        catalog.apply(operation)
    (state,) = catalog.tables.values()
    assert isinstance(state, TableDefinition), state
    return state


def _column_type(column: ColumnDefinition) -> str:
    """As information_schema has it, but for what is not kept: display widths, ZEROFILL."""
    labels = ",".join("'" + text.replace("'", "''") + "'" for text in column.enum_values or ())
    text = column.declared + (f"({labels})" if column.enum_values is not None else "")
    return text + (" unsigned" if column.unsigned and column.declared[:4] != "year" else "")


def _server_type(column: dict[str, Any]) -> str:
    text = re.sub(r" /\*.*?\*/| zerofill", "", column["column_type"])
    return "geometrycollection" if text == "geomcollection" else text


@pytest.mark.parametrize("case", CASES, ids=_name)
def test_show_create_table_gives_what_information_schema_says(case: Path) -> None:
    schemas = _schemas(case)
    for schema in schemas:
        definition = _defined(schema["create"])
        assert definition.columns is not None
        listed = len(schema["columns"])
        # Implicit columns of system versioning are last; information_schema may list them, SHOW CREATE TABLE does not.
        assert all(column.implicit for column in definition.columns[listed:])
        for column, truth in zip(definition.columns, schema["columns"], strict=False):
            assert column.name == truth["name"]
            if column.declared == "json":  # MariaDB's is a longtext with a check
                assert truth["column_type"] in ("json", "longtext")
                continue
            assert (_column_type(column), None if column.charset == "binary" else column.charset) == (
                _server_type(truth),
                truth["charset"],
            )
        key = [name for name in definition.primary_key if name not in ("row_end", "re")]
        assert key == [name for name in schema["pk"] if name != "re"]
    assert schemas or case.name.startswith(("oltp", "torn", "hugeblob"))


@pytest.mark.parametrize("case", READABLE, ids=_name)
def test_ddl_in_the_log_gives_what_full_metadata_says(case: Path) -> None:
    """The table maps of these logs are looked at as if they had no metadata."""
    history = SchemaHistory()
    with open_log(str(case)) as log:
        seen = list(seen_layouts(history.observed(expanded(log.blocks()))))
    found, compared = differences(history, [one for one in seen if one.layout.has_names])
    assert found == []
    assert compared or case.name in WITHOUT_NAMES


WITHOUT_NAMES = {
    "types_minimal_nolog": "types_full",
    "types_noblob_metamin": "types_full",
    "ops_nochecksum": "ops",
    "ops_minimal": "ops",
}


def _columns_by_table(case: Path, history: SchemaHistory | None) -> dict[str, list[list[Column]]]:
    """Of each table its layouts, in order."""
    tables: dict[str, list[list[Column]]] = {}
    with open_log(str(case)) as log:
        for layout, position in log_layouts(log):
            known = layout if history is None else history.completed(layout, position)
            columns = undeclared(known.columns)
            layouts = tables.setdefault(layout.full_name, [])
            if columns not in layouts[-1:]:
                layouts.append(columns)
    return tables


@pytest.mark.parametrize("name", WITHOUT_NAMES)
def test_log_without_names_is_completed_from_its_ddl_as_its_sibling_says_itself(name: str) -> None:
    """The sibling ran the same statements with binlog_row_metadata=FULL."""
    case = SERVER_CASES / "mariadb-10.11" / name
    history = SchemaHistory()
    with open_log(str(case)) as log:
        assert history.scan_ddl(log) > 30
    ours = _columns_by_table(case, history)
    truth = _columns_by_table(case.parent / WITHOUT_NAMES[name], None)
    assert len(ours) > 15
    for table, layouts in ours.items():
        # Some columns were left out of the siblings of types_full.
        same = [columns for columns in truth[table] if len(columns) in {len(layout) for layout in layouts}]
        if len(layouts) == len(same):
            assert layouts == same, table
        else:
            assert name.startswith("types"), (table, len(layouts), len(same))
    assert sum(len(truth[table]) == len(layouts) and truth[table] == layouts for table, layouts in ours.items()) > 15


@pytest.mark.parametrize("name", ["types_minimal_nolog", "types_noblob_metamin"])
def test_log_without_names_is_completed_from_a_schema_file_as_its_sibling_says_itself(name: str) -> None:
    case = SERVER_CASES / "mariadb-10.11" / name
    creates = [schema["create"] + ";" for schema in _schemas(case)]
    dump = "\n".join(["-- made by hand", "CREATE DATABASE t;", "USE t;", *creates])
    ours = _columns_by_table(case, SchemaHistory(parse_dump(dump)))
    truth = _columns_by_table(case.parent / WITHOUT_NAMES[name], None)
    assert all(column.name for layouts in ours.values() for columns in layouts for column in columns)
    assert sum(truth[table] == layouts for table, layouts in ours.items()) > 15


def test_two_phase_alter_takes_effect_at_its_commit() -> None:
    """START ALTER and COMMIT ALTER carry the same text; what is logged between them has the old columns."""
    history = SchemaHistory()
    with open_log(str(SERVER_CASES / "mariadb-10.11" / "ops")) as log:
        history.scan_ddl(log)
    twice = [one for one in history.statements if one.text == "ALTER TABLE many ADD COLUMN extra INT, ALGORITHM=COPY"]
    assert len(twice) == 1
    assert twice[0].position in history.edges("t", "many")
