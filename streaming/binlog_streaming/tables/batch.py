"""One micro-batch: `write_batch` makes a plan of the rows of the view `tables`, and tasks do its parts."""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_connector.spark.worker_process import settle
from binlog_format import open_log
from binlog_format.errors import BinlogError
from binlog_streaming.tables.apply import BatchRun, apply_component
from binlog_streaming.tables.kept import KeptTables
from binlog_streaming.tables.missing import check_folders
from binlog_streaming.tables.plan import plan_batch, spread

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame

    from binlog_format.position import Position
    from binlog_format.rows.decoding import Decoding
    from binlog_streaming.settings import Sink, TableRule
    from binlog_streaming.tables.plan import BatchPlan, Component, Written
    from binlog_streaming.tables.progress import TableProgress
    from binlog_streaming.tables.target import TargetFactory

THREADS = 2
"""Components that a task writes at a time."""

DRIVER_THREADS = 4
"""Components that the driver writes at a time, where Spark itself writes: mostly they wait for it."""

# What a plan needs of a row of the view `tables`.
PLAN_COLUMNS = ("database", "table", "start", "end", "inserts", "updates", "deletes", "ddl", "index")


@dataclass(frozen=True, slots=True)
class BatchContext:
    """What a batch is written with.

    Attributes:
        query_id: Id of the streaming query.
        batch_id: Number of the batch.
        log_path: Path of the log.
        sink: Where the tables go.
        rules: The job's tables.
        decoding: How rows become values.
        gtid_position: What the log has up to the batch's end, as text; None: not known.
        written: Tables of batches before, and which of their targets are there since; None: not known.
        targets: Makes targets that the driver writes; None: tasks write, with libraries of their own.
    """

    query_id: str
    batch_id: int
    log_path: str
    sink: Sink
    rules: tuple[TableRule, ...]
    decoding: Decoding
    gtid_position: str | None = None
    written: Written | None = None
    targets: TargetFactory | None = None

    def run(self, position: Position) -> BatchRun:
        """What all tables share; *position* is where the log goes on behind the batch."""
        return BatchRun(self.query_id, self.batch_id, self.sink, position, self.decoding, self.gtid_position)


@dataclass(frozen=True, slots=True)
class ComponentWriter:
    """What a task needs to know; it is pickled, so it holds no open file.

    Attributes:
        run: The batch.
        log_path: Path of the log.
    """

    run: BatchRun
    log_path: str

    def write(
        self, components: Iterable[Component], targets: TargetFactory | None = None, *, threads: int = THREADS
    ) -> list[tuple[str, list[TableProgress] | BinlogError]]:
        """Write *components*, several at a time.

        Args:
            components: What to write.
            targets: As for `apply_component`.
            threads: How many at a time.

        Returns:
            Of each a name, and what became of its targets, or the error that ended it; the others go on. A named error
            is given back, not raised: so it reaches the driver whole, and Spark does not print a stack trace for it.
        """
        # The work is done outside of Python's lock, by kernels, Arrow and the libraries of the sinks.
        with ThreadPoolExecutor(threads) as pool:
            results = list(pool.map(lambda component: self._write(component, targets), components))
        settle()
        return results

    def _write(
        self, component: Component, targets: TargetFactory | None
    ) -> tuple[str, list[TableProgress] | BinlogError]:
        try:
            with open_log(self.log_path) as log:  # one for each: they are not for several threads
                return component.name, apply_component(self.run, component, log, targets)
        except BinlogError as error:
            return component.name, error


def write_batch(frame: DataFrame, context: BatchContext) -> tuple[BatchPlan, list[TableProgress]]:
    """Write a micro-batch of the view `tables`: one Spark job reads the log, one writes the tables.

    Returns:
        What was to be done, and what became of the targets.

    Raises:
        BinlogError: What one failing table says. Other tables of the batch may have been written; written again they do
            not change.
    """
    rows = [row.asDict(recursive=True) for row in frame.select(*PLAN_COLUMNS).collect()]
    plan = plan_batch(rows, context.decoding, KeptTables(context.rules), context.written)
    if plan.end is None or not plan.components:
        return plan, []
    check_folders(plan.components, context.sink.directory)
    writer = ComponentWriter(context.run(plan.end), context.log_path)
    if context.targets is not None:
        return plan, _joined(writer.write(plan.components, context.targets, threads=DRIVER_THREADS))
    spark_context = frame.sparkSession.sparkContext
    # No more tasks than run at once: each of them costs tens of milliseconds, even without a table.
    piles = [pickle.dumps(pile) for pile in spread(plan.components, spark_context.defaultParallelism)]
    tasks = spark_context.parallelize(piles, len(piles))
    results = tasks.flatMap(lambda pile: writer.write(pickle.loads(pile))).collect()
    return plan, _joined(results)


def _joined(results: Sequence[tuple[str, list[TableProgress] | BinlogError]]) -> list[TableProgress]:
    progress: list[TableProgress] = []
    for _, result in sorted(results, key=lambda pair: pair[0]):
        if isinstance(result, BinlogError):
            raise result
        progress += result
    return progress
