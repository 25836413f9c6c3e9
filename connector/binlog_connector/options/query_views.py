"""Views that options ask for: `open_watched`, `make_decoding`, `make_view`, `schemas_for`; what is wanted: `Wanted`."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from binlog_connector.following.watched import WatchedLog
from binlog_connector.options.source_options import SourceOptions, View
from binlog_connector.schema.expressions.computing import with_computed_values
from binlog_format.errors import StartError
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding
from binlog_format.structured.event_filter import ALL_EVENTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    import pyarrow as pa

    from binlog_connector.log_definitions import RangeSchemas, SchemaFile
    from binlog_connector.options.message_view import MessageView
    from binlog_connector.options.view_options import MessageOptions
    from binlog_connector.schema.log_ddl import ServerRuns
    from binlog_format.block import Block
    from binlog_format.events.table_map import TableLayout
    from binlog_format.gtids.gtid_set import Taken
    from binlog_format.position import Position
    from binlog_format.structured.event_filter import EventFilter
    from binlog_format.views.changes import ChangesView
    from binlog_format.views.filters import GroupFilter, TableFilter


@dataclass(frozen=True, slots=True)
class Wanted:
    """The largest part of a log that a query can need.

    Attributes:
        databases: Only tables of these; None: of all.
        tables: Only tables with these names; None: all.
        ops: Only rows of these operations of view `changes`; None: of all.
        first_second: Only groups committed then or later: seconds since 1970 UTC.
        last_second: Only groups committed then or before.
        first: Only groups there or after it.
        last: Only groups there or before.
        nothing: No row can be wanted.
    """

    databases: frozenset[str] | None = None
    tables: frozenset[str] | None = None
    ops: frozenset[str] | None = None
    first_second: int | None = None
    last_second: int | None = None
    first: Position | None = None
    last: Position | None = None
    nothing: bool = False
    events: EventFilter = ALL_EVENTS


ALL_WANTED = Wanted()


class BatchView(Protocol):
    """Interface of the views of `binlog_format.views`."""

    def schema(self, layout: TableLayout | None) -> pa.Schema:
        """The columns; *layout* where they depend on a table."""

    def batches(self, blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
        """The rows of *blocks*, in total order."""


def open_watched(options: SourceOptions, format_name: str | None = None) -> WatchedLog:
    """Open the log of *options*; the caller closes it.

    Args:
        format_name: The format that the log had before, where the options leave it open: then it need not be found out
            again, unless there is no such log any more.
    """
    try:
        return WatchedLog(options.path, options.format or format_name or None, bound=options.bound)
    except StartError as error:
        if options.format is not None or not format_name or error.subclass != "NO_LOG_FILES":
            raise
        return WatchedLog(options.path, bound=options.bound)


def make_decoding(options: SourceOptions, schemas: RangeSchemas | None) -> Decoding:
    """Decoding of values with *options*."""
    return Decoding(
        schemas,
        options.zero_dates,
        options.time_type,
        options.replace_invalid_text,
        options.rules,
        options.declared_types,
        options.full_source_images,
        options.system_time_zone,
        with_computed_values,
    )


def make_view(
    options: SourceOptions,
    *,
    skip: Taken | None = None,
    until: Taken | None = None,
    wanted: Wanted = ALL_WANTED,
    decoding: Decoding = DEFAULT_DECODING,
    image_type: pa.DataType | None = None,
    server_runs: ServerRuns | None = None,
) -> BatchView:
    """The view that *options* ask for. Imports compiled code, which takes a moment in a new process."""
    tables, groups = query_filters(options, skip, until, wanted)
    match options.view:
        case View.CHANGEFEED:
            from binlog_format.views.changefeed import ChangefeedView

            assert options.table is not None
            return ChangefeedView(
                table=options.table,
                tables=tables,
                groups=groups,
                decoding=decoding,
                include_absent=options.include_absent,
                include_sequence=options.include_sequence,
            )
        case View.TABLES:
            from binlog_connector.schema.statement_rows import find_statement_rows
            from binlog_format.views.tables import TablesView

            finder = functools.partial(find_statement_rows, server_runs=server_runs, schemas=decoding.schemas)
            return TablesView(
                tables=tables,
                groups=groups,
                decoding=decoding,
                find_statements=finder,
                counts_others=options.counts_others,
                tells_problems=options.tells_problems,
            )
        case View.EVENTS:
            from binlog_format.views.events import EventsView

            return EventsView(tables=None if tables.accepts_all else tables, groups=groups)
        case View.TRANSACTIONS:
            from binlog_format.views.transactions import TransactionsView

            return TransactionsView(tables=None if tables.accepts_all else tables, groups=groups)
    if options.messages is not None:
        return _message_view(options.messages, tables, groups, decoding)
    return _changes_view(options, tables, groups, decoding, wanted.ops, image_type)


def _message_view(
    messages: MessageOptions, tables: TableFilter, groups: GroupFilter, decoding: Decoding
) -> MessageView:
    from binlog_connector.envelope.messages import MessagesView
    from binlog_connector.options.message_view import MessageView

    made = MessagesView(messages.envelope, tables=tables, groups=groups, decoding=decoding)
    return MessageView(made, messages.topics)


def query_filters(
    options: SourceOptions, skip: Taken | None, until: Taken | None, wanted: Wanted
) -> tuple[TableFilter, GroupFilter]:
    """Filters of tables and groups for *options* and Spark's filters."""
    from binlog_format.views.filters import GroupFilter, TableFilter

    tables = TableFilter(
        options.table_expressions, options.exclude_tables, databases=wanted.databases, names=wanted.tables
    )
    groups = GroupFilter(
        skip, until, options.ignored_domains, options.ignored_servers, wanted.first_second, wanted.last_second
    )
    return tables, groups


def _changes_view(
    options: SourceOptions,
    tables: TableFilter,
    groups: GroupFilter,
    decoding: Decoding,
    ops: frozenset[str] | None,
    image_type: pa.DataType | None,
) -> ChangesView:
    from binlog_format.views.change_extras import ChangeExtras
    from binlog_format.views.changes import ChangesView

    finder = None
    if options.include_ddl:
        from binlog_connector.schema.statement_rows import find_statements

        finder = functools.partial(find_statements, folds_names=bool(options.folds_names))
    extras = ChangeExtras(options.include_query, finder, ops, image_type, options.rules is None)
    return ChangesView(table=options.table, tables=tables, decoding=decoding, groups=groups, extras=extras)


def schemas_for(
    options: SourceOptions, watched: WatchedLog, start: Position, file: SchemaFile | None
) -> RangeSchemas | None:
    """Schemas of tables from *start* on; None: the view gives no rows of tables."""
    if options.view in (View.EVENTS, View.TRANSACTIONS):
        return None
    from binlog_connector.log_definitions import DefinitionUse, RangeSchemas

    return RangeSchemas(
        watched,
        start,
        options.given_definitions(file),
        use=DefinitionUse.of(types=options.declared_types, declarations=options.messages is not None),
        defined_tables=options.defined_tables,
    )
