"""Foreign keys, and what they change without a log's naming it: `ForeignKeys`, `parse_reference`.

InnoDB does the actions of foreign keys itself, below the log: with CASCADE and SET NULL a statement about a parent
table changes rows of its children, and no log has them. MySQL from 9.6 on has them where its SQL layer does these
actions; row events state which (`binlog_format.views.cascading`).
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from binlog_connector.schema.definitions import TableName  # noqa: TC001 - msgspec looks it up
from binlog_connector.schema.key_engines import KeylessTables, StatedEngine
from binlog_connector.schema.operations import AlterTable, CreateTable, DropDatabase, DropTables, RenameTables
from binlog_connector.schema.parsing.session import table_name
from binlog_format.names import folded_name, folded_names
from binlog_format.vendor import INLINE_KEYS_SINCE, server_version_of, vendor_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from binlog_connector.schema.operations import Operation
    from binlog_connector.schema.parsing.columns import ParsedColumn
    from binlog_connector.schema.parsing.lexer import TokenReader
    from binlog_connector.schema.parsing.session import StatementSession
    from binlog_format.log_format import LogFile

CASCADE, SET_NULL = "CASCADE", "SET NULL"
_SIZED = frozenset(["decimal", "float", "double", "datetime", "timestamp", "time", "bit", "binary"])
_GENERATED = "_ibfk_"  # InnoDB: `table_ibfk_1`; MariaDB from 12.1 on: `1`


@dataclass(frozen=True, slots=True)
class ForeignKey:
    """A foreign key of a child table.

    Attributes:
        name: Of the constraint; empty where the server chooses one.
        columns: Of the child.
        on_delete: `CASCADE`, `SET NULL`; empty: rows of the child stay. InnoDB takes SET DEFAULT for that, too.
        on_update: The same, when the parent's columns change.
        inline: It is in a column's own words: MariaDB before 10.5 and MySQL before 9.0 pass over it.
        engine_stated: The statement that made it names an engine that has foreign keys, and no other can be taken.
        engine_doubted: A statement names one that has none for the child, and the server may have taken another one.
        parent_doubted: The parent, or a column of the key, may have changed so that the key does not act any more. The
            server keeps such a key if `foreign_key_checks=0`.
        types: Of the child's columns, and so of the parent's, as `_type` has them; empty: not known.
    """

    name: str
    columns: tuple[str, ...]
    parent: TableName
    parent_columns: tuple[str, ...]
    on_delete: str = ""
    on_update: str = ""
    inline: bool = False
    engine_stated: bool = False
    engine_doubted: bool = False
    parent_doubted: bool = False
    types: tuple[str, ...] = field(default=(), compare=False)

    @property
    def cascades(self) -> bool:
        """True if rows of the child change when rows of the parent are deleted, or change their keys."""
        return bool(self.on_delete or self.on_update)


class Cascade(NamedTuple):
    """A table that a statement about another one may change."""

    child: TableName
    key: ForeignKey


def take_inline_keys(files: Iterable[LogFile]) -> bool | None:
    """True if servers make a foreign key of REFERENCES in a column's own definition; None: some do, or unknown."""
    texts = {str(file.header.get("server_version", "")) for file in files}
    found = {server_version_of(text) >= INLINE_KEYS_SINCE[vendor_of(text)] if text else None for text in texts}
    return found.pop() if len(found) == 1 else None


def parse_reference(reader: TokenReader, session: StatementSession, name: str, columns: tuple[str, ...]) -> ForeignKey:
    """Read what follows REFERENCES. Raises `DdlSyntaxError`: it is not understood."""
    parent = table_name(reader, session)
    parent_columns: tuple[str, ...] = ()
    if reader.accept_symbol("("):
        parent_columns = tuple(_column_names(reader))
    actions = {"DELETE": "", "UPDATE": ""}
    while True:
        if reader.accept("MATCH"):
            reader.take()
        elif reader.at("ON", "DELETE") or reader.at("ON", "UPDATE"):
            reader.take()
            event = reader.take().word
            actions[event] = _action(reader)
        else:
            return ForeignKey(name, columns, parent, parent_columns, actions["DELETE"], actions["UPDATE"])


def _column_names(reader: TokenReader) -> Iterator[str]:
    while True:
        yield reader.name()
        if reader.accept_symbol(")"):
            return
        reader.expect_symbol(",")


def _action(reader: TokenReader) -> str:
    if reader.accept("CASCADE"):
        return CASCADE
    if reader.accept("SET", "NULL"):
        return SET_NULL
    if not reader.accept("RESTRICT"):  # SET DEFAULT, NO ACTION
        reader.take()
        reader.take()
    return ""


class _Stored(msgspec.Struct, frozen=True, omit_defaults=True):
    """A table with its keys, and its engine if that has none, as they are stored."""

    child: TableName
    keys: tuple[ForeignKey, ...]
    engine: StatedEngine = StatedEngine()


@dataclass(slots=True)
class ForeignKeys:
    """The foreign keys that are known at one moment; statements are given in their order.

    Where a statement leaves open whether there is one (IF NOT EXISTS, a name to drop that is not known), there is.

    Attributes:
        ignore_case: Names of tables in upper and lower case are the same (`lower_case_table_names`).
        keys: By child table.
        keyless: Tables of engines that have no foreign keys.
    """

    ignore_case: bool = False
    keys: dict[TableName, tuple[ForeignKey, ...]] = field(default_factory=dict)
    keyless: KeylessTables = field(default_factory=KeylessTables)

    def copy(self) -> ForeignKeys:
        """One that changes by itself."""
        return ForeignKeys(self.ignore_case, dict(self.keys), self.keyless.copy())

    def fold(self) -> None:
        """Treat names in upper and lower case as the same from now on."""
        self.ignore_case = True
        self.keys = {
            child.lowered: tuple(replace(key, parent=key.parent.lowered) for key in keys)
            for child, keys in self.keys.items()
        }
        self.keyless.fold()

    def folded(self) -> ForeignKeys:
        """The same keys, on a server for which names in upper and lower case are the same."""
        keys = self.copy()
        keys.fold()
        return keys

    def to_json(self) -> str:
        """The keys as text; `from_json` reads it."""
        names = sorted({*self.keys, *self.keyless.engines})
        stored = [_Stored(name, self.keys.get(name, ()), self.keyless.engine_of(name)) for name in names]
        return msgspec.json.encode(stored).decode()

    @classmethod
    def from_json(cls, text: str | msgspec.Raw, *, ignore_case: bool = False) -> ForeignKeys:
        """Read what `to_json` gave. Raises `msgspec.DecodeError`: it is something else."""
        stored = msgspec.json.decode(text, type=list[_Stored])
        engines = {table.child: table.engine for table in stored if table.engine.name is not None}
        return cls(ignore_case, {table.child: table.keys for table in stored if table.keys}, KeylessTables(engines))

    def apply(self, operation: Operation) -> None:
        """Apply the effect of a statement."""
        match operation:
            case CreateTable():
                child, like = self._name(operation.name), operation.options.like
                self._doubt_made(child, operation)
                engine = self.keyless.create(child, operation, None if like is None else self._name(like))
                known = self.keys.get(child, ()) if operation.if_not_exists else ()
                declared = (
                    replace(key, types=_types(operation.columns, key.columns)) for key in operation.foreign_keys
                )
                self._put(child, known or self._extended(child, (), declared, engine))
            case AlterTable():
                self._alter(operation)
            case RenameTables():
                for old, new in operation.pairs:
                    self._rename(self._name(old), self._name(new))
            case DropTables():
                for name in map(self._name, operation.names):
                    self._put(name, ())
                    self.keyless.drop(name)
            case DropDatabase():
                database = folded_name(operation.database) if self.ignore_case else operation.database
                self.keys = {child: keys for child, keys in self.keys.items() if child.database != database}
                self.keyless.drop_database(database)

    def cascading_of(self, child: TableName) -> list[ForeignKey]:
        """Keys through which rows of *child* change when rows of other tables go, or change their keys."""
        return [key for key in self.keys.get(self._name(child), ()) if key.cascades]

    def cascades_of(self, parent: TableName) -> list[Cascade]:
        """The children whose rows change when rows of *parent* go, or change their keys."""
        parent = self._name(parent)
        return [
            Cascade(child, key)
            for child, keys in self.keys.items()
            for key in keys
            if key.parent == parent and key.cascades
        ]

    def reached_by_delete(self, parent: TableName) -> list[Cascade]:
        """Tables that a DELETE from *parent* may change, those that it changes through others too; each key once."""
        return self._reached(parent, None)

    def reached_by_update(self, parent: TableName, columns: Iterable[str]) -> list[Cascade]:
        """Tables that an UPDATE of these columns of *parent* may change, likewise."""
        return self._reached(parent, folded_names(columns))

    def updating_columns(self, parent: TableName) -> frozenset[str]:
        """Columns of *parent*, case-folded, whose UPDATE changes rows of other tables."""
        keys = (key for _, key in self.cascades_of(parent) if key.on_update)
        return folded_names(column for key in keys for column in key.parent_columns)

    def parents(self) -> frozenset[TableName]:
        """Tables that have such children."""
        return frozenset(key.parent for keys in self.keys.values() for key in keys if key.cascades)

    def _reached(self, parent: TableName, columns: frozenset[str] | None) -> list[Cascade]:
        # What happens to a table: `None`: rows go; else these columns change.
        found: dict[tuple[Cascade, bool], Cascade] = {}
        ahead = [(self._name(parent), columns)]
        while ahead:
            table, changed = ahead.pop()
            for cascade in self.cascades_of(table):
                key = cascade.key
                action = key.on_delete if changed is None else key.on_update
                concerned = changed is None or bool(changed & folded_names(key.parent_columns))
                goes = changed is None and action == CASCADE
                if not action or not concerned or (cascade, goes) in found:
                    continue
                found[cascade, goes] = cascade
                ahead.append((cascade.child, None if goes else folded_names(key.columns)))
        return list(dict.fromkeys(found.values()))

    def _name(self, name: TableName) -> TableName:
        return name.lowered if self.ignore_case else name

    def _put(self, child: TableName, keys: tuple[ForeignKey, ...]) -> None:
        if keys:
            self.keys[child] = keys
        else:
            self.keys.pop(child, None)

    def _extended(
        self, child: TableName, known: tuple[ForeignKey, ...], new: Iterable[ForeignKey], engine: StatedEngine
    ) -> tuple[ForeignKey, ...]:
        """*known* and *new* ones, which get names as the server gives them; none if it passes over them."""
        if engine.ignores_keys and not engine.may_differ:
            return ()
        keys = list(known)
        for key in new:
            number = 1 + max((_number(child, earlier.name) for earlier in keys), default=0)
            name = key.name or f"{child.table}{_GENERATED}{number}"
            keys.append(replace(key, name=name, parent=self._name(key.parent), engine_stated=engine.is_sure))
        return tuple(replace(key, engine_doubted=True) for key in keys) if engine.ignores_keys else tuple(keys)

    def _alter(self, alter: AlterTable) -> None:
        child = self._name(alter.name)
        dropped = folded_names(alter.dropped_foreign_keys)
        # InnoDB refuses to drop a column of a key: the table is of an engine that has passed over the key.
        without = folded_names(name for name, _ in alter.dropped)
        kept = [
            key
            for key in self.keys.get(child, ())
            if folded_name(key.name) not in dropped
            and str(_number(child, key.name)) not in dropped
            and without.isdisjoint(folded_names(key.columns))
        ]
        kept = [_doubted(key) if _changes_type(alter, key.columns, key.types) else key for key in kept]
        engine = self.keyless.alter(child, alter)
        self._doubt(child, lambda key: engine.ignores_keys or _changes_type(alter, key.parent_columns, key.types))
        names = alter.new_column_names
        if names:
            self._rename_columns(child, names)
            kept = [replace(key, columns=_renamed(key.columns, names)) for key in kept]
        self._put(child, self._extended(child, tuple(kept), alter.new_foreign_keys, engine))
        if alter.new_name is not None:
            self._rename(child, self._name(alter.new_name))

    def _doubt(self, parent: TableName, is_doubted: Callable[[ForeignKey], bool]) -> None:
        # Most tables are no parent: the keys of other children stay as they are.
        children = {child for child, keys in self.keys.items() for key in keys if key.parent == parent}
        for child in children:
            self.keys[child] = tuple(
                _doubted(key) if key.parent == parent and is_doubted(key) else key for key in self.keys[child]
            )

    def _doubt_made(self, parent: TableName, create: CreateTable) -> None:
        # Its children were there before it. Where IF NOT EXISTS made nothing, servers log it all the same.
        may_be_as_before = create.if_not_exists or create.is_stated
        self._doubt(parent, lambda key: not _fits(key, create, if_unknown=may_be_as_before))

    def _rename_columns(self, parent: TableName, names: Mapping[str, str]) -> None:
        for child, keys in self.keys.items():
            self.keys[child] = tuple(
                replace(key, parent_columns=_renamed(key.parent_columns, names)) if key.parent == parent else key
                for key in keys
            )

    def _rename(self, old: TableName, new: TableName) -> None:
        # Children go with a parent that gets another name, whatever comes to stand under its old one.
        own = self.keys.pop(old, ())
        self._put(
            new,
            tuple(
                replace(key, name=f"{new.table}{_GENERATED}{number}") if (number := _number(old, key.name)) else key
                for key in own
            ),
        )
        for child, keys in self.keys.items():
            self.keys[child] = tuple(replace(key, parent=new) if key.parent == old else key for key in keys)
        self.keyless.rename(old, new)
        # Servers refuse a name whose keys do not go with the table, unless the table's engine has no foreign keys.
        self._doubt(new, lambda _: self.keyless.engine_of(new).ignores_keys)


def _doubted(key: ForeignKey) -> ForeignKey:
    return replace(key, parent_doubted=True)


def _type(column: ParsedColumn) -> str:
    """Type as both columns of a key have it: lengths of texts, and widths of whole numbers, may differ."""
    numbers = f"({','.join(map(str, column.numbers))})" if column.numbers and column.type in _SIZED else ""
    return f"{column.type}{numbers}{' unsigned' if column.unsigned else ''}"


def _types(columns: Iterable[ParsedColumn], names: Iterable[str]) -> tuple[str, ...]:
    """Types of the columns of these names; empty where one of them is not there."""
    known = {folded_name(column.name): _type(column) for column in columns}
    found = [known.get(folded_name(name), "") for name in names]
    return tuple(found) if all(found) else ()


def _fits(key: ForeignKey, parent: CreateTable, *, if_unknown: bool) -> bool:
    """True if InnoDB lets a key act whose parent is created after it: the parent has its types, and an index for it."""
    if StatedEngine.of(parent).ignores_keys:
        return False
    if not parent.columns or not key.types or not key.parent_columns:
        return if_unknown
    wanted = [folded_name(name) for name in key.parent_columns]
    indexes = [["" if part.prefix else part.column for part in spec.parts] for spec in parent.keys]
    indexes += [list(own.columns) for own in parent.foreign_keys]  # InnoDB makes an index for each
    is_indexed = any([folded_name(name) for name in index[: len(wanted)]] == wanted for index in indexes)
    return is_indexed and _types(parent.columns, wanted) == key.types


def _changes_type(alter: AlterTable, columns: Sequence[str], types: Sequence[str]) -> bool:
    """True if a column of a key gets another type: servers refuse that while foreign keys are checked."""
    known = {folded_name(name): type_ for name, type_ in zip(columns, types, strict=False)}
    return any(
        known.get(folded_name(change.old_name), _type(change.column)) != _type(change.column)
        for change in alter.changes
        if change.old_name is not None
    )


def _number(child: TableName, name: str) -> int:
    """Number in a generated name; 0 for other names."""
    prefix, _, number = name.rpartition(_GENERATED)
    return int(number) if folded_name(prefix) == folded_name(child.table) and number.isdecimal() else 0


def _renamed(columns: tuple[str, ...], names: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(names.get(folded_name(column), column) for column in columns)
