"""Batches of a job that remembers its tables, in memory: `SnapshotJob`."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from binlog_connector.schema.statement_rows import find_statement_rows
from binlog_format.position import Position
from binlog_format.rows.decoding import DEFAULT_DECODING, Decoding
from binlog_format.views.tables import TablesView
from binlog_streaming.job_state.progress import BatchProgress
from binlog_streaming.job_state.record_keeper import RecordKeeper
from binlog_streaming.plan.cascades import CascadeLog
from binlog_streaming.plan.job_state import TableSelection
from binlog_streaming.plan.plan import plan_batch
from binlog_streaming.settings import Job, OnError, Sink, Source
from binlog_streaming.tables.apply import apply_component
from tests.streaming.tables.batches import run
from tests.streaming.tables.lake.memory_target import MemoryTargets

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_format.log.log import Log
    from binlog_streaming.plan.batch_plan import BatchPlan
    from binlog_streaming.settings import TableRule
    from tests.streaming.tables.batches import Range


@dataclass
class SnapshotJob:
    """A job whose targets are in memory, and whose record is on disk.

    Attributes:
        folder: With the log in `log`.
        rules: `[[tables]]`.
        on_error: What becomes of tables that cannot go on.
        follows_keys: It carries on in its targets what foreign keys do.
    """

    folder: Path
    rules: tuple[TableRule, ...]
    on_error: OnError = OnError.STOP
    decoding: Decoding = DEFAULT_DECODING
    follows_keys: bool = False
    targets: MemoryTargets = field(default_factory=MemoryTargets)

    def __post_init__(self) -> None:
        job = Job(
            source=Source(path=str(self.folder / "log")),
            sink=Sink(directory=str(self.folder / "tables")),
            checkpoint=str(self.folder / "checkpoint"),
            tables=self.rules,
        )
        self.keeper = RecordKeeper(job)
        self.keeper.begin()
        self.cascade_log = CascadeLog(job) if self.follows_keys else None

    def plan(self, log: Log, batch: Range, batch_id: int) -> BatchPlan:
        """What a batch does."""
        view = TablesView(
            decoding=self.decoding,
            find_statements=find_statement_rows,
            counts_others=self.follows_keys,
            tells_problems=True,
        )
        rows = [row for found in view.batches(log.committed_blocks(*batch)) for row in found.to_pylist()]
        job_state = self.keeper.state_before(batch_id)
        selection = TableSelection(self.rules)
        return plan_batch(rows, self.decoding, selection, job_state, on_error=self.on_error, log=self.cascade_log)

    def write(self, log: Log, batch: Range, batch_id: int, *, is_noted: bool = True) -> None:
        """Do a batch; *is_noted*: the record is written after it."""
        planned = self.plan(log, batch, batch_id)
        of_all = run(self.folder / "tables", batch_id, planned.end or Position(0, 0, 0))
        of_all = replace(of_all, decoding=self.decoding, on_error=self.on_error, cascade_log=self.cascade_log)
        tables = [
            one for component in planned.components for one in apply_component(of_all, component, log, self.targets)
        ]
        if is_noted:
            self.keeper.saw_batch(BatchProgress(batch_id, tuple(tables), 0.0, 0.0, None, planned.state_change))
