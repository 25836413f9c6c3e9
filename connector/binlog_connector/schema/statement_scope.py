"""Tables that a statement means, by the statements before it: `StatementScope.changes(statement)`.

A name means a temporary table where the session has one; a trigger, a view, or a function that is called brings tables
in that the statement does not name. What was made before the first statement observed is not known.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from binlog_connector.schema.definitions import SEQUENCE_ENGINE, TableName
from binlog_connector.schema.foreign_keys import ForeignKeys
from binlog_connector.schema.known_options import KnownOptions
from binlog_connector.schema.operations import (
    AlterTable,
    ChangeRows,
    CreateFunction,
    CreateSequence,
    CreateTable,
    CreateTrigger,
    CreateView,
    DropDatabase,
    DropFunction,
    DropTables,
    DropTrigger,
    DropViews,
    RenameTables,
    TruncateTable,
)
from binlog_connector.schema.parsing.row_statements import ANY_CALL, statement_operations
from binlog_connector.schema.stated_definitions import definition_operations, is_stated
from binlog_connector.schema.table_changes import (
    EventsLost,
    RowsChanged,
    RowsMoved,
    StatementChange,
    operation_changes,
    rows_moved,
)
from binlog_connector.schema.table_names import ExistingTables, NameRule, TemporaryTables, folded, has_if_exists
from binlog_format.events.layout import EventType
from binlog_format.names import folded_name
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Set

    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_connector.schema.operations import Operation
    from binlog_connector.schema.table_names import SessionId
    from binlog_format.position import Position


class StatementScope:
    """Meaning of names in sessions, triggers, functions and views; observes all statements of a log in its order.

    Definitions of marks (`stated_definitions`) are observed like statements: they tell foreign keys.

    Give each statement to `changes` or to `observe`, not to both.

    Attributes:
        foreign_keys: Those of all tables, after the statements observed; None: nobody asks for them.
        names: How the server compares names; where it folds them, all names given are folded.
        names_unknown_since: First statement after a start of the server that may have changed this; None: none was.
        existing: Tables that there are.
    """

    def __init__(self, *, folds_names: bool | None = None) -> None:
        self._server_run = 0
        self._temporary = TemporaryTables()
        self._triggers: dict[TableName, TableName] = {}
        self._functions: set[TableName] = set()
        self._views: set[TableName] = set()
        self._possible_views: set[TableName] = set()  # CREATE VIEW IF NOT EXISTS: or there was a table of that name
        self._options = KnownOptions()
        self.foreign_keys: ForeignKeys | None = None
        self.names = NameRule(folds_names)
        self.names_unknown_since: Position | None = None
        self.existing = ExistingTables()

    def changes(self, statement: DdlStatement, decoding: Decoding = DEFAULT_DECODING) -> list[StatementChange]:
        """Effects of *statement* on tables that are not temporary, in order: `table_changes` with known names."""
        if statement.event_type == EventType.INCIDENT:
            return [EventsLost(statement.text)]
        found: list[StatementChange] = []
        for operation in self._observed(statement):
            if isinstance(operation, RowsChanged):
                found.append(operation)
            else:
                found += operation_changes(operation, statement, decoding)
        return found

    def observe(self, statement: DdlStatement) -> RowsChanged | EventsLost | None:
        """Rows that *statement* changes without row events; None: none."""
        if statement.event_type == EventType.INCIDENT:
            return EventsLost(statement.text)
        found: list[RowsChanged] = []
        for operation in self._observed(statement):
            if isinstance(operation, RowsChanged):
                found.append(operation)
            elif isinstance(operation, AlterTable):
                found += rows_moved(operation)
        return found[0] if found else None

    @property
    def sequences(self) -> list[TableName]:
        """Names of sequences, which are tables for the server alone."""
        return self._options.sequences

    def to_json(self) -> dict[str, object]:
        """All that is known, as plain values; `from_json` reads it."""
        return {
            "server_run": self._server_run,
            "temporary": self._temporary.to_json(),
            "triggers": [[*name, *table] for name, table in sorted(self._triggers.items())],
            "functions": sorted(map(list, self._functions)),
            "views": sorted(map(list, self._views)),
            "possible_views": sorted(map(list, self._possible_views)),
            **self._options.to_json(),
            "names": self.names.to_json(),
            "existing": self.existing.to_json(),
        } | ({} if self.foreign_keys is None else {"foreign_keys": self.foreign_keys.to_json()})

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> StatementScope:
        """Read what `to_json` gave; an empty mapping: nothing is known."""
        scope = cls()
        scope._server_run = int(values.get("server_run", 0))
        scope._temporary = TemporaryTables.from_json(values.get("temporary", ()))
        for database, name, table_database, table in values.get("triggers", ()):
            scope._triggers[TableName(database, name)] = TableName(table_database, table)
        scope._functions = {TableName(*name) for name in values.get("functions", ())}
        scope._views = {TableName(*name) for name in values.get("views", ())}
        scope._possible_views = {TableName(*name) for name in values.get("possible_views", ())}
        scope._options = KnownOptions.from_json(values)
        scope.names = NameRule.from_json(values.get("names", {}))
        scope.existing = ExistingTables.from_json(values.get("existing", ()))
        if "foreign_keys" in values:
            keys = ForeignKeys.from_json(values["foreign_keys"], ignore_case=bool(scope.names.folds))
            scope.foreign_keys = keys
        return scope

    def take_older(self, older: StatementScope) -> None:
        """Add facts about tables from statements before the first observed one: foreign keys, options, names."""
        self.foreign_keys = older.foreign_keys
        self._options.take_older(older._options)
        self.existing.take_older(older.existing)
        if self.names.folds:
            self.fold_names()

    def fold_names(self) -> None:
        """Take the server to fold names from now on: names known already are folded."""
        self.names = NameRule(folds=True)
        self._temporary.fold()
        self._triggers = {name.lowered: table.lowered for name, table in self._triggers.items()}
        self._functions = {name.lowered for name in self._functions}
        self._views = {name.lowered for name in self._views}
        self._possible_views = {name.lowered for name in self._possible_views}
        self._options.fold()
        self.existing.fold()
        if self.foreign_keys is not None:
            self.foreign_keys.fold()

    def _observed(self, statement: DdlStatement) -> Iterator[Operation | RowsChanged]:
        """Effects of *statement* on tables that are not temporary; none if it is the definition in a mark."""
        if is_stated(statement):
            for operation in definition_operations(statement):
                self._options.learn(operation, statement.server_charset)
                self.existing.observe(operation, may_be_missing=False)
                if self.foreign_keys is not None:
                    self.foreign_keys.apply(operation)
            return
        for effect in self._permanent_operations(statement):
            is_of_sequence = self._is_of_sequence(effect)
            if not isinstance(effect, RowsChanged):
                may_be_missing = has_if_exists(statement.text)
                self.names.observe(effect, may_be_missing=may_be_missing)
                self.existing.observe(effect, may_be_missing=may_be_missing)
                self._options.learn(effect, statement.server_charset)
                if self.foreign_keys is not None:
                    self.foreign_keys.apply(effect)
            if not is_of_sequence:
                yield effect

    def _is_of_sequence(self, effect: Operation | RowsChanged) -> bool:
        if isinstance(effect, RenameTables):
            return all(self._options.is_sequence(old) for old, _ in effect.pairs)
        return isinstance(effect, AlterTable) and self._options.is_sequence(effect.name)

    def _permanent_operations(self, statement: DdlStatement) -> Iterator[Operation | RowsChanged]:
        self._forget_other_runs(statement)
        session = statement.session_id
        created: TableName | None = None
        for written in statement_operations(statement):
            left = self._temporary.permanent(folded(written) if self.names.folds else written, session)
            if left is None:
                continue
            operation = _with_sequence(self._options.completed(left))
            self._learn(operation)
            match operation:
                case ChangeRows() if statement.event_type == EventType.ANNOTATE_ROWS:
                    # Its rows are in the log, if not whole: so are those that triggers and foreign keys change.
                    yield RowsChanged(operation.names)
                case ChangeRows():
                    # CREATE TABLE ... SELECT fills the table that it made.
                    found = self._rows(operation, set() if created else self._temporary.of(session))
                    if found is not None and found.names is not None and not operation.adds:
                        found = replace(found, cascaded=tuple(dict.fromkeys(self._children(found.names))))
                    if found is not None:
                        yield found
                case TruncateTable():
                    yield from self._truncated(operation, statement, session)
                case DropTables():
                    yield from self._dropped(operation)
                case RenameTables() | AlterTable():
                    yield from self._renamed(operation)
                case CreateSequence() if operation.or_replace:
                    yield DropTables((operation.name,))
                    yield operation
                case CreateTable() if operation.if_not_exists and operation.name in self._views:
                    pass
                case _:
                    created = operation.name if isinstance(operation, CreateTable) else None
                    yield operation

    def _forget_other_runs(self, statement: DdlStatement) -> None:
        restarted = statement.event_type == EventType.FORMAT_DESCRIPTION
        if restarted or statement.server_run not in (0, self._server_run):
            self._temporary = TemporaryTables()  # a new start of the server ends its sessions
            if (restarted or self._server_run) and self.names.is_proved and not self.names.folds:
                self.names, self.names_unknown_since = NameRule(), statement.position
            self._server_run = statement.server_run or self._server_run

    def _learn(self, operation: Operation) -> None:
        match operation:
            case CreateTrigger():
                if not (operation.if_not_exists and operation.name in self._triggers):
                    self._triggers[operation.name] = operation.table
            case DropTrigger():
                self._triggers.pop(operation.name, None)
            case CreateFunction() | DropFunction():
                change = self._functions.add if isinstance(operation, CreateFunction) else self._functions.discard
                change(operation.name)
            case CreateView() if operation.if_not_exists:
                self._possible_views.update({operation.name} - self._views)
            case CreateView():
                self._no_views([operation.name])
                self._views.add(operation.name)
            case CreateTable() if not operation.if_not_exists:
                self._no_views([operation.name])  # it was dropped where no log has it
                self._drop_triggers({operation.name})
            case AlterTable():
                self._possible_views.discard(operation.name)
            case DropViews():
                self._no_views(operation.names)
            case DropDatabase():
                for known in (self._functions, self._views, self._possible_views):
                    known.difference_update([name for name in known if name.database == operation.database])
                self._drop_triggers({table for table in self._triggers.values() if table[0] == operation.database})

    def _no_views(self, names: Iterable[TableName]) -> None:
        self._views.difference_update(names)
        self._possible_views.difference_update(names)

    def _drop_triggers(self, tables: set[TableName]) -> None:
        self._triggers = {name: table for name, table in self._triggers.items() if table not in tables}

    def _rows(self, operation: ChangeRows, temporary: Set[TableName]) -> RowsChanged | None:
        called = self._called(operation.calls)
        if called is not None:
            return RowsChanged(None, f"it calls the function {called}")
        if operation.names is None:
            return RowsChanged(None)
        names = tuple(name for name in operation.names if name not in temporary)
        return self._with_others(names) if names else None

    def _with_others(self, names: tuple[TableName, ...]) -> RowsChanged:
        for name in names:
            if name in self._views or name in self._possible_views:
                what = "is" if name in self._views else "may be"
                return RowsChanged(None, f"{name} {what} a view")
            trigger = next((trigger for trigger, table in self._triggers.items() if table == name), None)
            if trigger is not None:
                return RowsChanged(None, f"the trigger {trigger} is on {name}")
        return RowsChanged(names)

    def _children(self, names: tuple[TableName, ...]) -> Iterator[TableName]:
        """Tables that foreign keys may change with some; which columns a statement sets is not looked at."""
        keys = self.foreign_keys
        if keys is None:
            return
        for known in (keys,) if self.names.folds is not None else (keys, keys.folded()):
            for name in names:
                reached = [*known.reached_by_delete(name), *known.reached_by_update(name, known.updating_columns(name))]
                yield from dict.fromkeys(cascade.child for cascade in reached if cascade.child not in names)

    def _called(self, calls: tuple[str, ...]) -> TableName | None:
        if not calls or not self._functions:
            return None
        return next(
            (name for name in sorted(self._functions) if folded_name(name.table) in calls or ANY_CALL in calls), None
        )

    def _truncated(
        self, operation: TruncateTable, statement: DdlStatement, session: SessionId
    ) -> Iterator[Operation | RowsChanged]:
        if operation.name in self._temporary.of(session):
            return
        changed = self._with_others((operation.name,))
        if operation.deletes and (changed.names is None or statement.may_be_undone):
            yield changed
        else:
            yield operation

    def _dropped(self, drop: DropTables) -> Iterator[Operation]:
        """The part of *drop* without tables that it leaves; triggers go with their tables."""
        names = drop.names
        if drop.only_sequences:
            names = tuple(name for name in names if self._options.is_sequence(name))
        self._drop_triggers(set(names))
        if names:
            yield DropTables(names)

    def _renamed(self, operation: RenameTables | AlterTable) -> Iterator[Operation | RowsChanged]:
        """The part of *operation* that renames tables: no views, and nothing where another table is in the way."""
        if isinstance(operation, AlterTable):
            if operation.new_name is None or not self._is_renamed_view(operation.name, operation.new_name):
                yield operation
            return
        unclear = next((old for old, _ in operation.pairs if old in self._possible_views), None)
        operation, impossible = self.existing.renamed(operation)
        names = tuple(name for pair in operation.pairs for name in pair)
        pairs = tuple(pair for pair in operation.pairs if not self._is_renamed_view(*pair))
        if unclear is not None:
            yield RowsMoved(names, f"{unclear} is a table, or a view made with IF NOT EXISTS: rows move, or none")
        elif impossible is not None:
            yield RowsMoved(names, _why_impossible(*impossible))
        else:
            # One by one: tables and sequences may take each other's names.
            yield from (RenameTables((pair,)) for pair in pairs)

    def _is_renamed_view(self, old: TableName, new: TableName) -> bool:
        """True if it was a view, or may have been one; triggers move with other tables."""
        for views in (self._views, self._possible_views):
            if old in views:
                self._no_views([old, new])
                views.add(new)
                return True
        self._no_views([new])  # a view of that name was dropped where no log has it
        self._triggers = {name: new if table == old else table for name, table in self._triggers.items()}
        return False


def _with_sequence(operation: Operation) -> Operation:
    """CREATE TABLE as CREATE SEQUENCE, if that is what it does: with SEQUENCE=1, or LIKE a sequence."""
    if isinstance(operation, CreateTable) and operation.options.engine == SEQUENCE_ENGINE:
        return CreateSequence(operation.name, operation.if_not_exists, or_replace=operation.or_replace)
    return operation


def _why_impossible(old: TableName, new: TableName) -> str:
    return (
        f"it renames {old} to {new}, but by the statements before {new} is there already, or {old} is gone: a "
        "temporary table was renamed, or a statement about one of them is not in the log"
    )
