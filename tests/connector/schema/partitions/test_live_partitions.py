"""Partitions of a live MariaDB: `SELECT ... PARTITION (p)` has the rows that are worked out to be in it."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from binlog_connector.schema.catalog import Catalog
from binlog_connector.schema.definitions import TableDefinition, TableName
from binlog_connector.schema.parsing.ddl import parse_ddl
from binlog_connector.schema.parsing.session import StatementSession
from binlog_connector.schema.partitions.rows import partition_rows
from binlog_connector.schema.table_changes import PartitionsDropped
from binlog_format.rows.columns import arrow_schema
from binlog_format.rows.declared.completion import declared_layout
from binlog_format.vendor import Vendor
from tests.connector.schema.partitions.tables import (
    COLUMNS_COUNT,
    EXPRESSION_COUNT,
    Column,
    Table,
    by_columns,
    by_expression,
    literal,
    rows_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pymysql

    from binlog_format.events.table_map import TableLayout
    from binlog_lab.demo.mariadb.server import MariaDbServer
    from tests.connector.schema.partitions.tables import Value

pytestmark = pytest.mark.server

ROWS = 60
SEED = 20261122
T = TableName("t", "t")
SESSION = StatementSession("t", vendor=Vendor.MARIADB, time_zone="+02:30")


def _definition(*statements: str) -> TableDefinition:
    catalog = Catalog()
    for statement in statements:
        for operation in parse_ddl(statement, SESSION):
            catalog.apply(operation, SESSION.vendor)
    state = catalog.tables[T]
    assert isinstance(state, TableDefinition)
    return state


def _arrow(definition: TableDefinition, rows: Sequence[tuple[Value, ...]]) -> pa.Table:
    """The rows as readers of the log have them."""
    layout: TableLayout = declared_layout("t", "t", definition.completion(), Vendor.MARIADB)
    schema = arrow_schema(layout)
    columns = zip(*[(number, *row) for number, row in enumerate(rows)], strict=True)
    return pa.table([pa.array(column, field.type) for column, field in zip(columns, schema, strict=True)], schema)


class _Tables:
    """Tables on a server; each one is compared with what is worked out.

    Attributes:
        wrong: Statements and partitions where the two differ.
        partitions: How many have been compared.
        rows: How many have been found in them.
    """

    def __init__(self, cursor: pymysql.cursors.Cursor, draw: random.Random) -> None:
        self._cursor = cursor
        self._draw = draw
        self.wrong: list[tuple[str, str]] = []
        self.partitions = self.rows = 0

    def values(self, expression: str, column: Column) -> list[int | None]:
        """What the server makes of an expression."""
        self._cursor.execute(f"CREATE OR REPLACE TABLE v (c0 {column.declared})")
        self._insert("v", rows_of([column], self._draw, 12))
        self._cursor.execute(f"SELECT {expression} + 0 FROM v")
        return [None if value is None else int(value) for (value,) in self._cursor.fetchall()]

    def compare(self, table: Table) -> None:
        """Create and fill a table, and compare each of its partitions."""
        self._cursor.execute("DROP TABLE IF EXISTS t")
        self._cursor.execute(table.create)
        rows = rows_of(table.columns, self._draw, ROWS)
        self._insert("t", [(number, *row) for number, row in enumerate(rows)])
        self._cursor.execute("SHOW CREATE TABLE t")
        shown = self._cursor.fetchone()[1]
        for create in (table.create, shown):  # as a log has it, and as a dump has it
            definition = _definition(create)
            arrow = _arrow(definition, rows)
            for name in table.partitions:
                change = PartitionsDropped((T,), "", (name,))
                found = arrow.filter(partition_rows(definition, change).mask(arrow)).column("id").to_pylist()
                self._cursor.execute(f"SELECT id FROM t PARTITION ({name}) ORDER BY id")
                expected = [number for (number,) in self._cursor.fetchall()]
                if found != expected:
                    self.wrong.append((create, f"{name}: {found} != {expected}"))
                self.partitions += 1
                self.rows += len(expected)

    def _insert(self, table: str, rows: Sequence[tuple[Value, ...]]) -> None:
        values = ", ".join(f"({', '.join(map(literal, row))})" for row in rows)
        self._cursor.execute(f"INSERT INTO {table} VALUES {values}")


def test_rows_of_partitions_are_those_of_the_server(mariadb_server: MariaDbServer) -> None:
    draw = random.Random(SEED)
    with mariadb_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL sync_binlog=0, GLOBAL innodb_flush_log_at_trx_commit=0")
        cursor.execute("SET sql_log_bin=0, time_zone='+00:00', default_storage_engine=MyISAM")
        cursor.execute("CREATE DATABASE t")
        cursor.execute("USE t")
        tables = _Tables(cursor, draw)
        for number in range(EXPRESSION_COUNT):
            tables.compare(by_expression(number, draw, tables.values))
        for number in range(COLUMNS_COUNT):
            for _ in range(2):
                tables.compare(by_columns(number, draw))
    assert tables.wrong == []
    assert tables.partitions > 300
    assert tables.rows > 1500
