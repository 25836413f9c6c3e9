"""Sessions in ROW, MIXED and STATEMENT on a MariaDB server: every change is in row events, or is named."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.log_ddl import ServerRuns, all_statements
from binlog_connector.schema.row_format import Lacking, RowFormat
from binlog_connector.schema.statement_scope import StatementScope
from binlog_connector.schema.table_changes import RowsChanged, TableTruncated, table_changes
from binlog_format import open_log
from binlog_format.events.layout import EventType
from binlog_format.views.filters import TableFilter

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from pymysql.cursors import Cursor

    from binlog_lab.demo.mariadb.server import MariaDbServer

pytestmark = pytest.mark.server

SETUP = (
    "CREATE DATABASE shop",
    "CREATE DATABASE other",
    "USE shop",
    "CREATE TABLE orders (id INT PRIMARY KEY, v VARCHAR(90))",
    "CREATE TABLE items (id INT PRIMARY KEY AUTO_INCREMENT, v VARCHAR(90))",
    "CREATE TABLE journal (v VARCHAR(90))",
    "CREATE TABLE triggered (id INT)",
    "CREATE TABLE plain (id INT) ENGINE = MyISAM",
    "CREATE TABLE other.orders LIKE shop.orders",
    "CREATE TABLE parts (id INT) PARTITION BY HASH (id) PARTITIONS 2",
    "CREATE TABLE period (id INT, s DATE, e DATE, PERIOD FOR p (s, e))",
    "CREATE TABLE versioned (id INT PRIMARY KEY) WITH SYSTEM VERSIONING",
    "CREATE SEQUENCE numbers ENGINE = MyISAM",
    "CREATE VIEW seen AS SELECT * FROM orders",
    "CREATE TRIGGER tr AFTER INSERT ON triggered FOR EACH ROW INSERT INTO journal VALUES (NEW.id)",
    "CREATE FUNCTION writes (p INT) RETURNS INT DETERMINISTIC BEGIN INSERT INTO journal VALUES (p); RETURN p; END",
    "CREATE PROCEDURE calls (p INT) BEGIN INSERT INTO journal VALUES (p); SELECT writes(p); END",
)

ORDERS, ITEMS, JOURNAL = (f"shop.{name}" for name in ("orders", "items", "journal"))
ANY = "any"

STATEMENTS: tuple[tuple[str, Sequence[str]], ...] = (
    ("INSERT INTO orders VALUES (1, 'a'), (2, 'b'), (3, 'c')", [ORDERS]),
    ("insert low_priority ignore into `shop`.`orders` values (4, 'x')", [ORDERS]),
    ("/* hi */ INSERT /*!40000 HIGH_PRIORITY */ INTO items SELECT id + 10, v FROM orders", [ITEMS]),
    ("/*!50000 INSERT INTO orders VALUES (77, 'q') */", [ORDERS]),
    ("/*M! INSERT INTO orders VALUES (78, 'q') */", [ORDERS]),
    ("-- why\nINSERT INTO orders VALUES (1, 'd') ON DUPLICATE KEY UPDATE v = 'z'", [ORDERS]),
    ("INSERT INTO orders SET id = 79, v = 'set'", [ORDERS]),
    ("REPLACE other.orders VALUES (1, 'r')", ["other.orders"]),
    ("INSERT INTO orders VALUES (80, 'x') RETURNING id", [ORDERS]),
    ("INSERT INTO orders WITH c AS (SELECT 500 id) SELECT id, 'w' FROM c", [ORDERS]),
    ("UPDATE orders SET v = 'k' WHERE id = 1", [ORDERS]),
    ("UPDATE LOW_PRIORITY IGNORE orders AS x, other.orders y SET x.v = '1', y.v = '2'", [ORDERS, "other.orders"]),
    ("UPDATE orders x JOIN (SELECT id FROM items) q ON q.id = x.id + 10 SET x.v = 'j'", [ORDERS]),
    ("UPDATE orders o JOIN other.orders p USING (id) SET p.v = o.v", ["other.orders"]),
    ("UPDATE seen SET v = 'view' WHERE id = 1", [ANY]),
    ("UPDATE period FOR PORTION OF p FROM '2000-02-01' TO '2000-03-01' SET id = 5", ["shop.period"]),
    ("UPDATE parts PARTITION (p0, p1) SET id = 3", ["shop.parts"]),
    ("DELETE FROM orders WHERE id = 2", [ORDERS]),
    ("DELETE a1 FROM orders a1, other.orders b1 WHERE a1.id = b1.id AND a1.id = 999", [ORDERS]),
    ("DELETE FROM a1, b1 USING orders a1 JOIN other.orders b1 WHERE a1.id = 999", [ORDERS, "other.orders"]),
    ("DELETE orders.* FROM orders WHERE id = 3", [ORDERS]),
    ("DELETE FROM parts PARTITION (p0)", ["shop.parts"]),
    ("DELETE HISTORY FROM versioned", ["shop.versioned"]),
    ("INSERT INTO triggered VALUES (1)", [ANY]),
    ("INSERT INTO items VALUES (writes(200), 'f')", [ANY]),
    ("DO writes(5)", [ANY]),
    ("SELECT writes(6)", [ANY]),
    ("CALL calls(1)", [JOURNAL, ANY]),
    ("SET STATEMENT max_statement_time = 10 FOR INSERT INTO orders VALUES (90, 'ss')", [ORDERS]),
    ("ANALYZE INSERT INTO orders VALUES (91, 'an')", [ORDERS]),
    ("ANALYZE FORMAT = JSON UPDATE orders SET v = 'an' WHERE id = 91", [ORDERS]),
    ("EXECUTE IMMEDIATE 'INSERT INTO orders VALUES (92, 1)'", [ORDERS]),
    (
        "BEGIN NOT ATOMIC INSERT INTO orders VALUES (93, 'c'); UPDATE items SET v = 'd'; END",
        [ORDERS, ITEMS],
    ),
    ("SET sql_mode = ANSI_QUOTES", []),
    ("""INSERT INTO "orders" VALUES (94, 'ansi')""", [ORDERS]),
    ("SET sql_mode = DEFAULT", []),
    ("ALTER SEQUENCE numbers RESTART 100", []),
    ("CREATE TABLE made SELECT * FROM orders", ["shop.made"]),
    ("CREATE OR REPLACE TABLE made SELECT * FROM orders", ["shop.made"]),
    ("CREATE TEMPORARY TABLE orders (id INT PRIMARY KEY, v VARCHAR(5))", []),
    ("INSERT INTO orders VALUES (1, 't')", []),
    ("UPDATE orders SET v = 'tt'", []),
    ("INSERT INTO items SELECT id + 300, v FROM orders", [ITEMS]),
    ("UPDATE orders JOIN items ON items.id = orders.id + 300 SET orders.v = 'x', items.v = 'y'", [ITEMS]),
    ("TRUNCATE TABLE orders", []),
    ("ALTER TABLE orders ADD COLUMN z INT", []),
    ("DROP TABLE orders", []),
    ("LOAD DATA INFILE '{file}' REPLACE INTO TABLE `orders` FIELDS TERMINATED BY ','", [ORDERS]),
    ("DELETE FROM plain", []),  # all of them: as TRUNCATE
    ("TRUNCATE plain", []),
    ("ANALYZE TABLE orders", []),
    ("OPTIMIZE TABLE orders", []),
    ("FLUSH TABLES", []),
    ("GRANT SELECT ON shop.* TO x@localhost IDENTIFIED BY 'q'", []),
    ("SET PASSWORD FOR x@localhost = PASSWORD('w')", []),
    ("DROP USER x@localhost", []),
    ("CREATE OR REPLACE VIEW seen2 AS SELECT 1", []),
)


def names(found: list[Lacking]) -> list[str]:
    return [str(name) for one in found for name in (one.names if one.names is not None else (ANY,))]


def lacking_in(path: Path) -> list[Lacking]:
    row_format = RowFormat(TableFilter())
    with open_log(str(path)) as log:
        runs = ServerRuns(log)
        return [one for block in log.committed_blocks() for one in row_format.lacking(block, server_runs=runs)]


def row_tables(path: Path) -> int:
    """Table maps in the log."""
    with open_log(str(path)) as log:
        return sum(int((block.events["type"] == EventType.TABLE_MAP).sum()) for block in log.committed_blocks())


def set_up(cursor: Cursor) -> None:
    for statement in SETUP:
        cursor.execute(statement)


@pytest.mark.parametrize("statement_format", ["ROW", "MIXED", "STATEMENT"])
def test_each_statement_is_named_with_its_tables_or_logged_row_by_row(
    mariadb_server: MariaDbServer, tmp_path: Path, statement_format: str
) -> None:
    file = tmp_path / "in.csv"
    file.write_text("1000,a\n1001,b\n")
    file.chmod(0o644)
    log = mariadb_server.binlog_directory
    with mariadb_server.connect() as connection, connection.cursor() as cursor:
        set_up(cursor)
        cursor.execute(f"SET binlog_format = {statement_format}")
        seen, rows = len(lacking_in(log)), row_tables(log)
        for statement, expected in STATEMENTS:
            cursor.execute(statement.format(file=file))
            while cursor.nextset():
                pass
            found = lacking_in(log)
            new, seen = set(names(found[seen:])), len(found)
            before, rows = rows, row_tables(log)
            if statement_format == "STATEMENT":
                assert new == set(expected), statement
            elif statement_format == "ROW":
                assert not new, statement
            else:
                assert new <= set(expected), statement
                assert new == set(expected) or rows > before, statement


def test_statement_that_a_rollback_cannot_take_back_is_named(mariadb_server: MariaDbServer) -> None:
    """One about a table without transactions; the log does not state which tables are."""
    with mariadb_server.connect() as connection, connection.cursor() as cursor:
        for statement in (
            *SETUP,
            "SET binlog_format = STATEMENT",
            "START TRANSACTION",
            "INSERT INTO orders VALUES (699, 'tx')",
            "SAVEPOINT a",
            "INSERT INTO plain VALUES (700)",
            "DELETE FROM items",
            "ROLLBACK TO a",
            "ROLLBACK",
        ):
            cursor.execute(statement)
        cursor.execute("SELECT * FROM plain")
        assert cursor.fetchall() == ((700,),)
    found = lacking_in(mariadb_server.binlog_directory)
    assert names(found) == [ORDERS, "shop.plain", "shop.items"]
    with open_log(str(mariadb_server.binlog_directory)) as opened:
        statements = [one for block in opened.committed_blocks() for _, _, one in all_statements(block)]
    (emptied,) = [one for one in statements if one.text == "DELETE FROM items"]
    assert StatementScope().changes(emptied) == [RowsChanged((TableName("shop", "items"),))], "it was taken back"


def test_restart_of_the_server_ends_temporary_tables_and_empties_memory_tables(mariadb_server: MariaDbServer) -> None:
    log = mariadb_server.binlog_directory
    with mariadb_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE shop")
        cursor.execute("CREATE TABLE shop.kept (id INT)")
        cursor.execute("CREATE TABLE shop.cached (id INT) ENGINE = MEMORY")
        cursor.execute("INSERT INTO shop.cached VALUES (1)")
        cursor.execute("SET binlog_format = STATEMENT")
        cursor.execute("CREATE TEMPORARY TABLE shop.kept (id INT)")
        thread = connection.thread_id()
        cursor.execute("INSERT INTO shop.kept VALUES (1)")
        assert lacking_in(log) == []
        mariadb_server.kill()
    mariadb_server.start()
    with mariadb_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT * FROM shop.cached")
        assert cursor.fetchall() == ()
        cursor.execute("SET binlog_format = STATEMENT")
        cursor.execute(f"SET pseudo_thread_id = {thread}")
        cursor.execute("INSERT INTO shop.kept VALUES (2)")
    assert names(lacking_in(log)) == ["shop.kept"]
    with open_log(str(log)) as opened:
        statements = [one for block in opened.committed_blocks() for _, _, one in all_statements(block)]
    (emptied,) = [one for one in statements if "cached" in one.text and not one.text.startswith("CREATE")]
    assert table_changes(emptied) == [TableTruncated(TableName("shop", "cached"))]
