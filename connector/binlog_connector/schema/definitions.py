"""What a table is defined as: `TableDefinition`.

What no source states of a table is *unknown*: `TableDefinition.unknown` and `ColumnDefinition.unknown` name such
attributes, and `knows(attribute)` asks for one. The value of an unknown attribute means nothing, least of all "none".
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from binlog_connector.schema.partitions.definition import Partitioning  # noqa: TC001 - msgspec looks it up
from binlog_format.rows.declared.completion import ColumnCompletion, LayoutCompletion
from binlog_format.rows.declared.declared_defaults import DeclaredDefault, Generated  # noqa: TC001 - msgspec looks them up

if TYPE_CHECKING:
    from collections.abc import Iterable

_NUMERIC = frozenset(["tinyint", "smallint", "mediumint", "int", "bigint", "float", "double", "decimal", "year"])


class TableName(NamedTuple):
    """Full name of a table."""

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"

    @classmethod
    def parse(cls, text: str) -> TableName:
        """The name in `database.table`; of several dots the first one comes between them."""
        database, _, table = text.partition(".")
        return cls(database, table)

    @property
    def lowered(self) -> TableName:
        """The name in small letters."""
        return TableName(self.database.lower(), self.table.lower())

    @property
    def spellings(self) -> tuple[TableName, ...]:
        """The name as a statement has it, and as row events may.

        A server with `lower_case_table_names=1` logs a statement as it was written, and rows under small letters.
        """
        return tuple(dict.fromkeys((self, self.lowered)))


@dataclass(frozen=True, slots=True)
class ColumnDefinition:
    """One column.

    Attributes:
        name: As it was declared.
        declared: Type name and numbers in lower case, as the server spells them: `int(11)`, `datetime(3)`, `enum`.
        nullable: Whether it can be NULL, as far as its own words tell; columns of a primary key cannot all the same.
        unsigned: Of a numeric column; None for others.
        charset: Of a text, ENUM or SET column, `binary` for binary strings; None for others, and where it comes from a
            database of which nothing is known.
        enum_values: Texts of an ENUM or SET column; None where they are not text.
        invisible: `SELECT *` leaves it out; it is in the log.
        system_role: `start` or `end` of a system-versioned table's periods, else empty.
        implicit: It was not declared: WITH SYSTEM VERSIONING made it.
        default: What follows DEFAULT, and AUTO_INCREMENT; None: nothing does.
        generated: It is computed from other columns.
        unknown: Names of attributes that no source states (`generated`, `default`, `charset`, ...). `declared` among
            them: the column may be of another type that has the same table map (UUID is BINARY(16) there).
    """

    name: str
    declared: str
    nullable: bool = True
    unsigned: bool | None = None
    charset: str | None = None
    enum_values: tuple[str, ...] | None = None
    invisible: bool = False
    system_role: str = ""
    implicit: bool = False
    default: DeclaredDefault | None = None
    generated: Generated | None = None
    unknown: frozenset[str] = frozenset()

    def knows(self, attribute: str) -> bool:
        """Whether a source states an attribute; else its value here means nothing."""
        return attribute not in self.unknown

    @property
    def type_name(self) -> str:
        """The declared type without its numbers."""
        return self.declared.partition("(")[0]

    def completion(self) -> ColumnCompletion:
        """What this adds to a table map."""
        return ColumnCompletion(
            self.name, self.declared, self.unsigned, self.charset, self.enum_values, self.default, self.generated
        )


class KeyPart(NamedTuple):
    """A column of a key; `prefix`: only its first bytes."""

    column: str
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class KeyDefinition:
    """A key of a table.

    Attributes:
        name: `PRIMARY` for the primary key.
        unique: Whether it admits no two rows with equal values.
        parts: Its columns; empty where one of them is an expression.
    """

    name: str
    unique: bool
    parts: tuple[KeyPart, ...]

    @property
    def primary(self) -> bool:
        """Whether it is the primary key."""
        return self.name == PRIMARY


PRIMARY = "PRIMARY"


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """What a table looks like.

    Attributes:
        name: Of the table.
        columns: In order, with invisible, generated and implicit ones, as in the table map. None: nothing is known
            (`CREATE TABLE ... SELECT`, `LIKE` a table that is not known).
        keys: In the order in which they were declared.
        charset: Default for new columns; None: not known.
        versioned: WITH SYSTEM VERSIONING.
        partitioning: How it is partitioned; None: it is not.
        unknown: Names of attributes that no source states (`keys`, `partitioning`, `versioned`, ...), and
            `primary_key`; where `keys` alone is unknown, `keys` has the primary key, if there is one.
    """

    name: TableName
    columns: tuple[ColumnDefinition, ...] | None
    keys: tuple[KeyDefinition, ...] = ()
    charset: str | None = None
    versioned: bool = False
    partitioning: Partitioning | None = None
    unknown: frozenset[str] = frozenset()

    def knows(self, attribute: str) -> bool:
        """Whether a source states an attribute; else its value here means nothing."""
        return attribute not in self.unknown

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Names of its columns; empty without one."""
        for key in self.keys:
            if key.primary:
                return tuple(part.column for part in key.parts)
        return ()

    def renamed(self, name: TableName) -> TableDefinition:
        """The same table under another name."""
        return replace(self, name=name)

    def column_index(self, name: str) -> int | None:
        """Place of a column; the server does not tell upper from lower case."""
        wanted = name.casefold()
        for index, column in enumerate(self.columns or ()):
            if column.name.casefold() == wanted:
                return index
        return None

    def completion(self) -> LayoutCompletion:
        """What this adds to a table map; the columns must be known."""
        assert self.columns is not None, f"{self.name}: nothing is known"
        return LayoutCompletion(tuple(column.completion() for column in self.columns), tuple(self.row_keys()))

    def row_keys(self) -> Iterable[tuple[int, ...]]:
        """Column indices of each key that tells rows apart where no column of it is NULL, the primary key first."""
        # MariaDB sql/table.cc: without a primary key, the first unique key of whole columns that are NOT NULL is one.
        for key in sorted(self.keys, key=lambda key: not key.primary):
            if not key.unique or not key.parts or (not key.primary and any(part.prefix for part in key.parts)):
                continue
            places = [self.column_index(part.column) for part in key.parts]
            known = tuple(place for place in places if place is not None)
            if len(known) == len(places):
                yield known


def is_numeric(type_name: str) -> bool:
    """Whether a type has a sign."""
    return type_name in _NUMERIC
