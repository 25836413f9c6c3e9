"""What both readers share: open the log, choose the view, and read one partition as Arrow batches for Spark."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

import pyarrow as pa

from binlog_connector.spark.options import SourceOptions, View
from binlog_connector.spark.schema import as_spark_sees_it, to_spark
from binlog_connector.spark.watched import WatchedLog
from binlog_format.errors import DataLossError, SchemaError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from pyspark.sql.types import StructType

    from binlog_connector.spark.partitions import RangePartition
    from binlog_format.block import Block
    from binlog_format.events.table_map import TableLayout
    from binlog_format.gtid import GtidPosition
    from binlog_format.log import Log

BATCH_ROWS_MAX = 65_536
"""Rows of one Arrow batch, at most; Spark keeps a whole batch in memory."""
BATCH_ROWS_MIN = 16_384
BATCH_SIZE_MIN = 8 << 20
"""Batches below both are joined: each costs Spark a fixed time, and a block of the log holds a few thousand rows."""


class BatchView(Protocol):
    """What the views of `binlog_format.views` have in common."""

    def schema(self, layout: TableLayout | None) -> pa.Schema:
        """The columns; *layout* where they depend on a table."""

    def batches(self, blocks: Iterable[Block]) -> Iterator[pa.RecordBatch]:
        """The rows of *blocks*, in total order."""


def open_watched(options: SourceOptions) -> WatchedLog:
    """Open the log of *options*; the caller closes it."""
    return WatchedLog(options.path, options.format)


def make_view(options: SourceOptions, *, skip_gtid: GtidPosition) -> BatchView:
    """The view that *options* ask for. Imports compiled code, which takes a moment in a new process."""
    from binlog_format.views.table_filter import TableFilter

    tables = TableFilter(options.table_expressions, options.exclude_tables)
    skip = skip_gtid if skip_gtid.last else None
    if options.view is View.CHANGEFEED:
        from binlog_format.views.changefeed import ChangefeedView

        assert options.table is not None
        return ChangefeedView(table=options.table, tables=tables, skip=skip)
    if options.view is View.TABLES:
        from binlog_format.views.tables import TablesView

        return TablesView(tables=tables, skip=skip)
    from binlog_format.views.changes import ChangesView

    return ChangesView(table=options.table, tables=tables, skip=skip)


@dataclass(frozen=True, slots=True)
class RangeReader:
    """Reads partitions on a worker; it is pickled, so it holds no open file.

    Attributes:
        options: The query's options.
        schema: The columns that Spark expects.
    """

    options: SourceOptions
    schema: StructType

    def read(self, partition: RangePartition) -> Iterator[pa.RecordBatch]:
        """The rows of *partition*, at most `BATCH_ROWS_MAX` in a batch.

        Raises:
            SchemaError: `SCHEMA_CHANGED`: the table has other columns now than when the query was planned.
            DataLossError: `TRUNCATED_TRANSACTION`: the log ends now before *partition* does.
        """
        view = make_view(self.options, skip_gtid=partition.skip_gtid)
        with open_watched(self.options) as watched:
            yield from sized_batches(self._checked(view.batches(planned_blocks(watched.log, partition))))

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


def planned_blocks(log: Log, partition: RangePartition) -> Iterator[Block]:
    """The blocks of *partition*, all of it: what was planned was on disk, so an early end of data is no waiting.

    Raises:
        DataLossError: `TRUNCATED_TRANSACTION`: the log ends now before *partition* does.
    """
    reached = partition.start
    for block in log.blocks(partition.start, partition.end):
        reached = block.next_position
        yield block
    # Behind the last group there may be records that are no groups: only a look says whether they are there.
    if reached < partition.end and log.span(reached).end < partition.end:
        raise DataLossError(
            "TRUNCATED_TRANSACTION",
            f"{log.path}: the log ends at {reached} now, but reached {partition.end} when this batch was planned",
            hint="The server crashed and took transactions back, or the files were cut; see docs/operations.md",
        )


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
    rows = size = 0
    for batch in batches:
        held.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
        if rows >= BATCH_ROWS_MIN or size >= BATCH_SIZE_MIN:
            yield from _joined(held)
            held, rows, size = [], 0, 0
    yield from _joined(held)


def _joined(batches: list[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    if len(batches) > 1:
        batches = pa.Table.from_batches(batches).combine_chunks().to_batches()
    for batch in batches:
        for start in range(0, batch.num_rows, BATCH_ROWS_MAX):
            yield batch.slice(start, BATCH_ROWS_MAX)
