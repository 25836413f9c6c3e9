"""Targets of a table begun anew, filled and completed, as steps of a batch: `RowsWriter`."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import msgspec

from binlog_connector.rules.row_rules import TableRules
from binlog_connector.rules.rules_on_changes import apply_rules_to_changes
from binlog_connector.schema.log_ddl import DdlStatement
from binlog_connector.schema.snapshot_marks import Purpose, SnapshotBegun, SnapshotEnded
from binlog_format import open_log
from binlog_streaming.plan.batch_plan import ROWS_STEP, STEPS_PER_CHANGE, ChangeStep, Component, IndexPart, RowsStep
from binlog_streaming.plan.job_state import TableSelection
from binlog_streaming.settings import Mode, OnError
from binlog_streaming.tables.apply import apply_component
from binlog_streaming.tables.batch_run import BatchRun

if TYPE_CHECKING:
    from binlog_connector.following.offsets import SourceOffset
    from binlog_format.vendor import Vendor
    from binlog_streaming.job_state.progress import TableProgress
    from binlog_streaming.settings.model import Job
    from binlog_streaming.snapshot.reading.plan import ReadTable
    from binlog_streaming.snapshot.reading.table_rows import RowsPlace, TableRows

_BEGUN = STEPS_PER_CHANGE
_ROWS = _BEGUN + ROWS_STEP
_ENDED = 2 * STEPS_PER_CHANGE


class RowsWriter:
    """Writes tables of a batch, one after the other.

    Args:
        offset: Where the batch ends.

    Attributes:
        place: The same.
    """

    def __init__(self, job: Job, query_id: str, batch_id: int, offset: SourceOffset, place: RowsPlace) -> None:
        self.place = place
        self._job = job
        self._selection = TableSelection(job.tables, job.source.exclude_tables)
        self._run = BatchRun(
            query_id,
            batch_id,
            job.sink,
            offset.position,
            job.decoding(),
            str(offset.gtid) or None,
            OnError.STOP,
        )

    def write(self, read: ReadTable, snapshot: str, rows: TableRows) -> list[TableProgress]:
        """Write all targets of a table.

        Raises:
            BinlogError: What is wrong with rows or targets.
        """
        name = read.table.name
        selected = self._selection.find(name)
        assert selected is not None, "the plan has tables of the job alone"
        # A changelog is only added to, so it comes when nothing else can fail.
        modes = tuple(sorted(selected.rule.modes, key=lambda mode: mode is Mode.CHANGELOG))
        rule = msgspec.structs.replace(selected.rule, mode=modes)
        table = replace(selected, rule=rule, complete=True, complete_from=_ENDED)
        position = self.place.position
        gtid = None if self.place.gtid is None else str(self.place.gtid)
        vendor, commit_time = read.logged.vendor, self.place.commit_time
        statement = DdlStatement(position, 0, "", vendor=vendor, commit_time=commit_time, gtid=gtid)
        begun = self._shown(SnapshotBegun(read.created, snapshot, Purpose.RESYNC, empties=True), vendor)
        part = IndexPart(position, position, b"", 0, 0, 0, 0, snapshot)
        steps = (
            ChangeStep(_BEGUN, begun, statement, (name,)),
            RowsStep(_ROWS, name, (part,)),
            ChangeStep(_ENDED, SnapshotEnded(name, snapshot, 0, 0), statement, (name,)),
        )
        with open_log(self._job.source.path) as log:
            return apply_component(self._run, Component({name: table}, steps), log, division=rows)

    def _shown(self, begun: SnapshotBegun, vendor: Vendor) -> SnapshotBegun:
        # As a plan puts statements under the rules.
        rules = self._run.decoding.rules
        if not isinstance(rules, TableRules):
            return begun
        (shown,) = apply_rules_to_changes([begun], rules, self._run.decoding, vendor)
        assert isinstance(shown, SnapshotBegun)
        return shown
