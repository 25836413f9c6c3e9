"""A random load on tables that foreign keys link, over several levels and in all their ways: `CascadeWorkload`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pymysql

if TYPE_CHECKING:
    import random

    from pymysql.cursors import Cursor

    from binlog_lab.demo.mariadb.server import MariaDbServer

DATABASE = "fk"
IDS = 9
"""Values of keys; few, so that rows come again under the same ones."""
TABLES = {
    "country": "id INT PRIMARY KEY, code INT UNIQUE, name VARCHAR(9)",
    "customer": "id INT PRIMARY KEY, country INT, code INT, name VARCHAR(9), "
    "CONSTRAINT c_country FOREIGN KEY (country) REFERENCES country (id) ON DELETE CASCADE ON UPDATE CASCADE, "
    "CONSTRAINT c_code FOREIGN KEY (code) REFERENCES country (code) ON DELETE SET NULL ON UPDATE CASCADE",
    "orders": "a INT, b INT, customer INT, name VARCHAR(9), PRIMARY KEY (a, b), "
    "FOREIGN KEY (customer) REFERENCES customer (id) ON DELETE CASCADE ON UPDATE CASCADE",
    "line": "id INT PRIMARY KEY, a INT, b INT, name VARCHAR(9), "
    "CONSTRAINT l_order FOREIGN KEY (a, b) REFERENCES orders (a, b) ON DELETE CASCADE ON UPDATE CASCADE",
    "remark": "id INT PRIMARY KEY, b INT, a INT, name VARCHAR(9), "
    "FOREIGN KEY (a, b) REFERENCES orders (a, b) ON DELETE SET NULL ON UPDATE SET NULL",
    "person": "id INT PRIMARY KEY, boss INT, mentor INT, name VARCHAR(9), "
    "FOREIGN KEY (boss) REFERENCES person (id) ON DELETE CASCADE, "
    "FOREIGN KEY (mentor) REFERENCES person (id) ON DELETE SET NULL",
    "badge": "person INT PRIMARY KEY, name VARCHAR(9), "
    "FOREIGN KEY (person) REFERENCES person (id) ON DELETE CASCADE ON UPDATE CASCADE",
    "guest": "id INT PRIMARY KEY, person INT, customer INT, name VARCHAR(9), "
    "FOREIGN KEY (person) REFERENCES person (id) ON DELETE CASCADE ON UPDATE CASCADE, "
    "FOREIGN KEY (customer) REFERENCES customer (id) ON DELETE RESTRICT ON UPDATE CASCADE",
    "note": "remark INT, name VARCHAR(9), FOREIGN KEY (remark) REFERENCES remark (id) ON DELETE CASCADE",
    "department": "id INT PRIMARY KEY, head INT, name VARCHAR(9)",
    "employee": "id INT PRIMARY KEY, department INT, name VARCHAR(9), "
    "FOREIGN KEY (department) REFERENCES department (id) ON DELETE CASCADE ON UPDATE CASCADE",
    "alpha": "id INT PRIMARY KEY, of_gamma INT, name VARCHAR(9)",
    "beta": "id INT PRIMARY KEY, of_alpha INT, name VARCHAR(9), "
    "FOREIGN KEY (of_alpha) REFERENCES alpha (id) ON DELETE CASCADE ON UPDATE SET NULL",
    "gamma": "id INT PRIMARY KEY, of_beta INT, name VARCHAR(9), "
    "FOREIGN KEY (of_beta) REFERENCES beta (id) ON DELETE CASCADE ON UPDATE CASCADE",
}
CIRCLES = (
    "ALTER TABLE department ADD FOREIGN KEY (head) REFERENCES employee (id) ON DELETE SET NULL ON UPDATE CASCADE",
    "ALTER TABLE alpha ADD FOREIGN KEY (of_gamma) REFERENCES gamma (id) ON DELETE CASCADE ON UPDATE CASCADE",
)
"""These lead back to tables that were made before."""
COLUMNS = {
    name: [part.split()[0] for part in text.split(", ") if " INT" in part or "VARCHAR" in part]
    for name, text in TABLES.items()
}
_REFERRING = {
    "customer": ("country", "code"),
    "orders": ("customer",),
    "line": ("a", "b"),
    "remark": ("a", "b"),
    "person": ("boss", "mentor"),
    "badge": (),
    "guest": ("person", "customer"),
    "country": (),
    "note": ("remark",),
    "department": ("head",),
    "employee": ("department",),
    "alpha": ("of_gamma",),
    "beta": ("of_alpha",),
    "gamma": ("of_beta",),
}
_ORDER = "ADD CONSTRAINT l_order FOREIGN KEY (a, b) REFERENCES orders (a, b)"
_OTHER_KEY = (
    "ALTER TABLE line DROP FOREIGN KEY l_order",
    f"ALTER TABLE line {_ORDER} ON DELETE CASCADE",
    f"ALTER TABLE line DROP FOREIGN KEY l_order, {_ORDER} ON DELETE SET NULL ON UPDATE CASCADE",
    "TRUNCATE TABLE line",
    "ALTER TABLE customer ADD COLUMN IF NOT EXISTS more INT",
    "TRUNCATE TABLE badge",
)


class CascadeWorkload:
    """What one connection does.

    Args:
        image: `binlog_row_image`.
        creates: Whether it makes the tables.
    """

    def __init__(
        self, server: MariaDbServer, chance: random.Random, image: str = "FULL", *, creates: bool = True
    ) -> None:
        self._chance = chance
        self._connection = server.connect(autocommit=True)
        self._cursor: Cursor = self._connection.cursor()
        self._cursor.execute(f"SET SESSION binlog_row_image = {image}, sql_mode = '', innodb_lock_wait_timeout = 1")
        if creates:
            self._cursor.execute(f"CREATE DATABASE {DATABASE}")
        self._cursor.execute(f"USE {DATABASE}")
        for name, columns in TABLES.items() if creates else ():
            self._cursor.execute(f"CREATE TABLE {name} ({columns})")
        for statement in CIRCLES if creates else ():
            self._cursor.execute(statement)

    def close(self) -> None:
        """Let the connection go."""
        self._connection.close()

    def run(self, transactions: int, *, with_ddl: bool = True) -> int:
        """Do so many transactions; how many statements succeeded."""
        done = 0
        for _ in range(transactions):
            if with_ddl and self._chance.random() < 0.03:
                done += self._try(self._chance.choice(_OTHER_KEY))
                continue
            self._cursor.execute(f"SET SESSION foreign_key_checks = {int(self._chance.random() > 0.08)}")
            self._cursor.execute("BEGIN")
            done += sum(self._statement() for _ in range(self._chance.randrange(1, 5)))
            self._cursor.execute("ROLLBACK" if self._chance.random() < 0.1 else "COMMIT")
        return done

    def rows(self, table: str) -> list[tuple[object, ...]]:
        """What the server has."""
        self._cursor.execute(f"SELECT * FROM {table}")
        return sorted(self._cursor.fetchall(), key=repr)

    def _try(self, sql: str) -> bool:
        try:
            self._cursor.execute(sql)
        except pymysql.err.MySQLError:  # mostly a row that is referred to, or refers to none
            return False
        return True

    def _statement(self) -> bool:
        table = self._chance.choices(list(TABLES), (3, 4, 4, 4, 3, 4, 2, 3, 3, 3, 4, 3, 3, 3))[0]
        kind = self._chance.random()
        if kind < 0.5:
            return self._insert(table)
        if kind < 0.72:
            return self._try(f"DELETE FROM {table} WHERE {self._where(table)}")
        return self._update(table)

    def _insert(self, table: str) -> bool:
        columns = COLUMNS[table]
        rows = ", ".join(
            "(" + ", ".join(self._value(column) for column in columns) + ")"
            for _ in range(self._chance.randrange(1, 4))
        )
        verb = self._chance.choice(("INSERT IGNORE", "INSERT IGNORE", "REPLACE"))
        return self._try(f"{verb} INTO {table} ({', '.join(columns)}) VALUES {rows}")

    def _update(self, table: str) -> bool:
        others = {"orders": ("a", "b"), "badge": ("person",), "country": ("id", "code"), "note": ("remark",)}
        keys = others.get(table, ("id",))
        column = self._chance.choice((*keys, *_REFERRING[table], "name"))
        value = self._value(column)
        if column in keys and self._chance.random() < 0.4:
            value = f"{column} + {self._chance.randrange(1, 4)}"
        return self._try(f"UPDATE {table} SET {column} = {value} WHERE {self._where(table)}")

    def _where(self, table: str) -> str:
        column = self._chance.choice([name for name in COLUMNS[table] if name != "name"])
        return f"{column} {self._chance.choice(('=', '=', '=', '<'))} {self._chance.randrange(IDS)}"

    def _value(self, column: str) -> str:
        if column == "name":
            return f"'{self._chance.randrange(1000)}'"
        if column in ("boss", "mentor", "code", "head", "of_gamma") and self._chance.random() < 0.3:
            return "NULL"
        return str(self._chance.randrange(IDS))
