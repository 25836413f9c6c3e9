"""Engines that decide if a table has foreign keys: `StatedEngine`, `KeylessTables`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

from binlog_connector.schema.operations import CreateTable

if TYPE_CHECKING:
    from binlog_connector.schema.definitions import TableName
    from binlog_connector.schema.operations import AlterTable

_WITH_FOREIGN_KEYS = frozenset(["innodb", "ndb", "ndbcluster"])


class StatedEngine(NamedTuple):
    """Engine that a statement names for its table.

    Attributes:
        name: In lower case; None: it names none, and counts as one that has foreign keys.
        may_differ: The server may have taken another one.
    """

    name: str | None = None
    may_differ: bool = False

    @classmethod
    def of(cls, operation: CreateTable | AlterTable) -> StatedEngine:
        """The one that a statement names."""
        engine = operation.options.engine if isinstance(operation, CreateTable) else operation.engine
        return cls(engine, operation.engine_may_differ)

    @property
    def is_sure(self) -> bool:
        """True if the table has the engine that is named."""
        return self.name is not None and not self.may_differ

    @property
    def ignores_keys(self) -> bool:
        """True if an engine is named that has no foreign keys; the server passes over them."""
        return self.name is not None and self.name not in _WITH_FOREIGN_KEYS


_NOT_STATED = StatedEngine()


@dataclass(slots=True)
class KeylessTables:
    """Tables that a statement gave an engine that has no foreign keys; later ones do not repeat it.

    Names are given as the server compares them.
    """

    engines: dict[TableName, StatedEngine] = field(default_factory=dict)

    def copy(self) -> KeylessTables:
        """One that changes by itself."""
        return KeylessTables(dict(self.engines))

    def engine_of(self, name: TableName) -> StatedEngine:
        """Engine of a table; without a name if it is not one of these."""
        return self.engines.get(name, _NOT_STATED)

    def create(self, name: TableName, create: CreateTable, like: TableName | None) -> StatedEngine:
        """Take a table that is made, LIKE another one if that is named; its engine."""
        if create.if_not_exists and name in self.engines:
            return self.engines[name]
        stated = StatedEngine.of(create) if like is None else self.engine_of(like)
        # Where IF NOT EXISTS made nothing, the table keeps the engine that it has.
        self._put(name, stated._replace(may_differ=stated.may_differ or create.if_not_exists))
        return stated

    def alter(self, name: TableName, alter: AlterTable) -> StatedEngine:
        """Take a table that gets another engine, or keeps its own one; its engine after that."""
        if alter.engine is not None:
            self._put(name, StatedEngine.of(alter))
            return StatedEngine.of(alter)
        return self.engine_of(name)

    def rename(self, old: TableName, new: TableName) -> None:
        """Take a table that gets another name."""
        self._put(new, self.engines.pop(old, _NOT_STATED))

    def drop(self, name: TableName) -> None:
        """Take a table that goes."""
        self.engines.pop(name, None)

    def drop_database(self, database: str) -> None:
        """Take all tables of a database that go."""
        self.engines = {name: engine for name, engine in self.engines.items() if name.database != database}

    def fold(self) -> None:
        """Take names in upper and lower case as the same from now on."""
        self.engines = {name.lowered: engine for name, engine in self.engines.items()}

    def _put(self, name: TableName, engine: StatedEngine) -> None:
        if engine.ignores_keys:
            self.engines[name] = engine
        else:
            self.engines.pop(name, None)
