"""Statements that change rows without row events, and others that only look like it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.streaming.bad_days.scenario import Refused, Scenario

if TYPE_CHECKING:
    from tests.streaming.bad_days.scenario import Settings

ORDERS = """
CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20), amount INT);
INSERT INTO orders VALUES (1, 'a', 10), (2, 'b', 20), (3, 'c', 30);
"""
ITEMS = """
CREATE TABLE items (id INT PRIMARY KEY, amount INT);
INSERT INTO items VALUES (1, 1), (2, 2);
"""
IN_STATEMENT = "SET SESSION binlog_format = STATEMENT;\n"
IN_MIXED = "SET SESSION binlog_format = MIXED;\n"
ONLY_ORDERS: Settings = {"select": r"day\.orders"}
EXCLUDED: Settings = {"excludeTables": r"day\d*\.(items|loading|visits)"}
ONLY_ITEMS: Settings = {"select": r"day\.items"}


def statement(*texts: str) -> Refused:
    """The error about a statement that changes rows: the table and the statement."""
    return Refused("BINLOG_UNSUPPORTED.STATEMENT_FORMAT", texts)


REFUSED = (
    Scenario(
        "update_in_mixed",
        ORDERS + IN_MIXED + "UPDATE orders SET amount = amount + 1 WHERE id > 1;",
        statement("day.orders", "UPDATE orders SET amount = amount + ?"),
        is_alone=True,
    ),
    Scenario(
        "insert", ORDERS + IN_STATEMENT + "INSERT INTO orders VALUES (4, 'd', 40);", statement("day.orders", "INSERT")
    ),
    Scenario(
        "delete", ORDERS + IN_STATEMENT + "DELETE FROM orders WHERE id = 2;", statement("day.orders", "DELETE FROM")
    ),
    Scenario(
        "replace", ORDERS + IN_STATEMENT + "REPLACE INTO orders VALUES (1, 'z', 0);", statement("day.orders", "REPLACE")
    ),
    Scenario(
        "insert_or_update",
        ORDERS + IN_MIXED + "INSERT INTO orders VALUES (1, 'x', 1) ON DUPLICATE KEY UPDATE amount = 11;",
        statement("day.orders", "ON DUPLICATE KEY"),
    ),
    Scenario(
        "load_data",
        ORDERS
        + "SELECT id + 10, name, amount FROM orders INTO OUTFILE '{folder}/rows.csv';\n"
        + IN_STATEMENT
        + "LOAD DATA INFILE '{folder}/rows.csv' INTO TABLE orders;",
        statement("day.orders", "LOAD DATA"),
        is_alone=True,
    ),
    Scenario(
        "update_of_two_tables",
        ORDERS + ITEMS + IN_MIXED + "UPDATE items i JOIN orders o USING (id) SET o.amount = i.amount, i.amount = 0;",
        statement("day.orders", "UPDATE items i JOIN orders o"),
        rule=ONLY_ORDERS,
    ),
    Scenario(
        "delete_from_two_tables",
        ORDERS + ITEMS + IN_MIXED + "DELETE o, i FROM orders AS o JOIN items AS i USING (id) WHERE o.id = 1;",
        statement("day.orders", "DELETE o, i FROM orders"),
        rule=ONLY_ORDERS,
    ),
    Scenario(
        "insert_select",
        ORDERS + ITEMS + IN_STATEMENT + "INSERT INTO items SELECT id + 10, amount FROM orders;",
        statement("day.items", "INSERT INTO items SELECT"),
        rule=ONLY_ITEMS,
    ),
    Scenario(
        "from_another_database",
        ORDERS + "USE other;\n" + IN_STATEMENT + "UPDATE day.orders SET amount = 0;",
        statement("day.orders", "UPDATE day.orders"),
        rule=ONLY_ORDERS,
    ),
    Scenario(
        "between_row_events_of_one_transaction",
        ORDERS + IN_MIXED + "BEGIN;\nINSERT INTO orders VALUES (10, UUID_SHORT() MOD 7, 0);\n"
        "UPDATE orders SET amount = 5 WHERE id = 1;\nCOMMIT;",
        statement("day.orders", "UPDATE orders SET amount = ?"),
    ),
    Scenario(
        "after_a_comment",
        ORDERS + IN_MIXED + "/* checkout 4711 */ UPDATE orders SET amount = 1 WHERE id = 1;",
        statement("day.orders", "UPDATE orders"),
    ),
    Scenario(
        "in_an_executable_comment",
        ORDERS + IN_MIXED + "/*!50000 UPDATE orders SET amount = 1 WHERE id = 1 */;",
        statement("day.orders", "UPDATE orders"),
        rule=ONLY_ORDERS,
    ),
    Scenario(
        "with_ansi_quotes",
        ORDERS + IN_MIXED + "SET sql_mode = 'ANSI_QUOTES';\nUPDATE \"orders\" SET amount = 1 WHERE id = 1;",
        statement("day.orders", 'UPDATE "orders"'),
        rule=ONLY_ORDERS,
    ),
    Scenario(
        "compressed_by_the_server",
        ORDERS
        + "SET GLOBAL log_bin_compress = 1;\n"
        + IN_MIXED
        + f"UPDATE orders SET name = 'compressed' /* {'x' * 400} */ WHERE id = 1;",
        statement("day.orders", "UPDATE orders SET name"),
    ),
    Scenario(
        "through_a_view",
        ORDERS
        + "CREATE VIEW open_orders AS SELECT * FROM orders;\n"
        + IN_MIXED
        + "UPDATE open_orders SET amount = 99 WHERE id = 2;",
        statement("UPDATE open_orders"),
        rule=ONLY_ORDERS,
        is_alone=True,
    ),
    Scenario(
        "by_a_trigger_of_a_table_that_is_not_selected",
        ORDERS
        + ITEMS
        + "CREATE TRIGGER paid AFTER UPDATE ON items FOR EACH ROW UPDATE orders SET amount = 0 WHERE id = NEW.id;\n"
        + IN_MIXED
        + "UPDATE items SET amount = 7 WHERE id = 1;",
        statement("UPDATE items SET amount = ?"),
        rule=ONLY_ORDERS,
        is_alone=True,
    ),
    Scenario(
        "by_a_function_in_a_select",
        ORDERS
        + "CREATE FUNCTION pay(n INT) RETURNS INT DETERMINISTIC BEGIN UPDATE orders SET amount = 0 WHERE id = n; "
        "RETURN n; END;\n" + IN_STATEMENT + "SELECT pay(2);",
        statement("pay"),
        rule=ONLY_ORDERS,
        is_alone=True,
    ),
    Scenario(
        "by_a_function_in_a_statement_about_another_table",
        ORDERS
        + ITEMS
        + "CREATE FUNCTION pay(n INT) RETURNS INT DETERMINISTIC BEGIN UPDATE orders SET amount = 0 WHERE id = n; "
        "RETURN n; END;\n" + IN_STATEMENT + "INSERT INTO items VALUES (pay(2) + 100, 0);",
        statement("pay"),
        rule=ONLY_ORDERS,
        is_alone=True,
    ),
    Scenario(
        "by_a_procedure",
        ORDERS
        + "CREATE PROCEDURE pay(n INT) UPDATE orders SET amount = 0 WHERE id = n;\n"
        + IN_STATEMENT
        + "CALL pay(2);",
        statement("day.orders", "UPDATE orders SET amount = ?"),
    ),
    Scenario(
        "in_an_xa_transaction",
        ORDERS
        + IN_MIXED
        + "XA START 'x';\nINSERT INTO orders VALUES (9, 'x', 9);\nXA END 'x';\nXA PREPARE 'x';\nXA COMMIT 'x';",
        statement("day.orders", "INSERT INTO orders"),
    ),
    Scenario(
        "of_an_engine_without_transactions_that_a_rollback_leaves",
        "CREATE TABLE visits (id INT PRIMARY KEY) ENGINE=MyISAM;\n"
        + ORDERS
        + IN_STATEMENT
        + "BEGIN;\nUPDATE orders SET amount = 0;\nINSERT INTO visits VALUES (1);\nROLLBACK;",
        statement("INSERT INTO visits"),
        rule={"select": r"day\.visits"},
    ),
    Scenario(
        "after_a_restart_of_the_job",
        ORDERS + "--! run\n" + IN_MIXED + "DELETE FROM orders WHERE id = 3;\n",
        statement("day.orders", "DELETE FROM orders"),
    ),
    Scenario(
        "that_creates_a_table_of_a_query",
        ORDERS + IN_STATEMENT + "CREATE TABLE paid SELECT id, amount FROM orders WHERE amount > 10;",
        statement("day.paid", "CREATE TABLE paid"),
        rule={"select": r"day\.paid"},
    ),
    Scenario(
        "that_replaces_a_table_by_a_query",
        ORDERS
        + "CREATE TABLE paid (id INT PRIMARY KEY);\nINSERT INTO paid VALUES (1);\n"
        + IN_STATEMENT
        + "CREATE OR REPLACE TABLE paid (id INT PRIMARY KEY) SELECT id, amount FROM orders;",
        statement("day.paid", "CREATE OR REPLACE TABLE paid"),
        rule={"select": r"day\.paid"},
    ),
    Scenario(
        "from_a_temporary_table",
        ORDERS
        + IN_STATEMENT
        + "CREATE TEMPORARY TABLE fresh (id INT PRIMARY KEY);\nINSERT INTO fresh VALUES (71), (72);\n"
        + "INSERT INTO orders SELECT id, 'fresh', 0 FROM fresh;\nDROP TEMPORARY TABLE fresh;",
        statement("day.orders", "INSERT INTO orders SELECT"),
    ),
)

EQUAL = (
    Scenario(
        "unsafe_ones_that_mixed_logs_as_rows", ORDERS + IN_MIXED + "INSERT INTO orders VALUES (4, LEFT(UUID(), 8), 1);"
    ),
    Scenario(
        "about_tables_that_are_not_selected",
        ORDERS + ITEMS + IN_STATEMENT + "UPDATE items SET amount = 3;\nDELETE FROM items WHERE id = 1;",
        rule=ONLY_ORDERS,
    ),
    Scenario(
        "about_excluded_tables",
        ORDERS + ITEMS + IN_MIXED + "INSERT INTO items SELECT id + 50, 0 FROM orders;\nTRUNCATE items;",
        source=EXCLUDED,
    ),
    Scenario("rolled_back", ORDERS + IN_STATEMENT + "BEGIN;\nUPDATE orders SET amount = 0;\nROLLBACK;"),
    Scenario(
        "rolled_back_to_a_savepoint",
        ORDERS + IN_STATEMENT + "BEGIN;\nSAVEPOINT s;\nUPDATE orders SET amount = 0;\nROLLBACK TO s;\nCOMMIT;",
    ),
    Scenario(
        "rolled_back_beside_an_excluded_engine_without_transactions",
        "CREATE TABLE visits (id INT PRIMARY KEY) ENGINE=MyISAM;\n"
        + ORDERS
        + IN_STATEMENT
        + "BEGIN;\nUPDATE orders SET amount = 0;\nINSERT INTO visits VALUES (1);\nROLLBACK;",
        statement("UPDATE orders SET amount = ?"),
        may_go_on=True,
        rule=ONLY_ORDERS,
    ),
    Scenario(
        "administration",
        ORDERS
        + IN_STATEMENT
        + "CREATE OR REPLACE USER clerk@localhost;\nGRANT SELECT ON day.orders TO clerk@localhost;\n"
        + "SET PASSWORD FOR clerk@localhost = PASSWORD('made up');\nDROP USER clerk@localhost;\nFLUSH TABLES;\n"
        + "ANALYZE TABLE orders;\nOPTIMIZE TABLE orders;\nCREATE VIEW v AS SELECT * FROM orders;\nDROP VIEW v;\n"
        + "CREATE PROCEDURE nothing() SELECT 1;\nDROP PROCEDURE nothing;\n"
        + "CREATE TRIGGER t BEFORE DELETE ON orders FOR EACH ROW SET @gone = OLD.id;\nDROP TRIGGER t;\n"
        + "CREATE EVENT nightly ON SCHEDULE EVERY 1 DAY DO DELETE FROM orders;\nDROP EVENT nightly;\n"
        + "BEGIN;\nSET @a = 1;\nCOMMIT;\nCREATE INDEX by_name ON orders (name);\nDROP INDEX by_name ON orders;",
    ),
    Scenario(
        "a_table_of_a_query_in_row_format",
        ORDERS + "CREATE TABLE paid (PRIMARY KEY (id)) SELECT id, amount FROM orders;",
    ),
    Scenario(
        "a_table_replaced_by_a_query_in_row_format",
        ORDERS
        + "CREATE TABLE paid (id INT PRIMARY KEY);\nINSERT INTO paid VALUES (1), (99);\n"
        + "CREATE OR REPLACE TABLE paid (PRIMARY KEY (id)) SELECT id, name FROM orders WHERE id < 3;",
    ),
    Scenario(
        "a_memory_table_emptied_by_a_restart",
        ORDERS
        + "CREATE TABLE sessions (id INT PRIMARY KEY) ENGINE=MEMORY;\nINSERT INTO sessions VALUES (1), (2);\n"
        + "--! restart\nSELECT * FROM sessions;\nINSERT INTO sessions VALUES (3);",
    ),
    Scenario(
        "ignored_by_the_job",
        ORDERS
        + "SET sql_log_bin = 0;\nCREATE TABLE truth.orders SELECT * FROM orders;\n"
        + "INSERT INTO truth.orders VALUES (4, 'd', 40);\nSET sql_log_bin = 1;\n"
        + IN_MIXED
        + "UPDATE orders SET amount = 0;\nSET SESSION binlog_format = ROW;\nINSERT INTO orders VALUES (4, 'd', 40);",
        rule={"on_statement": "ignore"},
        truth={"day.orders": "truth.orders"},
    ),
)

TEMPORARY = tuple(
    Scenario(
        f"temporary_tables_in_{name}",
        ORDERS + setting + "CREATE TEMPORARY TABLE work (id INT PRIMARY KEY, name VARCHAR(9));\n"
        "INSERT INTO work VALUES (1, 'x'), (2, 'y');\n"
        + "UPDATE work SET name = 'z';\nALTER TABLE work ADD amount INT;\nTRUNCATE TABLE work;\n"
        + "CREATE TEMPORARY TABLE copied SELECT * FROM orders;\nDELETE FROM copied;\nDROP TEMPORARY TABLE work;",
    )
    for name, setting in (("row", ""), ("mixed", IN_MIXED), ("statement", IN_STATEMENT))
) + tuple(
    Scenario(
        f"temporary_table_with_the_name_of_a_selected_one_is_{name}",
        ORDERS + IN_STATEMENT + f"CREATE TEMPORARY TABLE orders (id INT PRIMARY KEY, other INT);\n"
        f"INSERT INTO orders VALUES (7, 7);\n{sql}\n"
        + "DROP TEMPORARY TABLE IF EXISTS orders;\nSET SESSION binlog_format = ROW;\n"
        "INSERT INTO orders VALUES (4, 'd', 40);",
        Refused(r"BINLOG_\w+\.\w+", ("day.orders",)),
        may_go_on=True,
        rule={"on_drop": "apply"},
    )
    for name, sql in (
        ("filled", "UPDATE orders SET other = 8;"),
        ("truncated", "TRUNCATE TABLE orders;"),
        ("altered", "ALTER TABLE orders ADD third INT DEFAULT 3;"),
        ("dropped", "DROP TABLE orders;"),
        ("renamed", "ALTER TABLE orders RENAME TO elsewhere;\nDROP TABLE elsewhere;"),
        ("indexed", "CREATE INDEX by_other ON orders (other);"),
    )
)

SEQUENCES = tuple(
    Scenario(
        f"sequence_in_{name}",
        ORDERS
        + setting
        + "CREATE SEQUENCE numbers START WITH 100 INCREMENT BY 10 CACHE 5;\nSELECT NEXTVAL(numbers);\n"
        + sql,
    )
    for name, setting, sql in (
        ("row_next", "", "SELECT NEXTVAL(numbers);"),
        ("row_set", "", "SELECT SETVAL(numbers, 500);\nSELECT NEXTVAL(numbers);"),
        ("row_altered", "", "ALTER SEQUENCE numbers RESTART 900;\nSELECT NEXTVAL(numbers);"),
        ("mixed_next", IN_MIXED, "SELECT NEXTVAL(numbers);"),
        ("mixed_set", IN_MIXED, "SELECT SETVAL(numbers, 500);"),
        ("mixed_altered", IN_MIXED, "ALTER SEQUENCE numbers INCREMENT BY 3 RESTART 900;"),
        ("mixed_insert", IN_MIXED, "CREATE TABLE t (id INT);\nINSERT INTO t VALUES (NEXTVAL(numbers));"),
    )
)

SCENARIOS = (*REFUSED, *EQUAL, *TEMPORARY, *SEQUENCES)
