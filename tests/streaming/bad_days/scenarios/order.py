"""GTIDs that go back, several domains, restarts, kills, XA; and tables that are set aside while others go on."""

from __future__ import annotations

from tests.streaming.bad_days.scenario import Refused, Scenario
from tests.streaming.bad_days.scenarios.partitions import BY_ID, DROP_FIRST
from tests.streaming.bad_days.scenarios.statements import IN_MIXED, ITEMS, ORDERS

MORE = "INSERT INTO orders VALUES (4, 'd', 40);\n"
BACK = "SET SESSION gtid_seq_no = 5;\nUPDATE orders SET amount = 5 WHERE id = 1;\nDELETE FROM orders WHERE id = 2;\n"
DOMAINS = (
    "SET SESSION gtid_domain_id = 7;\nUPDATE orders SET amount = 7 WHERE id = 1;\nSET SESSION gtid_domain_id = 0;\n"
    "UPDATE orders SET amount = 0 WHERE id = 1;\nSET SESSION server_id = 99;\n"
    "UPDATE orders SET name = 'x' WHERE id = 3;\n"
)
PREPARED = """
XA START 'x';
INSERT INTO orders VALUES (6, 'x', 60);
UPDATE orders SET amount = 1 WHERE id = 1;
XA END 'x';
XA PREPARE 'x';
"""
ANY = Refused(r"BINLOG_\w+\.\w+", ("day.",))

ORDER = (
    Scenario("gtids_that_go_back", ORDERS + "SET SESSION gtid_seq_no = 5000;\n" + MORE + BACK),
    Scenario(
        "gtids_that_go_back_between_runs",
        ORDERS + "SET SESSION gtid_seq_no = 5000;\n" + MORE + "--! run\n" + BACK,
        is_alone=True,
    ),
    Scenario(
        "gtids_that_come_twice",
        ORDERS + "SET SESSION gtid_seq_no = 300;\n" + MORE + "SET SESSION gtid_seq_no = 300;\n"
        "DELETE FROM orders WHERE id = 4;",
    ),
    Scenario("several_domains", ORDERS + DOMAINS),
    Scenario("several_domains_between_runs", ORDERS + DOMAINS + "--! run\n" + DOMAINS.replace("'x'", "'y'")),
    Scenario("restarted", ORDERS + "--! restart\n" + MORE),
    Scenario("killed", ORDERS + MORE + "--! kill\nDELETE FROM orders WHERE id = 4;\n"),
    Scenario(
        "killed_between_runs",
        ORDERS + "--! run\n--! kill\n" + MORE + "--! run\n--! restart\nDELETE FROM orders WHERE id = 1;",
    ),
    Scenario(
        "killed_with_an_open_transaction",
        ORDERS + "BEGIN;\nINSERT INTO orders VALUES (8, 'h', 80);\n--! session second\n" + MORE + "--! kill\n"
        "INSERT INTO orders VALUES (9, 'i', 90);",
    ),
    Scenario(
        "xa_committed",
        ORDERS + PREPARED + "--! session second\n" + MORE.replace("4", "5") + "--! session main\nXA COMMIT 'x';",
    ),
    Scenario("xa_rolled_back", ORDERS + PREPARED + "XA ROLLBACK 'x';\n" + MORE),
    Scenario(
        "xa_never_ended",
        ORDERS + PREPARED + "--! session second\n" + MORE + "--! end\n--! session main\nXA ROLLBACK 'x';",
    ),
    Scenario(
        "xa_committed_in_another_run", ORDERS + PREPARED.replace("'x'", "'y'") + "--! run\nXA COMMIT 'y';\n" + MORE
    ),
    Scenario(
        "xa_committed_after_a_kill", ORDERS + PREPARED.replace("'x'", "'z'") + "--! kill\nXA COMMIT 'z';\n" + MORE
    ),
    Scenario(
        "xa_prepared_before_the_purge",
        ORDERS + PREPARED.replace("'x'", "'w'") + "--! purge\nXA COMMIT 'w';\n",
        Refused(r"BINLOG_DATA_LOSS\.XA_PREPARE_MISSING|BINLOG_TABLE\.INCOMPLETE", ()),
        is_alone=True,
        rule={"begin": "empty"},
    ),
    Scenario(
        "partial_images",
        "SET SESSION binlog_row_image = MINIMAL;\n" + ORDERS + "UPDATE orders SET amount = 0 WHERE id = 1;\n"
        "DELETE FROM orders WHERE id = 3;\nREPLACE INTO orders VALUES (2, 'z', 1), (9, 'n', 9);",
    ),
    Scenario("nothing_at_all", "CREATE TABLE orders (id INT PRIMARY KEY);"),
    Scenario(
        "two_phase_alter",
        ORDERS
        + "SET SESSION binlog_alter_two_phase = 1;\nALTER TABLE orders ADD note INT DEFAULT 3, ALGORITHM=COPY;\n"
        + MORE.replace("40", "40, 1"),
    ),
    Scenario(
        "two_phase_alter_that_is_refused",
        ORDERS + "INSERT INTO orders VALUES (5, 'a', 10);\nSET SESSION binlog_alter_two_phase = 1;\n"
        "--! fails\nALTER TABLE orders ADD UNIQUE (name), ADD note INT DEFAULT 3, ALGORITHM=COPY;\n" + MORE,
    ),
    Scenario(
        "drop_of_several_of_which_one_is_missing",
        ORDERS + ITEMS + "--! fails\nDROP TABLE items, nothing_of_that_name;\n" + MORE,
        rule={"on_drop": "apply"},
    ),
    Scenario(
        "insert_that_fails_in_the_middle_without_transactions",
        "CREATE TABLE visits (id INT PRIMARY KEY) ENGINE=MyISAM;\nINSERT INTO visits VALUES (3);\n"
        "--! fails\nINSERT INTO visits VALUES (1), (2), (3), (4);\n",
    ),
    Scenario(
        "insert_that_fails_in_the_middle_as_a_statement",
        "CREATE TABLE visits (id INT PRIMARY KEY) ENGINE=MyISAM;\nINSERT INTO visits VALUES (3);\n"
        + IN_MIXED
        + "--! fails\nINSERT INTO visits VALUES (1), (2), (3), (4);\n",
        Refused("BINLOG_UNSUPPORTED.STATEMENT_FORMAT", ("day.visits",)),
    ),
    Scenario(
        "versioned_by_the_server",
        "CREATE TABLE orders (id INT PRIMARY KEY, amount INT) WITH SYSTEM VERSIONING;\n"
        "INSERT INTO orders VALUES (1, 1), (2, 2);\n"
        "UPDATE orders SET amount = 9 WHERE id = 1;\nDELETE FROM orders WHERE id = 2;\nDELETE HISTORY FROM orders;",
        ANY,
        may_go_on=True,
    ),
    Scenario(
        "database_dropped_and_made_again",
        "CREATE TABLE other.orders (id INT PRIMARY KEY);\n"
        "INSERT INTO other.orders VALUES (1), (2);\nDROP DATABASE other;\n"
        "CREATE DATABASE other;\nCREATE TABLE other.orders (id INT PRIMARY KEY, b INT);\n"
        "INSERT INTO other.orders VALUES (7, 7);",
    ),
    Scenario(
        "type_of_another_kind",
        ORDERS + "ALTER TABLE orders MODIFY amount VARCHAR(9);\nINSERT INTO orders VALUES (4, 'd', 'forty');\n",
    ),
    Scenario(
        "names_that_differ_in_case",
        "CREATE TABLE Orders (id INT PRIMARY KEY);\nINSERT INTO Orders VALUES (1);\n"
        + ORDERS
        + "TRUNCATE TABLE Orders;\n"
        + MORE,
    ),
)

ASIDE = (
    Scenario(
        "a_table_set_aside_stays_so_in_the_next_run",
        ORDERS
        + ITEMS
        + IN_MIXED
        + "UPDATE orders SET amount = 0;\n--! run\nSET SESSION binlog_format = ROW;\n"
        + MORE
        + "INSERT INTO items VALUES (9, 9);",
        Refused("BINLOG_UNSUPPORTED.STATEMENT_FORMAT", ("day.orders",)),
    ),
    Scenario(
        "a_table_that_gets_the_rows_of_one_set_aside",
        ORDERS
        + ITEMS
        + IN_MIXED
        + "UPDATE orders SET amount = 0;\nRENAME TABLE orders TO sold;\nINSERT INTO items VALUES (9, 9);",
        Refused(r"BINLOG_\w+\.\w+", ("day.",)),
    ),
    Scenario(
        "two_tables_of_one_statement",
        ORDERS
        + ITEMS
        + "CREATE TABLE well (id INT PRIMARY KEY);\nINSERT INTO well VALUES (1);\n"
        + IN_MIXED
        + "UPDATE orders JOIN items USING (id) SET orders.amount = 0, items.amount = 0;\n"
        "INSERT INTO well VALUES (5 + ISNULL(UUID()));",
        Refused("BINLOG_UNSUPPORTED.STATEMENT_FORMAT", ("day.",)),
    ),
    Scenario(
        "one_for_its_partitions",
        BY_ID + ORDERS + DROP_FIRST + MORE,
        Refused(r"BINLOG_\w+\.\w+", ("day.visits",)),
    ),
    Scenario(
        "one_for_a_type_that_does_not_fit",
        ORDERS
        + ITEMS
        + "ALTER TABLE orders ADD place POINT;\nUPDATE orders SET place = POINT(1, 2);\n"
        + "ALTER TABLE orders MODIFY place VARBINARY(50);\nINSERT INTO items VALUES (9, 9);",
        Refused(r"BINLOG_TABLE\.REWRITTEN_BY_SERVER", ("day.orders",)),
    ),
    Scenario(
        "one_for_a_column_whose_values_no_log_has",
        ORDERS
        + ITEMS
        + "ALTER TABLE orders ADD double_amount INT AS (amount * 2) STORED;\nINSERT INTO items VALUES (9, 9);",
        Refused(r"BINLOG_SCHEMA\.\w+", ("day.orders",)),
    ),
)

SCENARIOS = (*ORDER, *ASIDE)
