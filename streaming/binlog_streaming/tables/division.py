"""Division of rows steps into parts: which steps, how, and how many parts: `Division`.

A step is divided when tasks would have nothing to do while one merges it, or when it is more than a task should hold.

Execution of a step's tasks: `Tasks`; `SparkTasks` are those of a Spark session.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from binlog_connector.crash_points import reached
from binlog_connector.given_definitions import NOTHING_GIVEN, GivenDefinitions
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.lake.target import CrashPoint
from binlog_streaming.modes.row_batches import outlined
from binlog_streaming.modes.shards import IndivisibleError, RefutedPartError
from binlog_streaming.plan.batch_plan import RowsStep
from binlog_streaming.settings import Deletes, Merge, Mode
from binlog_streaming.tables.parts import PartsWriter
from binlog_streaming.tables.rows_step import RowsContent, target_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any

    from pyspark import SparkContext

    from binlog_format.rows.decoding import Decoding
    from binlog_streaming.lake.commit_id import CommitId
    from binlog_streaming.lake.merge import WrittenFiles
    from binlog_streaming.lake.target import Target, TargetFactory
    from binlog_streaming.plan.batch_plan import Component
    from binlog_streaming.plan.job_state import SelectedTable
    from binlog_streaming.settings import Sink, TableRule
    from binlog_streaming.tables.row_evidence import RowEvidence
    from binlog_streaming.tables.rows_step import PreparedRows

    Shard = tuple[int, bytes]
    """Number of a shard, and a message for it."""


PART_CHANGES = 250_000
"""Row changes of a part, at least, unless they are large: fewer are merged before others have begun to help."""

WHOLE_BYTES = 384 << 20
"""Row events that one task merges, at most: it takes up to 1.8 times as much memory, and 250 MB."""

PART_BYTES = 64 << 20
"""Row events of a part, at most, as far as they have many keys: decoded they are some times as much."""

DEALERS = 3
"""Tasks that have nothing else to do, at least, where rows are dealt out by key: that takes twice the processor time
that one task takes for all of it, so two are no faster than one."""


class StepDivision(Protocol):
    """Writer of the rows of a step that is not done by the task that has its component."""

    def outline(self, step: RowsStep, table: SelectedTable) -> RowsContent | None:
        """Facts about *step* that are known without its rows; None: it is done as a whole."""

    def rows(self, step: RowsStep, content: RowsContent, evidence: RowEvidence | None) -> PreparedRows:
        """The rows of *step*; *content* is its outline, *evidence* what they prove of the target."""


@dataclass(frozen=True, slots=True)
class Division:
    """Division of a component's rows steps.

    Attributes:
        task_count: How many tasks may help each other with a step.
        given: Definitions that the job has beside the log.
        targets: Makes targets; None: those of the sink's format.
    """

    tasks: Tasks
    task_count: int
    log_path: str
    sink: Sink
    decoding: Decoding
    given: GivenDefinitions = NOTHING_GIVEN
    targets: TargetFactory | None = None

    def outline(self, step: RowsStep, table: SelectedTable) -> RowsContent | None:
        """Facts about *step* without its rows, without row batches if it has none; None: it is not divided.

        Raises:
            IndivisibleError: It is too much, and has to be merged as a whole.
        """
        if part_count(step, self.task_count) < 2:
            return None
        row_batches = outlined((part.index for part in step.parts), step.after, step.before, self.decoding)
        content = RowsContent(str(table.name), row_batches, self.decoding, table.rule, completing=table.completing)
        if not row_batches:
            return content
        # Of a table without a key the rows that go can be any: all of them are looked at together.
        is_keyed = all(mode is Mode.CHANGELOG or content.keys(mode) for mode in table.rule.modes)
        if not is_keyed and any(part.updates or part.deletes for part in step.parts):
            raise IndivisibleError(content.source_table)
        return content

    def rows(self, step: RowsStep, content: RowsContent, evidence: RowEvidence | None = None) -> DividedRows:
        """The rows of *step*; *content* is its outline, *evidence* what they prove of the target."""
        return DividedRows(self, step, content, evidence)


@dataclass(frozen=True, slots=True)
class DividedRows:
    """Rows that several tasks write; see `PreparedRows`."""

    division: Division
    step: RowsStep
    content: RowsContent
    evidence: RowEvidence | None = None

    def bring_into(self, target: Target, commit_id: CommitId) -> int:
        """See `PreparedRows`. Raises `IndivisibleError`: the step has to be merged as a whole."""
        division, content = self.division, self.content
        if not target.is_divisible:
            raise IndivisibleError(content.source_table)
        schema = target_schema(content, commit_id.mode)
        writer = PartsWriter(
            log_path=division.log_path,
            sink=division.sink,
            targets=division.targets or sink_type(division.sink.format),
            uri=target.uri,
            source_table=content.source_table,
            rule=content.rule,
            mode=commit_id.mode,
            keys=commit_id.keys,
            columns=schema if commit_id.mode is Mode.CHANGELOG else content.images[0],
            schema=schema,
            after=self.step.after,
            before=self.step.before,
            decoding=division.decoding,
            part_count=part_count(self.step, division.task_count),
            completing=content.completing,
            evidence=self.evidence,
            given=division.given,
        )
        parts = self._written(writer, target)
        reached(CrashPoint.PARTS_WRITTEN)
        count = target.commit_parts(parts, commit_id)
        if self.evidence is not None:
            self.evidence.proved += (proved := sum(part.proved for part in parts))
            self.evidence.compared += min(proved, self.evidence.rows or 0)
        return count

    def _written(self, writer: PartsWriter, target: Target) -> list[WrittenFiles[Any]]:
        tasks, step = self.division.tasks, self.step
        if not writer.keys:
            return writer.append_all(tasks, step)
        if is_cut_by_place(writer.mode, writer.rule) and target.supports_late_dedup:
            try:
                return writer.merge_by_place(tasks, step)
            except IndivisibleError as error:
                if isinstance(error, RefutedPartError):
                    raise
        count = self.division.task_count
        if part_count(step, count if count >= DEALERS else 1) < 2:
            raise IndivisibleError(writer.source_table)
        return writer.merge_by_key(tasks, step)


def is_cut_by_place(mode: Mode, rule: TableRule) -> bool:
    """True if a task can apply a part of the log like a step; else all images of a key must be together."""
    return mode is Mode.CHANGELOG or (mode is Mode.MIRROR and rule.deletes is Deletes.REMOVE)


def task_counts(components: Sequence[Component], parallelism: int, sink: Sink) -> list[int]:
    """Number of tasks, for each component, that may share its steps; 1: one task does them."""
    weights = [component.weight for component in components]
    fair = sum(weights) / parallelism
    counts = []
    for component, weight in zip(components, weights, strict=True):
        count = round(weight / fair)
        counts.append(count if count >= _helpers(component, sink) else 1)
    return counts


def _helpers(component: Component, sink: Sink) -> float:
    # How many tasks are faster than one.
    if len(component.tables) > 1:  # they depend on each other, and are done in the order of the log
        return math.inf
    (table,) = component.tables.values()
    by_place = sink.merge is not Merge.REWRITE and all(is_cut_by_place(mode, table.rule) for mode in table.rule.modes)
    return 2 if by_place else DEALERS


def is_divided(component: Component, task_count: int, table_format: str) -> bool:
    """True if any step of *component* is divided."""
    if len(component.tables) > 1 or not sink_type(table_format).supports_parallel_write:
        return False
    return any(part_count(step, task_count) > 1 for step in component.steps if isinstance(step, RowsStep))


def part_count(step: RowsStep, task_count: int) -> int:
    """Number of parts in which a step is merged; 1: it is not divided."""
    changes = sum(part.inserts + part.updates + part.deletes for part in step.parts)
    size = sum(part.size for part in step.parts)
    by_size = -(-size // PART_BYTES) if size > WHOLE_BYTES else 1
    return max(min(task_count, changes // PART_CHANGES), by_size)


Result = TypeVar("Result")


class Tasks(Protocol):
    """Executor of tasks."""

    @property
    def parallelism(self) -> int:
        """Tasks that run at the same time."""

    def run(self, items: Sequence[bytes], work: Callable[[Iterable[bytes]], Iterator[Result]]) -> list[Result]:
        """Run *work* in tasks, on some *items* each; returns all results."""

    def run_sharded(
        self,
        items: Sequence[bytes],
        deal: Callable[[Iterable[bytes]], Iterator[Shard]],
        shard_count: int,
        work: Callable[[Iterable[bytes]], Iterator[Result]],
    ) -> list[Result]:
        """Divide *items* by shard in tasks, and run *work* on each shard in others; returns all results."""


@dataclass(frozen=True, slots=True)
class SparkTasks:
    """Tasks of a Spark session."""

    context: SparkContext

    @property
    def parallelism(self) -> int:
        """See `Tasks`."""
        return int(self.context.defaultParallelism)

    def run(self, items: Sequence[bytes], work: Callable[[Iterable[bytes]], Iterator[Result]]) -> list[Result]:
        """See `Tasks`."""
        return list(self._items(items).mapPartitions(work).collect())

    def run_sharded(
        self,
        items: Sequence[bytes],
        deal: Callable[[Iterable[bytes]], Iterator[Shard]],
        shard_count: int,
        work: Callable[[Iterable[bytes]], Iterator[Result]],
    ) -> list[Result]:
        """See `Tasks`."""
        shards = self._items(items).mapPartitions(deal).partitionBy(shard_count, lambda shard: shard)
        return list(shards.mapPartitions(lambda dealt: work(message for _, message in dealt)).collect())

    def _items(self, items: Sequence[bytes]) -> Any:
        return self.context.parallelize(items, max(1, min(len(items), self.parallelism)))
