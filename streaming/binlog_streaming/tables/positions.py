"""The positions that targets record, step by step: `BatchPositions`.

A target is at its batch's end when it has the batch's last step; before that no GTIDs describe where it is.
So the last step records it in its commit, and those before it record nothing, and remove what was recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_streaming.lake.commit_id import GTID_POSITION_KEY
from binlog_streaming.plan.batch_plan import RowsStep

if TYPE_CHECKING:
    from binlog_connector.schema.definitions import TableName
    from binlog_streaming.lake.commit_id import CommitId
    from binlog_streaming.lake.target import Target
    from binlog_streaming.plan.batch_plan import Component


class BatchPositions:
    """Positions of the targets of a component.

    Args:
        component: Its steps.
        end: What the log has up to the batch's end, as text; None: not known.
    """

    def __init__(self, component: Component, end: str | None) -> None:
        self._end = end
        self._last: dict[TableName, int] = {}
        for step in component.steps:
            for name in (step.table,) if isinstance(step, RowsStep) else step.tables:
                self._last[name] = step.number

    def after(self, table: TableName, number: int) -> str | None:
        """Position of a target after a step, if the target may record it."""
        return self._end if number >= self._last.get(table, number) else None

    def clear_position(self, target: Target, commit_id: CommitId) -> None:
        """Before a commit: remove the position that *target* records, unless the commit records a new one."""
        recorded = (target.properties() or {}).get(GTID_POSITION_KEY)
        if recorded and commit_id.gtid_position is None and self._end is not None:
            target.set_properties(commit_id, recorded={GTID_POSITION_KEY: ""})

    def last_step(self, table: TableName) -> int:
        """Number of the last step about a table."""
        return self._last[table]

    def record_end(self, target: Target, commit_id: CommitId) -> None:
        """After all steps: record in *target* where it is, if its last step did not.

        Args:
            target: As it is.
            commit_id: Of the last step about its table.
        """
        if self._end is None or target.properties() is None:
            return
        applied = target.applied(commit_id)
        is_within = applied is not None and applied.batch_id == commit_id.batch_id and applied.step < commit_id.step
        if is_within or (target.properties() or {}).get(GTID_POSITION_KEY) == "":
            target.set_properties(commit_id, recorded={GTID_POSITION_KEY: self._end})
