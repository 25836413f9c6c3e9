"""A server's comparison of names (`lower_case_table_names`): `folded(operation)`, `NameRule`.

With 1 or 2 the server takes `Orders` and `orders` for one table, and logs its rows under small letters; statements are
logged as they were written. With 0 they are two tables. No event has the setting.

In its session a temporary table hides the table of its name: `TemporaryTables`. A server refuses to give a table the
name of another one: `ExistingTables`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.operations import (
    AlterTable,
    CreateSequence,
    CreateTable,
    CreateTemporaryTable,
    CreateView,
    DropDatabase,
    DropTables,
    DropTemporaryTables,
    DropViews,
    NotParsed,
    RenameTables,
    SetDatabaseCharset,
    TruncateTable,
)
from binlog_format.errors import SchemaError
from binlog_format.names import folded_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Set

    from binlog_connector.schema.foreign_keys import ForeignKey
    from binlog_connector.schema.operations import Operation

SessionId = tuple[int, int | None]
"""Server and thread."""
NamesBySession = tuple[tuple[int, int | None, tuple[TableName, ...]], ...]
"""Server, thread, and names."""

_TABLES_MAX = 20_000
"""Tables that the log created, and that are kept in mind as long as the rule is not known."""


_IF_EXISTS = re.compile(r"\bIF\s+EXISTS\b", re.IGNORECASE)


def has_if_exists(text: str) -> bool:
    """True if a statement may name a table that did not exist."""
    return _IF_EXISTS.search(text) is not None


def folded(operation: Operation) -> Operation:
    """The same operation with the names of databases and tables in small letters."""
    changed: Operation = _folded(operation)
    return changed


def _folded(value: Any) -> Any:
    if isinstance(value, TableName):
        return value.lowered
    if isinstance(value, tuple) and not hasattr(value, "_fields"):
        return tuple(map(_folded, value))
    if not is_dataclass(value) or isinstance(value, type):
        return value
    new = {field.name: _folded(getattr(value, field.name)) for field in fields(value)}
    if isinstance(value, SetDatabaseCharset | DropDatabase):
        new["database"] = folded_name(value.database)
    changed = {name: part for name, part in new.items() if part != getattr(value, name)}
    return replace(value, **changed) if changed else value


@dataclass(slots=True)
class TemporaryTables:
    """Names that mean temporary tables in their sessions, by the statements before."""

    _names: dict[SessionId, set[TableName]] = field(default_factory=dict)

    def copy(self) -> TemporaryTables:
        """One that changes by itself."""
        return TemporaryTables({session: set(names) for session, names in self._names.items()})

    def fold(self) -> None:
        """Take names in upper and lower case as the same from now on."""
        self._names = {session: {name.lowered for name in names} for session, names in self._names.items()}

    def of(self, session: SessionId) -> Set[TableName]:
        """Names of a session."""
        return self._names.get(session, frozenset())

    def to_json(self, is_wanted: Callable[[TableName], bool] = lambda _: True) -> NamesBySession:
        """Names that are wanted, by session, as plain values; `from_json` reads it."""
        wanted = ((session, tuple(sorted(filter(is_wanted, names)))) for session, names in self._names.items())
        return tuple((*session, names) for session, names in wanted if names)

    @classmethod
    def from_json(cls, values: Iterable[Any]) -> TemporaryTables:
        """Read what `to_json` gave."""
        return cls({(server, thread): {TableName(*name) for name in names} for server, thread, names in values})

    def permanent(self, operation: Operation, session: SessionId) -> Operation | None:
        """The part of *operation* that is about other tables; None: there is none. What it makes of names is kept."""
        names = self._names.get(session)
        match operation:
            case CreateTemporaryTable():
                self._names.setdefault(session, set()).add(operation.name)
            case _ if not names:
                pass
            case DropTemporaryTables():
                self._drop(operation.names, session)
            case DropTables():
                left = tuple(name for name in operation.names if name not in names)
                self._drop(operation.names, session)
                return replace(operation, names=left) if left else None
            case RenameTables():
                pairs = tuple(pair for pair in operation.pairs if not self._renamed(*pair, session))
                return replace(operation, pairs=pairs) if pairs else None
            case AlterTable() if operation.name in names:
                if operation.new_name is not None:
                    self._renamed(operation.name, operation.new_name, session)
                return None
            case CreateTable() if operation.options.like in names:
                # What that table looks like is known as little as the columns of a query.
                return replace(operation, options=replace(operation.options, like=None, selects=True))
        return operation

    def _drop(self, names: Iterable[TableName], session: SessionId) -> None:
        known = self._names[session]
        known.difference_update(names)
        if not known:
            del self._names[session]

    def _renamed(self, old: TableName, new: TableName, session: SessionId) -> bool:
        known = self._names[session]
        if old not in known:
            return False
        known.remove(old)
        known.add(new)
        return True


@dataclass(slots=True)
class ExistingTables:
    """Tables that are there, or not, by the statements before; of others nothing is known.

    A RENAME that finds a table in its way changes nothing with IF EXISTS. Without that it fails, and is in no log; but
    MariaDB logs the RENAME of a temporary table, too, and nothing else of that table.
    """

    _exist: dict[TableName, bool] = field(default_factory=dict)

    def take_rows(self, names: Iterable[TableName]) -> None:
        """Names of tables that had rows before the next statement; what statements tell of them counts more."""
        self._exist = dict.fromkeys(names, True) | self._exist

    def renamed(self, rename: RenameTables) -> tuple[RenameTables, tuple[TableName, TableName] | None]:
        """The part of *rename* that changes names, and the first pair that no server can do; None: there is none."""
        there = dict(self._exist)
        pairs: list[tuple[TableName, TableName]] = []
        for old, new in rename.pairs:
            taken = old != new and there.get(new)
            twice = there.get(old) is False and old in (earlier for earlier, _ in pairs)
            if (taken or twice) and not rename.if_exists:
                return rename, (old, new)
            if not taken and there.get(old) is not False:
                pairs.append((old, new))
                _rename(there, old, new)
        return replace(rename, pairs=tuple(pairs)), None

    def observe(self, operation: Operation, *, may_be_missing: bool) -> None:
        """Observe the effect of a statement on tables that are not temporary.

        Args:
            may_be_missing: The statement has IF EXISTS.
        """
        match operation:
            case CreateTable() | CreateSequence():
                self._exist[operation.name] = True
            case DropTables():
                self._exist.update(dict.fromkeys(operation.names, False))
            case RenameTables():
                for old, new in operation.pairs:
                    _rename(self._exist, old, new)
            case AlterTable():
                self._alter(operation, may_be_missing)
            case DropDatabase():
                self._exist |= {name: False for name in self._exist if name.database == operation.database}
            case CreateView() | DropViews() | NotParsed():
                self._forget([operation.name] if isinstance(operation, CreateView) else operation.names)
        if len(self._exist) > _TABLES_MAX:
            self._exist.clear()

    def fold(self) -> None:
        """Take names in upper and lower case as the same from now on."""
        self._exist = {name.lowered: exists for name, exists in self._exist.items()}

    def take_older(self, older: ExistingTables) -> None:
        """Add what statements before the first observed one tell."""
        self._exist = older._exist | self._exist

    def to_json(self) -> list[tuple[str, str, bool]]:
        """All that is known, as plain values; `from_json` reads it."""
        return sorted((*name, exists) for name, exists in self._exist.items())

    @classmethod
    def from_json(cls, values: Iterable[Any]) -> ExistingTables:
        """Read what `to_json` gave."""
        return cls({TableName(database, table): exists for database, table, exists in values})

    def _alter(self, alter: AlterTable, may_be_missing: bool) -> None:
        if not may_be_missing:
            self._exist[alter.name] = True
        if alter.table_to_partition is not None:
            self._exist[alter.table_to_partition] = False
        if alter.partition_to is not None:
            self._exist[alter.partition_to] = True
        if alter.new_name is not None and not (may_be_missing and not self._exist.get(alter.name)):
            _rename(self._exist, alter.name, alter.new_name)

    def _forget(self, names: Iterable[TableName]) -> None:
        for name in list(names) or list(self._exist):
            self._exist.pop(name, None)


def _rename(exist: dict[TableName, bool], old: TableName, new: TableName) -> None:
    # A table that is not known may be a temporary one: then it is not there under its new name either.
    is_known = exist.get(old)
    exist[old] = False
    if is_known:
        exist[new] = True
    else:
        exist.pop(new, None)


def names_unclear(rows: TableName, stated: TableName, what: str = "its columns are defined") -> SchemaError:
    """The error for a table that a statement may be about under another spelling.

    Args:
        stated: The name in a statement, or a schema file.
        what: What happens to it there.
    """
    return SchemaError(
        "NAMES_UNCLEAR",
        f"{rows}: {what} under the name {stated}, and the log does not show whether the server takes both for "
        "one table",
        hint="Set lowerCaseTableNames (--lower-case-table-names) to what SELECT @@lower_case_table_names gives on the "
        "server",
    )


@dataclass(slots=True)
class NameRule:
    """True if a server folds names, as far as this is set, or proved by its log.

    A statement succeeded on the server, so what it needs was there. Of databases that the log created, all tables are
    known that have ever been in them:

    * rows under a name with capitals: the server does not fold;
    * a statement about `Orders`, LIKE it or with a foreign key to it, that needs the table, where only `orders` was
      created: it folds;
    * rows of `orders`, where only `Orders` was created: it folds;
    * `orders` is created while `Orders` exists: it does not.

    Of older databases a table may exist that the log has not shown: there nothing follows.

    Attributes:
        folds: Upper and lower case are the same; None: not known.
        is_proved: The log alone proves it, until the server is started again: perhaps with another setting.
    """

    folds: bool | None = None
    is_proved: bool = False
    _created: dict[str, dict[str, bool]] = field(default_factory=dict)  # by database: its tables, and which exist

    def observe(self, operation: Operation, *, may_be_missing: bool = False) -> None:
        """Observe the effect of a statement on tables that are not temporary.

        Args:
            may_be_missing: The statement has IF EXISTS.
        """
        if self.folds is None:
            self._observe(operation, may_be_missing)
        if sum(map(len, self._created.values())) > _TABLES_MAX:
            self._created.clear()

    def _observe(self, operation: Operation, may_be_missing: bool) -> None:
        match operation:
            case SetDatabaseCharset():
                if operation.creates and not operation.if_not_exists:
                    self._created.setdefault(operation.database, {})
            case DropDatabase():
                self._drop(
                    [TableName(operation.database, table) for table in self._created.get(operation.database, ())]
                )
            case CreateTable() | CreateSequence() | CreateView():
                plain = isinstance(operation, CreateTable) and not (operation.or_replace or operation.if_not_exists)
                self._create(operation.name, is_new=plain)
                if isinstance(operation, CreateTable):
                    self._need_parents(operation.foreign_keys)
                    if operation.options.like is not None:
                        self._need(operation.options.like, may_be_missing)
            case DropTables() | DropViews():
                self._drop(operation.names)
            case RenameTables():
                self._rename(operation.pairs, may_be_missing)
            case AlterTable():
                self._alter(operation, may_be_missing)
            case TruncateTable():
                self._need(operation.name, may_be_missing)
            case NotParsed():
                self._forget(operation.names)

    def state(self, folds: bool | None) -> None:
        """Take the server's own setting; None: unknown."""
        if self.folds is None and folds is not None:
            self._decide(folds=folds)
            self.is_proved = False

    def take_rows(self, names: Iterable[TableName]) -> None:
        """Names under which rows were logged, after the last DROP DATABASE up to the statement observed last."""
        for name in names if self.folds is None else ():
            tables = self._created.get(name.database, {})
            if name != name.lowered:
                self._decide(folds=False)
                return
            if tables and name.table not in tables and name.table in map(str.lower, tables):
                self._decide(folds=True)
                return

    def to_json(self) -> dict[str, object]:
        """All that is known, as plain values; `from_json` reads it."""
        return {"folds": self.folds, "proved": self.is_proved, "created": self._created}

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> NameRule:
        """Read what `to_json` gave; an empty mapping: nothing is known."""
        created = {name: dict(tables) for name, tables in values.get("created", {}).items()}
        return cls(values.get("folds"), bool(values.get("proved")), created)

    def _decide(self, *, folds: bool) -> None:
        self.folds, self.is_proved = folds, True
        self._created = {}

    def _create(self, name: TableName, *, is_new: bool) -> None:
        tables = self._created.get(name.database)
        if tables is None:
            return
        others = (table for table, exists in tables.items() if exists and table != name.table)
        if is_new and folded_name(name.table) in map(folded_name, others):
            self._decide(folds=False)
        else:
            tables[name.table] = True

    def _drop(self, names: Iterable[TableName]) -> None:
        for name in names:
            tables = self._created.get(name.database, {})
            for table in [spelling for spelling in tables if folded_name(spelling) == folded_name(name.table)]:
                tables[table] = False  # or the server folds, or it was another one: no longer a proof

    def _need(self, name: TableName, may_be_missing: bool) -> None:
        tables = self._created.get(name.database, {})
        if not may_be_missing and name.table not in tables and folded_name(name.table) in map(folded_name, tables):
            self._decide(folds=True)

    def _need_parents(self, keys: Iterable[ForeignKey]) -> None:
        # Without foreign_key_checks a parent may be missing; but not one whose name another table has in other letters.
        for key in keys:
            self._need(key.parent, may_be_missing=False)

    def _rename(self, pairs: Iterable[tuple[TableName, TableName]], may_be_missing: bool) -> None:
        for old, new in pairs:
            self._need(old, may_be_missing)
            self._drop([old])
            self._create(new, is_new=False)

    def _alter(self, alter: AlterTable, may_be_missing: bool) -> None:
        self._need(alter.name, may_be_missing)
        self._need_parents(alter.new_foreign_keys)
        if alter.table_to_partition is not None:
            self._drop([alter.table_to_partition])
        if alter.partition_to is not None:
            self._create(alter.partition_to, is_new=False)
        if alter.new_name is not None:
            self._rename([(alter.name, alter.new_name)], may_be_missing=True)

    def _forget(self, names: Iterable[TableName]) -> None:
        """A statement was not understood: what it made is not known."""
        databases = {name.database for name in names} or set(self._created)
        for database in databases:
            self._created.pop(database, None)
