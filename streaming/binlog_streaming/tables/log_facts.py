"""What statements in the log define of tables, beyond row events: `LogFacts(log)`."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_connector.following.watched import WatchedLog
from binlog_connector.schema.layout_definitions import merged_definition
from binlog_connector.spark.table_schemas import RangeSchemas
from binlog_format.errors import SchemaError
from binlog_format.rows.arrow_schema import arrow_schema
from binlog_streaming.modes.partial.absent_columns import AbsentFacts, absent_facts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from binlog_connector.schema.definitions import TableDefinition, TableName
    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_connector.spark.table_schemas import SchemaFile
    from binlog_format.events.table_map import TableLayout
    from binlog_format.log import Log
    from binlog_format.position import Position
    from binlog_streaming.modes.row_batches import RowBatch

# What a process knows of a log's statements is shared, and not made for several threads.
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class LogFacts:
    """Statements define what table maps do not: defaults of columns, which ones are computed, what partitions are.

    The log is read for them from its start, the first time that they are asked for; later on from there.

    Attributes:
        log: Where to look; None: there is none, and images leave nothing out.
        schema_file: Tables of a schema file, as they are before all statements.
    """

    log: Log | None
    schema_file: SchemaFile | None = None

    def definition_before(
        self, name: TableName, statement: DdlStatement, layout: TableLayout | None = None
    ) -> TableDefinition | None:
        """A table's definition when *statement* begins: all that the log, definitions brought to it and *layout* state.

        What none of them states is unknown, and not "none": ask `definition.knows("partitioning")` and
        `column.knows("generated")` before an attribute is used.

        Args:
            name: Of the table.
            statement: In the log.
            layout: Of its last rows before the statement, where there are some: a table that is older than the log has
                a definition by its table map then, and what the table map has goes first.

        Returns:
            None: nothing is known of it.

        Raises:
            SchemaError: `DDL_NOT_PARSED`, unless *layout* is given.
        """
        return self._merged(
            lambda watched: RangeSchemas(watched, statement.position, self.schema_file).definition_before(
                name, statement
            ),
            layout,
        )

    def definition_at(
        self, name: TableName, position: Position, layout: TableLayout | None = None
    ) -> TableDefinition | None:
        """A table's definition at a place of the log, as `definition_before`.

        Args:
            name: Of the table.
            position: Of an event group.
            layout: Of its rows there.

        Raises:
            SchemaError: `DDL_NOT_PARSED`, unless *layout* is given.
        """
        return self._merged(lambda watched: RangeSchemas(watched, position, self.schema_file).definition(name), layout)

    def _merged(
        self, find: Callable[[WatchedLog], TableDefinition | None], layout: TableLayout | None
    ) -> TableDefinition | None:
        try:
            with _lock, self._watched() as watched:
                found = find(watched)
        except SchemaError:
            if layout is None:
                raise
            found = None
        return found if layout is None else merged_definition(layout.logged or layout, found)

    def _watched(self) -> WatchedLog:
        assert self.log is not None, "only a log has statements"
        return WatchedLog(self.log.path, self.log.format_name)

    def of(self, row_batches: Sequence[RowBatch]) -> AbsentFacts | None:
        """Facts of columns that images of one step leave out; None: none do."""
        # Layouts that differ with no statement between them hardly do so in this; a later one knows better.
        lacking = {
            (row_batch.layout.digest, row_batch.layout.completion): row_batch
            for row_batch in row_batches
            if row_batch.images.has_absent()
        }
        if not lacking:
            return None
        facts = [self._of(row_batch) for row_batch in lacking.values()]
        defaults = {name: value for one in facts for name, value in one.defaults.items()}
        return AbsentFacts(defaults, frozenset().union(*(one.computed for one in facts)))

    def _of(self, row_batch: RowBatch) -> AbsentFacts:
        if row_batch.layout.completion:
            return absent_facts(row_batch.layout, row_batch.decoding)
        schema, facts = (
            arrow_schema(row_batch.layout, row_batch.decoding),
            absent_facts(self._defined(row_batch), row_batch.decoding),
        )
        # Of a type that only a statement tells (UUID, INET6) the rows have the bytes, and the default is a text.
        fitting = {name: value for name, value in facts.defaults.items() if value.type.equals(schema.field(name).type)}
        return AbsentFacts(fitting, facts.computed)

    def _defined(self, row_batch: RowBatch) -> TableLayout:
        position, _ = row_batch.last_change()
        with _lock, self._watched() as watched:
            defined = RangeSchemas(watched, position, None).defined(
                row_batch.layout.logged or row_batch.layout, position
            )
        return row_batch.decoding.shown(defined)
