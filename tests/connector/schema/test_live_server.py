"""DDL on a live MariaDB: definitions and foreign keys, computed from the statements alone, are those of the server."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.foreign_keys import CASCADE, SET_NULL, ForeignKey, ForeignKeys
from binlog_connector.schema.history import SchemaHistory
from binlog_connector.schema.parsing.ddl import parse_ddl
from binlog_connector.schema.parsing.session import StatementSession
from binlog_format import open_log
from binlog_format.names import folded_name
from binlog_format.transactions.expansion import expanded
from binlog_format.vendor import Vendor
from tests.connector.schema.layouts import differences, seen_layouts

if TYPE_CHECKING:
    import pymysql

    from binlog_lab.demo.mariadb.server import MariaDbServer


pytestmark = pytest.mark.server

# After each statement a row is written into every table that there is.
STATEMENTS = (Path(__file__).parent / "live_statements.sql").read_text().splitlines()


@pytest.mark.parametrize("two_phase", [False, True])
def test_definitions_from_ddl_are_what_full_metadata_says(mariadb_server: MariaDbServer, two_phase: bool) -> None:
    with mariadb_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL binlog_row_metadata=FULL")
        cursor.execute("SET sql_mode='', binlog_format=ROW, foreign_key_checks=0")
        cursor.execute(f"SET binlog_alter_two_phase={int(two_phase)}")
        cursor.execute("CREATE DATABASE t CHARACTER SET latin1")
        cursor.execute("USE t")
        failed = []
        for statement in STATEMENTS:
            try:
                cursor.execute(statement)
            except Exception as error:
                failed.append((statement, str(error)))
            cursor.execute(
                "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type NOT LIKE '%VIEW' AND "
                "table_schema NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')"
            )
            tables = cursor.fetchall()
            cursor.execute("SELECT @@sql_mode")
            mode = cursor.fetchone()[0]
            cursor.execute("SET sql_mode=''")
            for database, table in tables:
                if table != "seq":
                    name = ".".join("`" + part.replace("`", "``") + "`" for part in (database, table))
                    cursor.execute(f"DELETE FROM {name}")
                    cursor.execute(f"INSERT IGNORE INTO {name} () VALUES ()")
            cursor.execute("SET sql_mode=%s", [mode])
        assert failed == []
    history = SchemaHistory()
    with open_log(str(mariadb_server.binlog_directory)) as log:
        found, compared = differences(history, seen_layouts(history.observed(expanded(log.blocks()))))
    assert found == []
    assert compared > 50


def test_names_fold_letter_by_letter_as_the_server_does(mariadb_server: MariaDbServer) -> None:
    letters = "".join(chr(code) for code in range(0x80, 0xFFFE) if not 0xD800 <= code < 0xE000)
    with mariadb_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT LOWER(CONVERT(%s USING utf8mb3) COLLATE utf8mb3_general_ci)", [letters])
        ((small,),) = cursor.fetchall()
    assert "".join(map(folded_name, letters)) == small == folded_name(letters)
    assert small != letters.lower()


KEY_STATEMENTS = (
    "CREATE DATABASE o",
    "CREATE TABLE p (id INT PRIMARY KEY, code INT UNIQUE, KEY (id, code))",
    "CREATE TABLE o.p (id INT PRIMARY KEY)",
    (
        "CREATE TABLE c (a INT REFERENCES p (id) ON DELETE CASCADE, b INT, "
        "FOREIGN KEY f (b) REFERENCES p (id) ON DELETE SET NULL, "
        "CONSTRAINT con FOREIGN KEY i (b) REFERENCES p (code) ON UPDATE CASCADE, "
        "CONSTRAINT FOREIGN KEY (a) REFERENCES p (id), "
        "FOREIGN KEY (a, b) REFERENCES p (id, code) ON DELETE NO ACTION ON UPDATE SET NULL)"
    ),
    "CREATE TABLE o.c (a INT, KEY (a), FOREIGN KEY (a) REFERENCES p (id) ON UPDATE SET NULL)",
    "CREATE TABLE s (id INT PRIMARY KEY, up INT, FOREIGN KEY (up) REFERENCES s (id) ON DELETE CASCADE)",
    "ALTER TABLE c ADD x INT REFERENCES p (id) ON DELETE CASCADE, ADD FOREIGN KEY IF NOT EXISTS n (x) REFERENCES p(id)",
    "ALTER TABLE c DROP FOREIGN KEY con, DROP CONSTRAINT f",
    "ALTER TABLE c DROP FOREIGN KEY c_ibfk_2, ADD FOREIGN KEY (b) REFERENCES o.p (id) ON DELETE CASCADE",
    "ALTER TABLE c RENAME cc",
    "RENAME TABLE cc TO o.c2, p TO p2",
    "ALTER TABLE o.c2 CHANGE a aa INT, RENAME COLUMN b TO bb",
    "ALTER TABLE p2 CHANGE id number INT",
    "CREATE TABLE l LIKE o.c2",
    "CREATE OR REPLACE TABLE s (id INT PRIMARY KEY)",
    "CREATE TABLE IF NOT EXISTS o.c (id INT)",
    "SET foreign_key_checks=0",
    "CREATE TABLE new (number INT PRIMARY KEY, code INT UNIQUE, KEY (number, code))",
    "RENAME TABLE p2 TO old, new TO p2",
    "DROP TABLE p2",
    "DROP TABLE old",
    "DROP TABLE o.c2",
)


def _of_server(cursor: pymysql.cursors.Cursor) -> dict[tuple[TableName, str], ForeignKey]:
    cursor.execute(
        "SELECT k.constraint_schema, k.table_name, k.constraint_name, GROUP_CONCAT(column_name ORDER BY "
        "ordinal_position), k.referenced_table_schema, k.referenced_table_name, GROUP_CONCAT(referenced_column_name "
        "ORDER BY ordinal_position), MIN(delete_rule), MIN(update_rule) FROM information_schema.key_column_usage k "
        "JOIN information_schema.referential_constraints r ON r.constraint_schema = k.constraint_schema AND "
        "r.table_name = k.table_name AND r.constraint_name = k.constraint_name GROUP BY 1, 2, 3, 5, 6"
    )
    found = {}
    for schema, table, name, columns, parent_schema, parent, parent_columns, on_delete, on_update in cursor.fetchall():
        found[TableName(schema, table), name] = ForeignKey(
            name,
            tuple(columns.split(",")),
            TableName(parent_schema, parent),
            tuple(parent_columns.split(",")),
            _action(on_delete),
            _action(on_update),
        )
    return found


def _action(rule: str) -> str:
    return rule if rule in (CASCADE, SET_NULL) else ""


def test_foreign_keys_are_those_of_the_server(mariadb_server: MariaDbServer) -> None:
    known = ForeignKeys()
    wrong = []
    counts = []
    with mariadb_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE t")
        cursor.execute("USE t")
        for statement in KEY_STATEMENTS:
            cursor.execute(statement)
            for operation in parse_ddl(statement, StatementSession("t", vendor=Vendor.MARIADB)):
                known.apply(operation)
            if "foreign_key_checks" in statement or statement.startswith("DROP TABLE"):
                continue  # the server shows no key whose parent is gone
            expected = _of_server(cursor)
            found = {
                (child, key.name): replace(key, inline=False) for child, keys in known.keys.items() for key in keys
            }
            counts.append(len(expected))
            if found != expected:
                wrong.append((statement, found, expected))
    assert wrong == []
    assert max(counts) >= 6
    assert {str(child) for child in known.keys} == {"o.c"}
