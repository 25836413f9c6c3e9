"""Effects of a statement on tables, for readers that keep copies of them: `table_changes(statement, decoding)`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from binlog_connector.schema.alteration import Defaults, created, may_change_key, new_primary_key, period_columns
from binlog_connector.schema.effects.column_facts import ColumnContext, ColumnFacts, column_facts
from binlog_connector.schema.operations import (
    OF_DATABASE,
    AlterTable,
    CreateTable,
    DropDatabase,
    DropTables,
    NotParsed,
    RenameTables,
    TruncateTable,
)
from binlog_connector.schema.parsing.columns import resolved
from binlog_connector.schema.parsing.row_statements import statement_operations
from binlog_connector.schema.parsing.session import UTF8MB4
from binlog_format.errors import BinlogError
from binlog_format.names import folded_name, folded_names
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from binlog_connector.schema.definitions import ColumnDefinition, TableName
    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_connector.schema.operations import Operation
    from binlog_connector.schema.partitions.definition import Partition, PartitionChange


@dataclass(frozen=True, slots=True)
class TableCreated:
    """CREATE TABLE; without IF NOT EXISTS there was no such table before it, or it is gone (OR REPLACE).

    Attributes:
        columns: In order, `existing` is what new rows hold by default; None: the statement alone does not contain them
            (SELECT, LIKE, a type that is not known).
        primary_key: Names of the columns that tell rows apart, as a table map has them; empty: none do.
        if_not_exists: Nothing happened if there was a table of this name.
        like: The table whose columns it has.
        is_key_open: Rows may tell another key.
    """

    name: TableName
    columns: tuple[ColumnFacts, ...] | None
    primary_key: tuple[str, ...] = ()
    if_not_exists: bool = False
    like: TableName | None = None
    is_key_open: bool = False


@dataclass(frozen=True, slots=True)
class TableAltered:
    """ALTER TABLE that changes columns or the primary key.

    Names are as the statement writes them: the server does not tell upper from lower case in names of columns.

    Attributes:
        renamed: Names from before the statement, and new ones; two columns may change names with each other.
        added: New columns; one may have the name of one that is dropped or renamed.
        modified: Columns with another type (or the same one), under their new names.
        dropped: Names from before the statement.
        primary_key: The new one, empty for none; None: the statement does not change it, but for names of columns.
        keys_open: Another key may tell rows apart after it; the rows that come next have it.
        converts: CONVERT TO: texts of all columns get another character set.
        sets_defaults: ALTER COLUMN ... SET or DROP DEFAULT, which expressions with DEFAULT(...) follow.
        if_there: Old names of columns, in small letters, that are changed or renamed only if they exist.
    """

    name: TableName
    renamed: Mapping[str, str] = field(default_factory=dict)
    added: tuple[ColumnFacts, ...] = ()
    modified: tuple[ColumnFacts, ...] = ()
    dropped: tuple[str, ...] = ()
    primary_key: tuple[str, ...] | None = None
    keys_open: bool = False
    converts: bool = False
    sets_defaults: bool = False
    if_there: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        changes = self.renamed or self.added or self.modified or self.dropped or self.primary_key is not None
        return bool(changes or self.keys_open or self.converts or self.sets_defaults)

    def may_change_key(self, keys: tuple[str, ...]) -> bool:
        """True if other keys than *keys*, those before it, may identify rows after it.

        Without a key, a column that cannot be NULL any more may make a unique key that one; of a key, a column may be
        gone, or be NULL from now on.
        """
        if self.keys_open or not keys:
            return self.keys_open or bool(self.modified)
        before = {folded_name(new): folded_name(old) for old, new in self.renamed.items()}
        touched = {before.get(folded_name(fact.name), folded_name(fact.name)) for fact in self.modified}
        touched |= folded_names(self.dropped)
        return any(folded_name(key) in touched for key in keys)


@dataclass(frozen=True, slots=True)
class TableRenamed:
    """RENAME TABLE, ALTER TABLE ... RENAME: the rows go with it."""

    old: TableName
    new: TableName


@dataclass(frozen=True, slots=True)
class TableTruncated:
    """TRUNCATE: all rows are gone."""

    name: TableName


@dataclass(frozen=True, slots=True)
class TableDropped:
    """DROP TABLE; there may have been none (IF EXISTS)."""

    name: TableName


@dataclass(frozen=True, slots=True)
class DatabaseDropped:
    """DROP DATABASE: all tables in it are gone."""

    database: str


@dataclass(frozen=True, slots=True)
class RowsChanged:
    """A statement that changes rows and is logged as text: what the rows hold afterwards, no log tells.

    Attributes:
        names: Tables whose rows it may change; None: any table.
        reason: Why other tables than those that it names count too, in a few words; empty: they do not.
        cascaded: Others whose rows foreign keys may change with them.
    """

    names: tuple[TableName, ...] | None
    reason: str = ""
    cascaded: tuple[TableName, ...] = ()


@dataclass(frozen=True, slots=True)
class RowsMoved(RowsChanged):
    """A statement that takes or brings rows that no log has: EXCHANGE PARTITION, IMPORT TABLESPACE and the like."""


@dataclass(frozen=True, slots=True)
class PartitionExchanged(RowsMoved):
    """EXCHANGE PARTITION: the rows of a partition, and all rows of another table of the same columns, change places.

    CONVERT PARTITION ... TO TABLE is one with a new table.
    """

    partition: str = ""

    @property
    def table(self) -> TableName:
        """The table that has the partition."""
        return (self.names or ())[0]

    @property
    def other(self) -> TableName:
        """The other one, which has no partitions."""
        return (self.names or ())[1]

    @property
    def partition_emptied(self) -> PartitionsDropped:
        """The same of the partition alone: its rows go."""
        return PartitionsDropped((self.table,), self.reason, (self.partition,))


@dataclass(frozen=True, slots=True)
class EventsLost:
    """An INCIDENT event: the server made changes, of any table, that are not in the log."""

    message: str


@dataclass(frozen=True, slots=True)
class UnsupportedChange:
    """A statement that is not understood. *names*: tables that it is about, as far as they are known."""

    names: tuple[TableName, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class PartitionsDropped(UnsupportedChange):
    """DROP PARTITION, TRUNCATE PARTITION: the rows of some partitions are gone.

    Attributes:
        if_exists: There may be none of these names.
        taken_by: REORGANIZE PARTITION: partitions in their place; rows that none of them takes are gone.
    """

    partitions: tuple[str, ...] = ()
    if_exists: bool = False
    taken_by: tuple[Partition, ...] = ()

    @property
    def name(self) -> TableName:
        """Name of the table."""
        return self.names[0]


TableChange = (
    TableCreated
    | TableAltered
    | TableRenamed
    | TableTruncated
    | TableDropped
    | DatabaseDropped
    | UnsupportedChange
    | PartitionsDropped
    | PartitionExchanged
)
StatementChange = TableChange | RowsChanged | EventsLost
"""Effect of a statement on tables or rows: `StatementScope.changes`."""


def table_changes(statement: DdlStatement, decoding: Decoding = DEFAULT_DECODING) -> list[TableChange | RowsMoved]:
    """Effects of *statement* on whole tables, in order; empty if it is about none, or changes no column.

    Nothing is raised. The statement is looked at alone: as if there were no temporary tables, and with the server's
    default character set for texts whose table has one that the statement does not state. Which rows it changes is not
    asked. `StatementScope.changes` knows of all that.

    Args:
        decoding: How values are read; its schemas are not asked.
    """
    return [
        change
        for operation in statement_operations(statement)
        for change in operation_changes(operation, statement, decoding)
    ]


def operation_changes(
    operation: Operation, statement: DdlStatement, decoding: Decoding
) -> Iterator[TableChange | RowsMoved]:
    """Effects of one operation of *statement* on tables."""
    match operation:
        case CreateTable():
            yield _created(operation, statement, decoding)
            yield from rows_moved(operation)
        case AlterTable():
            yield from _altered(operation, statement, decoding)
        case RenameTables():
            yield from (TableRenamed(old, new) for old, new in operation.pairs)
        case TruncateTable():
            if not (operation.deletes and statement.may_be_undone):
                yield TableTruncated(operation.name)
        case DropTables():
            yield from map(TableDropped, operation.names)
        case DropDatabase():
            yield DatabaseDropped(operation.database)
        case NotParsed():
            yield UnsupportedChange(operation.names, operation.reason)


def _created(create: CreateTable, statement: DdlStatement, decoding: Decoding) -> TableCreated:
    bare = TableCreated(create.name, None, (), create.if_not_exists, create.options.like)
    if create.options.like is not None or create.options.selects or not create.columns:
        return bare
    if create.options.charset_left_out:
        # Its texts are texts in any character set: the server writes BLOB for those that are bytes.
        create = replace(create, options=replace(create.options, charset=UTF8MB4, charset_left_out=False))
    table = created(create, Defaults(statement.vendor, statement.server_charset or UTF8MB4))
    try:
        facts = column_facts(table.columns or (), ColumnContext(create.name, statement.vendor, decoding))
    except BinlogError:
        return bare
    return replace(bare, columns=facts, primary_key=table.row_key, is_key_open=table.is_key_open)


def _altered(alter: AlterTable, statement: DdlStatement, decoding: Decoding) -> Iterator[TableChange | RowsMoved]:
    about = ColumnContext(alter.name, statement.vendor, decoding, statement.moment)
    try:
        altered = _column_changes(alter, statement.server_charset, about)
    except BinlogError as error:
        yield UnsupportedChange((alter.name,), error.reason)
    else:
        if altered:
            yield altered
    if alter.partition_to is not None:
        yield TableCreated(alter.partition_to, None, like=alter.name)
    yield from rows_moved(alter)
    if alter.partitions is not None:
        yield from _emptied(alter.name, alter.partitions)
    if alter.new_name is not None:
        yield TableRenamed(alter.name, alter.new_name)


def rows_moved(operation: CreateTable | AlterTable) -> Iterator[RowsMoved]:
    """Rows of a statement's tables that change without any row event."""
    other = (operation.other_table or operation.partition_to) if isinstance(operation, AlterTable) else None
    if isinstance(operation, AlterTable) and other is not None:
        names = (operation.name, other)
        yield PartitionExchanged(names, operation.moves_rows, partition=operation.moved_partition)
    elif operation.moves_rows:
        yield RowsMoved(operation.names, operation.moves_rows)


def _emptied(name: TableName, change: PartitionChange) -> Iterator[TableChange]:
    if change.emptied is None:
        yield TableTruncated(name)
    elif change.emptied:
        verb = "REORGANIZE" if change.added else "DROP" if change.removed else "TRUNCATE"
        reason = f"{verb} PARTITION {', '.join(change.emptied)} takes rows that the log does not name"
        yield PartitionsDropped((name,), reason, change.emptied, change.if_possible, change.added)


def _column_changes(alter: AlterTable, server_charset: str | None, about: ColumnContext) -> TableAltered:
    charset = Defaults(charset=server_charset or UTF8MB4).named(alter.converted_to or alter.charset or OF_DATABASE)
    key = new_primary_key(alter)
    in_key = {folded_name(name) for name in key or ()}

    def define(column: ColumnDefinition) -> ColumnDefinition:
        return replace(column, nullable=column.nullable and folded_name(column.name) not in in_key)

    added = [change for change in alter.changes if change.old_name is None]
    modified = [change for change in alter.changes if change.old_name is not None]
    new = column_facts([define(resolved(addition.column, charset, about.vendor)) for addition in added], about)
    new = tuple(replace(facts, if_missing=addition.if_possible) for facts, addition in zip(new, added, strict=True))
    implicit = () if any(addition.column.system_role for addition in added) else period_columns()
    return TableAltered(
        alter.name,
        dict(alter.column_renames)
        | {
            change.old_name: change.column.name
            for change in modified
            if change.old_name not in (None, change.column.name)
        },
        new + (column_facts(implicit, about) if alter.versioning else ()),
        column_facts([define(resolved(change.column, charset, about.vendor)) for change in modified], about, kept=True),
        (*(name for name, _ in alter.dropped), *(column.name for column in implicit if alter.versioning is False)),
        key,
        may_change_key(alter),
        converts=alter.converted_to is not None,
        sets_defaults=bool(alter.defaults),
        if_there=alter.changed_if_there,
    )
