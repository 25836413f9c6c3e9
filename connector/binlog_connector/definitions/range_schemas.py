"""Definitions of tables for one part of a log: `RangeSchemas`, for `Decoding.schemas` of a planner or a worker.

The same row must have the same types in whatever partition it is read, so nothing may depend on which DDL a partition
happens to hold:

* a table map that contains everything is taken as it is; what a schema file contains of its table is put on top;
* of one that may have UUID, INET or VECTOR columns, which are binary strings to it, the definition is asked for where
  `declared_types` is set, and of one that `defined_tables` names, always;
* one that leaves something open needs all DDL before it. That is looked for when the first such table is met, up to
  the start of the part, and kept in the process: the next part on the same worker goes on from there. DDL that was
  purged from the log is made up for by the definitions that a job keeps.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from binlog_connector.definitions.known_statements import SchemaFile, known_statements
from binlog_connector.following.kept_definitions import KeptDefinitions, restored
from binlog_connector.following.watched import WatchedLog
from binlog_connector.rules.row_rules import DefinedTables
from binlog_connector.schema.definitions import TableDefinition, TableName
from binlog_connector.schema.layout_definitions import completed_by, leaves_open, may_have_declared_types
from binlog_connector.schema.log_ddl import ddl_statements
from binlog_connector.schema.stated_definitions import later_definitions, stated_definitions
from binlog_format.errors import SchemaError
from binlog_format.rows.declared.completion import DDL_SOURCE
from binlog_format.transactions.expansion import expanded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from binlog_connector.schema.history import SchemaHistory
    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_connector.schema.stated_definitions import LaterDefinition
    from binlog_format.block import Block
    from binlog_format.events.table_map import TableLayout
    from binlog_format.position import Position


class RangeSchemas:
    """Definitions of tables for the groups of one part of a log.

    Args:
        watched: The log.
        start: Where the part begins.
        file: What a schema file contains; None: there is none.
        folds_names: Names of tables in upper and lower case are the same; None: as the log proves it.
        declared_types: A column has the type that its definition states, also where its table map has all but that.
        defined_tables: Expressions of tables whose layouts get all that is defined of them; None: those get it whose
            table maps leave something open.
        kept: File of the definitions that a job keeps; None: there is none.
    """

    def __init__(
        self,
        watched: WatchedLog,
        start: Position,
        file: SchemaFile | None,
        *,
        folds_names: bool | None = None,
        declared_types: bool = False,
        defined_tables: str | None = None,
        kept: str | None = None,
    ) -> None:
        self._path = watched.log.path
        self._format = watched.log.format_name
        self._start = start
        self._declared_types = declared_types
        self._file = None if file is None else file.history(folds_names)
        self._tables = frozenset() if self._file is None else frozenset(self._file.base.tables)
        self._defined = None if defined_tables is None else DefinedTables(defined_tables)
        self._kept = kept
        self._known = known_statements(watched, file, folds_names=folds_names, kept=kept)

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

    def completed(self, layout: TableLayout, position: Position) -> TableLayout:
        """See `TableSchemas`.

        Raises:
            SchemaError: `COLUMN_COUNT_MISMATCH`, `COLUMN_MISMATCH`, `DDL_NOT_PARSED`.
        """
        if not (leaves_open(layout) or self._wants_definition(layout)):
            said = self._completed_by_file(layout, position)
            if said is not None:
                return said
        return self.defined(layout, position)

    def _wants_definition(self, layout: TableLayout) -> bool:
        # Of a table whose table map leaves nothing open.
        if self._declared_types and may_have_declared_types(layout):
            return True
        return self._defined is not None and self._defined.has(layout)

    def defined(self, layout: TableLayout, position: Position) -> TableLayout:
        """A layout with all that DDL before *position* defines of it, also where its table map leaves nothing open.

        Values may become others by it (a UUID is text then, not bytes); so it is for who needs more than values.

        Raises:
            SchemaError: As `completed`.
        """
        self._look_back()
        found = self._history.completed(layout, position)
        if found.completion or (found.has_names and not (self._defined is not None and self._defined.has(layout))):
            return found
        return self.defined_later(found, position)

    def defined_later(self, layout: TableLayout, position: Position) -> TableLayout:
        """*layout*, of a table that nothing before *position* defines, with what a later mark of the log states of it.

        The log is read to its end for that, once in a process; so it is for who can only stop otherwise.

        Raises:
            SchemaError: As `completed`.
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
                    one for block in blocks for one in sorted(chain(ddl_statements(block), stated_definitions(block)))
                )
                known.later, known.later_from = later_definitions(statements), position
        return known.later

    def definition(self, name: TableName) -> TableDefinition | None:
        """The definition of a table at the start of the part; None: not known, or not any more.

        Raises:
            SchemaError: `DDL_NOT_PARSED`.
        """
        self._look_back()
        return self._history.definition(*name, self._start)

    def definition_before(self, name: TableName, statement: DdlStatement) -> TableDefinition | None:
        """A table's definition when *statement*, at the start of the part, begins; None: not known, or not any more.

        Raises:
            SchemaError: `DDL_NOT_PARSED`.
        """
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
        if known.is_read_to(self._start):
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
