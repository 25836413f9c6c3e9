"""Definition of a table: `TableDefinition`, and its name: `TableName`.

Tables that gh-ost and pt-online-schema-change make beside others: `ghost_of(name)`, `origin_of(name)`.

What no source states of a table is *unknown*: `TableDefinition.unknown` and `ColumnDefinition.unknown` name such
attributes, and `knows(attribute)` asks for one. The value of an unknown attribute means nothing, least of all "none".
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from binlog_connector.schema.partitions.definition import Partitioning  # noqa: TC001 - msgspec looks it up
from binlog_format.names import folded_name, folded_names
from binlog_format.rows.declared.completion import ColumnCompletion, LayoutCompletion
from binlog_format.rows.declared.declared_types import (
    AUTO_INCREMENT,
    DeclaredDefault,
    Generated,
    character_size,
    split_declared,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

SEQUENCE_ENGINE = "sql_sequence"
"""Engine that MariaDB puts over the one of a table that is a sequence."""
SEQUENCE_COLUMNS = (
    "next_not_cached_value",
    "minimum_value",
    "maximum_value",
    "start_value",
    "increment",
    "cache_size",
    "cycle_option",
    "cycle_count",
)
"""Columns of every sequence (MariaDB sql/sql_sequence.cc: sequence_structure)."""

_BLOBS = frozenset(["tinytext", "text", "mediumtext", "longtext", "tinyblob", "blob", "mediumblob", "longblob", "json"])
_STRINGS = frozenset(["char", "varchar", "binary", "varbinary"])
_WHOLE_BLOB = 1 << 32
_LONGEST_KEYS = {"myisam": 1000, "aria": 2000}
_LONGEST_INNODB_KEY = 3072  # bytes, with pages of 16 KiB
_LONGEST_SMALL_PAGE_KEY = 768  # with pages of 4 KiB
_NUMERIC = frozenset(["tinyint", "smallint", "mediumint", "int", "bigint", "float", "double", "decimal", "year"])
_QUOTED_DATABASE = re.compile(r"`(?P<database>(?:[^`]|``)*)`\.(?P<table>.*)", re.DOTALL)


class TableName(NamedTuple):
    """Full name of a table, as text `database.table`; a database with a dot in its name is in backticks there."""

    database: str
    table: str

    def __str__(self) -> str:
        database = self.database
        if "." in database or database.startswith("`"):
            database = "`" + database.replace("`", "``") + "`"
        return f"{database}.{self.table}"

    @classmethod
    def parse(cls, text: str) -> TableName:
        """The name in `database.table`; of several dots outside of backticks the first one comes between them."""
        quoted = _QUOTED_DATABASE.fullmatch(text)
        if quoted is not None:
            return cls(quoted["database"].replace("``", "`"), quoted["table"])
        database, _, table = text.partition(".")
        return cls(database, table)

    @property
    def lowered(self) -> TableName:
        """The name in small letters."""
        return TableName(folded_name(self.database), folded_name(self.table))

    @property
    def spellings(self) -> tuple[TableName, ...]:
        """The name as a statement has it, and as row events may.

        A server with `lower_case_table_names=1` logs a statement as it was written, and rows under small letters.
        """
        return tuple(dict.fromkeys((self, self.lowered)))


# gh-ost builds `_X_gho` beside X, pt-online-schema-change `_X_new` (with more underscores when that is taken).
_GHOST = re.compile(r"_+(?P<table>.+)_(?:gho|new)")

# What becomes of X: `_X_del`, with a time in the name where asked for, `_X_old`; `_X_ghc` has rows about the work.
_RELATIVE = re.compile(r"_+(?P<table>.+?)(?:_\d{14})?_(?:gho|new|del|old|ghc)")


def ghost_of(name: TableName) -> TableName | None:
    """The table whose place *name* will take, if it is called like what gh-ost or pt-online-schema-change builds."""
    ghost = _GHOST.fullmatch(name.table)
    return None if ghost is None else TableName(name.database, ghost["table"])


def origin_of(name: TableName) -> TableName | None:
    """The table whose rows *name* has, had or will have, if it is called like what these tools make."""
    relative = _RELATIVE.fullmatch(name.table)
    return None if relative is None else TableName(name.database, relative["table"])


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
        zerofill: Of a numeric column: it is shown with zeros before it.
        compressed: MariaDB: its values are compressed.
        expression: Of a generated column: the words of its expression, those of texts with a `'` before them; empty:
            not known.
        comment: COMMENT; empty: none, or it is not known.
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
    zerofill: bool = False
    compressed: bool = False
    expression: tuple[str, ...] = ()
    comment: str = ""

    def knows(self, attribute: str) -> bool:
        """True if a source states an attribute; else its value here means nothing."""
        return attribute not in self.unknown

    @property
    def type_name(self) -> str:
        """The declared type without its numbers."""
        return self.declared.partition("(")[0]

    def completion(self) -> ColumnCompletion:
        """Facts that this definition adds to a table map."""
        return ColumnCompletion(
            self.name,
            self.declared,
            self.unsigned,
            self.charset,
            self.enum_values,
            self.default,
            self.generated,
            self.comment,
            nullable=self.nullable or not self.knows("nullable"),
            expression=self.expression,
            zerofill=self.zerofill,
        )


class KeyPart(NamedTuple):
    """A column of a key.

    Attributes:
        column: Its name; of a part WITHOUT OVERLAPS that of the period, until the table is known.
        prefix: A length follows.
        length: In characters, bytes for binary strings; 0: none follows.
        without_overlaps: It is a period.
    """

    column: str
    prefix: bool = False
    length: int = 0
    without_overlaps: bool = False


class Period(NamedTuple):
    """An application-time period of MariaDB (`PERIOD FOR name (start, end)`); its columns cannot be NULL."""

    name: str
    start: str
    end: str


@dataclass(frozen=True, slots=True)
class KeyDefinition:
    """A key of a table.

    Attributes:
        name: `PRIMARY` for the primary key.
        unique: Whether it admits no two rows with equal values.
        parts: Its columns; empty where one of them is an expression.
        hashed: USING HASH, on a server that makes a hidden column for it.
    """

    name: str
    unique: bool
    parts: tuple[KeyPart, ...]
    hashed: bool = False

    @property
    def primary(self) -> bool:
        """True if it is the primary key."""
        return self.name == PRIMARY


PRIMARY = "PRIMARY"


@dataclass(frozen=True, slots=True)
class TableDefinition:
    """Definition of a table.

    Attributes:
        columns: In order, with invisible, generated and implicit ones, as in the table map. None: nothing is known
            (`CREATE TABLE ... SELECT`, `LIKE` a table that is not known).
        keys: In the server's order: unique ones first, of these first those that admit no NULL, the primary key first.
        charset: Default for new columns; None: not known.
        partitioning: How it is partitioned; None: it is not.
        unknown: Names of attributes that no source states (`keys`, `partitioning`, `versioned`, ...), and
            `primary_key`; where `keys` alone is unknown, `keys` has the primary key, if there is one.
        engine: In lower case; None: the server's default.
        period: Its application-time period; None: it has none.
    """

    name: TableName
    columns: tuple[ColumnDefinition, ...] | None
    keys: tuple[KeyDefinition, ...] = ()
    charset: str | None = None
    versioned: bool = False
    partitioning: Partitioning | None = None
    unknown: frozenset[str] = frozenset()
    engine: str | None = None
    period: Period | None = None

    def knows(self, attribute: str) -> bool:
        """True if a source states an attribute; else its value here means nothing."""
        return attribute not in self.unknown

    @property
    def primary_key(self) -> tuple[str, ...]:
        """Names of its columns; empty without one."""
        parts = next((key.parts for key in self.keys if key.primary), ())
        return tuple(part.column for part in parts)

    @property
    def is_key_open(self) -> bool:
        """True if rows may have another key than `row_key`: what decides about a key is not all known."""
        return not self.primary_key and any(self._may_be_hashed(key) or self._may_hold_null(key) for key in self.keys)

    @property
    def is_sequence(self) -> bool:
        """True if it defines a sequence, which is no table but for the server."""
        return self.engine == SEQUENCE_ENGINE

    def renamed(self, name: TableName) -> TableDefinition:
        """The same table under another name."""
        return replace(self, name=name)

    def column_index(self, name: str) -> int | None:
        """Place of a column; the server does not tell upper from lower case."""
        wanted = folded_name(name)
        for index, column in enumerate(self.columns or ()):
            if folded_name(column.name) == wanted:
                return index
        return None

    def completion(self) -> LayoutCompletion:
        """Facts that this definition adds to a table map; the columns must be known."""
        assert self.columns is not None, f"{self.name}: nothing is known"
        completions = ((column, column.completion()) for column in self.columns)
        columns = tuple(
            replace(
                known,
                generated=self._generated(column),
                sources=self._sources(column),
                nullable=known.nullable and folded_name(column.name) not in folded_names(self.primary_key),
            )
            for column, known in completions
        )
        hashes = sum(map(self._may_be_hashed, self.keys))
        return LayoutCompletion(columns, tuple(self.row_keys()), hashes, self.is_sequence)

    def _generated(self, column: ColumnDefinition) -> Generated | None:
        """`ColumnCompletion.generated` of a column."""
        if column.generated is not Generated.VIRTUAL:
            return column.generated
        counted = {other.name for other in self.columns or () if other.default == AUTO_INCREMENT}
        if not counted.isdisjoint(self._sources(column) or ()):
            return Generated.VIRTUAL_NUMBERED
        if self.engine not in (None, "innodb"):
            return Generated.VIRTUAL_OUTSIDE_INNODB
        is_indexed = column.type_name in _BLOBS and self._is_indexed(column)
        return Generated.VIRTUAL_INDEXED if is_indexed else Generated.VIRTUAL

    def _is_indexed(self, column: ColumnDefinition) -> bool:
        """True if an index has a VIRTUAL column, or may have one that is computed of it."""
        indexed = folded_names(part.column for key in self.keys for part in key.parts)
        needed = {folded_name(column.name)}
        for other in self.columns or ():  # an expression refers to columns before its own one
            if other.generated is Generated.VIRTUAL and not needed.isdisjoint(folded_names(other.expression)):
                needed.add(folded_name(other.name))
        return not needed.isdisjoint(indexed) or not all(key.parts for key in self.keys)

    def _sources(self, column: ColumnDefinition) -> tuple[str, ...] | None:
        """`ColumnCompletion.sources` of a column."""
        if column.generated is not Generated.VIRTUAL:
            return None
        by_name = {folded_name(other.name): other for other in self.columns or ()}
        found: dict[str, ColumnDefinition] = {}
        waiting = [column]
        while waiting:
            if not (words := waiting.pop().expression):
                return None
            for other in filter(None, (by_name.get(folded_name(word)) for word in words)):
                if other.name not in found and other.generated is Generated.VIRTUAL:
                    waiting.append(other)
                found[other.name] = other
        return tuple(name for name, other in found.items() if other.generated is not Generated.VIRTUAL)

    def row_keys(self) -> Iterable[tuple[int, ...]]:
        """Column indices of each key that tells rows apart where no column of it is NULL, the primary key first."""
        # MariaDB sql/table.cc: without a primary key, the first unique key of whole columns that are NOT NULL is one.
        for key in sorted(self.keys, key=lambda key: not key.primary):
            if not key.unique or not key.parts or self.is_hashed(key):
                continue
            if not key.primary and any(map(self.is_cut, key.parts)):
                continue
            places = [self.column_index(part.column) for part in key.parts]
            known = tuple(place for place in places if place is not None)
            if len(known) == len(places):
                yield known

    @property
    def row_key(self) -> tuple[str, ...]:
        """Names of the columns by which the server, and so the log, tells rows apart; empty: none do."""
        columns = self.columns or ()
        for places in self.row_keys():
            if not any(columns[place].nullable for place in places):
                return tuple(columns[place].name for place in places)
        return ()

    def is_cut(self, part: KeyPart) -> bool:
        """True if a key has only the first characters of a column."""
        column = self._column(part)
        return part.prefix and (column is None or split_declared(column.declared)[1] != (part.length,))

    def is_hashed(self, key: KeyDefinition) -> bool:
        """True if MariaDB stores a hash of its columns in a hidden column; the log has no such key."""
        # sql/sql_table.cc: mysql_prepare_create_table_finalize; MySQL refuses keys that are too long.
        if not key.unique or key.primary or not key.parts or self.engine == "memory":
            return False
        return key.hashed or self._size(key) > _LONGEST_KEYS.get(self.engine or "", _LONGEST_INNODB_KEY)

    def _may_be_hashed(self, key: KeyDefinition) -> bool:
        # Where no statement names the engine, it is that of `default_storage_engine`, which no log has.
        is_longer = self.engine is None and self._size(key) > _LONGEST_SMALL_PAGE_KEY
        return self.is_hashed(key) or (is_longer and key.unique and not key.primary and bool(key.parts))

    def _may_hold_null(self, key: KeyDefinition) -> bool:
        # Of a TIMESTAMP with neither NULL nor NOT NULL `explicit_defaults_for_timestamp` decides; few logs have that.
        return key.unique and not all(column.knows("nullable") for column in map(self._column, key.parts) if column)

    def _size(self, key: KeyDefinition) -> int:
        return sum(_key_size(self._column(part), part.length) for part in key.parts)

    def _column(self, part: KeyPart) -> ColumnDefinition | None:
        index = self.column_index(part.column)
        return None if index is None or self.columns is None else self.columns[index]


def _key_size(column: ColumnDefinition | None, length: int) -> int:
    """Bytes that a column takes in a key, as the server counts them; 0 for short types, which decide nothing."""
    if column is None or column.charset is None:
        return 0
    name, numbers = split_declared(column.declared)
    if name in _BLOBS and not length:
        return _WHOLE_BLOB
    characters = length or (numbers[0] if name in _STRINGS and numbers else 0)
    return characters * character_size(column.charset)


def is_numeric(type_name: str) -> bool:
    """True if a type has a sign."""
    return type_name in _NUMERIC
