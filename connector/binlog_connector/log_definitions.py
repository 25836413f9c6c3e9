"""Definitions of tables for one part of a log: `RangeSchemas`, for `Decoding.schemas` of a planner or a worker.

The same row must have the same types in whatever partition it is read, so nothing may depend on which DDL a partition
happens to hold:

* a table map that contains everything is taken as it is; what a schema file contains of its table is put on top;
* of one that may have UUID, INET or VECTOR columns, which are binary strings to it, the definition is asked for where
  `declared_types` is set, and of one that `defined_tables` names, always;
* one that leaves something open needs all DDL before it. That is looked for when the first such table is met, up to
  the start of the part, and kept in the process: the next part on the same worker goes on from there. DDL that was
  purged from the log is made up for by the definitions that a job keeps.

Statements of logs that this process has read: `known_statements`, the one cache.

A reader of a part of a log needs the meaning of the statements before that part. The process reads on from the place
that it has reached for an earlier part, unless the log was reset since then.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from binlog_connector.following.kept_definitions import KeptDefinitions, restored
from binlog_connector.following.watched import WatchedLog
from binlog_connector.given_definitions import NOTHING_GIVEN, GivenDefinitions
from binlog_connector.rules.row_rules import DefinedTables
from binlog_connector.schema.catalog import Catalog, Unclear, read_schema_file
from binlog_connector.schema.definitions import TableDefinition, TableName
from binlog_connector.schema.history import SchemaHistory
from binlog_connector.schema.layout_definitions import completed_by, leaves_open, may_have_declared_types
from binlog_connector.schema.log_ddl import ddl_statements, statements_between
from binlog_connector.schema.stated_definitions import later_definitions, stated_definitions
from binlog_connector.schema.statement_scope import StatementScope
from binlog_format.errors import OptionError, SchemaError
from binlog_format.rows.declared.completion import DDL_SOURCE
from binlog_format.transactions.expansion import expanded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_connector.schema.stated_definitions import LaterDefinition
    from binlog_format.block import Block
    from binlog_format.events.table_map import TableLayout
    from binlog_format.position import Position


_KNOWN_MAX = 8


@dataclass(frozen=True, slots=True)
class SchemaFile:
    """A schema file, read once where the query is planned. *stamp*: tells its contents from others at that path."""

    path: str
    stamp: tuple[int, int]
    catalog: Catalog

    @classmethod
    def read(cls, path: str) -> SchemaFile:
        """Read *path*."""
        try:
            status = Path(path).stat()
        except OSError as error:
            raise OptionError("INVALID_VALUE", f"option schemaFile: {path}: {error.strerror}") from error
        return cls(path, (status.st_mtime_ns, status.st_size), read_schema_file(path))

    def definition(self, database: str, table: str) -> TableDefinition | None:
        """Its definition of a table; None: nothing, or nothing that was understood."""
        state = self.catalog.tables.get(self.catalog.key(TableName(database, table)))
        return None if isinstance(state, Unclear) else state

    def history(self, folds_names: bool | None) -> SchemaHistory:
        """A history that begins with what the file contains."""
        return SchemaHistory(self.catalog, base_source=self.path, folds_names=folds_names)


@dataclass(frozen=True, slots=True)
class _Mark:
    """A place that statements have been read up to. *identity*: of the file that it is in."""

    position: Position
    identity: str

    @classmethod
    def of(cls, watched: WatchedLog, position: Position) -> _Mark:
        return cls(position, watched.files.identity(position.file_no))

    def is_in(self, watched: WatchedLog) -> bool:
        """True if its file is there, and is the one that was read."""
        file_no = self.position.file_no
        return watched.has(file_no) and watched.files.identity(file_no) == self.identity


@dataclass(slots=True)
class KnownStatements:
    """Facts from the statements of one log that this process has read.

    Attributes:
        history: Definitions of tables; `history.known_to` is the place that DDL has been read up to.
        later: Definitions that marks state in the log from `later_from` on.
        later_from: None: nobody has asked for these.
        folds_names: See `GivenDefinitions`.
        scope: What all statements up to a place of its own tell of names: `StatementScope.to_json`.
    """

    history: SchemaHistory
    folds_names: bool | None
    later: Mapping[TableName, LaterDefinition] = field(default_factory=dict)
    later_from: Position | None = None
    scope: dict[str, object] = field(default_factory=dict)
    _history_mark: _Mark | None = None
    _scope_mark: _Mark | None = None

    def unread(self, watched: WatchedLog, end: Position) -> Iterator[Block]:
        """The blocks before *end* whose DDL the history lacks."""
        first = max(self.history.known_to or watched.log.start_position(), watched.log.start_position())
        if first < end:
            yield from expanded(watched.log.blocks(first, end, skips_purged=True))

    def read_to(self, watched: WatchedLog, position: Position) -> None:
        """Note that the history has all DDL before *position*."""
        self.history.known_to = position
        self._history_mark = _Mark.of(watched, position)

    def is_of(self, watched: WatchedLog) -> bool:
        """False if the log was reset since then, or unread files were purged: their changes are not known."""
        mark = self._history_mark
        if mark is None:
            return True
        file_no = mark.position.file_no
        is_anew = watched.has(file_no) and not mark.is_in(watched)
        return not is_anew and file_no + 1 >= watched.log.start_position().file_no

    def scope_before(self, watched: WatchedLog, start: Position) -> StatementScope:
        """Scope after all statements before *start*; it continues from the place that this process has reached."""
        log, mark = watched.log, self._scope_mark
        goes_on = mark is not None and mark.position <= start and mark.is_in(watched)
        scope = StatementScope.from_json(self.scope) if goes_on else StatementScope(folds_names=self.folds_names)
        first = mark.position if mark is not None and goes_on else log.start_position()
        for statement in statements_between(log, first, start):
            scope.observe(statement)
        self.scope, self._scope_mark = scope.to_json(), _Mark.of(watched, start)
        return scope


def forget_statements(kept: str) -> None:
    """Forget what was read for a job whose file of kept definitions has changed beside the log."""
    for key in [key for key in _known if key[3] == kept]:
        del _known[key]


_Key = tuple[str, str, bool | None, str | None, str, tuple[int, int]]
_known: dict[_Key, KnownStatements] = {}


def known_statements(watched: WatchedLog, given: GivenDefinitions = NOTHING_GIVEN) -> KnownStatements:
    """Known statements of a log; none of those from before a reset."""
    log, file = watched.log, given.file
    file_key = ("", (0, 0)) if file is None else (file.path, file.stamp)
    key = (log.path, log.format_name, given.folds_names, given.kept, *file_key)
    found = _known.get(key)
    if found is None or not found.is_of(watched):
        if len(_known) >= _KNOWN_MAX:
            _known.clear()
        folds = given.folds_names
        history = SchemaHistory(folds_names=folds) if file is None else file.history(folds)
        found = _known[key] = KnownStatements(history, folds)
    return found


class DefinitionUse(Enum):
    """Tables whose layouts get their definitions, beside those whose table maps leave something open."""

    OPEN = 0
    """No others."""
    TYPES = 1
    """Those with columns that may have types which only definitions state."""
    ALL = 2
    """All, for their defaults and comments too."""

    @classmethod
    def of(cls, *, types: bool, declarations: bool) -> DefinitionUse:
        """Choose by what is wanted: types that only definitions state, and with these, declarations of all columns."""
        return (cls.ALL if declarations else cls.TYPES) if types else cls.OPEN


class RangeSchemas:
    """Definitions of tables for the groups of one part of a log.

    Args:
        defined_tables: Expressions of tables whose layouts get all that is defined of them; None: those get it whose
            table maps leave something open.
    """

    def __init__(
        self,
        watched: WatchedLog,
        start: Position,
        given: GivenDefinitions = NOTHING_GIVEN,
        *,
        use: DefinitionUse = DefinitionUse.OPEN,
        defined_tables: str | None = None,
    ) -> None:
        self._path = watched.log.path
        self._format = watched.log.format_name
        self._start = start
        self._use = use
        self._file = None if given.file is None else given.file.history(given.folds_names)
        self._tables = frozenset() if self._file is None else frozenset(self._file.base.tables)
        self._defined = None if defined_tables is None else DefinedTables(defined_tables)
        self._kept = given.kept
        self._known = known_statements(watched, given)

    @property
    def _history(self) -> SchemaHistory:
        return self._known.history

    def observed(self, blocks: Iterable[Block]) -> Iterator[Block]:
        """The same *blocks*, of plain events; the DDL of each is noted before it is passed on."""
        for block in blocks:
            for statement in chain(ddl_statements(block), stated_definitions(block)):
                self._history.note(statement)
            yield block

    def edges(self, database: str, table: str) -> Sequence[Position]:
        """See `TableSchemas`."""
        return self._history.edges(database, table)

    def completed(self, layout: TableLayout, position: Position, *, needs_generated: bool = False) -> TableLayout:
        """See `TableSchemas`."""
        # Where a definition would change types, they must not depend on who wrote a row.
        is_wanted = needs_generated and not may_have_declared_types(layout)
        if not (is_wanted or leaves_open(layout) or self._wants_definition(layout)):
            said = self._completed_by_file(layout, position)
            if said is not None:
                return said
        return self.defined(layout, position)

    def _wants_definition(self, layout: TableLayout) -> bool:
        # Of a table whose table map leaves nothing open.
        if self._use is DefinitionUse.ALL or (self._use is DefinitionUse.TYPES and may_have_declared_types(layout)):
            return True
        return self._defined is not None and self._defined.has(layout)

    def defined(self, layout: TableLayout, position: Position) -> TableLayout:
        """A layout with all that DDL before *position* defines of it, also where its table map leaves nothing open.

        Values may become others by it (a UUID is text then, not bytes); so it is for who needs more than values.
        """
        self._look_back()
        found = self._history.completed(layout, position)
        if found.completion or (found.has_names and not (self._defined is not None and self._defined.has(layout))):
            return found
        return self.defined_later(found, position)

    def defined_later(self, layout: TableLayout, position: Position) -> TableLayout:
        """*layout*, of a table that nothing before *position* defines, with what a later mark of the log states of it.

        The log is read to its end for that, once in a process; so it is for who can only stop otherwise.
        """
        found = self._later(position).get(TableName(layout.database, layout.table))
        if found is None or not found.holds_at(position):
            return layout
        return completed_by(layout, found.definition, f"{DDL_SOURCE} at {found.before}")

    def _later(self, position: Position) -> Mapping[TableName, LaterDefinition]:
        known = self._known
        if known.later_from is None or position < known.later_from:
            with WatchedLog(self._path, self._format) as watched:
                blocks = expanded(watched.log.blocks(position))
                statements = (
                    statement
                    for block in blocks
                    for statement in sorted(chain(ddl_statements(block), stated_definitions(block)))
                )
                known.later, known.later_from = later_definitions(statements), position
        return known.later

    def definition(self, name: TableName) -> TableDefinition | None:
        """The definition of a table at the start of the part; None: not known, or not any more."""
        self._look_back()
        return self._history.definition(*name, self._start)

    def definition_before(self, name: TableName, statement: DdlStatement) -> TableDefinition | None:
        """A table's definition when *statement*, at the start of the part, begins; None: not known, or not any more."""
        self._look_back()
        return self._history.definition_before(name, statement)

    def _completed_by_file(self, layout: TableLayout, position: Position) -> TableLayout | None:
        """A whole layout, with what the file contains; None: the table may have been altered since."""
        if self._file is None or self._file.base.key(TableName(layout.database, layout.table)) not in self._tables:
            return layout
        try:
            return self._file.completed(layout, position)
        except SchemaError:
            return None

    def _look_back(self) -> None:
        known = self._known
        if known.history.known_to is not None and known.history.known_to >= self._start:
            return
        with WatchedLog(self._path, self._format) as watched:
            is_first = known.history.known_to is None
            for block in known.unread(watched, self._start):
                known.history.observe(block)
            if is_first:
                self._restore(watched)
            known.read_to(watched, self._start)

    def _restore(self, watched: WatchedLog) -> None:
        kept = None if self._kept is None else KeptDefinitions.read(self._kept)
        log_start = watched.log.start_position()
        state = None if kept is None or log_start <= kept.known_from else kept.usable(watched, self._start)
        if state is not None:
            self._known.history = restored(self._history, state, log_start)
