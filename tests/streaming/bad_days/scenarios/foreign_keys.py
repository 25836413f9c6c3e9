"""What InnoDB does to the rows of child tables, and does not log."""

from __future__ import annotations

from dataclasses import replace

from tests.streaming.bad_days.scenario import Refused, Scenario

CASCADE = Refused("BINLOG_UNSUPPORTED.FOREIGN_KEY_CASCADE", ("day.child",))
PARENT = "CREATE TABLE parent (id INT PRIMARY KEY, code INT UNIQUE, name VARCHAR(9));\n"
ROWS = """
INSERT INTO parent VALUES (1, 11, 'a'), (2, 12, 'b'), (3, 13, 'c');
INSERT INTO child VALUES (10, 1), (20, 2), (21, 2);
"""


def child(actions: str, column: str = "id", name: str = "child") -> str:
    """A table with a foreign key to the parent."""
    return (
        f"CREATE TABLE {name} (id INT PRIMARY KEY, pid INT, "
        f"CONSTRAINT {name}_fk FOREIGN KEY (pid) REFERENCES parent ({column}) {actions});\n"
    )


DELETING = PARENT + child("ON DELETE CASCADE") + ROWS
DELETE = "DELETE FROM parent WHERE id = 2;\n"

REFUSED = (
    Scenario("delete_cascades", DELETING + DELETE, CASCADE, is_alone=True),
    Scenario(
        "delete_cascades_beside_another_table",
        DELETING + DELETE + "CREATE TABLE t (id INT);\nINSERT INTO t VALUES (1);",
        CASCADE,
    ),
    Scenario("delete_cascades_in_another_run", DELETING + "--! run\n" + DELETE, CASCADE),
    Scenario("delete_sets_null", PARENT + child("ON DELETE SET NULL") + ROWS + DELETE, CASCADE),
    Scenario(
        "update_cascades",
        PARENT + child("ON UPDATE CASCADE") + ROWS + "UPDATE parent SET id = 5 WHERE id = 2;",
        CASCADE,
    ),
    Scenario(
        "update_sets_null",
        PARENT + child("ON UPDATE SET NULL") + ROWS + "UPDATE parent SET id = 5 WHERE id = 2;",
        CASCADE,
    ),
    Scenario(
        "update_of_a_referenced_column_that_is_not_the_key",
        PARENT + child("ON UPDATE CASCADE", "code") + "INSERT INTO parent VALUES (1, 11, 'a');\n"
        "INSERT INTO child VALUES (10, 11);\nUPDATE parent SET code = 99 WHERE id = 1;",
        CASCADE,
    ),
    Scenario("replace_deletes_and_inserts", DELETING + "REPLACE INTO parent VALUES (2, 12, 'again');", CASCADE),
    Scenario(
        "insert_that_updates_the_key",
        PARENT
        + child("ON UPDATE CASCADE")
        + ROWS
        + "INSERT INTO parent VALUES (2, 0, '') ON DUPLICATE KEY UPDATE id = 7;",
        CASCADE,
    ),
    Scenario(
        "several_levels",
        DELETING + "CREATE TABLE grandchild (id INT PRIMARY KEY, cid INT, FOREIGN KEY (cid) "
        "REFERENCES child (id) ON DELETE CASCADE);\n"
        "INSERT INTO grandchild VALUES (100, 10), (200, 20);\n" + DELETE,
        Refused(CASCADE.condition, ("child",)),
    ),
    Scenario(
        "several_levels_of_which_the_last_is_selected",
        DELETING + "CREATE TABLE grandchild (id INT PRIMARY KEY, cid INT, FOREIGN KEY (cid) "
        "REFERENCES child (id) ON DELETE CASCADE);\n"
        "INSERT INTO grandchild VALUES (100, 10), (200, 20);\n" + DELETE,
        Refused(CASCADE.condition, ("day.grandchild",)),
        rule={"select": r"day\.grandchild"},
    ),
    Scenario(
        "of_a_table_to_itself",
        "CREATE TABLE child (id INT PRIMARY KEY, boss INT, FOREIGN KEY (boss) "
        "REFERENCES child (id) ON DELETE CASCADE);\n"
        "INSERT INTO child VALUES (1, NULL), (2, 1), (3, 2), (4, NULL);\nDELETE FROM child WHERE id = 1;",
        CASCADE,
    ),
    Scenario("of_a_parent_that_is_not_selected", DELETING + DELETE, CASCADE, rule={"select": r"day\.child"}),
    Scenario(
        "of_a_parent_in_another_database",
        "CREATE TABLE other.parent (id INT PRIMARY KEY);\nCREATE TABLE child (id INT PRIMARY KEY, pid INT, "
        "FOREIGN KEY (pid) REFERENCES other.parent (id) ON DELETE CASCADE);\n"
        "INSERT INTO other.parent VALUES (1), (2);\n"
        "INSERT INTO child VALUES (10, 1), (20, 2);\nDELETE FROM other.parent WHERE id = 2;",
        CASCADE,
        rule={"select": r"day\..*"},
    ),
    Scenario(
        "written_at_the_column",
        PARENT
        + "CREATE TABLE child (id INT PRIMARY KEY, pid INT REFERENCES parent (id) ON DELETE CASCADE);\n"
        + ROWS
        + DELETE,
        CASCADE,
    ),
    Scenario(
        "added_by_an_alter",
        PARENT
        + "CREATE TABLE child (id INT PRIMARY KEY, pid INT, KEY (pid));\n"
        + ROWS
        + "ALTER TABLE child ADD FOREIGN KEY (pid) REFERENCES parent (id) ON DELETE CASCADE;\n"
        + DELETE,
        CASCADE,
    ),
    Scenario(
        "added_with_a_column",
        PARENT + "CREATE TABLE child (id INT PRIMARY KEY);\nINSERT INTO parent VALUES (1, 1, 'a'), (2, 2, 'b');\n"
        "ALTER TABLE child ADD pid INT REFERENCES parent (id) ON DELETE CASCADE;\nINSERT INTO child VALUES (10, 2);\n"
        + DELETE,
        CASCADE,
    ),
    Scenario(
        "of_a_renamed_parent", DELETING + "RENAME TABLE parent TO people;\nDELETE FROM people WHERE id = 2;", CASCADE
    ),
    Scenario(
        "of_a_renamed_child",
        DELETING.replace("child", "kid") + "RENAME TABLE kid TO child;\n" + DELETE,
        CASCADE,
    ),
    Scenario(
        "of_two_columns",
        "CREATE TABLE parent (a INT, b INT, PRIMARY KEY (a, b));\n"
        "CREATE TABLE child (id INT PRIMARY KEY, a INT, b INT, "
        "FOREIGN KEY (a, b) REFERENCES parent (a, b) ON UPDATE CASCADE);\nINSERT INTO parent VALUES (1, 1), (1, 2);\n"
        "INSERT INTO child VALUES (10, 1, 2);\nUPDATE parent SET b = 3 WHERE b = 2;",
        CASCADE,
    ),
    Scenario(
        "of_a_child_made_before_its_parent",
        "SET foreign_key_checks = 0;\n"
        + child("ON DELETE CASCADE")
        + PARENT
        + "SET foreign_key_checks = 1;\n"
        + ROWS
        + DELETE,
        CASCADE,
    ),
    Scenario(
        "of_rows_with_minimal_images",
        "SET SESSION binlog_row_image = MINIMAL;\n"
        + PARENT
        + child("ON UPDATE CASCADE")
        + ROWS
        + "UPDATE parent SET id = 5 WHERE id = 2;",
        CASCADE,
    ),
)

EQUAL = (
    Scenario("update_of_another_column", PARENT + child("ON UPDATE CASCADE") + ROWS + "UPDATE parent SET name = 'z';"),
    Scenario(
        "update_cascade_and_a_delete_without_children",
        PARENT + child("ON UPDATE CASCADE") + ROWS + "DELETE FROM parent WHERE id = 3;",
    ),
    Scenario("without_checks", "SET foreign_key_checks = 0;\n" + DELETING + DELETE),
    Scenario(
        "restricted",
        PARENT + child("ON DELETE RESTRICT") + ROWS + "--! fails\n" + DELETE + "DELETE FROM parent WHERE id = 3;",
    ),
    Scenario("of_a_child_that_is_not_selected", DELETING + DELETE, rule={"select": r"day\.parent"}),
    Scenario("dropped_before", DELETING + "ALTER TABLE child DROP FOREIGN KEY child_fk;\n" + DELETE),
    Scenario("of_a_child_dropped_before", DELETING + "DROP TABLE child;\n" + DELETE),
    Scenario(
        "of_a_child_like_another",
        DELETING.replace("child", "model") + "CREATE TABLE child LIKE model;\n"
        "INSERT INTO child SELECT * FROM model;\n" + DELETE,
        rule={"select": r"day\.(child|parent)"},
    ),
    Scenario(
        "cascades_ignored_by_the_job",
        DELETING + DELETE + "SET sql_log_bin = 0;\nCREATE TABLE truth.child (id INT PRIMARY KEY, pid INT);\n"
        "INSERT INTO truth.child VALUES (10, 1), (20, 2), (21, 2);\nSET sql_log_bin = 1;",
        rule={"foreign_keys": "ignore"},
        truth={"day.child": "truth.child"},
    ),
)


def applied(scenario: Scenario) -> Scenario:
    """The same day, when what foreign keys do is done in the targets: all tables are the server's."""
    through_another = "of_which" in scenario.name  # it has no target
    return replace(
        scenario,
        name=f"{scenario.name}_applied",
        refused=scenario.refused if through_another else None,
        is_alone=False,
        rule={**scenario.rule, "foreign_keys": "apply"},
    )


IN_A_CIRCLE = Scenario(
    "in_a_circle_of_two",
    "CREATE TABLE parent (id INT PRIMARY KEY, best INT);\n"
    + child("ON DELETE CASCADE")
    + "INSERT INTO parent VALUES (1, NULL), (2, NULL);\nINSERT INTO child VALUES (10, 1), (20, 2);\n"
    "ALTER TABLE parent ADD FOREIGN KEY (best) REFERENCES child (id) ON DELETE SET NULL;\n"
    "UPDATE parent SET best = 20 WHERE id = 1;\n" + DELETE,
    rule={"foreign_keys": "apply"},
)
IN_A_LONGER_CIRCLE = Scenario(
    "in_a_circle_of_three",
    "CREATE TABLE parent (id INT PRIMARY KEY, gid INT);\n"
    + child("ON DELETE CASCADE")
    + "CREATE TABLE grandchild (id INT PRIMARY KEY, cid INT, FOREIGN KEY (cid) REFERENCES child (id) "
    "ON DELETE CASCADE ON UPDATE CASCADE);\n"
    "ALTER TABLE parent ADD FOREIGN KEY (gid) REFERENCES grandchild (id) ON DELETE CASCADE;\n"
    "INSERT INTO parent VALUES (1, NULL), (2, NULL), (3, NULL);\n"
    "INSERT INTO child VALUES (10, 1), (20, 2), (30, 3);\n"
    "INSERT INTO grandchild VALUES (100, 10), (200, 20), (300, 30);\n"
    "UPDATE parent SET gid = 200 WHERE id = 1;\nUPDATE parent SET gid = 100 WHERE id = 2;\n"
    "UPDATE child SET id = 21 WHERE id = 20;\n" + DELETE,
    rule={"foreign_keys": "apply"},
)
OF_ANOTHER_ENGINE = Scenario(
    "of_an_engine_that_passes_over_them",
    DELETING.replace("ON DELETE CASCADE)", "ON DELETE CASCADE) ENGINE=Aria") + DELETE,
    rule={"foreign_keys": "apply"},
)

SCENARIOS = (*REFUSED, *EQUAL, *map(applied, REFUSED), IN_A_CIRCLE, IN_A_LONGER_CIRCLE, OF_ANOTHER_ENGINE)
