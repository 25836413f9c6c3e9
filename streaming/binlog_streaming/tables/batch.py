"""One micro-batch as one Spark job: `write_batch` groups the index rows by table, tasks write, counts come back."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from binlog_format import open_log
from binlog_format.errors import BinlogError
from binlog_format.position import Position
from binlog_format.views.table_filter import TableFilter
from binlog_streaming.tables.apply import BatchRun, TableBatch, apply_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark.sql import DataFrame

    from binlog_streaming.settings import TableRule
    from binlog_streaming.tables.progress import TableProgress

THREADS = 2
"""Tables that a task writes at a time."""

# What a task needs of a row of the view `tables`.
INDEX_COLUMNS = ("database", "table", "start", "end", "inserts", "updates", "deletes", "index")

RESULT_TYPE = "progress binary, error binary"
_RESULT_SCHEMA = pa.schema([("progress", pa.binary()), ("error", pa.binary())])


@dataclass(frozen=True, slots=True)
class TableWriter:
    """What a task needs to know; it is pickled, so it holds no open file.

    Attributes:
        run: The batch.
        log_path: Path of the log.
        rules: The job's tables.
    """

    run: BatchRun
    log_path: str
    rules: tuple[TableRule, ...]

    def write(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the tables whose index rows are in *batches*: all rows of a table come to one task.

        Yields:
            One row: what became of each target, pickled, and the error that ended the task, if one did. A named error
            is given back, not raised: so it reaches the driver whole, and Spark does not print a stack trace for it.
        """
        rows = [row for batch in batches for row in batch.to_pylist()]
        if not rows:
            return
        progress: list[TableProgress] = []
        error = None
        # Tables are of unequal size, and so are the tasks that they happen to fall into; the work is done outside of
        # Python's lock, by kernels, Arrow and deltalake.
        with ThreadPoolExecutor(THREADS) as pool:
            writes = [pool.submit(self._write_table, batch, rule) for batch, rule in self._wanted(rows)]
            try:
                for write in writes:
                    progress.extend(write.result())
            except BinlogError as failure:
                error = pickle.dumps(failure)
                pool.shutdown(cancel_futures=True)
        columns = [pa.array([pickle.dumps(progress)], pa.binary()), pa.array([error], pa.binary())]
        yield pa.RecordBatch.from_arrays(columns, schema=_RESULT_SCHEMA)

    def _write_table(self, batch: TableBatch, rule: TableRule) -> list[TableProgress]:
        with open_log(self.log_path) as log:  # one for each: they are not for several threads
            return apply_table(self.run, batch, rule, log)

    def _wanted(self, rows: Sequence[dict[str, object]]) -> Iterator[tuple[TableBatch, TableRule]]:
        filters = [(TableFilter(rule.select), rule) for rule in self.rules]
        by_table: dict[tuple[str, str], list[dict[str, object]]] = {}
        for row in rows:
            by_table.setdefault((str(row["database"]), str(row["table"])), []).append(row)
        for (database, table), parts in by_table.items():
            rule = next((rule for wanted, rule in filters if wanted.accepts_name(database, table)), None)
            if rule is not None:
                yield table_batch(database, table, parts), rule


def table_batch(database: str, table: str, rows: Sequence[dict[str, object]]) -> TableBatch:
    """Bring the index rows of one table into log order and sum them up."""
    in_order = sorted(rows, key=lambda row: _position(row["start"]))
    return TableBatch(
        database=database,
        table=table,
        indexes=tuple(cast("bytes", row["index"]) for row in in_order),
        position=max(_position(row["end"]) for row in rows),
        inserts=_total(rows, "inserts"),
        updates=_total(rows, "updates"),
        deletes=_total(rows, "deletes"),
    )


def write_batch(frame: DataFrame, writer: TableWriter) -> list[TableProgress]:
    """Write a micro-batch of the view `tables`, in one Spark job.

    Raises:
        BinlogError: What the first failing table says. Other tables of the batch may have been written; written again
            they do not change.
    """

    def task(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        yield from writer.write(batches)

    # As many tasks as run at once: each of them costs tens of milliseconds, even without a table.
    count = frame.sparkSession.sparkContext.defaultParallelism
    by_table = frame.select(*INDEX_COLUMNS).repartition(count, "database", "table")
    rows = by_table.mapInArrow(task, RESULT_TYPE).collect()
    for row in rows:
        if row.error is not None:
            raise pickle.loads(row.error)
    return [progress for row in rows for progress in pickle.loads(row.progress)]


def _position(value: object) -> Position:
    fields = cast("dict[str, int]", value)
    return Position(fields["file_no"], fields["page"], fields["chunk"])


def _total(rows: Sequence[dict[str, object]], column: str) -> int:
    return sum(cast("int", row[column]) for row in rows)
