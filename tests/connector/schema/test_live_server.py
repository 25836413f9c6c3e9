"""DDL on a live MariaDB: what is worked out from the statements alone is what FULL metadata has afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from binlog_connector.schema.history import SchemaHistory
from binlog_format import open_log
from binlog_format.transactions.expansion import expanded
from tests.connector.schema.layouts import differences, seen_layouts

if TYPE_CHECKING:
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
