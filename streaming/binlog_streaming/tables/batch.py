"""One micro-batch: `plan_of` makes a plan of the rows of the view `tables`, `write_batch` lets tasks do its parts.

`write_plan` is the same without Spark: it takes whatever runs tasks.
"""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from binlog_connector.log_definitions import SchemaFile
from binlog_connector.schema.table_changes import PartitionsDropped, TableCreated
from binlog_connector.worker_process import freeze_garbage_collector
from binlog_format import open_log
from binlog_format.errors import BinlogError
from binlog_streaming.modes.shards import IndivisibleError, RefutedPartError
from binlog_streaming.plan.batch_plan import ChangeStep
from binlog_streaming.plan.cascade_links import LinkedRowsStep
from binlog_streaming.plan.cascades import CascadeLog
from binlog_streaming.plan.job_state import TableSelection
from binlog_streaming.plan.plan import plan_batch, spread
from binlog_streaming.settings import OnError
from binlog_streaming.tables.apply import apply_component
from binlog_streaming.tables.batch_run import BatchRun
from binlog_streaming.tables.division import Division, SparkTasks, is_divided, task_counts
from binlog_streaming.tables.evidence_watch import WantedEvidence
from binlog_streaming.tables.open_targets import check_folders

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from binlog_connector.schema.definitions import TableName
    from binlog_format.position import Position
    from binlog_streaming.job_state.progress import TableProgress
    from binlog_streaming.plan.batch_plan import BatchPlan, Component
    from binlog_streaming.plan.job_state import JobState
    from binlog_streaming.plan.planning import Row
    from binlog_streaming.settings import Job
    from binlog_streaming.tables.division import Tasks
    from binlog_streaming.tables.evidence_watch import Watched

    Result = tuple[str, list[TableProgress] | BinlogError]
    """Name of a component, and what became of its targets, or the error that ended it."""

THREADS = 2
"""Components that a task writes at a time."""

# What a plan needs of a row of the view `tables`.
PLAN_COLUMNS = (
    "database",
    "table",
    "start",
    "end",
    "inserts",
    "updates",
    "deletes",
    "bytes",
    "checked_updates",
    "checked_deletes",
    "ddl",
    "index",
    "problem",
    "snapshot",
    "marks",
)


@dataclass(frozen=True, slots=True)
class BatchContext:
    """Context of a batch's writes.

    Attributes:
        gtid_position: What the log has up to the batch's end, as text; None: not known.
        job_state: What the job knows from batches before; None: nothing.
        watched: What it remembers of targets, by their place.
        defined: See `BatchRun`.
    """

    query_id: str
    batch_id: int
    job: Job
    gtid_position: str | None = None
    job_state: JobState | None = None
    watched: Mapping[str, Watched] = field(default_factory=dict)
    defined: frozenset[TableName] | None = None

    def run(self, position: Position, schema_file: SchemaFile | None = None) -> BatchRun:
        """Common data of all tables; *position* is the place to continue after the batch."""
        job = self.job
        return BatchRun(
            self.query_id,
            self.batch_id,
            job.sink,
            position,
            job.decoding(),
            self.gtid_position,
            job.on_error,
            schema_file,
            CascadeLog(job),
            WantedEvidence.of(job),
            self.watched,
            kept_definitions=job.kept_definitions,
            defined=self.defined,
        )

    def schema_file(self, plan: BatchPlan) -> SchemaFile | None:
        """The part of the job's schema file that steps of *plan* may need; None: nothing.

        Raises:
            OptionError: `INVALID_VALUE`.
            SchemaError: `DDL_NOT_PARSED`.
        """
        path, steps = self.job.source.schema_file, (step for component in plan.components for step in component.steps)
        asks = any(
            isinstance(step, LinkedRowsStep) or (isinstance(step, ChangeStep) and _asks_definitions(step.change))
            for step in steps
        )
        return SchemaFile.read(path) if path and asks else None

    def plan(self, rows: Iterable[Row]) -> BatchPlan:
        """Plan the batch; *rows* are those of the view `tables`."""
        job = self.job
        selection = TableSelection(job.tables, job.source.exclude_tables, job.source.folds_names)
        return plan_batch(
            rows,
            job.decoding(),
            selection,
            self.job_state,
            on_error=job.on_error,
            fail_on_data_loss=job.source.fail_on_data_loss is not False,
            log=CascadeLog(job),
        )


@dataclass(frozen=True, slots=True)
class ComponentWriter:
    """Writer of a component, run in a task; it is pickled, so it has no open file."""

    run: BatchRun
    log_path: str

    def write(self, components: Iterable[Component]) -> list[Result]:
        """Write *components*, several at a time.

        Returns:
            Of each a name, and what became of its targets, or the error that ended it; the others go on. A named error
            is given back, not raised: so it reaches the driver whole, and Spark does not print a stack trace for it.
        """
        # The work is done outside of Python's lock, by kernels, Arrow and the libraries of the sinks.
        with ThreadPoolExecutor(THREADS) as pool:
            results = list(pool.map(self._write, components))
        freeze_garbage_collector()
        return results

    def write_divided(self, component: Component, tasks: Tasks, task_count: int) -> Result | None:
        """The same of one component, for the driver: *tasks* do its large steps, up to *task_count* of them a step.

        Returns:
            None: it has to be done as a whole.
        """
        run = self.run
        division = Division(tasks, task_count, self.log_path, run.sink, run.decoding, run.kept_definitions)
        try:
            return self._write(component, division)
        except RefutedPartError:  # it will not get far, and who has all of it can name what is wrong
            return replace(self, run=replace(run, compares_all=True))._write(component)
        except IndivisibleError:
            return None

    def _write(self, component: Component, division: Division | None = None) -> Result:
        try:
            with open_log(self.log_path) as log:  # one for each: they are not for several threads
                return component.name, apply_component(self.run, component, log, division=division)
        except BinlogError as error:
            return component.name, error


def _asks_definitions(change: object) -> bool:
    return isinstance(change, PartitionsDropped) or (isinstance(change, TableCreated) and change.like is not None)


def plan_of(frame: DataFrame, context: BatchContext) -> BatchPlan:
    """Plan a micro-batch of the view `tables`: a Spark job reads the log."""
    return context.plan([row.asDict(recursive=True) for row in frame.select(*PLAN_COLUMNS).collect()])


def write_batch(frame: DataFrame, context: BatchContext, plan: BatchPlan) -> list[TableProgress]:
    """Run *plan* of *frame*: a Spark job writes the tables. See `write_plan`."""
    return write_plan(context, plan, SparkTasks(frame.sparkSession.sparkContext))


def write_plan(context: BatchContext, plan: BatchPlan, tasks: Tasks) -> list[TableProgress]:
    """Run *plan* with *tasks*.

    Returns:
        What became of the targets.

    Raises:
        BinlogError: Of one failing table. Other tables of the batch may have been written; written again they do
            not change.
    """
    if plan.end is None or not plan.components:
        return []
    if context.job.on_error is OnError.STOP:
        check_folders(plan.components, context.job.sink.directory)
    writer = ComponentWriter(context.run(plan.end, context.schema_file(plan)), context.job.source.path)
    return _joined(_written(plan.components, writer, tasks))


def _written(components: Sequence[Component], writer: ComponentWriter, tasks: Tasks) -> list[Result]:
    counts = task_counts(components, tasks.parallelism, writer.run.sink)
    table_format = writer.run.sink.format
    divided = [
        (component, count)
        for component, count in zip(components, counts, strict=True)
        if is_divided(component, count, table_format)
    ]
    names = {component.name for component, _ in divided}
    with ThreadPoolExecutor(max(len(divided), 1)) as pool:
        waiting = [
            (component, pool.submit(writer.write_divided, component, tasks, count)) for component, count in divided
        ]
        results = _whole(writer, tasks, [component for component in components if component.name not in names])
        done = [(component, future.result()) for component, future in waiting]
    results += [result for _, result in done if result is not None]
    return results + _whole(writer, tasks, [component for component, result in done if result is None])


def _whole(writer: ComponentWriter, tasks: Tasks, components: Sequence[Component]) -> list[Result]:
    # No more tasks than run at once: each of them costs tens of milliseconds, even without a table.
    piles = [pickle.dumps(pile) for pile in spread(components, tasks.parallelism)]
    if not piles:
        return []
    return tasks.run(piles, lambda some: (result for pile in some for result in writer.write(pickle.loads(pile))))


def _joined(results: Sequence[Result]) -> list[TableProgress]:
    progress: list[TableProgress] = []
    for _, result in sorted(results, key=lambda pair: pair[0]):
        if isinstance(result, BinlogError):
            raise result
        progress += result
    return progress
