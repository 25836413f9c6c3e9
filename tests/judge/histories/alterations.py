"""Random statements about tables, not rows: `Alterations`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.judge.histories.pairs import alter

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.judge.histories.columns import Kind
    from tests.judge.histories.generator import Life
    from tests.judge.histories.model import Column, Table

NAMES = ("t1", "t2", "t3", "orders", "Orders2")
COLUMNS = ("a", "b", "c", "d", "Total", "note")
TABLES_MAX = 4


class Alterations:
    """Statements that create, alter, rename and empty a history's tables."""

    def __init__(self, life: Life) -> None:
        self._life = life
        self._chance = life.chance
        self._actions: dict[Callable[[], None], int] = {
            self.create: 2,
            self._modify: 10,
            self._add_column: 4,
            self._drop_column: 2,
            self._add_again: 2,
            self._rename_column: 2,
            self._change_default: 2,
            self._change_key: 2,
            self._several: 2,
            self._charset: 1,
            self._generated: 1,
            self._truncate: 1,
            self._rename: 2,
            self._swap: 1,
            self._drop: 1,
            self._like: 1,
            self._replace: 1,
            self._fail: 2,
            self._flush: 1,
            self._partitions: 1,
            self._child: 2,
            self._renumber: 1,
            self._view: 1,
        }

    def any(self) -> None:
        """One of them."""
        self._chance.choices(list(self._actions), list(self._actions.values()))[0]()

    def create(self) -> None:
        """CREATE TABLE."""
        if len(self._life.tables) < TABLES_MAX:
            name = self._free_name()
            self._life.do(f"CREATE TABLE {name} {self._body()}", "CREATE TABLE")
            self._life.look()
            self._fill(name)

    # --- columns -------------------------------------------------------------------------------------------------

    def _modify(self) -> None:
        name, table = self._life.some_table()
        columns = [column for column in table.writable if column.name not in table.key] or table.writable
        if self._chance.random() < 0.15:
            columns = table.writable
        if columns:
            column = self._chance.choice(columns)
            kind = self._other_kind(column)
            declared = self._declared(kind, with_default=False)
            action = f"MODIFY `{column.name}` {declared}{self._chance.choice(('', '', '', ' FIRST'))}"
            if self._chance.random() < 0.15:
                action = f"CHANGE `{column.name}` {self._chance.choice(COLUMNS)} {declared}"
            self._alter(name, table, action, f"{column.type} -> {declared}")

    def _add_column(self) -> None:
        name, table = self._life.some_table()
        self._alter(name, table, f"ADD COLUMN {self._new_column(table)}", "ADD COLUMN")

    def _drop_column(self) -> None:
        name, table = self._life.some_table()
        if len(table.columns) > 2:
            self._alter(name, table, f"DROP COLUMN `{self._chance.choice(table.columns).name}`", "DROP COLUMN")

    def _add_again(self) -> None:
        name, table = self._life.some_table()
        if len(table.others()) > 1:
            column = self._chance.choice(table.others())
            declared = self._declared(self._chance.choice(self._life.kinds), with_default=True)
            again = self._chance.choice((column.name, column.name, column.name.swapcase()))
            if self._chance.random() < 0.5:
                self._alter(name, table, f"DROP COLUMN `{column.name}`", "DROP COLUMN")
                self._alter(name, table, f"ADD COLUMN `{again}` {declared}", "ADD COLUMN again")
            else:
                if_there, if_not_there = self._chance.choice((("", ""), ("", ""), ("IF EXISTS ", "IF NOT EXISTS ")))
                action = f"DROP COLUMN {if_there}`{column.name}`, ADD COLUMN {if_not_there}`{again}` {declared}"
                self._alter(name, table, action, "DROP, ADD COLUMN")

    def _rename_column(self) -> None:
        name, table = self._life.some_table()
        column = self._chance.choice(table.columns)
        new = self._chance.choice((*COLUMNS, column.name.swapcase()))
        if self._chance.random() < 0.2:
            old, other = self._chance.choice(COLUMNS), self._chance.choice(COLUMNS)
            action = self._chance.choice((f"RENAME COLUMN IF EXISTS `{old}` TO `{new}`",
                                          f"CHANGE COLUMN IF EXISTS `{old}` `{other}` {column.type}"))  # fmt: skip
            self._alter(name, table, action, "IF EXISTS")
        else:
            self._alter(name, table, f"RENAME COLUMN `{column.name}` TO `{new}`", "RENAME COLUMN")

    def _change_default(self) -> None:
        name, table = self._life.some_table()
        if table.others():
            column = self._chance.choice(table.others())
            value = column.value(self._chance)
            what = self._chance.choice((f"SET DEFAULT {value}", "DROP DEFAULT"))
            added = f"ADD COLUMN `{column.name}n` {column.type} DEFAULT {value}"
            if self._chance.random() < 0.2:
                self._alter(name, table, f"{added}, ALTER `{column.name}N` {what}", "ADD COLUMN, SET DEFAULT")
            else:
                self._alter(name, table, f"ALTER COLUMN `{column.name}` {what}", "SET DEFAULT")

    def _generated(self) -> None:
        name, table = self._life.some_table()
        column = self._chance.choice(table.columns)
        how = self._chance.choice(("STORED", "VIRTUAL"))
        self._alter(
            name,
            table,
            f"ADD COLUMN g{len(table.columns)} VARCHAR(99) AS (CONCAT('<', `{column.name}`)) {how}",
            "ADD generated",
        )

    def _several(self) -> None:
        name, table = self._life.some_table()
        if table.others():
            column = self._chance.choice(table.others())
            first = f"MODIFY `{column.name}` {self._declared(self._other_kind(column), with_default=False)}"
            self._alter(name, table, f"{first}, ADD COLUMN {self._new_column(table)}", "several actions")

    def _charset(self) -> None:
        name, table = self._life.some_table()
        charset = self._chance.choice(("utf8mb4", "latin1", "utf16", "utf8mb3", "latin2", "ascii"))
        self._alter(name, table, f"CONVERT TO CHARACTER SET {charset}", "CONVERT TO CHARACTER SET")

    # --- keys and partitions -------------------------------------------------------------------------------------

    def _change_key(self) -> None:
        name, table = self._life.some_table()
        column = self._chance.choice(table.columns).name
        actions = (
            "DROP PRIMARY KEY",
            f"ADD PRIMARY KEY (`{column}`)",
            f"DROP PRIMARY KEY, ADD PRIMARY KEY (`{column}`)",
            f"ADD UNIQUE KEY u{column} (`{column}`)",
            f"DROP INDEX u{column}",
            f"ADD INDEX i{column} (`{column}`)",
        )
        self._alter(name, table, self._chance.choice(actions), "keys")

    def _partitions(self) -> None:
        name, table = self._life.some_table()
        actions = (
            "PARTITION BY HASH (id) PARTITIONS 3",
            "PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (5), PARTITION p1 VALUES LESS THAN MAXVALUE)",
            "TRUNCATE PARTITION p0",
            "DROP PARTITION p0",
            "REMOVE PARTITIONING",
        )
        self._alter(name, table, self._chance.choice(actions), "partitions")

    # --- whole tables --------------------------------------------------------------------------------------------

    def _truncate(self) -> None:
        name, _ = self._life.some_table()
        self._life.do(f"TRUNCATE TABLE {name}", "TRUNCATE")

    def _rename(self) -> None:
        name, _ = self._life.some_table()
        new = self._free_name()
        if self._chance.random() < 0.2:
            other = f"{self._life.session.history.database}b"
            self._life.do(f"CREATE DATABASE IF NOT EXISTS {other}")
            new = f"{other}.{new}"
        text = self._chance.choice((f"RENAME TABLE {name} TO {new}", f"ALTER TABLE {name} RENAME TO {new}"))
        self._life.do(text, "RENAME TABLE")

    def _swap(self) -> None:
        if len(self._life.tables) > 1:
            one, other = (self._life.spelled(name) for name in self._chance.sample(sorted(self._life.tables), 2))
            self._life.do(f"RENAME TABLE {one} TO swap_, {other} TO {one}, swap_ TO {other}", "RENAME TABLE, swapped")

    def _drop(self) -> None:
        name, _ = self._life.some_table()
        self._life.do(f"DROP TABLE {name}", "DROP TABLE")

    def _child(self) -> None:
        name, table = self._life.some_table()
        if len(self._life.tables) < TABLES_MAX and table.key == ["id"]:
            does = ("CASCADE", "CASCADE", "SET NULL", "RESTRICT")
            rule = f"ON DELETE {self._chance.choice(does)} ON UPDATE {self._chance.choice(does)}"
            child = self._free_name()
            columns = f"id INT PRIMARY KEY, pid INT, c {self._chance.choice(self._life.kinds).declared}"
            text = f"CREATE TABLE {child} ({columns}, FOREIGN KEY (pid) REFERENCES {name} (id) {rule})"
            self._life.do(text, "CREATE TABLE, foreign key")
            self._life.look()
            self._fill(child)

    def _renumber(self) -> None:
        name, table = self._life.some_table()
        if len(table.columns) > 1:
            self._life.do(f"ALTER TABLE {name} DROP COLUMN `{table.columns[0].name}`", "DROP COLUMN")
            added = "ADD COLUMN id INT NOT NULL AUTO_INCREMENT PRIMARY KEY FIRST"
            self._life.do(f"ALTER TABLE {name} {added}", "ADD AUTO_INCREMENT")

    def _view(self) -> None:
        name, _ = self._life.some_table()
        self._life.do(f"CREATE VIEW view1 AS SELECT * FROM {name}", "views")
        self._life.do(
            self._chance.choice(("RENAME TABLE view1 TO view2", "DROP VIEW view1", "DROP VIEW view2")), "views"
        )

    def _like(self) -> None:
        name, _ = self._life.some_table()
        if len(self._life.tables) < TABLES_MAX:
            new = self._free_name()
            self._life.do(f"CREATE TABLE {new} LIKE {name}", "CREATE TABLE LIKE")
            if self._chance.random() < 0.5:
                self._life.do(f"INSERT INTO {new} SELECT * FROM {name}", "INSERT SELECT")

    def _replace(self) -> None:
        name, _ = self._life.some_table()
        self._life.do(f"CREATE OR REPLACE TABLE {name} {self._body()}", "CREATE OR REPLACE TABLE")
        self._life.look()
        self._fill(name)

    def _fail(self) -> None:
        name, table = self._life.some_table()
        column = self._chance.choice(table.columns).name
        texts = (
            f"DROP TABLE {name}, nosuch",
            f"RENAME TABLE {name} TO moved, nosuch TO other",
            f"RENAME TABLE IF EXISTS nosuch TO {name}",
            f"ALTER TABLE {name} ADD COLUMN `{column}` INT",
            f"ALTER TABLE {name} ADD COLUMN z1 INT, DROP COLUMN nosuch",
            f"CREATE TABLE {name} (id INT)",
            f"CREATE TABLE IF NOT EXISTS {name} (id INT, other INT)",
            f"CREATE OR REPLACE TABLE {name} (id INT PRIMARY KEY) SELECT 1 AS id UNION ALL SELECT 1",
            f"DROP TABLE IF EXISTS nosuch, {name}",
        )
        text = self._chance.choice(texts)
        has_replica = len(self._life.session.server.all) > 1
        # Of its DROP a replica's log has nothing: docs/guarantees.md names it.
        if not (has_replica and text.startswith("CREATE OR REPLACE")):
            self._life.do(text, "failing")

    def _flush(self) -> None:
        self._life.do(
            self._chance.choice(
                (
                    "FLUSH BINARY LOGS",
                    "ANALYZE TABLE t1",
                    "CREATE TEMPORARY TABLE tmp_ (id INT)",
                    "RENAME TABLE tmp_ TO tmp2_",
                )
            )
        )

    # --- parts of statements -------------------------------------------------------------------------------------

    def _alter(self, name: str, table: Table, action: str, label: str) -> None:
        # What only MariaDB has leaves nothing in a log of MySQL.
        prefix = (
            "SET STATEMENT max_statement_time = 60 FOR "
            if not self._life.is_mysql and self._chance.random() < 0.05
            else ""
        )
        if prefix or len(table.key) != 1:
            self._life.do(f"{prefix}ALTER TABLE {name} {action}", label)
        else:
            alter(self._life.session, name, action, label, key=f"`{table.key[0]}`")
            self._life.altered()

    def _body(self) -> str:
        columns = [
            self._chance.choice(("id INT NOT NULL",) * 4 + ("id INT NOT NULL AUTO_INCREMENT", "id BIGINT NOT NULL"))
        ]
        keys = ["PRIMARY KEY (id)"] * 6 + ["", "UNIQUE KEY (id)"]
        names = self._chance.sample(COLUMNS, self._chance.randint(1, 4))
        if self._chance.random() < 0.1:
            # Table maps have bits and lists for all columns of a type: one that is miscounted moves the others.
            names += [f"w{number}" for number in range(self._chance.randint(5, 20))]
        for name in names:
            kind = self._chance.choice(self._life.kinds)
            columns.append(f"{name} {self._declared(kind, with_default=True)}")
            if kind.can_be_key:
                keys += [f"PRIMARY KEY ({name}, id)", f"UNIQUE KEY ({name}), UNIQUE KEY (id)"]
        key = self._chance.choice(keys)
        return f"({', '.join(columns + [key] * bool(key))})"

    def _fill(self, name: str) -> None:
        table = self._life.tables.get(name) or self._life.tables.get(name.lower())
        if table is not None:
            self._life.fill(name, table)

    def _new_column(self, table: Table) -> str:
        declared = self._declared(self._chance.choice(self._life.kinds), with_default=True)
        place = self._chance.choice(("", "", " FIRST", f" AFTER `{self._chance.choice(table.columns).name}`"))
        return f"`{self._chance.choice(COLUMNS)}` {declared}{place}"

    def _declared(self, kind: Kind, *, with_default: bool) -> str:
        declared = kind.declared.removesuffix(" NULL")
        null = self._chance.choice((" NULL", " NULL", " NULL", " NOT NULL", ""))
        has_default = with_default and self._chance.random() < 0.35 and kind.can_be_key and kind.family != "geometry"
        return f"{declared}{null}{f' DEFAULT {self._chance.choice(kind.values)}' if has_default else ''}"

    def _other_kind(self, column: Column) -> Kind:
        kinds = self._life.kinds
        kind = column.kind
        if kind is not None and self._chance.random() < 0.6:
            kinds = tuple(one for one in kinds if one.family == kind.family)
        return self._chance.choice(kinds)

    def _free_name(self) -> str:
        free = [name for name in NAMES if name not in self._life.tables and name.lower() not in self._life.tables]
        return self._chance.choice(free or ["t9"])
