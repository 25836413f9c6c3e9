"""What ordinary servers do beside plain statements about tables: `Surroundings`.

Settings of the session in the middle of its work, triggers, statements about several tables, other engines, system
versioning, statements logged as text.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.judge.histories.generator import Life

STRICT = "STRICT_TRANS_TABLES"
SETTINGS = (
    *("sql_mode = ''", f"sql_mode = '{STRICT}'", f"sql_mode = '{STRICT},NO_BACKSLASH_ESCAPES'"),
    *("sql_mode = 'ANSI_QUOTES'", f"sql_mode = '{STRICT},NO_AUTO_VALUE_ON_ZERO'", "timestamp = 1711846800.25"),
    *("time_zone = '+02:00'", "time_zone = '-05:30'", "time_zone = 'SYSTEM'", "foreign_key_checks = 0"),
    *("foreign_key_checks = 1", "unique_checks = 0", "character_set_client = latin1", "character_set_client = utf8mb4"),
    *("sql_mode = 'PAD_CHAR_TO_FULL_LENGTH'", "sql_mode = 'REAL_AS_FLOAT'"),
    *("sql_mode = 'ORACLE'", "sql_mode = 'MAXDB'"),
)
MARIADB_SETTINGS = (
    *("binlog_alter_two_phase = 1", "explicit_defaults_for_timestamp = 0", "explicit_defaults_for_timestamp = 1"),
    *("system_versioning_alter_history = KEEP", "character_set_collations = ''", "alter_algorithm = COPY"),
    *("sql_mode = 'EMPTY_STRING_IS_NULL'", "sql_mode = 'TIME_ROUND_FRACTIONAL'", "old_mode = ''"),
)
MYSQL_SETTINGS = (
    *("binlog_row_value_options = PARTIAL_JSON", "binlog_row_value_options = ''", "binlog_transaction_compression = 1"),
    *("explicit_defaults_for_timestamp = 0", "sql_generate_invisible_primary_key = 1"),
    "sql_mode = 'TIME_TRUNCATE_FRACTIONAL'",
)
DEFAULTS = (
    *("DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3)", "TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP"),
    *("TIMESTAMP NULL DEFAULT NULL ON UPDATE CURRENT_TIMESTAMP", "DATETIME DEFAULT NOW() ON UPDATE NOW()"),
    *("VARCHAR(20) DEFAULT (CONCAT('a', 'b'))", "INT DEFAULT (1 + 1)", "VARCHAR(36) DEFAULT (UUID())", "TIMESTAMP"),
    *("INT NOT NULL DEFAULT '7'", "DECIMAL(8,3) DEFAULT 1.0005", "BIT(4) DEFAULT b'101'", "BINARY(4) DEFAULT 'a'"),
    *("VARCHAR(5) DEFAULT ''", "CHAR(4) DEFAULT 'a'"),
)
VERSIONED = (
    "CREATE TABLE versioned (id INT PRIMARY KEY, n INT) WITH SYSTEM VERSIONING",
    "INSERT INTO versioned VALUES (1, 1), (2, 2)",
    "UPDATE versioned SET n = 3",
    "ALTER TABLE versioned DROP SYSTEM VERSIONING",
)
VERSIONED_PARENT = (
    "CREATE TABLE era (id INT PRIMARY KEY, n INT) WITH SYSTEM VERSIONING",
    "CREATE TABLE gone (id INT PRIMARY KEY, era INT, FOREIGN KEY (era) REFERENCES era (id) ON DELETE CASCADE)",
    "CREATE TABLE unset (id INT PRIMARY KEY, era INT, FOREIGN KEY (era) REFERENCES era (id) ON DELETE SET NULL)",
    "INSERT INTO era VALUES (1, 1), (2, 2), (3, 3), (4, 4)",
    *(f"INSERT INTO {child} VALUES (1, 1), (2, 2), (4, 4)" for child in ("gone", "unset")),
    *("REPLACE INTO era VALUES (1, 5)", "UPDATE era SET n = 6", "UPDATE era SET id = 8 WHERE id = 3"),
    *("DELETE FROM era WHERE id = 2", "DELETE HISTORY FROM era"),
)
MERGED = (
    "CREATE TABLE part (id INT NOT NULL, n INT, KEY (id)) ENGINE=MyISAM",
    "INSERT INTO part VALUES (1, 1)",
    "CREATE TABLE parts (id INT NOT NULL, n INT, KEY (id)) ENGINE=MERGE UNION=(part) INSERT_METHOD=LAST",
    "UPDATE parts SET n = 2",
    "INSERT INTO parts VALUES (2, 2)",
    "DROP TABLE parts",  # nobody can read it once a part has another engine
)

SEQUENCES = (
    "CREATE SEQUENCE numbers CACHE 2",
    "CREATE TABLE numbered (id INT PRIMARY KEY DEFAULT NEXTVAL(numbers), n INT)",
    "INSERT INTO numbered (n) VALUES (1), (2), (3)",
    "RENAME TABLE numbers TO counted, numbered TO numbers, counted TO numbered",
    "INSERT INTO numbers (id, n) VALUES (9, 9)",
    *("SELECT NEXTVAL(numbered)", "ALTER SEQUENCE numbered RESTART 7", "SELECT SETVAL(numbered, 30)"),
    "DROP SEQUENCE IF EXISTS numbers, numbered",  # the first one is a table
)


class Surroundings:
    """Statements of a session that are not about columns and rows alone."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._chance = life.chance
        self._actions: dict[Callable[[], None], int] = {
            self._set: 6,
            self._default: 3,
            self._trigger: 1,
            self._several_tables: 2,
            self._select_into: 1,
            self._engine: 1,
            self._versioning: 0 if life.is_mysql else 1,
            self._sequence: 0 if life.is_mysql else 1,
            self._merged: 1,
            self._as_text: 1,
            self._exchange: 1,
            self._ignore: 2,
            self._document: 2,
        }

    def any(self) -> None:
        """One of them."""
        self._chance.choices(list(self._actions), list(self._actions.values()))[0]()

    def _set(self) -> None:
        others = MYSQL_SETTINGS if self._life.is_mysql else MARIADB_SETTINGS
        if self._chance.random() < 0.2:
            self._life.set_image()
        else:
            self._life.do(f"SET {self._chance.choice((*SETTINGS, *others))}", "SET")

    def _default(self) -> None:
        name, table = self._life.some_table()
        added = f"ADD COLUMN x{len(table.columns)} {self._chance.choice(DEFAULTS)}"
        self._life.do(f"ALTER TABLE {name} {added}", "ADD COLUMN, expression")

    def _trigger(self) -> None:
        name, _ = self._life.some_table()
        other, target = self._life.some_table()
        event = self._chance.choice(("AFTER INSERT", "AFTER UPDATE", "BEFORE DELETE"))
        does = f"DELETE FROM {other} WHERE `{target.columns[0].name}` = 3"
        self._life.do(f"CREATE TRIGGER tr1 {event} ON {name} FOR EACH ROW {does}", "triggers")
        if self._chance.random() < 0.5:
            self._life.do("DROP TRIGGER tr1", "triggers")

    def _several_tables(self) -> None:
        first, one = self._life.some_table()
        second, other = self._life.some_table()
        if one is other or not one.others():
            return
        join = f"{first} AS p JOIN {second} AS q ON p.`{one.columns[0].name}` = q.`{other.columns[0].name}`"
        column = self._chance.choice(one.others())
        value = column.value(self._chance)
        texts = (
            f"UPDATE {join} SET p.`{column.name}` = {value}",
            f"DELETE p, q FROM {join}",
            f"INSERT IGNORE INTO {first} SELECT * FROM {second}",
            f"REPLACE INTO {first} SELECT * FROM {second}",
        )
        self._life.do(self._chance.choice(texts), "several tables")

    def _select_into(self) -> None:
        name, _ = self._life.some_table()
        self._life.do(f"CREATE TABLE made{self._chance.randint(1, 3)} SELECT * FROM {name}", "CREATE TABLE SELECT")

    def _engine(self) -> None:
        name, _ = self._life.some_table()
        engine = self._chance.choice(("MyISAM", "InnoDB", "InnoDB", "MEMORY", "BLACKHOLE"))
        self._life.do(f"ALTER TABLE {name} ENGINE = {engine}", "ENGINE")

    def _merged(self) -> None:
        for statement in MERGED:
            self._life.do(statement, "MERGE")

    def _versioning(self) -> None:
        if self._chance.random() < 0.4:
            for statement in self._chance.choice((VERSIONED, VERSIONED_PARENT)):
                self._life.do(statement, "SYSTEM VERSIONING")
            return
        name, _ = self._life.some_table()
        what = self._chance.choice(("ADD SYSTEM VERSIONING", "ADD SYSTEM VERSIONING", "DROP SYSTEM VERSIONING"))
        self._life.do(f"ALTER TABLE {name} {what}", "SYSTEM VERSIONING")
        if self._chance.random() < 0.2:
            self._life.do(f"DELETE HISTORY FROM {name}", "SYSTEM VERSIONING")

    def _sequence(self) -> None:
        for statement in SEQUENCES:
            self._life.do(statement, "sequences")

    def _as_text(self) -> None:
        if self._chance.random() < 0.3:  # it stops a table for good, by name
            name, table = self._life.some_table()
            self._life.do("SET binlog_format = STATEMENT")
            self._life.do(f"DELETE FROM {name} WHERE `{table.columns[0].name}` = 4", "statement format")
            self._life.do("SET binlog_format = ROW")

    def _exchange(self) -> None:
        name, table = self._life.some_table()
        if table.columns[0].name == "id":
            parts = "(PARTITION p0 VALUES LESS THAN (5), PARTITION p1 VALUES LESS THAN MAXVALUE)"
            self._life.do(f"CREATE TABLE swapped LIKE {name}")
            self._life.do(f"ALTER TABLE {name} PARTITION BY RANGE (id) {parts}", "partitions")
            self._life.do(f"ALTER TABLE {name} EXCHANGE PARTITION p0 WITH TABLE swapped", "EXCHANGE PARTITION")

    def _ignore(self) -> None:
        name, table = self._life.some_table()
        if table.others():
            column = self._chance.choice(table.others())
            value = self._chance.choice((column.value(self._chance), "-99999999999", "'far too long for most columns'"))
            self._life.do(f"UPDATE IGNORE {name} SET `{column.name}` = {value} WHERE 1", "IGNORE")

    def _document(self) -> None:
        name, table = self._life.some_table()
        columns = [column.name for column in table.others() if column.kind is not None and column.kind.family == "json"]
        if columns:
            column = self._chance.choice(columns)
            call = self._chance.choice(
                (
                    f"JSON_SET(`{column}`, '$.a', 7)",
                    f"JSON_REMOVE(`{column}`, '$.b')",
                    f"JSON_REPLACE(`{column}`, '$[1]', 'x')",
                    f"JSON_SET(`{column}`, '$.c', JSON_OBJECT('d', 1.50))",
                )
            )
            self._life.do(f"UPDATE {name} SET `{column}` = {call}", "JSON")
