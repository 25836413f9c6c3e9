"""Judgement on a target whose table the server does not show: `UnseenTable`; drops in words: `drop_text`."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.position import Position
from binlog_streaming.lake.commit_id import DROPPED_PROPERTY
from binlog_streaming.lake.sinks import sink_type
from binlog_streaming.prove.comparison import ProofOutcome, ProofResult, ProofTeller
from binlog_streaming.prove.log_changes import TRIES, DisturbedError, LogChanges
from binlog_streaming.settings.choices import Mode

if TYPE_CHECKING:
    from binlog_streaming.plan.job_state import SelectedTable
    from binlog_streaming.prove.comparison import OnProgress
    from binlog_streaming.prove.job_state import ProvedJobState
    from binlog_streaming.settings.model import Sink

_NUMBERS_OF_A_PLACE = 4
NOT_SHOWN = (
    "the server does not show such a table, or not to this account, and the job has read no DROP or RENAME of it"
)


@dataclass(frozen=True, slots=True)
class UnseenTable:
    """A target whose table the server does not show: it was dropped or renamed, or the account has no right on it.

    The job's log tells these apart: a target is without a table if the log dropped it, and has nothing of it since.
    """

    state: ProvedJobState
    table: SelectedTable
    mode: Mode
    is_expected: bool
    on_progress: OnProgress

    def judge(self) -> ProofResult:
        """The result; waits for a job that has not come to what the log has of the table."""
        teller = ProofTeller(self.table.name, self.mode, self.on_progress)
        if self.mode is Mode.CHANGELOG:
            return teller.result(ProofOutcome.EXEMPT, "a changelog holds changes, not the rows of the table")
        sink = self.state.job.sink
        if recorded_drop(sink, self._uri) is None:
            # Whoever likes may remove the target of a table that is gone, and the job knows that it is.
            if self.is_expected:
                return teller.result(ProofOutcome.NOT_COMPARED, NOT_SHOWN)
            return teller.result(ProofOutcome.EXEMPT, "dropped or renamed, and the target is gone, too")
        end, why = self.state.changes.end(), ""
        for _ in range(TRIES):
            if why:
                self.state.wait_past(end, self.table.name, why, teller.waits)
            reached = self.state.near(end, self.table.name, self.mode, self._uri, teller.waits)
            with contextlib.closing(reached.target) as target:
                dropped = (target.properties() or {}).get(DROPPED_PROPERTY)
            try:
                later = self.state.changes.after(reached.offset.position, end, self.table.name)
            except DisturbedError as error:
                why = str(error)
                continue
            if dropped and later is None:
                return teller.result(ProofOutcome.EXEMPT, drop_text(dropped, self.state.changes))
            return teller.result(ProofOutcome.NOT_COMPARED, NOT_SHOWN)
        return teller.result(ProofOutcome.NOT_COMPARED, f"{NOT_SHOWN}; {why}")

    @property
    def _uri(self) -> str:
        return self.table.uri(self.state.job.sink.directory, self.mode)


def recorded_drop(sink: Sink, uri: str) -> str | None:
    """Read where a table was dropped, as its target records it; empty: it was not; None: there is no target."""
    with contextlib.closing(sink_type(sink.format).at(sink, uri)) as target:
        properties = target.properties()
        return None if properties is None else properties.get(DROPPED_PROPERTY) or ""


def drop_text(dropped: str, changes: LogChanges) -> str:
    """Say in words that a table was dropped. *dropped*: as its target records it."""
    place, _, renamed = dropped.partition(", when it was ")
    numbers = place.split(":")
    if len(numbers) == _NUMBERS_OF_A_PLACE and all(number.isdecimal() for number in numbers):
        place = changes.place(Position(*map(int, numbers[:3])))  # a log without GTIDs
    return f"{renamed or 'dropped'} at {place}"
