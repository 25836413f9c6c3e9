"""What the server's tables are like while a history runs, as the server tells it: `look`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tests.judge.histories.columns import TYPES, Kind

if TYPE_CHECKING:
    import random

    from tests.judge.histories.history import Session

_LABEL = re.compile(r"'((?:[^']|'')*)'")


@dataclass
class Column:
    """A column of a table.

    Attributes:
        type: `COLUMN_TYPE`.
        base: `DATA_TYPE`.
        is_generated: The server computes it.
        may_be_null: It takes NULL.
    """

    name: str
    type: str
    base: str
    is_generated: bool
    may_be_null: bool

    def value(self, chance: random.Random) -> str:
        """A literal for it, which it may refuse."""
        if self.may_be_null and chance.random() < 0.15:
            return "NULL"
        if self.base in ("enum", "set"):
            return f"'{chance.choice(_LABEL.findall(self.type))}'"
        return chance.choice(_values(self.base))

    @property
    def kind(self) -> Kind | None:
        """The type that it was declared with, if it is one of ours."""
        return next((kind for kind in TYPES if _base(kind.declared) == self.base), None)


@dataclass
class Table:
    """A table.

    Attributes:
        columns: In order.
        key: Columns of the primary key.
        references: Tables that its foreign keys are of.
    """

    database: str
    name: str
    columns: list[Column] = field(default_factory=list)
    key: list[str] = field(default_factory=list)
    references: set[str] = field(default_factory=set)

    @property
    def writable(self) -> list[Column]:
        """Those that statements may write."""
        return [column for column in self.columns if not column.is_generated]

    def others(self) -> list[Column]:
        """Writable columns outside the key."""
        return [column for column in self.writable if column.name not in self.key]


def _base(declared: str) -> str:
    return re.split(r"[ (]", declared)[0].lower()


def _values(base: str) -> tuple[str, ...]:
    found = [kind.values for kind in TYPES if _base(kind.declared) == base]
    return found[0] if found else ("'{\"a\": 1}'",) if base == "json" else ("1", "2", "3")


def look(session: Session) -> dict[str, Table]:
    """The base tables of the history's databases, by name in the own database, with the database in another."""
    database = session.history.database
    places = f"('{database}', '{database}b')"
    found: dict[tuple[str, str], Table] = {}
    names = session.ask(
        f"SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA IN {places} "
        "AND TABLE_TYPE IN ('BASE TABLE', 'SYSTEM VERSIONED') ORDER BY TABLE_SCHEMA, TABLE_NAME"
    )
    for schema, name in names:
        found[str(schema), str(name)] = Table(str(schema), str(name))
    columns = session.ask(
        "SELECT TABLE_SCHEMA, TABLE_NAME, COLUMN_NAME, COLUMN_TYPE, DATA_TYPE, EXTRA, IS_NULLABLE, COLUMN_KEY "
        f"FROM information_schema.COLUMNS WHERE TABLE_SCHEMA IN {places} ORDER BY 1, 2, ORDINAL_POSITION"
    )
    for row in columns:
        schema, name, column, kind, base, extra, nullable, key = map(_text, row)
        table = found.get((schema, name))
        if table is None:
            continue
        is_generated = re.search(r"\b(STORED|VIRTUAL|PERSISTENT)\b", extra.upper()) is not None
        table.columns.append(Column(column, kind, base.lower(), is_generated, nullable == "YES"))
        if key == "PRI":
            table.key.append(column)
    parents = session.ask(
        "SELECT TABLE_SCHEMA, TABLE_NAME, REFERENCED_TABLE_NAME FROM information_schema.KEY_COLUMN_USAGE "
        f"WHERE TABLE_SCHEMA IN {places} AND REFERENCED_TABLE_NAME IS NOT NULL"
    )
    for schema, name, parent in parents:
        if (str(schema), str(name)) in found:
            found[str(schema), str(name)].references.add(str(parent))
    return {name if schema == database else f"{schema}.{name}": table for (schema, name), table in found.items()}


def _text(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
