"""Logs that begin in the middle of a table's life."""

from __future__ import annotations

from tests.streaming.bad_days.scenario import Refused, Scenario
from tests.streaming.bad_days.scenarios.statements import EXCLUDED, IN_MIXED, ORDERS

INCOMPLETE = Refused("BINLOG_TABLE.INCOMPLETE", ("day.orders",))
FROM_OUTSIDE = Refused(r"BINLOG_TABLE\.INCOMPLETE|BINLOG_SCHEMA\.TABLE_RENAMED", ("day.orders",))
PURGED = ORDERS + "--! purge\n"
MORE = "INSERT INTO orders VALUES (4, 'd', 40);\n"
EMPTY = {"begin": "empty"}
SOURCE_GTID = {"startingGtid": "{here}"}

SCENARIOS = (
    Scenario("purged", PURGED + MORE, INCOMPLETE, is_alone=True),
    Scenario("purged_before_an_update", PURGED + "UPDATE orders SET amount = 0 WHERE id = 1;", INCOMPLETE),
    Scenario("purged_before_rows_were_deleted", PURGED + "DELETE FROM orders;", INCOMPLETE),
    Scenario(
        "purged_before_an_alter",
        PURGED + "ALTER TABLE orders ADD note TEXT;\n" + MORE.replace("40", "40, 'n'"),
        INCOMPLETE,
    ),
    Scenario(
        "purged_before_a_create_that_did_nothing",
        PURGED + "CREATE TABLE IF NOT EXISTS orders (id INT PRIMARY KEY, name VARCHAR(20), amount INT);\n" + MORE,
        INCOMPLETE,
    ),
    Scenario(
        "purged_beside_a_later_table",
        PURGED + MORE + "CREATE TABLE late (id INT PRIMARY KEY);\nINSERT INTO late VALUES (1);",
        INCOMPLETE,
    ),
    Scenario(
        "purged_with_versions", PURGED + "UPDATE orders SET amount = 0 WHERE id = 1;", INCOMPLETE, rule={"mode": "scd2"}
    ),
    Scenario("purged_before_a_truncate", PURGED + "TRUNCATE TABLE orders;\n" + MORE),
    Scenario("truncated_after_rows", PURGED + MORE + "TRUNCATE TABLE orders;\n" + MORE, INCOMPLETE, may_go_on=True),
    Scenario(
        "purged_before_the_table_was_made_again",
        PURGED + "DROP TABLE orders;\nCREATE TABLE orders (id INT PRIMARY KEY, other INT);\n"
        "INSERT INTO orders VALUES (1, 1);",
    ),
    Scenario(
        "purged_before_the_table_was_replaced",
        PURGED + "CREATE OR REPLACE TABLE orders (id INT PRIMARY KEY, other INT);\nINSERT INTO orders VALUES (1, 1);",
    ),
    Scenario(
        "purged_before_a_table_like_it",
        PURGED + "CREATE TABLE copied LIKE orders;\nINSERT INTO copied VALUES (4, 'd', 40);",
        rule={"select": r"day\.copied"},
    ),
    Scenario(
        "purged_before_its_rename",
        PURGED + "RENAME TABLE orders TO day.sold;\nINSERT INTO sold VALUES (4, 'd', 40);",
        Refused("BINLOG_TABLE.INCOMPLETE", ("day.",)),
    ),
    Scenario(
        "purged_when_it_was_empty",
        "CREATE TABLE orders (id INT PRIMARY KEY, name VARCHAR(20), amount INT);\n--! purge\n" + MORE,
        rule=EMPTY,
    ),
    Scenario(
        "purged_before_a_swap_of_names",
        PURGED + "CREATE TABLE fresh (id INT PRIMARY KEY, name VARCHAR(20), amount INT);\n"
        "INSERT INTO fresh VALUES (1, 'f', 1);\n" + "RENAME TABLE orders TO old, fresh TO orders;\n" + MORE,
        Refused("BINLOG_TABLE.INCOMPLETE", ("day.",)),
        may_go_on=True,
        rule={"select": r"day\.(orders|fresh)"},
    ),
    Scenario("starting_at_a_gtid", ORDERS + "--! gtid here\n" + MORE, INCOMPLETE, source=SOURCE_GTID),
    Scenario(
        "starting_at_a_gtid_before_the_table",
        "CREATE TABLE early (id INT);\n--! gtid here\n"
        + ORDERS
        + "CREATE TABLE b LIKE orders;\nINSERT INTO b SELECT * FROM orders;",
        source=SOURCE_GTID,
    ),
    Scenario("starting_latest", ORDERS + "--! run\n" + MORE, INCOMPLETE, source={"startingOffsets": "latest"}),
    Scenario("starting_latest_before_the_table", "--! run\n" + ORDERS + MORE, source={"startingOffsets": "latest"}),
    Scenario(
        "renamed_from_a_database_that_is_not_selected",
        "CREATE TABLE other.orders (id INT PRIMARY KEY);\nINSERT INTO other.orders VALUES (1), (2);\n"
        "RENAME TABLE other.orders TO day.orders;\nINSERT INTO orders VALUES (3);",
        FROM_OUTSIDE,
        rule={"select": r"day\..*"},
    ),
    Scenario(
        "altered_into_the_selection",
        "CREATE TABLE other.orders (id INT PRIMARY KEY);\nINSERT INTO other.orders VALUES (1), (2);\n"
        "ALTER TABLE other.orders RENAME TO day.orders, ADD note INT;\nINSERT INTO orders VALUES (3, 3);",
        FROM_OUTSIDE,
        rule={"select": r"day\..*"},
    ),
    Scenario(
        "renamed_into_the_selection_and_never_touched",
        "CREATE TABLE other.orders (id INT PRIMARY KEY);\nINSERT INTO other.orders VALUES (1), (2);\n"
        "RENAME TABLE other.orders TO day.orders;",
        FROM_OUTSIDE,
        rule={"select": r"day\..*"},
    ),
    Scenario(
        "renamed_from_an_excluded_table",
        "CREATE TABLE loading (id INT PRIMARY KEY);\nINSERT INTO loading VALUES (1), (2);\n"
        "RENAME TABLE loading TO orders;\nINSERT INTO orders VALUES (3);",
        FROM_OUTSIDE,
        source=EXCLUDED,
    ),
    Scenario(
        "renamed_in_a_circle_with_a_table_that_is_not_selected",
        ORDERS + "CREATE TABLE fresh (id INT PRIMARY KEY, name VARCHAR(20), amount INT);\n"
        "INSERT INTO fresh VALUES (7, 'f', 7);\n"
        "RENAME TABLE orders TO aside, fresh TO orders, aside TO fresh;\n" + MORE,
        FROM_OUTSIDE,
        rule={"select": r"day\.orders"},
    ),
    Scenario(
        "created_if_it_did_not_exist",
        ORDERS + "CREATE TABLE IF NOT EXISTS orders (id INT PRIMARY KEY, other INT);\n" + MORE,
    ),
    Scenario(
        "created_like_another",
        ORDERS + "CREATE TABLE copied LIKE orders;\nINSERT INTO copied SELECT * FROM orders WHERE id < 3;\n"
        "CREATE TABLE IF NOT EXISTS copied LIKE orders;\nUPDATE copied SET amount = 0;",
    ),
    Scenario(
        "created_like_a_table_of_another_database",
        "CREATE TABLE other.shape (id INT PRIMARY KEY, b INT UNSIGNED DEFAULT 4);\n"
        "CREATE TABLE orders LIKE other.shape;\n"
        "INSERT INTO orders (id) VALUES (1);",
        rule={"select": r"day\..*"},
    ),
    Scenario("complete_also_after_a_restart_of_the_job", ORDERS + "--! run\n" + MORE + "UPDATE orders SET amount = 1;"),
    Scenario(
        "purged_while_the_job_was_down",
        ORDERS + "--! run\n" + MORE + "--! purge\nINSERT INTO orders VALUES (5, 'e', 50);",
        Refused(r"BINLOG_DATA_LOSS\.\w+", ()),
        is_alone=True,
    ),
    Scenario(
        "purged_while_the_job_was_down_and_told_to_go_on",
        ORDERS
        + "SET sql_log_bin = 0;\nCREATE TABLE truth.orders AS SELECT * FROM orders;\n"
        + "INSERT INTO truth.orders VALUES (5, 'e', 50);\nSET sql_log_bin = 1;\n--! run\n"
        + MORE
        + "--! purge\nINSERT INTO orders VALUES (5, 'e', 50);",
        source={"failOnDataLoss": False},
        truth={"day.orders": "truth.orders"},
        is_alone=True,
    ),
    Scenario(
        "purged_with_a_table_made_in_between_and_told_to_go_on",
        ORDERS
        + "--! run\nCREATE TABLE late (id INT PRIMARY KEY);\nINSERT INTO late VALUES (1);\n"
        + "--! purge\nINSERT INTO late VALUES (2);",
        Refused("BINLOG_TABLE.INCOMPLETE", ("day.late",)),
        source={"failOnDataLoss": False},
        is_alone=True,
    ),
    Scenario(
        "reset_while_the_job_was_down",
        ORDERS + "--! run\n" + MORE + "--! begin\nINSERT INTO orders VALUES (5, 'e', 50);",
        Refused(r"BINLOG_DATA_LOSS\.\w+", ()),
        is_alone=True,
    ),
    Scenario(
        "purged_and_then_a_statement",
        PURGED + IN_MIXED + "UPDATE orders SET amount = 0;",
        Refused(r"BINLOG_TABLE\.INCOMPLETE|BINLOG_UNSUPPORTED\.STATEMENT_FORMAT", ("day.orders",)),
    ),
)
