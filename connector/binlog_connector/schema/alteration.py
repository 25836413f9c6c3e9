"""Statements applied to a table: `created(...)`, `altered(table, alter, ...)`.

Keys of a table after a statement: `named_keys`, `server_order`, `without_nulls`, `new_primary_key`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from binlog_connector.schema.definitions import (
    PRIMARY,
    ColumnDefinition,
    KeyDefinition,
    KeyPart,
    Period,
    TableDefinition,
)
from binlog_connector.schema.operations import OF_DATABASE
from binlog_connector.schema.parsing.columns import resolved, sized_text
from binlog_connector.schema.parsing.defaults import SYSTEM_TIME
from binlog_connector.schema.parsing.session import BINARY
from binlog_format.events.charsets import can_hold, decode_text, is_known
from binlog_format.names import folded_name, folded_names
from binlog_format.rows.declared.declared_types import GEOMETRIES, character_size
from binlog_format.vendor import Vendor

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from binlog_connector.schema.operations import AlterTable, ColumnChange, CreateTable, KeySpec
    from binlog_format.rows.declared.declared_types import DeclaredDefault


def altered_keys(keys: Iterable[KeyDefinition], alter: AlterTable, names: dict[str, str]) -> Iterator[KeyDefinition]:
    """The keys that ALTER TABLE leaves of *keys*, under the new *names* of their columns; new keys are not included."""
    dropped = folded_names(alter.dropped_keys)
    key_names = {folded_name(old): new for old, new in alter.key_renames}
    # Parts of a key are found by name among the new columns, too (sql/sql_table.cc: mysql_prepare_alter_table).
    added = {
        folded_name(change.column.name)
        for change in alter.changes
        if change.old_name is None and not change.if_possible
    }
    without = {folded_name(name) for name, _ in alter.dropped} - added
    for key in without_columns(keys, without):
        if folded_name(key.name) not in dropped:
            parts = tuple(part._replace(column=names.get(folded_name(part.column), part.column)) for part in key.parts)
            yield replace(key, name=key_names.get(folded_name(key.name), key.name), parts=parts)


def without_columns(keys: Iterable[KeyDefinition], names: set[str]) -> Iterator[KeyDefinition]:
    """*keys* without the columns *names*; a key of which nothing is left is gone."""
    for key in keys:
        parts = tuple(part for part in key.parts if folded_name(part.column) not in names)
        if parts or not key.parts:
            yield replace(key, parts=parts)


def named_keys(
    keys: Iterable[KeyDefinition], new: Iterable[KeySpec], period: Period | None, vendor: Vendor | None
) -> tuple[KeyDefinition, ...]:
    """*keys* and *new* ones; one without a name gets that of its first column, with `_2` and so on after it.

    Args:
        period: Of the table; a part WITHOUT OVERLAPS stands for its two columns, the end first.
        vendor: Whose server; None: either. MySQL takes USING HASH for a B-tree.
    """
    result = list(keys)
    for spec in new:
        name, taken = spec.name, {folded_name(key.name) for key in result}
        if not name:
            first = spec.parts[0].column if spec.parts else "functional_index"
            name, number = first, 2
            while folded_name(name) in taken:
                name, number = f"{first}_{number}", number + 1
        elif folded_name(name) in taken:  # IF NOT EXISTS
            continue
        parts = tuple(column for part in spec.parts for column in _columns_of(part, period))
        result.append(KeyDefinition(name, spec.unique, parts, spec.hashed and vendor is not Vendor.MYSQL))
    return tuple(result)


def _columns_of(part: KeyPart, period: Period | None) -> Iterator[KeyPart]:
    if part.without_overlaps and period is not None and folded_name(period.name) == folded_name(part.column):
        yield from (KeyPart(period.end), KeyPart(period.start))
    else:
        yield part


def without_nulls(table: TableDefinition) -> TableDefinition:
    """*table* with the columns of its primary key and of its period as NOT NULL, which they stay without these."""
    names = folded_names(table.primary_key)
    if table.period is not None:
        names |= {folded_name(table.period.start), folded_name(table.period.end)}
    columns = tuple(
        replace(column, nullable=False) if column.nullable and folded_name(column.name) in names else column
        for column in table.columns or ()
    )
    return replace(table, columns=columns)


def server_order(table: TableDefinition) -> TableDefinition:
    """*table* with its keys as both servers sort them (sql/sql_table.cc: sort_keys): the first one that can is the key.

    ALTER TABLE sorts what the statement before it left, so the order has a history.
    """

    def rank(key: KeyDefinition) -> tuple[bool, ...]:
        if not key.unique:
            return (True,)
        indices = [table.column_index(part.column) for part in key.parts]
        nulls = any(index is None or (table.columns or ())[index].nullable for index in indices)
        return False, nulls or not key.parts, not key.primary, any(map(table.is_cut, key.parts))

    return replace(table, keys=tuple(sorted(table.keys, key=rank)))


def new_primary_key(alter: AlterTable) -> tuple[str, ...] | None:
    """The columns that the statement makes the primary key, empty where it drops that; None: it does neither."""
    for key in alter.new_keys:
        if key.name == PRIMARY:
            return tuple(part.column for part in key.parts)
    return () if any(name.upper() == PRIMARY for name in alter.dropped_keys) else None


def may_change_key(alter: AlterTable) -> bool:
    """True if another key may identify rows after it, even if no column changes.

    A unique key of columns that are NOT NULL stands for a primary key that a table lacks, and system versioning adds a
    column to each unique key.
    """
    return bool(alter.dropped_keys) or alter.versioning is not None or any(key.unique for key in alter.new_keys)


# MariaDB: what WITH SYSTEM VERSIONING adds when no columns are declared for it; SHOW CREATE TABLE hides them.
_PERIOD = (
    ColumnDefinition("row_start", "timestamp(6)", nullable=False, invisible=True, system_role="start", implicit=True),
    ColumnDefinition("row_end", "timestamp(6)", nullable=False, invisible=True, system_role="end", implicit=True),
)
_IMPLICIT = tuple(replace(column, default=SYSTEM_TIME) for column in _PERIOD)
_UTF8 = {"utf8", "utf8mb3", "utf8mb4"}
_WIDE = {"ucs2", "utf16", "utf16le", "utf32"}
_TEXT_BYTES = {"tinytext": (1 << 8) - 1, "text": (1 << 16) - 1, "mediumtext": (1 << 24) - 1}


def period_columns() -> tuple[ColumnDefinition, ...]:
    """The columns of WITH SYSTEM VERSIONING in a table that declares none for it."""
    return _IMPLICIT


class ImpossibleError(Exception):
    """A statement that cannot have been one on the table that is known: what is known is not the table's.

    *columns*: names in small letters that the table does not have.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self.columns = frozenset(columns)
        super().__init__(f"there is no column {columns[0]!r}")


@dataclass(frozen=True, slots=True)
class Defaults:
    """Defaults for what a statement does not contain.

    Attributes:
        vendor: Whose server; None: either.
        charset: Of the database; None: not known.
    """

    vendor: Vendor | None = None
    charset: str | None = None

    def named(self, charset: str | None) -> str | None:
        """A character set that a statement states, `OF_DATABASE` too."""
        return self.charset if charset == OF_DATABASE else charset


def created(create: CreateTable, defaults: Defaults) -> TableDefinition:
    """The table that CREATE TABLE makes; its columns are unknown where they come from a query."""
    charset = None if create.options.charset_left_out else create.options.charset or defaults.charset
    partitioning, engine = create.options.partitioning, create.options.engine
    if create.options.selects:
        return TableDefinition(create.name, None, charset=charset, partitioning=partitioning, engine=engine)
    columns = tuple(resolved(spec, charset, defaults.vendor) for spec in create.columns)
    versioned = create.options.versioned or any(spec.versioned for spec in create.columns)
    keys = named_keys((), create.keys, create.period, defaults.vendor)
    table = TableDefinition(create.name, columns, keys, charset, versioned, partitioning)
    return _finished(replace(table, engine=engine, period=create.period))


def _finished(table: TableDefinition) -> TableDefinition:
    return server_order(without_nulls(_versioned(table)))


def altered(table: TableDefinition, alter: AlterTable, defaults: Defaults) -> TableDefinition:
    """*table* after ALTER TABLE; its name stays.

    Raises:
        ImpossibleError: It speaks of columns that *table* does not have.
    """
    converted_to = defaults.named(alter.converted_to)
    charset = _default_charset(table, alter, defaults)
    names = alter.new_column_names
    partitioning = table.partitioning and table.partitioning.renamed(names)
    if alter.partitions is not None:
        partitioning = alter.partitions.applied(partitioning)
    engine = alter.engine or table.engine
    if table.columns is None:
        return replace(table, charset=charset, partitioning=partitioning, engine=engine)
    # Implicit columns stay after all others, new ones too: they are put there again at the end.
    columns = tuple(column for column in table.columns if not column.implicit)
    if alter.converted_to is None:
        columns = _altered_columns(columns, alter, charset, defaults.vendor)
    else:
        columns = tuple(_converted(column, converted_to, defaults.vendor) for column in columns)
        columns = _altered_columns(columns, _without_charsets(alter), converted_to, defaults.vendor)
    keys = tuple(altered_keys(table.keys, alter, names))
    versioned = table.versioned if alter.versioning is None else alter.versioning
    if alter.versioning is False:
        keys = tuple(without_columns(keys, {folded_name(column.name) for column in _IMPLICIT}))
    period = _altered_period(table.period, alter, names)
    keys = named_keys(keys, alter.new_keys, period, defaults.vendor)
    table = replace(table, columns=columns, keys=keys, charset=charset, versioned=versioned, partitioning=partitioning)
    return _finished(replace(table, engine=engine, period=period))


def _default_charset(table: TableDefinition, alter: AlterTable, defaults: Defaults) -> str | None:
    stated = alter.converted_to if alter.charset is None else alter.charset
    charset = table.charset if stated is None else defaults.named(stated)
    if not alter.convert_may_be_skipped or charset == table.charset:
        return charset
    texts = {column.charset for column in table.columns or ()} - {None, BINARY}
    if texts - {charset}:
        return charset
    # Another collation in a column, or a GEOMETRY column of MariaDB 10.1, makes the server do it.
    others = [column.declared for column in table.columns or () if column.charset is None]
    is_known = table.columns is not None and not texts and GEOMETRIES.isdisjoint(others)
    return table.charset if is_known else None


def _without_charsets(alter: AlterTable) -> AlterTable:
    # CONVERT TO is for new columns, too, whatever they state.
    changes = tuple(
        change if change.column.charset == BINARY else replace(change, column=replace(change.column, charset=None))
        for change in alter.changes
    )
    return replace(alter, changes=changes)


def _altered_period(period: Period | None, alter: AlterTable, names: dict[str, str]) -> Period | None:
    if alter.drops_period or period is None:
        return alter.period
    # A second one is an error, but for IF NOT EXISTS.
    start, end = (names.get(folded_name(column), column) for column in (period.start, period.end))
    return Period(period.name, start, end)


def _altered_columns(
    old: Sequence[ColumnDefinition], alter: AlterTable, charset: str | None, vendor: Vendor | None
) -> tuple[ColumnDefinition, ...]:
    """MariaDB sql/sql_table.cc: mysql_prepare_alter_table: all names are those from before, but for AFTER."""
    known = {folded_name(column.name) for column in old}
    changes = [change for change in alter.changes if _is_possible(change, known)]
    in_place = {_folded(change.old_name): change for change in changes if change.old_name and not change.is_placed}
    moved = {_folded(change.old_name) for change in changes if change.old_name and change.is_placed}
    dropped = {folded_name(name) for name, if_exists in alter.dropped if not if_exists or folded_name(name) in known}
    renames = {folded_name(name): new for name, new in alter.column_renames}
    missing = sorted((dropped | set(in_place) | moved | renames.keys() - alter.changed_if_there) - known)
    if missing:
        raise ImpossibleError(missing)
    defaults = {folded_name(name): default for name, default in alter.defaults}
    columns: list[ColumnDefinition] = []
    for column in old:
        name = folded_name(column.name)
        if name in dropped or name in moved:
            continue
        if name in in_place:
            columns.append(resolved(in_place[name].column, charset, vendor))
        else:
            default = _moved_default(column, defaults[name]) if name in defaults else column.default
            words = tuple(alter.new_column_names.get(folded_name(word), word) for word in column.expression)
            columns.append(replace(column, name=renames.get(name, column.name), default=default, expression=words))
    for change in changes:
        if change.old_name is None or change.is_placed:
            _insert(columns, change, resolved(change.column, charset, vendor))
    if vendor is Vendor.MYSQL and old and _is_generated_key(old[0]):
        # MySQL sql/sql_gipk.cc: it stays before what goes FIRST.
        columns.sort(key=lambda column: not _is_generated_key(column))
    return tuple(columns)


def _is_generated_key(column: ColumnDefinition) -> bool:
    """True if it is the key of a table that was made without one (`sql_generate_invisible_primary_key`)."""
    return column.name == "my_row_id" and column.invisible and column.type_name == "bigint"


def _moved_default(column: ColumnDefinition, default: DeclaredDefault | None) -> DeclaredDefault | None:
    # Times are read in the time zone of the session where it is about a TIMESTAMP alone.
    return default if default is None or column.type_name == "timestamp" else replace(default, time_zone=None)


def _folded(name: str | None) -> str:
    return folded_name(name or "")


def _is_possible(change: ColumnChange, known: set[str]) -> bool:
    """True if a change takes place: with IF [NOT] EXISTS it may not, whatever becomes of the column that is there."""
    if not change.if_possible:
        return True
    if change.old_name is not None:
        return folded_name(change.old_name) in known
    return folded_name(change.column.name) not in known


def _insert(columns: list[ColumnDefinition], change: ColumnChange, column: ColumnDefinition) -> None:
    if change.first:
        columns.insert(0, column)
        return
    if change.after is None:
        columns.append(column)
        return
    after = folded_name(change.after)
    for index, other in enumerate(columns):
        if folded_name(other.name) == after:
            columns.insert(index + 1, column)
            return
    raise ImpossibleError([after])


def _converted(column: ColumnDefinition, charset: str | None, vendor: Vendor | None) -> ColumnDefinition:
    """CONVERT TO CHARACTER SET: a TEXT becomes a larger one where as many characters may need more bytes."""
    if column.charset is None or column.charset == BINARY or column.declared == "json":
        return column
    if charset is None:
        return replace(column, charset=None, enum_values=None, unknown=column.unknown | {"declared", "enum_values"})
    declared = column.declared
    if declared in _TEXT_BYTES and character_size(charset) > character_size(column.charset):
        characters = _TEXT_BYTES[declared] // character_size(column.charset)
        declared = sized_text("text", characters * character_size(charset))
    if column.enum_values and not _keeps_labels(column, charset, vendor):
        column = replace(column, enum_values=None, unknown=column.unknown | {"enum_values"})
    return replace(column, declared=declared, charset=charset)


def _keeps_labels(column: ColumnDefinition, charset: str, vendor: Vendor | None) -> bool:
    """True if labels are the same after CONVERT TO: MariaDB reads their bytes as text in the new character set.

    Live on 10.11 and 11.8: of ENUM('a', 'é') in latin1 it makes ENUM('a', '?') in utf8mb4, and all labels are '?' in
    utf16; rows that had such a label have none then. MySQL 9.7 loses or changes those that are not ASCII, too, and some
    on the way into utf16.
    """
    assert column.charset is not None
    texts = "".join(column.enum_values or ())
    if vendor is Vendor.MYSQL and column.charset != charset and {column.charset, charset} & _WIDE:
        return False
    if {column.charset, charset} <= _UTF8:
        return can_hold(texts, charset)
    if not texts.isascii():
        return column.charset == charset
    charsets = {column.charset, charset} - {BINARY}
    return all(is_known(name) and _reads_as(texts.encode(), name) == texts for name in charsets)


def _reads_as(content: bytes, charset: str) -> str:
    try:
        return decode_text(content, charset)
    except UnicodeDecodeError:
        return ""


def _versioned(table: TableDefinition) -> TableDefinition:
    """Add the two columns of WITH SYSTEM VERSIONING, unless some are declared; one of them goes to each unique key."""
    if not table.versioned or table.columns is None:
        return table
    columns = table.columns
    if not any(column.system_role for column in columns):
        columns = (*columns, *_IMPLICIT)
    row_end = next((column.name for column in columns if column.system_role == "end"), _IMPLICIT[1].name)
    keys = []
    for key in table.keys:
        has_end = not key.unique or not key.parts or folded_name(row_end) in {folded_name(p.column) for p in key.parts}
        keys.append(key if has_end else replace(key, parts=(*key.parts, KeyPart(row_end))))
    return replace(table, columns=columns, keys=tuple(keys))
