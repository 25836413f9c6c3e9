"""Random changes of rows: `Changes`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.judge.histories.generator import Life
    from tests.judge.histories.model import Column, Table

IDS = 15
OUTER = "(SELECT 1 AS one_) AS outer_"
TRANSACTIONS = (
    ((), ("",), ()),
    (("BEGIN",), ("", ""), ("COMMIT",)),
    (("BEGIN",), ("", ""), ("ROLLBACK",)),
    (("BEGIN",), ("SAVEPOINT one", "ROLLBACK TO one", ""), ("COMMIT",)),
    (("XA START 'x'",), ("", ""), ("XA END 'x'", "XA PREPARE 'x'", "XA COMMIT 'x'")),
    (("XA START 'x'",), ("", ""), ("XA END 'x'", "XA PREPARE 'x'", "XA ROLLBACK 'x'")),
)
"""What comes before changes, after some of them, and in the end."""


class Changes:
    """Statements that change rows of a history's tables."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._chance = life.chance

    def any(self) -> None:
        """One of them, or some as a transaction."""
        begin, middle, end = self._chance.choices(TRANSACTIONS, (30, 3, 1, 1, 1, 1))[0]
        for text in begin:
            self._life.do(text)
        for text in middle:
            for _ in range(self._chance.randint(1, 2)):
                self._one()
            if text:
                self._life.do(text)
        for text in end:
            self._life.do(text)

    def insert(self, name: str, table: Table, *, verb: str = "INSERT INTO") -> None:
        """Some rows, each as its own statement: the server may refuse one."""
        for _ in range(self._chance.randint(1, 4)):
            columns = [column for column in table.writable if self._chance.random() < 0.85 or column.name in table.key]
            names = ", ".join(f"`{column.name}`" for column in columns)
            values = ", ".join(self._value(column, table) for column in columns)
            more = ""
            if verb == "INSERT INTO" and table.others() and self._chance.random() < 0.15:
                column = self._chance.choice(table.others())
                more = f" ON DUPLICATE KEY UPDATE `{column.name}` = {column.value(self._chance)}"
            self._life.do(f"{verb} {name} ({names}) VALUES ({values}){more}", "insert")

    def _one(self) -> None:
        name, table = self._life.some_table()
        if not table.writable:
            return
        kinds = ("insert", "replace", "update", "delete", "key", "joined")
        action = self._chance.choices(kinds, (8, 2, 7, 3, 1, 2))[0]
        if action == "joined":
            self._joined(name, table)
        elif action == "insert":
            self.insert(name, table)
        elif action == "replace":
            self.insert(name, table, verb="REPLACE INTO")
        elif action == "delete":
            self._life.do(f"DELETE FROM {name} WHERE {self._condition(table)}{self._limit(table)}", "delete")
        else:
            columns = table.others() if action == "update" and table.others() else table.writable
            column = self._chance.choice(columns)
            text = f"UPDATE {name} SET `{column.name}` = {self._value(column, table)} WHERE {self._condition(table)}"
            self._life.do(text + self._limit(table), "update")

    def _joined(self, name: str, table: Table) -> None:
        """A change of the inner side of an outer join."""
        join = f"{OUTER} LEFT JOIN {name} AS inner_ ON {self._condition(table)}"
        if self._chance.random() < 0.3:
            self._life.do(f"DELETE inner_ FROM {join}", "delete")
        else:
            column = self._chance.choice(table.writable)
            self._life.do(f"UPDATE {join} SET inner_.`{column.name}` = {self._value(column, table)}", "update")

    def _value(self, column: Column, table: Table) -> str:
        if column.name in (*table.key, "pid") and column.base in ("int", "bigint", "smallint"):
            return str(self._chance.randint(1, IDS))
        if self._chance.random() < 0.05:
            return "DEFAULT"
        return column.value(self._chance)

    def _condition(self, table: Table) -> str:
        numbers = [column for column in table.columns if column.base in ("int", "bigint", "smallint")]
        if numbers and self._chance.random() < 0.8:
            column = self._chance.choice(numbers)
            if column.name in table.key or self._chance.random() < 0.5:
                return f"`{column.name}` = {self._chance.randint(1, IDS)}"
            return f"`{column.name}` % 3 = 1"
        column = self._chance.choice(table.columns)
        if column.may_be_null and self._chance.random() < 0.3:
            return f"`{column.name}` IS NULL"
        return f"`{column.name}` = {column.value(self._chance)}"

    def _limit(self, table: Table) -> str:
        return " LIMIT 1" if not table.key and self._chance.random() < 0.5 else ""
