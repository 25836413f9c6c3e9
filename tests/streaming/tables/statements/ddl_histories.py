"""A server of a few tables, as a model: what it logs goes into a `ShopLog`, what its tables hold stays at hand."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING

from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Collection

    from binlog_lab.event_encoding.value_encoding import Value
    from tests.streaming.tables.shop import Row, ShopLog

NAMES = ("orders", "items", "swap")
TYPES = ("smallint", "int", "bigint", "varchar(20)", "decimal(8,2)")
WIDER = {"smallint": "int", "int": "bigint"}


@dataclass
class ModelServer:
    """Tables of the database `shop`, each with a key `id`.

    Attributes:
        tables: By name: columns and rows.
        builds_ghosts: What gh-ost does is done by it; else by ALTER TABLE.
    """

    log: ShopLog
    chance: random.Random
    tables: dict[str, tuple[TableSpec, dict[int, Row]]] = field(default_factory=dict)
    builds_ghosts: bool = True

    def live(self, count: int, without: Collection[str] = ()) -> None:
        """Do *count* things, but none of those that are called so."""
        acts: list[tuple[int, Callable[[], None]]] = [
            (8, self.insert),
            (5, self.update),
            (3, self.delete),
            (2, self.create),
            (1, self.drop),
            (1, self.truncate),
            (3, self.add_column),
            (2, self.drop_column),
            (2, self.rename_column),
            (2, self.widen_column),
            (2, self.rename),
            (1, self.swap),
            (1, self.cut_over),
        ]
        acts = [(weight, act) for weight, act in acts if act.__name__ not in without]
        for _ in range(count):
            self.chance.choices([act for _, act in acts], [weight for weight, _ in acts])[0]()

    def rows(self, name: str) -> list[dict[str, object]]:
        """What a table holds, by key."""
        spec, rows = self.tables[name]
        return [dict(zip((column.name for column in spec.columns), rows[key], strict=True)) for key in sorted(rows)]

    # Rows.

    def insert(self) -> None:
        name = self._any()
        if name is None:
            return
        spec, rows = self.tables[name]
        key = self.chance.randrange(12)
        if key in rows:
            return
        rows[key] = (key, *(self._value(column.sql_type) for column in spec.columns[1:]))
        self.log.insert(spec, rows[key])

    def update(self) -> None:
        name = self._any(with_rows=True)
        if name is None:
            return
        spec, rows = self.tables[name]
        old, new = self.chance.choice(sorted(rows)), self.chance.randrange(12)
        if new in rows and new != old:
            new = old
        before = rows.pop(old)
        rows[new] = (new, *(self._value(column.sql_type) for column in spec.columns[1:]))
        self.log.update(spec, (before, rows[new]))

    def delete(self) -> None:
        name = self._any(with_rows=True)
        if name is not None:
            spec, rows = self.tables[name]
            self.log.delete(spec, rows.pop(self.chance.choice(sorted(rows))))

    # Statements.

    def create(self) -> None:
        free = [name for name in NAMES[:2] if name not in self.tables]
        if not free:
            return
        spec = self._spec(self.chance.choice(free), (ColumnSpec("id", "int"), self._column()))
        self.tables[spec.table] = (spec, {})
        self.log.statement(f"CREATE TABLE {spec.table} ({self._definitions(spec)}, PRIMARY KEY (id))")

    def drop(self) -> None:
        name = self._any()
        if name is not None:
            del self.tables[name]
            self.log.statement(f"DROP TABLE `{name}`")

    def truncate(self) -> None:
        name = self._any()
        if name is not None:
            self.tables[name][1].clear()
            self.log.statement(f"TRUNCATE TABLE `{name}`")

    def add_column(self) -> None:
        name = self._any()
        if name is None:
            return
        column = self._column()
        default = self.chance.choice([None, 7])
        value = None if default is None else self._of(column.sql_type, default)
        clause = "" if default is None else f" DEFAULT '{default}'"
        self._alter(name, f"ADD COLUMN {column.definition()}{clause}", lambda spec: (*spec.columns, column), (value,))

    def drop_column(self) -> None:
        name = self._any()
        if name is None or len(self.tables[name][0].columns) < 3:
            return
        spec, rows = self.tables[name]
        place = self.chance.randrange(1, len(spec.columns))
        columns = (*spec.columns[:place], *spec.columns[place + 1 :])
        self.tables[name] = (
            replace(spec, columns=columns),
            {key: (*row[:place], *row[place + 1 :]) for key, row in rows.items()},
        )
        self.log.statement(f"ALTER TABLE `{name}` DROP COLUMN `{spec.columns[place].name}`")

    def rename_column(self) -> None:
        name = self._any()
        if name is None or len(self.tables[name][0].columns) < 2:
            return
        spec = self.tables[name][0]
        there = {column.name for column in spec.columns}
        free = [other for other in ("c1", "c2", "c3", "c4", "c5", "c6") if other not in there]
        if not free:
            return
        place = self.chance.randrange(1, len(spec.columns))
        new = self.chance.choice(free)
        old = spec.columns[place]
        columns = (*spec.columns[:place], replace(old, name=new), *spec.columns[place + 1 :])
        self._alter(name, f"RENAME COLUMN `{old.name}` TO `{new}`", lambda _: columns)

    def widen_column(self) -> None:
        name = self._any()
        if name is None:
            return
        spec = self.tables[name][0]
        places = [number for number, column in enumerate(spec.columns) if column.sql_type in WIDER and number]
        if not places:
            return
        place = self.chance.choice(places)
        wider = replace(spec.columns[place], sql_type=WIDER[spec.columns[place].sql_type])
        columns = (*spec.columns[:place], wider, *spec.columns[place + 1 :])
        self._alter(name, f"MODIFY COLUMN {wider.definition()}", lambda _: columns)

    def rename(self) -> None:
        name = self._any()
        free = [other for other in NAMES[:2] if other not in self.tables]
        if name is None or not free:
            return
        new = free[0]
        self._move(name, new)
        form = self.chance.choice(["RENAME TABLE `{}` TO `{}`", "ALTER TABLE `{}` RENAME TO `{}`"])
        self.log.statement(form.format(name, new))

    def swap(self) -> None:
        if len(self.tables) < 2:
            return
        one, other = NAMES[:2]
        self.log.statement(f"RENAME TABLE {one} TO swap, {other} TO {one}, swap TO {other}")
        for old, new in ((one, "swap"), (other, one), ("swap", other)):
            self._move(old, new)

    def cut_over(self) -> None:
        """What gh-ost does."""
        name = self._any()
        if name is None:
            return
        ghost, column = f"_{name}_gho", self._column()
        spec, rows = self.tables[name]
        if column.name in {one.name for one in spec.columns}:
            return
        if not self.builds_ghosts:
            self._alter(name, f"ADD COLUMN {column.definition()}", lambda spec: (*spec.columns, column), (None,))
            return
        self.log.statement(f"CREATE TABLE `{ghost}` LIKE `{name}`")
        self.log.statement(f"ALTER TABLE `{ghost}` ADD COLUMN {column.definition()}")
        new = replace(spec, table=ghost, columns=(*spec.columns, column))
        copied = {key: (*row, None) for key, row in rows.items()}
        for row in copied.values():
            self.log.insert(new, row)
        self.log.statement(f"RENAME TABLE `{name}` TO `_{name}_del`, `{ghost}` TO `{name}`")
        self.log.statement(f"DROP TABLE `_{name}_del`")
        self.tables[name] = (replace(new, table=name), copied)

    # Helpers.

    def _any(self, *, with_rows: bool = False) -> str | None:
        names = [name for name in self.tables if self.tables[name][1] or not with_rows]
        return self.chance.choice(names) if names else None

    def _spec(self, name: str, columns: tuple[ColumnSpec, ...]) -> TableSpec:
        return TableSpec("shop", name, columns, ("id",))

    def _definitions(self, spec: TableSpec) -> str:
        return ", ".join(column.definition() for column in spec.columns)

    def _column(self) -> ColumnSpec:
        kind = self.chance.choice(TYPES)
        return ColumnSpec(f"c{self.chance.randrange(1, 7)}", kind, nullable=True)

    def _alter(
        self,
        name: str,
        action: str,
        columns: Callable[[TableSpec], tuple[ColumnSpec, ...]],
        added: Row = (),
    ) -> None:
        spec, rows = self.tables[name]
        new = replace(spec, columns=columns(spec))
        if len({column.name for column in new.columns}) < len(new.columns):
            return
        self.tables[name] = (new, {key: (*row, *added) for key, row in rows.items()})
        self.log.statement(f"ALTER TABLE `{name}` {action}")

    def _move(self, old: str, new: str) -> None:
        spec, rows = self.tables.pop(old)
        self.tables[new] = (replace(spec, table=new), rows)

    def _value(self, kind: str) -> Value:
        return None if self.chance.random() < 0.2 else self._of(kind, self.chance.randrange(100))

    def _of(self, kind: str, number: int) -> Value:
        if kind.startswith("varchar"):
            return str(number)
        return Decimal(number) if kind.startswith("decimal") else number
