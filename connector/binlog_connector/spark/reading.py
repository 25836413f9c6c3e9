"""Common parts of both readers: read one partition as Arrow batches for Spark.

Events of a structured log for Spark: their columns (`events_schema`), and those of a partition (`event_batches`).
"""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql.types import StructType

from binlog_connector.following.entry_marks import state_of
from binlog_connector.following.starts import StartMoment
from binlog_connector.following.steps import check_range_complete, planned_entries
from binlog_connector.options.query_views import (
    ALL_WANTED,
    Wanted,
    make_decoding,
    make_view,
    open_watched,
    query_filters,
    schemas_for,
)
from binlog_connector.options.source_options import SourceOptions, View
from binlog_connector.spark.partitions import leave_out
from binlog_connector.spark.schema import as_spark_sees_it, spark_json, to_spark
from binlog_connector.spark.spark_api import arrow_schema_of
from binlog_connector.worker_process import freeze_garbage_collector
from binlog_format.errors import OptionError, SchemaError
from binlog_format.structured.event_filter import ALL_EVENTS

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlog_connector.following.watched import WatchedLog
    from binlog_connector.log_definitions import SchemaFile
    from binlog_connector.rules.row_rules import TableRules
    from binlog_connector.schema.log_ddl import ServerRuns
    from binlog_connector.spark.partitions import RangePartition
    from binlog_format.block import Block
    from binlog_format.log.log import Log
    from binlog_format.rows.decoding import TableSchemas
    from binlog_format.structured.event_filter import EventFilter
    from binlog_format.structured.event_log import EventSource, LogBlock
    from binlog_format.structured.view import LogsView


GAP_TYPE = "gap"
"""Type of the row of view `events` that stands for what is missing."""

BATCH_ROWS_MAX = 65_536
"""Rows of one Arrow batch, at most; Spark keeps a whole batch in memory."""
BATCH_ROWS_MIN = 16_384
BATCH_BLOCKS_MIN = 5
"""Batches below both are joined: each costs Spark a fixed time, and a block of the log holds a few thousand rows. (To
ask each batch for its bytes takes half as long as to join it.)"""


@dataclass(frozen=True, slots=True)
class RangeReader:
    """Reads partitions on a worker; it is pickled, so it holds no open file.

    Attributes:
        schema: The columns that Spark expects, as `StructType.json` has them: the objects take each task longer to
            unpickle, and to compare, than a small partition takes to be read.
        schema_file: What the option `schemaFile` names.
        wanted: What Spark's own filters leave over, as far as it is known here.
    """

    options: SourceOptions
    schema: str
    schema_file: SchemaFile | None = None
    wanted: Wanted = ALL_WANTED

    def read(self, partition: RangePartition) -> Iterator[pa.RecordBatch]:
        """The rows of *partition*, at most `BATCH_ROWS_MAX` in a batch."""
        with open_watched(self.options, partition.format) as watched:
            options = self.options.of_log(watched.log)
            if options.view is View.LOGS:
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
        blocks = blocks if schemas is None else schemas.observed(blocks)
        if self.options.refuses_statements:
            blocks = self._only_rows(blocks, watched, partition, schemas)
        if schemas is not None and self.options.rules is not None:
            blocks = self._not_revealing(blocks, watched, partition, self.options.rules)
        batches = view.batches(blocks)
        if partition.gap is not None and self.options.view is View.EVENTS:
            return itertools.chain([gap_batch(partition)], batches)
        return batches

    def _planned(self) -> StructType:
        return StructType.fromJson(json.loads(self.schema))

    def _image_type(self) -> pa.DataType | None:
        if self.options.table is None or not self.options.include_ddl:
            return None
        return arrow_schema_of(self._planned()).field("before").type

    def _server_runs(self, watched: WatchedLog) -> ServerRuns | None:
        if self.options.view is not View.TABLES:
            return None
        from binlog_connector.schema.log_ddl import ServerRuns

        return ServerRuns(watched.log)

    def _only_rows(
        self,
        blocks: Iterator[Block],
        watched: WatchedLog,
        partition: RangePartition,
        schemas: TableSchemas | None,
    ) -> Iterator[Block]:
        from binlog_connector.log_definitions import known_statements
        from binlog_connector.schema.log_ddl import ServerRuns
        from binlog_connector.schema.row_format import RowFormat, only_rows

        tables, groups = query_filters(self.options, partition.skip, partition.until, self.wanted)
        given = self.options.given_definitions(self.schema_file)
        row_format = RowFormat(
            tables,
            table=self.options.table,
            folds_names=self.options.folds_names,
            scope_before=lambda: known_statements(watched, given).scope_before(watched, partition.start),
            schemas=schemas,
        )
        tells_text = self.options.rules is None
        return only_rows(blocks, row_format, groups, ServerRuns(watched.log), tells_text=tells_text)

    def _not_revealing(
        self, blocks: Iterator[Block], watched: WatchedLog, partition: RangePartition, rules: TableRules
    ) -> Iterator[Block]:
        from binlog_connector.rules.revealing_statements import not_revealing

        _, groups = query_filters(self.options, partition.skip, partition.until, self.wanted)
        folds_names = self.options.folds_names
        return not_revealing(blocks, rules, watched.log, partition.start, groups, folds_names=folds_names)

    def _checked(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        found: pa.Schema | None = None
        wanted: pa.Schema | None = None
        for batch in batches:
            if found is None or not batch.schema.equals(found):
                self._check(batch.schema)
                found, wanted = batch.schema, as_spark_sees_it(batch.schema)
            yield _shaped(batch, wanted)

    def _check(self, schema: pa.Schema) -> None:
        if spark_json(schema) == self.schema:
            return
        planned = {field.name: field.dataType.simpleString() for field in self._planned()}
        found = {field.name: field.dataType.simpleString() for field in to_spark(schema)}
        differing = sorted(name for name in planned | found if planned.get(name) != found.get(name))
        told = "; ".join(
            f"{name}: expected {planned.get(name, 'no such column')}, got {found.get(name, 'no such column')}"
            for name in differing
        )
        raise SchemaError(
            "SCHEMA_CHANGED",
            f"{self.options.path}: {self.options.table or self.options.view}: {told or 'columns in another order'}",
            hint=_OTHER_COLUMNS_OF_TABLE if self.options.table else "Start the query again: it then has these columns",
        )


_OTHER_COLUMNS_OF_TABLE = (
    "A typed query has the columns of the table where its options start: give startingOffsets = latest, or a "
    "startingGtid after the change (a checkpoint keeps its place); or read without `table`: JSON has all columns"
)


def planned_blocks(log: Log, partition: RangePartition, *, stored: bool = False) -> Iterator[Block]:
    """The blocks of *partition*, all of it: what was planned was on disk, so a log that ends earlier is an error.

    Args:
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
    from binlog_format.views.events import EVENTS_SCHEMA

    row = {"position": partition.start.to_json(), "type": GAP_TYPE, "text": partition.gap}
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


_NS_PER_SECOND = 1_000_000_000


def events_schema(log: Log, options: SourceOptions) -> pa.Schema:
    """The columns of view `logs`; with option `source` those of its arguments too, which the whole log is read for."""
    view = _view(options, ALL_EVENTS)
    if options.events.source is None:
        return view.schema()
    sources = _sources(log, _wanted(options, ALL_EVENTS), skip_damaged=options.events.skip_damaged)
    if not sources:
        raise OptionError(
            "INVALID_VALUE",
            f"option source: {log.path}: no source of the log is named by {options.events.source!r}",
            hint="Name an id, file:line or a format string; without the option, the columns source_id, file, line and "
            "format have what there is",
        )
    schemas = {source: view.schema(source) for source in sources}
    first = next(iter(schemas.items()))
    other = next((item for item in schemas.items() if not item[1].equals(first[1])), None)
    if other is not None:
        raise SchemaError(
            "COLUMN_MISMATCH",
            f"{log.path}: option source: {options.events.source!r} names sources with other arguments: "
            f"{_told(first[0])} and {_told(other[0])}",
            hint="Name one of them, or leave out the option: column args has the arguments of all, as JSON",
        )
    return first[1]


def event_batches(
    log: Log, options: SourceOptions, wanted: EventFilter, partition: RangePartition
) -> Iterator[pa.RecordBatch]:
    """The rows of *partition*."""
    view = _view(options, wanted)
    batches = view.batches(_planned_entries(log, partition), leave_out if options.events.skip_damaged else None)
    if options.events.sort_window_ns is None:
        return batches
    from binlog_format.structured.view import sorted_by_time

    return sorted_by_time(batches, options.events.sort_window_ns)


def _planned_entries(log: Log, partition: RangePartition) -> Iterator[LogBlock]:
    assert log.events is not None, "view logs is of logs of events"
    if partition.start < partition.end:
        blocks = log.events.entries(partition.start, partition.end, state_of(partition.state))
        yield from planned_entries(log, blocks, partition.files, partition.start, partition.end)


def _view(options: SourceOptions, wanted: EventFilter) -> LogsView:
    from binlog_format.structured.view import LogsView  # compiled code takes a moment to load

    return LogsView(_wanted(options, wanted), typed=options.events.source is not None)


def _wanted(options: SourceOptions, wanted: EventFilter) -> EventFilter:
    """Events that the options and Spark's filters select."""
    wanted = replace(wanted, rules=options.events.rules, source=options.events.source)
    if not isinstance(options.end, StartMoment):
        return wanted
    last = options.end.seconds * _NS_PER_SECOND - 1
    return replace(wanted, last_ns=last if wanted.last_ns is None else min(last, wanted.last_ns))


def _sources(log: Log, wanted: EventFilter, *, skip_damaged: bool) -> list[EventSource]:
    assert log.events is not None, "view logs is of logs of events"
    found: dict[EventSource, None] = {}
    for block in log.events.entries(on_damage=leave_out if skip_damaged else None):
        found |= dict.fromkeys(block.sources)
        found |= dict.fromkeys(block.state_after.sources.values())
    return [source for source in found if wanted.accepts(source)]


def _told(source: EventSource) -> str:
    texts = (text.decode("utf-8", "backslashreplace") for text in (source.file, source.format, source.argument_tags))
    file, format_string, tags = texts
    return f'source {source.id} ({file}:{source.line}, "{format_string}", argument tags {tags})'
