"""Partitions that are dropped nightly, emptied, exchanged and built anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.streaming.bad_days.scenario import Refused, Scenario
from tests.streaming.bad_days.scenarios.statements import EXCLUDED, ONLY_ORDERS

if TYPE_CHECKING:
    from tests.streaming.bad_days.scenario import Settings

APPLY: Settings = {"on_partition_drop": "apply"}
KEEP: Settings = {"on_partition_drop": "keep"}
FAIL: Settings = {"on_partition_drop": "fail"}
BOUNDS = Refused("BINLOG_SCHEMA.PARTITION_BOUNDS", ("day.visits",))
STOPS = Refused(r"BINLOG_(TABLE|SCHEMA)\.\w+", ("day.visits",))
ANY = Refused(r"BINLOG_\w+\.\w+", ("day.",))

BY_DAY = """
CREATE TABLE visits (id INT, at DATETIME, PRIMARY KEY (id, at)) PARTITION BY RANGE (TO_DAYS(at)) (
  PARTITION p1 VALUES LESS THAN (TO_DAYS('2024-01-02')), PARTITION p2 VALUES LESS THAN (TO_DAYS('2024-01-03')),
  PARTITION p3 VALUES LESS THAN MAXVALUE);
INSERT INTO visits VALUES (1, '2023-12-31 10:00:00'), (2, '2024-01-01 23:59:59'), (3, '2024-01-02 00:00:00'),
  (4, '2024-01-02 12:00:00'), (5, '2024-01-03 00:00:00');
"""
BY_ID = """
CREATE TABLE visits (id INT PRIMARY KEY, n INT) PARTITION BY RANGE (id) (
  PARTITION p1 VALUES LESS THAN (10), PARTITION p2 VALUES LESS THAN (20), PARTITION p3 VALUES LESS THAN (30));
INSERT INTO visits VALUES (-5, 0), (9, 1), (10, 2), (19, 3), (20, 4), (29, 5);
"""
DROP_FIRST = "ALTER TABLE visits DROP PARTITION p1;\n"


def by(columns: str, partitioning: str, rows: str, statements: str = DROP_FIRST) -> str:
    """A table *visits* that is partitioned somehow, its rows, and what becomes of its partitions."""
    return (
        f"CREATE TABLE visits ({columns}) PARTITION BY {partitioning};\nINSERT INTO visits VALUES {rows};\n{statements}"
    )


APPLIED = tuple(
    Scenario(f"apply_{name}", sql, rule=APPLY)
    for name, sql in (
        ("range_of_days", BY_DAY + DROP_FIRST),
        ("range_of_integers", BY_ID + "ALTER TABLE visits DROP PARTITION p1, p2;"),
        ("truncate", BY_ID + "ALTER TABLE visits TRUNCATE PARTITION p2;\nINSERT INTO visits VALUES (11, 9);"),
        ("truncate_all", BY_ID + "ALTER TABLE visits TRUNCATE PARTITION ALL;\nINSERT INTO visits VALUES (11, 9);"),
        ("the_middle_one", BY_ID + "ALTER TABLE visits DROP PARTITION p2;\nINSERT INTO visits VALUES (12, 7);"),
        (
            "the_middle_one_then_the_next",
            BY_ID + "ALTER TABLE visits DROP PARTITION p2;\nINSERT INTO visits VALUES (12, 7);\n"
            "ALTER TABLE visits DROP PARTITION p3;",
        ),
        (
            "archived",
            BY_ID + "CREATE TABLE old LIKE visits;\nALTER TABLE old REMOVE PARTITIONING;\n"
            "ALTER TABLE visits EXCHANGE PARTITION p1 WITH TABLE old;\nUPDATE old SET n = 7 WHERE id = 9;\n"
            "ALTER TABLE visits DROP PARTITION p1;\nINSERT INTO visits VALUES (1, 1);",
        ),
        (
            "loaded",
            BY_ID + "DELETE FROM visits WHERE id < 10;\nCREATE TABLE more (id INT PRIMARY KEY, n INT);\n"
            "INSERT INTO more VALUES (3, 33), (4, 44);\nALTER TABLE visits EXCHANGE PARTITION p1 WITH TABLE more;\n"
            "UPDATE visits SET n = 9 WHERE id = 3;\nINSERT INTO more VALUES (99, 1);",
        ),
        ("one_that_does_not_exist", BY_ID + "ALTER TABLE visits DROP PARTITION IF EXISTS p9;"),
        (
            "one_added_later",
            BY_ID + "ALTER TABLE visits ADD PARTITION (PARTITION p4 VALUES LESS THAN (40));\n"
            "INSERT INTO visits VALUES (35, 6);\nALTER TABLE visits DROP PARTITION p4;",
        ),
        (
            "one_reorganized",
            BY_ID + "ALTER TABLE visits REORGANIZE PARTITION p1 INTO (PARTITION a VALUES LESS THAN (0), "
            "PARTITION b VALUES LESS THAN (10));\nALTER TABLE visits DROP PARTITION a;",
        ),
        (
            "partitioned_later",
            "CREATE TABLE visits (id INT PRIMARY KEY);\nINSERT INTO visits VALUES (1), (11);\n"
            "ALTER TABLE visits PARTITION BY RANGE (id) (PARTITION p1 VALUES LESS THAN (10), "
            "PARTITION p2 VALUES LESS THAN (20));\n" + DROP_FIRST,
        ),
        (
            "of_a_table_like_another",
            BY_ID.replace("visits", "model") + "CREATE TABLE visits LIKE model;\n"
            "INSERT INTO visits VALUES (1, 1), (11, 1);\n" + DROP_FIRST,
        ),
        (
            "of_a_renamed_table",
            BY_ID.replace("visits", "before_it") + "RENAME TABLE before_it TO visits;\n" + DROP_FIRST,
        ),
        ("of_a_renamed_column", BY_ID + "ALTER TABLE visits RENAME COLUMN id TO number;\n" + DROP_FIRST),
        ("in_another_run", BY_DAY + "--! run\n" + DROP_FIRST + "INSERT INTO visits VALUES (7, '2024-01-01 00:00:00');"),
    )
) + tuple(
    Scenario(f"apply_{name}", sql, BOUNDS, may_go_on=True, rule=APPLY)
    for name, sql in (
        (
            "range_columns",
            by(
                "id INT, d DATE, PRIMARY KEY (id, d)",
                "RANGE COLUMNS (d) (PARTITION p1 VALUES LESS THAN ('2024-02-01'), "
                "PARTITION p2 VALUES LESS THAN (MAXVALUE))",
                "(1, '2024-01-31'), (2, '2024-02-01'), (3, '2023-01-01')",
            ),
        ),
        (
            "range_of_two_columns",
            by(
                "a INT, b INT, PRIMARY KEY (a, b)",
                "RANGE COLUMNS (a, b) (PARTITION p1 VALUES LESS THAN (5, 10), "
                "PARTITION p2 VALUES LESS THAN (MAXVALUE, MAXVALUE))",
                "(4, 99), (5, 9), (5, 10), (6, 0)",
            ),
        ),
        (
            "list",
            by(
                "id INT PRIMARY KEY",
                "LIST (id) (PARTITION p1 VALUES IN (1, 3, 5), PARTITION p2 VALUES IN (2, 4))",
                "(1), (2), (3), (4)",
            ),
        ),
        (
            "list_with_null",
            by(
                "id INT, k INT, KEY (id)",
                "LIST (k) (PARTITION p1 VALUES IN (NULL, 3), PARTITION p2 VALUES IN (2, 4))",
                "(1, NULL), (2, 2), (3, 3)",
            ),
        ),
        (
            "list_default",
            by(
                "id INT PRIMARY KEY",
                "LIST (id) (PARTITION p1 DEFAULT, PARTITION p2 VALUES IN (2, 4))",
                "(1), (2), (3), (4)",
            ),
        ),
        (
            "list_columns",
            by(
                "id INT, land CHAR(2), PRIMARY KEY (id, land)",
                "LIST COLUMNS (land) (PARTITION p1 VALUES IN ('de', 'at'), PARTITION p2 VALUES IN ('fr'))",
                "(1, 'de'), (2, 'fr'), (3, 'at')",
            ),
        ),
        (
            "list_columns_of_other_case",
            by(
                "id INT, land CHAR(2), PRIMARY KEY (id, land)",
                "LIST COLUMNS (land) (PARTITION p1 VALUES IN ('de'), PARTITION p2 VALUES IN ('fr'))",
                "(1, 'DE'), (2, 'Fr')",
            ),
        ),
        (
            "range_columns_of_text",
            by(
                "id INT, name VARCHAR(9), PRIMARY KEY (id, name)",
                "RANGE COLUMNS (name) (PARTITION p1 VALUES LESS THAN ('m'), PARTITION p2 VALUES LESS THAN (MAXVALUE))",
                "(1, 'Max'), (2, 'anna'), (3, 'Zoe'), (4, 'Ärger'), (5, 'LEO')",
            ),
        ),
        (
            "unix_timestamp",
            by(
                "id INT, at TIMESTAMP NOT NULL, PRIMARY KEY (id, at)",
                "RANGE (UNIX_TIMESTAMP(at)) (PARTITION p1 VALUES LESS THAN (UNIX_TIMESTAMP('2024-01-01 00:00:00')), "
                "PARTITION p2 VALUES LESS THAN MAXVALUE)",
                "(1, '2023-12-31 23:59:59'), (2, '2024-01-01 00:00:00')",
            ),
        ),
        (
            "unix_timestamp_in_another_zone",
            "SET time_zone = '+05:00';\n"
            + by(
                "id INT, at TIMESTAMP NOT NULL, PRIMARY KEY (id, at)",
                "RANGE (UNIX_TIMESTAMP(at)) (PARTITION p1 VALUES LESS THAN (UNIX_TIMESTAMP('2024-01-01 00:00:00')), "
                "PARTITION p2 VALUES LESS THAN MAXVALUE)",
                "(1, '2023-12-31 23:59:59'), (2, '2024-01-01 00:00:00'), (3, '2024-01-01 04:59:59')",
                "SET time_zone = '-03:00';\n" + DROP_FIRST,
            ),
        ),
        (
            "year",
            by(
                "id INT, d DATE, PRIMARY KEY (id, d)",
                "RANGE (YEAR(d)) (PARTITION p1 VALUES LESS THAN (2024), PARTITION p2 VALUES LESS THAN (2025))",
                "(1, '2023-12-31'), (2, '2024-01-01')",
            ),
        ),
        (
            "month",
            by(
                "id INT, d DATE, PRIMARY KEY (id, d)",
                "RANGE (MONTH(d)) (PARTITION p1 VALUES LESS THAN (7), PARTITION p2 VALUES LESS THAN (13))",
                "(1, '2023-06-30'), (2, '2024-07-01')",
            ),
        ),
        (
            "null_in_the_first",
            by(
                "id INT, n INT, KEY (id)",
                "RANGE (n) (PARTITION p1 VALUES LESS THAN (0), PARTITION p2 VALUES LESS THAN MAXVALUE)",
                "(1, NULL), (2, -1), (3, 1)",
            ),
        ),
        (
            "zero_date_in_the_first",
            "SET sql_mode = '';\n"
            + by(
                "id INT, d DATE, KEY (id)",
                "RANGE (TO_DAYS(d)) (PARTITION p1 VALUES LESS THAN (TO_DAYS('2024-01-01')), "
                "PARTITION p2 VALUES LESS THAN MAXVALUE)",
                "(1, '0000-00-00'), (2, '2023-01-01'), (3, '2024-01-01')",
            ),
        ),
        (
            "arithmetic",
            by(
                "id INT PRIMARY KEY",
                "RANGE (id DIV 100 + 1) (PARTITION p1 VALUES LESS THAN (2), PARTITION p2 VALUES LESS THAN (9))",
                "(0), (99), (100), (-150)",
            ),
        ),
        (
            "unsigned_arithmetic",
            by(
                "id BIGINT UNSIGNED PRIMARY KEY",
                "RANGE (id MOD 10) (PARTITION p1 VALUES LESS THAN (5), PARTITION p2 VALUES LESS THAN (10))",
                "(18446744073709551615), (18446744073709551614), (3)",
            ),
        ),
        (
            "subpartitions",
            by(
                "id INT, d DATE, PRIMARY KEY (id, d)",
                "RANGE (YEAR(d)) SUBPARTITION BY HASH (id) SUBPARTITIONS 2 (PARTITION p1 VALUES LESS THAN (2024), "
                "PARTITION p2 VALUES LESS THAN (2025))",
                "(1, '2023-12-31'), (2, '2024-01-01'), (3, '2023-01-01')",
            ),
        ),
        (
            "one_subpartition",
            by(
                "id INT, d DATE, PRIMARY KEY (id, d)",
                "RANGE (YEAR(d)) SUBPARTITION BY HASH (id) (PARTITION p1 VALUES LESS THAN (2024) "
                "(SUBPARTITION a, SUBPARTITION b), "
                "PARTITION p2 VALUES LESS THAN (2025) (SUBPARTITION c, SUBPARTITION d))",
                "(1, '2023-12-31'), (2, '2023-01-01')",
                "ALTER TABLE visits TRUNCATE PARTITION p1;",
            ),
        ),
        (
            "hash_emptied",
            by(
                "id INT PRIMARY KEY",
                "HASH (id) PARTITIONS 3",
                "(1), (2), (3), (4)",
                "ALTER TABLE visits TRUNCATE PARTITION p1;",
            ),
        ),
    )
)

OTHERS = (
    Scenario(
        "keep",
        "SET sql_log_bin = 0;\nCREATE TABLE truth.visits (id INT PRIMARY KEY, n INT);\n"
        "INSERT INTO truth.visits VALUES (-5, 0), (9, 1), (10, 2), (19, 3), (20, 4), (29, 5), (11, 9);\n"
        "SET sql_log_bin = 1;\n"
        + BY_ID
        + DROP_FIRST
        + "INSERT INTO visits VALUES (11, 9);\nALTER TABLE visits TRUNCATE PARTITION p2;",
        rule=KEEP,
        truth={"day.visits": "truth.visits"},
    ),
    Scenario("fail", BY_ID + DROP_FIRST, STOPS, rule=FAIL, is_alone=True),
    Scenario("fail_by_default", BY_ID + "ALTER TABLE visits TRUNCATE PARTITION p1;", STOPS),
    Scenario(
        "unknown_bounds",
        BY_ID + "--! purge\nINSERT INTO visits VALUES (8, 1);\n" + DROP_FIRST + "INSERT INTO visits VALUES (21, 1);",
        Refused(r"BINLOG_SCHEMA\.PARTITION_BOUNDS|BINLOG_TABLE\.INCOMPLETE", ("day.visits",)),
        rule={**APPLY, "begin": "empty"},
    ),
    Scenario("apply_with_versions", BY_ID + DROP_FIRST, rule={**APPLY, "mode": "scd2"}),
    Scenario("apply_with_marked_rows", BY_ID + DROP_FIRST, rule={**APPLY, "deletes": "mark"}),
    *(
        Scenario(name, BY_ID + statement, rule=APPLY)
        for name, statement in (
            (
                "added",
                (
                    "ALTER TABLE visits ADD PARTITION (PARTITION p4 VALUES LESS THAN (40));\n"
                    "INSERT INTO visits VALUES (31, 1);"
                ),
            ),
            ("reorganized", "ALTER TABLE visits REORGANIZE PARTITION p1, p2 INTO (PARTITION p VALUES LESS THAN (20));"),
            (
                "rebuilt",
                (
                    "ALTER TABLE visits REBUILD PARTITION p1;\nALTER TABLE visits OPTIMIZE PARTITION ALL;\n"
                    "ALTER TABLE visits ANALYZE PARTITION p2;\nALTER TABLE visits CHECK PARTITION p2;"
                ),
            ),
            ("removed_as_a_concept", "ALTER TABLE visits REMOVE PARTITIONING;\nDELETE FROM visits WHERE id = 9;"),
        )
    ),
    Scenario(
        "reorganized_with_fewer_values",
        by(
            "id INT PRIMARY KEY",
            "LIST (id) (PARTITION p VALUES IN (1, 2), PARTITION q VALUES IN (3, 4))",
            "(1), (2), (3), (4)",
            "ALTER TABLE visits REORGANIZE PARTITION p, q INTO (PARTITION r VALUES IN (4, 1), PARTITION s VALUES IN "
            "(9));\nINSERT INTO visits VALUES (9);",
        ),
        rule=APPLY,
    ),
    Scenario(
        "coalesced",
        by(
            "id INT PRIMARY KEY",
            "HASH (id) PARTITIONS 4",
            "(1), (2), (3)",
            "ALTER TABLE visits COALESCE PARTITION 2;\nINSERT INTO visits VALUES (4);",
        ),
    ),
    *(
        Scenario(
            f"exchanged_{name}",
            BY_ID
            + "CREATE TABLE old (id INT PRIMARY KEY, n INT);\nINSERT INTO old VALUES (3, 33), (4, 44);\n"
            + "ALTER TABLE visits EXCHANGE PARTITION p1 WITH TABLE old;\n"
            "INSERT INTO visits VALUES (21, 1);\nINSERT INTO old VALUES (99, 1);",
            ANY,
            rule=rule,
        )
        for name, rule in (
            ("with_both", APPLY),
            ("with_the_partitioned_one", {"select": r"day\.visits"}),
            ("with_the_other_one", {"select": r"day\.old"}),
            ("and_kept", KEEP),
        )
    ),
    Scenario(
        "exchanged_where_neither_is_selected",
        BY_ID
        + "CREATE TABLE old (id INT PRIMARY KEY, n INT);\nALTER TABLE visits EXCHANGE PARTITION p1 WITH TABLE old;\n"
        "CREATE TABLE orders (id INT PRIMARY KEY);\nINSERT INTO orders VALUES (1);",
        rule=ONLY_ORDERS,
    ),
    Scenario(
        "converted_to_a_table",
        BY_ID + "ALTER TABLE visits CONVERT PARTITION p1 TO TABLE first;\nUPDATE first SET n = 7 WHERE id = 9;",
        rule=APPLY,
    ),
    Scenario(
        "converted_to_a_table_that_alone_is_selected",
        BY_ID + "ALTER TABLE visits CONVERT PARTITION p1 TO TABLE first;",
        ANY,
        rule={"select": r"day\.first"},
    ),
    Scenario(
        "converted_from_a_table",
        BY_ID + "CREATE TABLE more (id INT PRIMARY KEY, n INT);\nINSERT INTO more VALUES (31, 1), (32, 2);\n"
        "ALTER TABLE visits CONVERT TABLE more TO PARTITION p4 VALUES LESS THAN (40);",
        ANY,
        rule=APPLY,
    ),
    Scenario(
        "of_an_excluded_table",
        BY_ID + "ALTER TABLE visits TRUNCATE PARTITION p1;\nALTER TABLE visits DROP PARTITION p2;\n"
        "ALTER TABLE visits ADD z INT AS (n) VIRTUAL;\n"
        "CREATE TABLE orders (id INT PRIMARY KEY);\nINSERT INTO orders VALUES (1);",
        source=EXCLUDED,
    ),
)

SCENARIOS = (*APPLIED, *OTHERS)
