"""Effects of DDL statements on tables: the classes of `Operation`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_connector.schema.definitions import SEQUENCE_ENGINE, TableName
from binlog_format.names import folded_name

if TYPE_CHECKING:
    from binlog_connector.schema.definitions import KeyPart, Period
    from binlog_connector.schema.foreign_keys import ForeignKey
    from binlog_connector.schema.parsing.columns import ParsedColumn
    from binlog_connector.schema.partitions.definition import PartitionChange, Partitioning
    from binlog_format.rows.declared.declared_types import DeclaredDefault


@dataclass(frozen=True, slots=True)
class KeySpec:
    """A key as a statement has it; `name` is empty where the server chooses one, `hashed`: USING HASH."""

    name: str
    unique: bool
    parts: tuple[KeyPart, ...]
    hashed: bool = False


OF_DATABASE = "DEFAULT"
"""In place of the name of a character set: that of the table's database."""
_WITHOUT_OWN_ROWS = frozenset(
    {"blackhole", "connect", "federated", "federatedx", "merge", "mrg_myisam", "sphinx", "spider"}
)
"""Engines whose tables have no rows, or those of other tables, servers and files, which change without this log."""


def engine_moves_rows(engine: str | None) -> str:
    """Reason why tables of an engine have other rows than the log; empty: they have the same."""
    if engine == SEQUENCE_ENGINE:
        return "a sequence has one row, which the server creates and alters without row events"
    if engine not in _WITHOUT_OWN_ROWS:
        return ""
    return f"a table of the engine {engine.upper()} has no rows of its own, whatever row events the log has"


@dataclass(frozen=True, slots=True)
class TableOptions:
    """Options after the columns.

    Attributes:
        charset: Default CHARACTER SET, or that of COLLATE; None: not given.
        selects: AS SELECT: columns come from a query.
        like: The columns of this table.
        engine: ENGINE, in lower case, or that of sequences; None: the server's default.
        union: UNION: tables whose rows a MERGE table shows, and changes.
        charset_left_out: The table may have any character set: the server wrote the statement itself, without it.
    """

    charset: str | None = None
    versioned: bool = False
    selects: bool = False
    like: TableName | None = None
    partitioning: Partitioning | None = None
    engine: str | None = None
    union: tuple[TableName, ...] = ()
    charset_left_out: bool = False


@dataclass(frozen=True, slots=True)
class CreateTable:
    """CREATE TABLE.

    Attributes:
        or_replace: A table of that name is dropped before.
        engine_may_differ: The table may have another engine than the one that is stated.
        is_stated: It is the definition in a mark: the table was there before.
    """

    name: TableName
    columns: tuple[ParsedColumn, ...]
    keys: tuple[KeySpec, ...]
    options: TableOptions
    if_not_exists: bool = False
    foreign_keys: tuple[ForeignKey, ...] = ()
    period: Period | None = None
    or_replace: bool = False
    engine_may_differ: bool = False
    is_stated: bool = False

    @property
    def names(self) -> tuple[TableName, ...]:
        """Its table, and those whose rows are changed through it."""
        return (self.name, *(self.options.union if self.moves_rows else ()))

    @property
    def moves_rows(self) -> str:
        """Reason why the table has other rows than the log, in a few words; empty: it has the same."""
        return engine_moves_rows(self.options.engine)


@dataclass(frozen=True, slots=True)
class CreateSequence:
    """CREATE SEQUENCE: a table of one row."""

    name: TableName
    if_not_exists: bool = False
    type: str = "bigint"
    unsigned: bool = False
    or_replace: bool = False


@dataclass(frozen=True, slots=True)
class ColumnChange:
    """ADD, MODIFY and CHANGE COLUMN.

    Attributes:
        column: What it is from now on.
        old_name: Of the column that is changed; None: it is added.
        if_possible: IF [NOT] EXISTS: nothing happens where it cannot.
    """

    column: ParsedColumn
    old_name: str | None = None
    first: bool = False
    after: str | None = None
    if_possible: bool = False

    @property
    def is_placed(self) -> bool:
        """True if it states where the column goes."""
        return self.first or self.after is not None


@dataclass(frozen=True, slots=True)
class AlterTable:
    """ALTER TABLE, all its actions; names are those from before it.

    Attributes:
        changes: Columns added and changed, in order.
        dropped: Columns, and whether IF EXISTS is there.
        column_renames: RENAME COLUMN, old name and new.
        renamed_if_there: Old names of those with IF EXISTS.
        defaults: ALTER COLUMN ... SET DEFAULT, and None for DROP DEFAULT, of columns from before it.
        new_keys: ADD PRIMARY KEY, ADD UNIQUE, ADD INDEX, CREATE INDEX.
        dropped_keys: Names; `PRIMARY` too.
        key_renames: RENAME INDEX, old name and new.
        new_foreign_keys: ADD FOREIGN KEY, and those of new columns.
        dropped_foreign_keys: Names, of DROP CONSTRAINT too, which may be those of keys.
        charset: New default, or `OF_DATABASE`; None: that of *converted_to*, or it stays.
        converted_to: CONVERT TO: character set of all columns, also of new ones, or `OF_DATABASE`; None: they stay.
        convert_may_be_skipped: The server does nothing, if no column changes: see `CONVERSIONS_DONE_SINCE`.
        versioning: ADD or DROP SYSTEM VERSIONING; None: as it is.
        new_name: RENAME TO; None: the table keeps its name.
        engine: ENGINE, in lower case, or that of sequences; None: it stays.
        union: UNION: tables whose rows are changed through it from now on.
        partition_to: CONVERT PARTITION ... TO TABLE: a new table of the same columns.
        table_to_partition: CONVERT TABLE ... TO PARTITION: a table that is gone.
        other_table: EXCHANGE PARTITION ... WITH TABLE this one.
        moved_partition: EXCHANGE PARTITION, CONVERT PARTITION: the partition whose rows go to the other table.
        partitions: What it does to partitions; None: nothing.
        moves_rows: Why rows come or go that the log does not name, in a few words; empty: they do not.
        period: ADD PERIOD FOR, of application time.
        drops_period: DROP PERIOD FOR, of application time.
        engine_may_differ: The table may get, or keep, another engine than the one that is stated.
        ignores: ALTER IGNORE: values that do not fit are made to, whatever the session's sql_mode is.
    """

    name: TableName
    changes: tuple[ColumnChange, ...] = ()
    dropped: tuple[tuple[str, bool], ...] = ()
    column_renames: tuple[tuple[str, str], ...] = ()
    renamed_if_there: tuple[str, ...] = ()
    defaults: tuple[tuple[str, DeclaredDefault | None], ...] = ()
    new_keys: tuple[KeySpec, ...] = ()
    dropped_keys: tuple[str, ...] = ()
    key_renames: tuple[tuple[str, str], ...] = ()
    new_foreign_keys: tuple[ForeignKey, ...] = ()
    dropped_foreign_keys: tuple[str, ...] = ()
    charset: str | None = None
    converted_to: str | None = None
    convert_may_be_skipped: bool = False
    versioning: bool | None = None
    new_name: TableName | None = None
    engine: str | None = None
    union: tuple[TableName, ...] = ()
    partition_to: TableName | None = None
    table_to_partition: TableName | None = None
    other_table: TableName | None = None
    moved_partition: str = ""
    partitions: PartitionChange | None = None
    moves_rows: str = ""
    period: Period | None = None
    drops_period: bool = False
    engine_may_differ: bool = False
    ignores: bool = False

    def __post_init__(self) -> None:
        # MySQL takes, and logs, RENAME TO the name that the table has; names may be the same only once they are folded.
        if self.new_name == self.name:
            object.__setattr__(self, "new_name", None)

    @property
    def names(self) -> tuple[TableName, ...]:
        """The table, and others whose rows become its rows, or are its rows before."""
        others = (self.other_table, self.partition_to, self.table_to_partition)
        return (self.name, *(name for name in others if name is not None), *self.union)

    @property
    def changed_if_there(self) -> frozenset[str]:
        """Old names of columns, case-folded, that are changed or renamed only where they exist."""
        changed = (change.old_name for change in self.changes if change.if_possible and change.old_name is not None)
        return frozenset(folded_name(name) for name in (*self.renamed_if_there, *changed))

    @property
    def new_column_names(self) -> dict[str, str]:
        """New names of columns by their old ones, which are case-folded."""
        names = {folded_name(old): new for old, new in self.column_renames}
        return names | {
            folded_name(change.old_name): change.column.name for change in self.changes if change.old_name is not None
        }


@dataclass(frozen=True, slots=True)
class RenameTables:
    """RENAME TABLE: one after the other, as they stand there. *if_exists*: a table that is not there is passed over."""

    pairs: tuple[tuple[TableName, TableName], ...]
    if_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropTables:
    """DROP TABLE, DROP SEQUENCE. *only_sequences*: DROP SEQUENCE IF EXISTS: other tables of these names stay."""

    names: tuple[TableName, ...]
    only_sequences: bool = False


@dataclass(frozen=True, slots=True)
class CreateView:
    """CREATE VIEW: no table can have that name; with `if_not_exists` one may have it, and there is no view then."""

    name: TableName
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class TruncateTable:
    """TRUNCATE: all rows go, the table stays as it looks.

    Attributes:
        deletes: It is `DELETE FROM t` without a condition: its own transaction may take it back, triggers run.
    """

    name: TableName
    deletes: bool = False


@dataclass(frozen=True, slots=True)
class ChangeRows:
    """A statement that changes rows, logged as text: no row event states which rows they are.

    Attributes:
        names: Tables whose rows it may change; None: any table.
        calls: What it may call: names before a `(`, case-folded, without their database. Triggers and functions known
            from elsewhere may change rows of other tables.
        adds: It adds rows alone: those that were there keep their keys.
    """

    names: tuple[TableName, ...] | None
    calls: tuple[str, ...] = ()
    adds: bool = False


@dataclass(frozen=True, slots=True)
class CreateTemporaryTable:
    """CREATE TEMPORARY TABLE: until its session ends, the name means this table there."""

    name: TableName


@dataclass(frozen=True, slots=True)
class DropTemporaryTables:
    """DROP TEMPORARY TABLE."""

    names: tuple[TableName, ...]


@dataclass(frozen=True, slots=True)
class CreateTrigger:
    """CREATE TRIGGER: statements about *table* may change rows of others."""

    name: TableName
    table: TableName
    if_not_exists: bool = False


@dataclass(frozen=True, slots=True)
class DropTrigger:
    """DROP TRIGGER."""

    name: TableName


@dataclass(frozen=True, slots=True)
class CreateFunction:
    """CREATE FUNCTION, CREATE PACKAGE: statements that call it may change rows of any table.

    Attributes:
        name: Of the function, or of the package whose functions are called `package.function`.
    """

    name: TableName


@dataclass(frozen=True, slots=True)
class DropFunction:
    """DROP FUNCTION, DROP PACKAGE."""

    name: TableName


@dataclass(frozen=True, slots=True)
class DropViews:
    """DROP VIEW."""

    names: tuple[TableName, ...]


@dataclass(frozen=True, slots=True)
class SetDatabaseCharset:
    """CREATE DATABASE (`creates`) and ALTER DATABASE; charset None: not known."""

    database: str
    charset: str | None
    if_not_exists: bool = False
    creates: bool = False


@dataclass(frozen=True, slots=True)
class DropDatabase:
    """DROP DATABASE."""

    database: str


@dataclass(frozen=True, slots=True)
class UseDatabase:
    """USE, in a dump."""

    database: str


@dataclass(frozen=True, slots=True)
class NotParsed:
    """A statement about tables that is not understood.

    Attributes:
        names: Tables that it is about, as far as that can be seen.
        reason: What was expected where, and the text, shortened.
    """

    names: tuple[TableName, ...]
    reason: str


Operation = (
    CreateTable
    | CreateSequence
    | AlterTable
    | RenameTables
    | DropTables
    | CreateView
    | DropViews
    | TruncateTable
    | ChangeRows
    | CreateTemporaryTable
    | DropTemporaryTables
    | CreateTrigger
    | DropTrigger
    | CreateFunction
    | DropFunction
    | SetDatabaseCharset
    | DropDatabase
    | UseDatabase
    | NotParsed
)
