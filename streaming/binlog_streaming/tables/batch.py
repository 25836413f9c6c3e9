"""One micro-batch: `plan_of` makes a plan of the rows of the view `tables`, `write_batch` lets tasks do its parts.

`write_plan` is the same without Spark: it takes whatever runs tasks.

Where the catalog commits several tables at once, the commits of all components wait, and `write_at_once` makes them.
"""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from binlog_connector.crash_points import reached
from binlog_connector.log_definitions import SchemaFile
from binlog_connector.schema.table_changes import PartitionExchanged, PartitionsDropped, TableCreated
from binlog_connector.worker_process import freeze_garbage_collector
from binlog_format import open_log
from binlog_format.errors import BinlogError, TableError
from binlog_streaming.lake.sinks import joint_commit, sink_type
from binlog_streaming.lake.target import CrashPoint
from binlog_streaming.modes.shards import IndivisibleError, RefutedPartError
from binlog_streaming.plan.batch_plan import ChangeStep
from binlog_streaming.plan.cascade_links import LinkedRowsStep
from binlog_streaming.plan.cascades import CascadeLog
from binlog_streaming.plan.job_state import JobState, TableSelection
from binlog_streaming.plan.plan import plan_batch, spread
from binlog_streaming.settings import OnError
from binlog_streaming.tables.apply import apply_component
from binlog_streaming.tables.batch_run import BatchRun
from binlog_streaming.tables.division import Division, SparkTasks, is_divided, task_counts
from binlog_streaming.tables.evidence_watch import WantedEvidence
from binlog_streaming.tables.open_targets import ATTEMPTS_MAX, OpenTargets, check_folders

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager

    from pyspark.sql import DataFrame

    from binlog_connector.schema.definitions import TableName
    from binlog_format.log.log import Log
    from binlog_format.position import Position
    from binlog_streaming.job_state.progress import TableProgress
    from binlog_streaming.lake.files_target import JointCommit, WaitingCommits
    from binlog_streaming.plan.batch_plan import BatchPlan, Component
    from binlog_streaming.plan.planning import Row
    from binlog_streaming.settings import Job, Sink
    from binlog_streaming.tables.division import Tasks
    from binlog_streaming.tables.evidence_watch import Watched


class Result(NamedTuple):
    """Result of a component.

    Attributes:
        name: Of the component.
        outcome: What became of its targets, or the error that ended it.
        waiting: Commits that wait for those of other components.
    """

    name: str
    outcome: list[TableProgress] | BinlogError
    waiting: Sequence[WaitingCommits] = ()


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
    "checked_outside",
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
        job_state: What the job knows from batches before.
        watched: What it remembers of targets, by their place.
        defined: See `BatchRun`.
    """

    query_id: str
    batch_id: int
    job: Job
    gtid_position: str | None = None
    job_state: JobState = field(default_factory=JobState)
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
            job.given_definitions(schema_file),
            CascadeLog(job),
            WantedEvidence.of(job),
            self.watched,
            defined=self.defined,
        )

    def schema_file(self, plan: BatchPlan) -> SchemaFile | None:
        """The part of the job's schema file that steps of *plan* may need; None: nothing."""
        path, steps = self.job.source.schema_file, (step for component in plan.components for step in component.steps)
        asks = any(
            isinstance(step, LinkedRowsStep) or (isinstance(step, ChangeStep) and _asks_definitions(step.change))
            for step in steps
        )
        return SchemaFile.read(path) if path and asks else None

    def plan(self, rows: Iterable[Row]) -> BatchPlan:
        """Plan the batch; *rows* are those of the view `tables`."""
        job = self.job
        selection = TableSelection.of(job)
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
    """Writer of a component, run in a task; it is pickled, so it has no open file.

    Attributes:
        joint: Commits wait for it; None: each table has its own.
    """

    run: BatchRun
    log_path: str
    joint: JointCommit[Any] | None = None

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
        given = run.given._replace(file=None)  # parts do not ask it, and tasks need not be sent it
        division = Division(tasks, task_count, self.log_path, run.sink, run.decoding, given)
        try:
            return self._write(component, division)
        except RefutedPartError:  # it will not get far, and who has all of it can name what is wrong
            return replace(self, run=replace(run, compares_all=True))._write(component)
        except IndivisibleError:
            return None

    def _write(self, component: Component, division: Division | None = None) -> Result:
        try:
            with open_log(self.log_path) as log:  # one for each: they are not for several threads
                return component_result(self.run, component, log, self.joint, division)
        except BinlogError as error:
            return Result(component.name, error)


def component_result(
    run: BatchRun,
    component: Component,
    log: Log | None,
    joint: JointCommit[Any] | None,
    division: Division | None = None,
) -> Result:
    """Do the steps of *component*, see `apply_component`.

    Args:
        joint: Commits wait for it; None: each table has its own.
    """
    if joint is None:
        return Result(component.name, apply_component(run, component, log, division=division))
    targets = joint.targets()
    if division is not None:
        division = replace(division, targets=targets)
    progress = apply_component(run, component, log, targets, division)
    return Result(component.name, progress, targets.waiting())


def _asks_definitions(change: object) -> bool:
    return isinstance(change, PartitionsDropped | PartitionExchanged) or (
        isinstance(change, TableCreated) and change.like is not None
    )


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
        BinlogError: Of one failing table. Other tables of the batch may have been written, unless the catalog has one
            commit for all; written again they do not change.
    """
    if plan.end is None or not plan.components:
        return []
    if context.job.on_error is OnError.STOP:
        check_folders(plan.components, context.job.sink)
    joint = joint_commit(context.job.sink)
    writer = ComponentWriter(context.run(plan.end, context.schema_file(plan)), context.job.source.path, joint)
    if joint is None:
        return joined_progress(_written(plan.components, writer, tasks))
    sink = context.job.sink

    def maintain(due: Sequence[WaitingCommits]) -> Iterable[BinlogError]:
        items = list(map(pickle.dumps, due))
        return tasks.run(items, lambda some: maintenance_errors(joint, sink, map(pickle.loads, some)))

    return write_at_once(joint, sink, plan.components, lambda some: _written(some, writer, tasks), maintain)


def maintenance_errors(joint: JointCommit[Any], sink: Sink, waiting: Iterable[WaitingCommits]) -> Iterator[BinlogError]:
    """Do the maintenance of targets that is due after their commits; gives the errors, named."""
    for commits in waiting:
        try:
            with _naming_errors(sink, commits.uri):
                joint.maintain(commits)
        except BinlogError as error:
            yield error


def write_at_once(
    joint: JointCommit[Any],
    sink: Sink,
    components: Sequence[Component],
    write: Callable[[Sequence[Component]], Iterable[Result]],
    maintain: Callable[[Sequence[WaitingCommits]], Iterable[BinlogError]],
) -> list[TableProgress]:
    """Write *components* by one commit; those with a table that somebody else changed meanwhile are written again.

    Args:
        write: Does the steps of components; their commits wait.
        maintain: Does `maintenance_errors` of targets.

    Returns:
        What became of the targets.

    Raises:
        BinlogError: Of one failing table, or of the commit. Nothing of the batch is in any table, or all of it.
    """
    results: dict[str, Result] = {}
    left = list(components)
    for _ in range(ATTEMPTS_MAX):
        results |= {result.name: result for result in write(left)}
        progress = joined_progress(list(results.values()))
        waiting = [commits for result in results.values() for commits in result.waiting]
        reached(CrashPoint.PARTS_WRITTEN)
        with _naming_errors(sink, sink.directory):
            changed = joint.commit(waiting)
        if not changed:
            reached(CrashPoint.COMMITTED)
            for error in maintain([commits for commits in waiting if commits.needs_maintenance]):
                raise error
            return progress
        left = [one for one in components if changed & {commits.uri for commits in results[one.name].waiting}]
    raise TableError(
        "WRITE_FAILED",
        f"{', '.join(sorted(changed))}: changed by other writers during each of {ATTEMPTS_MAX} attempts",
        hint="Nothing of the batch is in the tables; it will be written when the job starts again",
    )


def _naming_errors(sink: Sink, uri: str) -> AbstractContextManager[None]:
    return OpenTargets(sink, sink_type(sink.format)).naming_errors("commit of a batch", uri)


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


def joined_progress(results: Sequence[Result]) -> list[TableProgress]:
    """Progress of the targets of all components."""
    progress: list[TableProgress] = []
    for result in sorted(results, key=lambda result: result.name):
        if isinstance(result.outcome, BinlogError):
            raise result.outcome
        progress += result.outcome
    return progress
