"""A log in batches, written one by one as a job does it, but without Spark: `cut`, `write`."""

from __future__ import annotations

import functools
import itertools
from dataclasses import replace
from typing import TYPE_CHECKING

from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.history import SchemaHistory
from binlog_connector.schema.statement_rows import find_statement_rows
from binlog_format.position import Position
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding
from binlog_format.views.tables import TablesView
from binlog_streaming.plan.job_state import JobState, TableSelection
from binlog_streaming.plan.plan import plan_batch
from binlog_streaming.settings import Mode, Sink, TableRule
from binlog_streaming.tables.apply import apply_component
from binlog_streaming.tables.batch_run import BatchRun

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from binlog_format.log.log import Log
    from binlog_streaming.job_state.progress import TableProgress
    from binlog_streaming.lake.target import TargetFactory
    from binlog_streaming.plan.batch_plan import BatchPlan
    from binlog_streaming.plan.job_state import Written

    Range = tuple[Position, Position]

PARTITIONS = 2
MIRROR = TableRule()


def cut(log: Log, count: int) -> list[Range]:
    """The log in *count* batches, or one for each event group."""
    start = log.start_position()
    return _cut(log, (start, log.span(start).end), count)


def _cut(log: Log, batch: Range, count: int) -> list[Range]:
    # By groups, not by bytes: a small log would stay whole.
    starts = [
        Position(*(int(group[name]) for name in ("file_no", "page", "chunk")))
        for block in log.blocks(*batch)
        for group in block.groups[block.groups["begins"]]
    ]
    edges = sorted({starts[len(starts) * number // count] for number in range(1, count)} - {batch[0]}) if starts else []
    return list(itertools.pairwise([batch[0], *edges, batch[1]]))


def plan(
    log: Log,
    batch: Range,
    rules: Sequence[TableRule] = (MIRROR,),
    decoding: Decoding = DEFAULT_DECODING,
    *,
    partitions: int = PARTITIONS,
    written: Written | None = None,
) -> BatchPlan:
    """The plan of a batch that is read in several partitions, which come in any order."""
    rows: list[dict[str, object]] = []
    definitions = SchemaHistory()
    definitions.scan_ddl(log, end=batch[1])
    finder = functools.partial(find_statement_rows, schemas=definitions)
    view = TablesView(decoding=decoding, find_statements=finder)
    for low, high in _cut(log, batch, partitions):
        for found in view.batches(log.committed_blocks(low, high)):
            rows[:0] = found.to_pylist()
    return plan_batch(rows, decoding, TableSelection(rules), JobState(written=written))


def run(
    directory: Path | str, batch_id: int, position: Position, query_id: str = "q-1", sink: Sink | None = None
) -> BatchRun:
    """What the tables of a batch share."""
    return BatchRun(query_id, batch_id, sink or Sink(directory=str(directory)), position, gtid_position="0-1-77")


def write(
    log: Log,
    batch: Range,
    directory: Path | str,
    batch_id: int = 0,
    rules: Sequence[TableRule] = (MIRROR,),
    *,
    targets: TargetFactory | None = None,
    query_id: str = "q-1",
    sink: Sink | None = None,
    decoding: Decoding = DEFAULT_DECODING,
    written: Written | None = None,
) -> list[TableProgress]:
    """Write a batch, component by component."""
    planned = plan(log, batch, rules, decoding, written=written)
    if planned.end is None:
        return []
    of_all = replace(run(directory, batch_id, planned.end, query_id, sink), decoding=decoding)
    return [
        progress for component in planned.components for progress in apply_component(of_all, component, log, targets)
    ]


def written_behind(written: Written, planned: BatchPlan, tables: Sequence[TableProgress]) -> Written:
    """What a job's record knows of its targets behind a batch."""
    there = dict(written)
    for table in tables:
        database, _, name = table.source_table.partition(".")
        before = there.get(TableName(database, name), frozenset())
        there[TableName(database, name)] = before | {Mode(table.mode)}
    return {name: frozenset() if name in planned.state_change.gone else modes for name, modes in there.items()}
