"""Definitions from table maps, alone and with what else is known."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from binlog_connector.schema.definitions import ColumnDefinition, TableDefinition, TableName
from binlog_connector.schema.history import SchemaHistory
from binlog_connector.schema.layout_definitions import definition_from_layout, merged_definition
from binlog_format import open_log
from binlog_format.events.table_map import Column, TableLayout
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows.declared.declared_types import Generated
from binlog_format.vendor import Vendor
from tests.connector.schema.layouts import bare, log_layouts
from tests.corpus import SERVER_CASES

if TYPE_CHECKING:
    from pathlib import Path

CASES = sorted(path.parent for path in SERVER_CASES.glob("*/*/mysql-bin.index") if path.parent.name != "encrypted")
ID = Column("id", ColumnType.LONG, 0, False, unsigned=False)
UUID = Column("u", ColumnType.STRING, ColumnType.STRING | 16 << 8, True, charset="binary")
DEFINED = (
    ColumnDefinition("id", "int(11)", nullable=False, unsigned=False),
    ColumnDefinition("U", "uuid", generated=Generated.STORED),
)


def _layout(*columns: Column, key: tuple[int, ...] = (), vendor: Vendor = Vendor.MARIADB) -> TableLayout:
    return TableLayout("shop", "t", columns, key, "0" * 16, bytes(40), vendor)


def _definition(*columns: ColumnDefinition) -> TableDefinition:
    return TableDefinition(TableName("shop", "t"), columns)


def _comparable(declared: str) -> str:
    """Without what no table map has: widths of integers, digits of floating types, that FLOAT(30) is DOUBLE."""
    text = re.sub(r"^(tinyint|smallint|mediumint|int|bigint|float|double|year)\(.*\)", r"\1", declared)
    return {"char": "char(1)", "binary": "binary(1)", "bit": "bit(1)", "decimal": "decimal(10,0)"}.get(text, text)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.parent.name}/{case.name}")
def test_what_a_table_map_states_is_what_the_statement_declared(case: Path) -> None:
    """All attributes that are not unknown are those of the CREATE TABLE in the log."""
    history = SchemaHistory()
    with open_log(str(case)) as log:
        history.scan_ddl(log)
        seen = list(log_layouts(log))
    compared = 0
    for layout, position in seen:
        for shown in (layout, bare(layout)):
            made = definition_from_layout(shown)
            stated = history.definition(layout.database, layout.table, position)
            if stated is None or stated.columns is None or len(stated.columns) != len(layout.columns):
                continue
            for own, other in zip(made.columns or (), stated.columns, strict=True):
                if own.knows("name"):
                    assert own.name.casefold() == other.name.casefold()
                if own.knows("declared"):
                    assert _comparable(own.declared) == _comparable(other.declared), own.name
                    compared += 1
                for name in ("unsigned", "charset", "enum_values"):
                    value = getattr(own, name)
                    if own.knows(name) and value is not None and getattr(other, name) is not None:
                        assert value == getattr(other, name), (own.name, name)
            if made.knows("primary_key"):
                places = [made.column_index(name) for name in made.primary_key]
                assert tuple(places) in {*stated.row_keys(), ()}, layout.full_name
                assert places or not any(key.primary for key in stated.keys), layout.full_name
    assert compared or not seen


def test_what_no_table_map_has_is_unknown() -> None:
    made = definition_from_layout(_layout(ID, UUID, key=(0,)))
    assert made.primary_key == ("id",)
    assert made.knows("primary_key")
    assert not made.knows("keys")
    assert not made.knows("partitioning")
    identity, uuid = made.columns or ()
    assert not identity.knows("generated")
    assert not identity.knows("default")
    assert identity.knows("unsigned")
    assert (uuid.declared, uuid.knows("declared")) == ("binary(16)", False)
    assert definition_from_layout(_layout(UUID, vendor=Vendor.MYSQL)).columns[0].knows("declared")  # type: ignore[index]


def test_attributes_are_unknown_that_less_metadata_leaves_out() -> None:
    made = definition_from_layout(bare(_layout(ID, UUID, key=(0,))))
    assert not made.knows("primary_key")
    identity, uuid = made.columns or ()
    assert not identity.knows("name")
    assert not identity.knows("unsigned")
    assert not uuid.knows("charset")
    assert not uuid.knows("declared")


def test_sources_are_merged_by_attribute() -> None:
    """A table map with all names does not make the type, and that a column is generated, unknown."""
    made = merged_definition(_layout(ID, replace(UUID, nullable=False)), _definition(*DEFINED))
    assert made.columns == (DEFINED[0], replace(DEFINED[1], name="u", nullable=False, charset="binary"))
    assert made.columns[1].knows("generated")


def test_a_column_that_only_the_table_map_has_is_partly_unknown() -> None:
    new = Column("n", ColumnType.DATETIME2, 3, True)
    made = merged_definition(_layout(ID, new, UUID), _definition(*DEFINED))
    assert [column.declared for column in made.columns or ()] == ["int(11)", "datetime(3)", "uuid"]
    assert [column.knows("generated") for column in made.columns or ()] == [True, False, True]
    assert not made.knows("keys")


def test_a_definition_that_contradicts_the_table_map_states_nothing() -> None:
    text = Column("u", ColumnType.BLOB, 2, True, charset="utf8mb4")
    made = merged_definition(_layout(ID, text), _definition(*DEFINED))
    assert [column.declared for column in made.columns or ()] == ["int(11)", "text"]
    assert [column.knows("generated") for column in made.columns or ()] == [True, False]
    nameless = merged_definition(bare(_layout(ID, text)), _definition(*DEFINED))
    assert not any(column.knows("generated") for column in nameless.columns or ())
