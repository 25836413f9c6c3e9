"""Definitions of tables by statements in the log: `LogFacts(log)`; of a table LIKE another: `liked`."""

from __future__ import annotations

import itertools
import threading
from bisect import bisect_right
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from binlog_connector.following.watched import WatchedLog
from binlog_connector.given_definitions import NOTHING_GIVEN, GivenDefinitions
from binlog_connector.log_definitions import RangeSchemas
from binlog_connector.schema.effects.column_facts import default_facts
from binlog_connector.schema.expressions.computed_images import completed_images
from binlog_connector.schema.layout_definitions import merged_definition
from binlog_connector.schema.parsing.columns import CHARACTER_TYPES
from binlog_connector.schema.parsing.session import UTF8MB4
from binlog_format.errors import BinlogError, SchemaError
from binlog_format.rows.columns import arrow_schema
from binlog_format.rows.images import ImageKind
from binlog_format.rows.virtual_columns import may_be_mislogged, without_mislogged
from binlog_streaming.modes.absent_columns import absent_facts
from binlog_streaming.modes.row_batches import RowBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from binlog_connector.schema.definitions import TableDefinition, TableName
    from binlog_connector.schema.log_ddl import DdlStatement
    from binlog_connector.schema.table_changes import TableCreated
    from binlog_format.events.table_map import TableLayout
    from binlog_format.log.log import Log
    from binlog_format.position import Position
    from binlog_streaming.modes.absent_columns import AbsentFacts
    from binlog_streaming.tables.statements.work import StatementContext


# What a process knows of a log's statements is shared, and not made for several threads.
_lock = threading.Lock()


@dataclass(frozen=True, slots=True)
class LogFacts:
    """Statements define what table maps do not: defaults of columns, which ones are computed, what partitions are.

    The log is read for them from its start, the first time that they are asked for; later on from there.

    Attributes:
        log: Where to look; None: there is none, and images leave nothing out.
        given: Definitions that the job has beside it.
    """

    log: Log | None
    given: GivenDefinitions = NOTHING_GIVEN

    def definition_before(
        self, name: TableName, statement: DdlStatement, layout: TableLayout | None = None
    ) -> TableDefinition | None:
        """A table's definition when *statement* begins: all that the log, definitions brought to it and *layout* state.

        What none of them states is unknown, and not "none": ask `definition.knows("partitioning")` and
        `column.knows("generated")` before an attribute is used.

        Args:
            layout: Of its last rows before the statement, where there are some: a table that is older than the log has
                a definition by its table map then, and what the table map has goes first.

        Returns:
            None: nothing is known of it.

        Raises:
            SchemaError: `DDL_NOT_PARSED`, unless *layout* is given.
        """
        return self._merged(
            lambda watched: self._schemas(watched, statement.position).definition_before(name, statement), layout
        )

    def definition_at(
        self, name: TableName, position: Position, layout: TableLayout | None = None
    ) -> TableDefinition | None:
        """A table's definition at a place of the log, as `definition_before`.

        Args:
            layout: Of its rows there.

        Raises:
            SchemaError: `DDL_NOT_PARSED`, unless *layout* is given.
        """
        return self._merged(lambda watched: self._schemas(watched, position).definition(name), layout)

    def _schemas(self, watched: WatchedLog, position: Position) -> RangeSchemas:
        return RangeSchemas(watched, position, self.given)

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

    def stated(self, row_batches: Sequence[RowBatch]) -> list[RowBatch]:
        """*row_batches* with the facts of columns that their images lack, cut where the definition changes.

        Images lack values that servers log wrongly, by the definition, from here on.

        Most statements that change one divide steps; those that only change keys or comments do not.
        """
        lacks = [not row_batch.layout.completion and _is_asked_for(row_batch) for row_batch in row_batches]
        if self.log is None or not any(lacks):  # rows of messages are whole
            return list(row_batches)
        parts: list[RowBatch] = []
        found = _Found({})
        end = max(row_batch.end() for row_batch in itertools.compress(row_batches, lacks)).position
        with _lock, self._watched() as watched:
            # What the schema file states is in the layouts already.
            schemas = RangeSchemas(watched, end, self.given._replace(file=None))
            for row_batch, lacking in zip(row_batches, lacks, strict=True):
                parts += found.parts(row_batch, schemas) if lacking else [row_batch]
        parts.sort(key=RowBatch.start)
        return parts


@dataclass(frozen=True, slots=True)
class _Found:
    # By layout and the statement since which a definition holds; with the completion that this is.
    facts: dict[tuple[str, Position | None], tuple[AbsentFacts, str]]

    def parts(self, row_batch: RowBatch, schemas: RangeSchemas) -> Iterator[RowBatch]:
        layout = row_batch.layout.logged or row_batch.layout
        schemas.defined(layout, row_batch.end().position)  # only now it looks for statements
        edges = schemas.edges(layout.database, layout.table)
        first, last = row_batch.start().position, row_batch.end().position
        within = [edge for edge in edges if first < edge <= last]
        for start, end in itertools.pairwise([None, *((edge, 0) for edge in within), None]):
            part = row_batch.between(start, end)
            if part is None:
                continue
            position = part.end().position
            number = bisect_right(edges, position)
            key = layout.digest, edges[number - 1] if number else None
            if key not in self.facts:
                defined = schemas.defined(layout, position)
                if not defined.completion and part.images.has_absent():
                    defined = schemas.defined_later(layout, part.start().position)
                self.facts[key] = _facts(part, defined), defined.completion
            facts, completion = self.facts[key]
            images = part.images if part.snapshot else without_mislogged(part.images, completion)
            if row_batch.layout.logged is None and completion:
                images = completed_images(images, completion)
            yield replace(part, images=images, facts=facts)


def _is_asked_for(row_batch: RowBatch) -> bool:
    images = row_batch.images
    return images.has_absent() or bool(
        not row_batch.snapshot
        and row_batch.layout.has_names
        and may_be_mislogged(images.layout)
        and (images.table["kind"] == ImageKind.INSERT).any()
    )


def _facts(row_batch: RowBatch, defined: TableLayout) -> AbsentFacts:
    schema = arrow_schema(row_batch.layout, row_batch.decoding)
    facts = absent_facts(row_batch.decoding.shown(defined), row_batch.decoding)
    # Of a type that only a statement tells (UUID, INET6) the rows have the bytes, and the default is a text.
    fitting = {name: value for name, value in facts.defaults.items() if value.type.equals(schema.field(name).type)}
    return replace(facts, defaults=fitting)


def liked(context: StatementContext, change: TableCreated) -> TableCreated:
    """*change* with what the log states of the other table at this place; as it is where that is not known.

    Then the rows that come next have the columns and the key. So it is where rules hide some: they are about names of
    this table, and statements come here under them.
    """
    if change.columns is not None or change.like is None or context.shown_by is not None:
        return change
    try:
        source = context.facts.definition_before(change.like, context.step.statement)
        return change if source is None else _like(context, change, source)
    except BinlogError:
        return change  # a statement about the other table, or the type of a column, is not known


def _like(context: StatementContext, change: TableCreated, source: TableDefinition) -> TableCreated:
    if source.columns is None or not source.knows("keys"):
        return change
    statement = context.step.statement
    # Which character set a text has does not matter for the target's column.
    charset = statement.server_charset or UTF8MB4
    columns = (
        replace(column, charset=charset) if column.charset is None and column.type_name in CHARACTER_TYPES else column
        for column in source.columns
    )
    facts = tuple(default_facts(column, statement.vendor, context.decoding) for column in columns)
    return replace(change, columns=facts, primary_key=source.row_key, is_key_open=source.is_key_open)
