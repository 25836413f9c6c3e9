"""Common parts of both readers: open the log, choose the view, and read one partition as Arrow batches for Spark."""

from __future__ import annotations

import functools
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from binlog_connector.following.range_complete import check_range_complete
from binlog_connector.following.watched import WatchedLog
from binlog_connector.spark.options import SourceOptions, View
from binlog_connector.spark.pushdown.wanted import ALL_WANTED, Wanted
from binlog_connector.spark.schema import as_spark_sees_it, to_spark
from binlog_connector.spark.spark_api import arrow_schema_of
from binlog_connector.spark.worker_process import freeze_garbage_collector
from binlog_format.errors import SchemaError, StartError
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql.types import StructType

    from binlog_connector.schema.server_runs import ServerRuns
    from binlog_connector.spark.message_options import MessageOptions
    from binlog_connector.spark.message_view import MessageView
    from binlog_connector.spark.partitions import RangePartition
    from binlog_connector.spark.table_schemas import RangeSchemas, SchemaFile
    from binlog_format.block import Block
    from binlog_format.events.table_map import TableLayout
    from binlog_format.gtids.domain_starts import Taken
    from binlog_format.log.log import Log
    from binlog_format.position import Position
    from binlog_format.views.changes import ChangesView
    from binlog_format.views.group_filter import GroupFilter
    from binlog_format.views.table_filter import TableFilter

GAP_TYPE = "gap"
"""Type of the row of view `events` that stands for what is missing."""

BATCH_ROWS_MAX = 65_536
"""Rows of one Arrow batch, at most; Spark keeps a whole batch in memory."""
BATCH_ROWS_MIN = 16_384
BATCH_BLOCKS_MIN = 5
"""Batches below both are joined: each costs Spark a fixed time, and a block of the log holds a few thousand rows. (To
ask each batch for its bytes takes half as long as to join it.)"""


class BatchView(Protocol):
    """Interface of the views of `binlog_format.views`."""

    def schema(self, layout: TableLayout | None) -> pa.Schema:
        """The columns; *layout* where they depend on a table."""

    def batches(self, blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
        """The rows of *blocks*, in total order."""


def open_watched(options: SourceOptions, format_name: str | None = None) -> WatchedLog:
    """Open the log of *options*; the caller closes it.

    Args:
        options: Of the query.
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
    tables, groups = _filters(options, skip, until, wanted)
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
            )
        case View.TABLES:
            from binlog_connector.schema.statement_rows import find_statement_rows
            from binlog_format.views.tables import TablesView

            finder = functools.partial(find_statement_rows, server_runs=server_runs)
            return TablesView(
                tables=tables,
                groups=groups,
                decoding=decoding,
                find_statements=finder,
                counts_others=options.counts_others,
                tells_problems=options.tells_problems,
            )
        case View.EVENTS:
            from binlog_format.views.events.view import EventsView

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
    from binlog_connector.spark.message_view import MessageView

    made = MessagesView(messages.envelope, tables=tables, groups=groups, decoding=decoding)
    return MessageView(made, messages.topics)


def _filters(
    options: SourceOptions, skip: Taken | None, until: Taken | None, wanted: Wanted
) -> tuple[TableFilter, GroupFilter]:
    from binlog_format.views.group_filter import GroupFilter
    from binlog_format.views.table_filter import TableFilter

    tables = TableFilter(
        options.table_expressions, options.exclude_tables, databases=wanted.databases, names=wanted.tables
    )
    groups = GroupFilter(
        skip,
        until,
        options.ignored_domains,
        options.ignored_servers,
        wanted.first_second,
        wanted.last_second,
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
    from binlog_connector.spark.table_schemas import RangeSchemas

    return RangeSchemas(
        watched,
        start,
        file,
        folds_names=options.folds_names,
        declared_types=options.declared_types,
        defined_tables=options.defined_tables,
        kept=options.kept_definitions,
    )


@dataclass(frozen=True, slots=True)
class RangeReader:
    """Reads partitions on a worker; it is pickled, so it holds no open file.

    Attributes:
        options: The query's options.
        schema: The columns that Spark expects.
        schema_file: What the option `schemaFile` names.
        wanted: What Spark's own filters leave over, as far as it is known here.
    """

    options: SourceOptions
    schema: StructType
    schema_file: SchemaFile | None = None
    wanted: Wanted = ALL_WANTED

    def read(self, partition: RangePartition) -> Iterator[pa.RecordBatch]:
        """The rows of *partition*, at most `BATCH_ROWS_MAX` in a batch.

        Raises:
            SchemaError: `SCHEMA_CHANGED`: the table has other columns now than when the query was planned.
            DataLossError: `TRUNCATED_TRANSACTION`: the log ends now before *partition* does. `LOST_EVENTS`.
            UnsupportedError: `STATEMENT_FORMAT`.
        """
        with open_watched(self.options, partition.format) as watched:
            options = self.options.of_log(watched.log)
            if options.view is View.LOGS:
                from binlog_connector.spark.logs.reading import event_batches

                batches = event_batches(watched.log, options, self.wanted.events, partition)
            else:
                batches = self._row_batches(watched, partition)
            yield from sized_batches(self._checked(batches))
        freeze_garbage_collector()

    def _row_batches(self, watched: WatchedLog, partition: RangePartition) -> Iterator[pa.RecordBatch]:
        schemas = schemas_for(self.options, watched, partition.start, self.schema_file)
        view = make_view(
            self.options,
            skip=partition.skip,
            until=partition.until,
            wanted=self.wanted,
            decoding=make_decoding(self.options, schemas),
            image_type=self._image_type(),
            server_runs=self._server_runs(watched),
        )
        blocks = planned_blocks(watched.log, partition, stored=self.options.view is View.EVENTS)
        if self.options.refuses_statements:
            blocks = self._only_rows(blocks, watched, partition)
        batches = view.batches(blocks if schemas is None else schemas.observed(blocks))
        if partition.gap is not None and self.options.view is View.EVENTS:
            return itertools.chain([gap_batch(partition)], batches)
        return batches

    def _image_type(self) -> pa.DataType | None:
        if self.options.table is None or not self.options.include_ddl:
            return None
        return arrow_schema_of(self.schema).field("before").type

    def _server_runs(self, watched: WatchedLog) -> ServerRuns | None:
        if self.options.view is not View.TABLES:
            return None
        from binlog_connector.schema.server_runs import ServerRuns

        return ServerRuns(watched.log)

    def _only_rows(self, blocks: Iterator[Block], watched: WatchedLog, partition: RangePartition) -> Iterator[Block]:
        from binlog_connector.schema.row_format import RowFormat, only_rows
        from binlog_connector.schema.server_runs import ServerRuns
        from binlog_connector.spark.known_scopes import scope_before

        tables, groups = _filters(self.options, partition.skip, partition.until, self.wanted)
        row_format = RowFormat(
            tables,
            table=self.options.table,
            folds_names=self.options.folds_names,
            scope_before=lambda: scope_before(watched, partition.start),
        )
        tells_text = self.options.rules is None
        return only_rows(blocks, row_format, groups, ServerRuns(watched.log), tells_text=tells_text)

    def _checked(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: pa.Schema | None = None
        wanted: pa.Schema | None = None
        for batch in batches:
            if found is None or not batch.schema.equals(found):
                self._check(batch.schema)
                found, wanted = batch.schema, as_spark_sees_it(batch.schema)
            yield _shaped(batch, wanted)

    def _check(self, schema: pa.Schema) -> None:
        if to_spark(schema) == self.schema:
            return
        planned = {field.name: field.dataType.simpleString() for field in self.schema}
        found = {field.name: field.dataType.simpleString() for field in to_spark(schema)}
        differing = sorted(name for name in planned | found if planned.get(name) != found.get(name))
        told = "; ".join(
            f"{name}: expected {planned.get(name, 'no such column')}, got {found.get(name, 'no such column')}"
            for name in differing
        )
        raise SchemaError(
            "SCHEMA_CHANGED",
            f"{self.options.path}: {self.options.table or self.options.view}: {told or 'columns in another order'}",
            hint="Start the query again: it then has the columns that the table has at its start",
        )


def planned_blocks(log: Log, partition: RangePartition, *, stored: bool = False) -> Iterator[Block]:
    """The blocks of *partition*, all of it: what was planned was on disk, so a log that ends earlier is an error.

    Args:
        log: Where they are.
        partition: Which.
        stored: Leave nothing out: rows that were rolled back, and those of prepared transactions where they are.

    Raises:
        DataLossError: `TRUNCATED_TRANSACTION`: the log ends now before *partition* does.
    """
    reached = partition.start
    if reached >= partition.end:
        return
    if stored:
        from binlog_format.transactions.expansion import expanded

        blocks = expanded(log.blocks(partition.start, partition.end))
    else:
        blocks = log.committed_blocks(partition.start, partition.end, prepared=partition.prepared_xa)
    for block in blocks:
        reached = block.next_position
        yield block
    check_range_complete(log, reached, partition.end)


def gap_batch(partition: RangePartition) -> pa.RecordBatch:
    """A row of view `events` that states what is missing before *partition*."""
    from binlog_format.views.events.view import EVENTS_SCHEMA

    start = partition.start
    row = {
        "position": {"file_no": start.file_no, "page": start.page, "chunk": start.chunk},
        "type": GAP_TYPE,
        "text": partition.gap,
    }
    return pa.RecordBatch.from_pylist([row], schema=EVENTS_SCHEMA)


def _shaped(batch: pa.RecordBatch, wanted: pa.Schema) -> pa.RecordBatch:
    if batch.schema.equals(wanted):
        return batch
    columns = [
        column if column.type.equals(field.type) else column.cast(field.type)
        for column, field in zip(batch.columns, wanted, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=wanted)


def sized_batches(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The same rows in batches of a size that suits Spark: small ones are joined, large ones cut."""
    held: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        if rows >= BATCH_ROWS_MIN or len(held) == BATCH_BLOCKS_MIN:
            yield from _joined(held)
            held, rows = [], 0
    yield from _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if len(batches) > 1:
        batches = pa.Table.from_batches(batches).combine_chunks().to_batches()
    for batch in batches:
        for start in range(0, batch.num_rows, BATCH_ROWS_MAX):
            yield batch.slice(start, BATCH_ROWS_MAX)
