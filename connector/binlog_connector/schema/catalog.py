"""All tables that are known at one moment: `Catalog.apply(operation)`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from binlog_connector.schema.alteration import Defaults, ImpossibleError, altered, created
from binlog_connector.schema.definitions import ColumnDefinition, TableDefinition, TableName
from binlog_connector.schema.foreign_keys import ForeignKeys
from binlog_connector.schema.operations import (
    AlterTable,
    CreateSequence,
    CreateTable,
    CreateView,
    DropDatabase,
    DropTables,
    NotParsed,
    RenameTables,
    SetDatabaseCharset,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlog_connector.schema.operations import Operation
    from binlog_format.vendor import Vendor


@dataclass(frozen=True, slots=True)
class Unclear:
    """A table of which a statement was not understood: what it looks like is not known any more.

    Attributes:
        reason: Which statement, and why.
    """

    reason: str


TableState = TableDefinition | Unclear


@dataclass(slots=True)
class Catalog:
    """Tables and default character sets of databases.

    Attributes:
        tables: What is known, by name.
        databases: Default character sets by name of the database; None: not known.
        ignore_case: Names of databases and tables in upper and lower case are the same (`lower_case_table_names`).
        foreign_keys: Those of all tables.
    """

    tables: dict[TableName, TableState] = field(default_factory=dict)
    databases: dict[str, str | None] = field(default_factory=dict)
    ignore_case: bool = False
    foreign_keys: ForeignKeys = field(default_factory=ForeignKeys)

    def __post_init__(self) -> None:
        self.foreign_keys.ignore_case = self.ignore_case

    def fold(self) -> None:
        """Treat names in upper and lower case as the same from now on."""
        self.ignore_case = True
        self.tables = {name.lowered: state for name, state in self.tables.items()}
        self.databases = {name.lower(): charset for name, charset in self.databases.items()}
        self.foreign_keys.fold()

    def copy(self) -> Catalog:
        """One that changes by itself."""
        return Catalog(dict(self.tables), dict(self.databases), self.ignore_case, self.foreign_keys.copy())

    def key(self, name: TableName) -> TableName:
        """Name under which a table is kept."""
        return name.lowered if self.ignore_case else name

    def apply(self, operation: Operation, vendor: Vendor | None = None) -> set[TableName]:
        """Apply the effect of a statement.

        Args:
            operation: What it does.
            vendor: On whose server; None: either.

        Returns:
            Keys of the tables that may look otherwise now.
        """
        self.foreign_keys.apply(operation)
        match operation:
            case CreateTable():
                return self._create(operation, vendor)
            case CreateSequence():
                if operation.if_not_exists and self.key(operation.name) in self.tables:
                    return set()
                return self._put(operation.name, _sequence(operation))
            case AlterTable():
                return self._alter(operation, vendor)
            case RenameTables():
                return self._rename(operation.pairs)
            case DropTables():
                return self._remove(operation.names)
            case CreateView():
                return self._remove([operation.name])
            case NotParsed():
                return {key for name in operation.names for key in self._put(name, Unclear(operation.reason))}
            case SetDatabaseCharset():
                name = operation.database.lower() if self.ignore_case else operation.database
                if not (operation.if_not_exists and name in self.databases):
                    self.databases[name] = operation.charset
                return set()
            case DropDatabase():
                return self._drop_database(operation.database)
        return set()

    def _put(self, name: TableName, state: TableState) -> set[TableName]:
        key = self.key(name)
        self.tables[key] = state
        return {key}

    def _remove(self, names: Iterable[TableName]) -> set[TableName]:
        keys = {self.key(name) for name in names}
        for key in keys:
            self.tables.pop(key, None)
        return keys

    def _defaults(self, name: TableName, vendor: Vendor | None) -> Defaults:
        return Defaults(vendor, self.databases.get(self.key(name).database))

    def _create(self, create: CreateTable, vendor: Vendor | None) -> set[TableName]:
        if create.if_not_exists and self.key(create.name) in self.tables:
            return set()
        if create.options.like is None:
            return self._put(create.name, created(create, self._defaults(create.name, vendor)))
        return self._put(create.name, self._like(create.options.like, create.name))

    def _like(self, source: TableName, name: TableName) -> TableState:
        state = self.tables.get(self.key(source))
        if state is None:
            return TableDefinition(name, None)
        return state.renamed(name) if isinstance(state, TableDefinition) else state

    def _alter(self, alter: AlterTable, vendor: Vendor | None) -> set[TableName]:
        touched = {self.key(alter.name)}
        state = self.tables.get(self.key(alter.name))
        if isinstance(state, TableDefinition):
            self.tables[self.key(alter.name)] = _altered(state, alter, self._defaults(alter.name, vendor))
        if alter.partition_to is not None:
            made = self._like(alter.name, alter.partition_to)
            made = replace(made, partitioning=None) if isinstance(made, TableDefinition) else made
            touched |= self._put(alter.partition_to, made)
        if alter.table_to_partition is not None:
            touched |= self._remove([alter.table_to_partition])
        if alter.new_name is not None:
            touched |= self._rename([(alter.name, alter.new_name)])
        return touched

    def _rename(self, pairs: Iterable[tuple[TableName, TableName]]) -> set[TableName]:
        touched = set()
        for old, new in pairs:
            state = self.tables.pop(self.key(old), None)
            touched |= self._remove([old, new])
            if state is not None:
                self._put(new, state.renamed(new) if isinstance(state, TableDefinition) else state)
        return touched

    def _drop_database(self, database: str) -> set[TableName]:
        name = database.lower() if self.ignore_case else database
        self.databases.pop(name, None)
        return self._remove([key for key in self.tables if key.database == name])


def _altered(table: TableDefinition, alter: AlterTable, defaults: Defaults) -> TableState:
    try:
        return altered(table, alter, defaults)
    except ImpossibleError as error:
        return Unclear(f"an ALTER TABLE that the known definition of {table.name} does not go with: {error}")


def _sequence(create: CreateSequence) -> TableDefinition:
    """MariaDB sql/sql_sequence.cc: sequence_structure."""
    value = {"bigint": "bigint(21)"}.get(create.type, create.type)
    columns = [
        ColumnDefinition(name, value, nullable=False, unsigned=create.unsigned)
        for name in ("next_not_cached_value", "minimum_value", "maximum_value", "start_value")
    ]
    columns += [
        ColumnDefinition("increment", "bigint(21)", nullable=False, unsigned=False),
        ColumnDefinition("cache_size", "bigint(21)", nullable=False, unsigned=True),
        ColumnDefinition("cycle_option", "tinyint(1)", nullable=False, unsigned=True),
        ColumnDefinition("cycle_count", "bigint(21)", nullable=False, unsigned=False),
    ]
    return TableDefinition(create.name, tuple(columns))
