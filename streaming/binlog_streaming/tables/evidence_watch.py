"""Number of rows of each target that are compared in full, whatever is set: `EvidenceWatch`, `WantedEvidence`.

What changes rows without row events (a statement, a snapshot, another writer), or cannot be ruled out to have been
there (between two runs of a job), is what makes targets wrong. So the next rows of the target are looked at closely.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from binlog_streaming.job_state.progress import Note
from binlog_streaming.lake.commit_id import COMPLETE_PROPERTY, DROPPED_PROPERTY
from binlog_streaming.settings.choices import Begin, Evidence, Mode, OnPartitionDrop, OnStatement
from binlog_streaming.settings.model import EVIDENCE_AFTER, EVIDENCE_SAMPLE
from binlog_streaming.tables.row_evidence import RowEvidence, rows_of_dropped

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from binlog_streaming.job_state.progress import TableProgress
    from binlog_streaming.lake.commit_id import CommitId
    from binlog_streaming.lake.target import Target
    from binlog_streaming.settings import Job, TableRule

PROVED_PROPERTY = "binlog-stream.provedRows"
"""Number of rows that changes had proved, and the GTID of the last; written when the number has doubled."""

_ALL = 1 << 62
"""Number that means all rows."""

RECORDED_MIN = 1_000
"""Rows that are proved before a target states any."""


@dataclass(frozen=True, slots=True)
class WantedEvidence:
    """Wanted comparison of rows that change.

    Attributes:
        kind: Of all rows.
        after: Of how many the whole row, after what may have changed the target.
        sample: Of how many of each step.
        compares_incomplete: Targets that may lack rows are compared, too: images say what each of them expects.
    """

    kind: Evidence = Evidence.KEYS
    after: int = EVIDENCE_AFTER
    sample: int = EVIDENCE_SAMPLE
    compares_incomplete: bool = False

    @classmethod
    def of(cls, job: Job) -> WantedEvidence:
        """Default of tables that set nothing themselves."""
        return cls(job.default_evidence, job.evidence_after, job.evidence_sample)

    def by(self, rule: TableRule) -> WantedEvidence:
        """The same, as far as a table sets nothing else."""
        return WantedEvidence(
            rule.evidence or self.kind,
            self.after if rule.evidence_after is None else rule.evidence_after,
            self.sample if rule.evidence_sample is None else rule.evidence_sample,
            self.compares_incomplete,
        )


@dataclass(frozen=True, slots=True)
class Watched:
    """Facts about a target that a job remembers as long as it runs.

    Attributes:
        version: Of the target after the last batch that was about it; None: it has none.
        left: Rows that are still to be compared as a whole.
        unrecorded: Rows that were proved, and that the target does not state yet.
    """

    version: str | None
    left: int
    unrecorded: int = 0


def watched_after(before: Mapping[str, Watched], tables: Iterable[TableProgress]) -> dict[str, Watched]:
    """Facts that a job remembers after a batch, by place of the target."""
    return {**before, **{table.target: Watched(table.version, *table.watched) for table in tables}}


@dataclass(slots=True)
class EvidenceWatch:
    """The same in the course of a batch, for targets of a component.

    Attributes:
        wanted: Of tables that set nothing themselves.
        compares_all: All rows are compared as a whole: something was found already, and is to be named.
    """

    wanted: WantedEvidence
    before: Mapping[str, Watched]
    compares_all: bool = False
    _left: dict[str, int] = field(default_factory=dict)
    _unrecorded: dict[str, int] = field(default_factory=dict)

    def evidence(self, rule: TableRule, commit_id: CommitId, target: Target, *, is_repair: bool) -> RowEvidence | None:
        """Evidence that rows give about a target before they are written; None: there is none.

        Args:
            is_repair: The rows are those of a repair, which is made because the target is wrong.

        Raises:
            TableError: `CONTRADICTED`: the table was dropped or renamed, and nothing has created it since.
        """
        wanted = self.wanted.by(rule)
        if is_repair:
            self.changed(target.uri)
            return None
        properties = target.properties()
        dropped = (properties or {}).get(DROPPED_PROPERTY)
        if dropped and wanted.kind is not Evidence.OFF:
            raise rows_of_dropped(commit_id, dropped)
        if target.uri not in self._left:
            known = self.before.get(target.uri)
            # Nobody else has written it since the last batch, or it is looked at anew.
            goes_on = known is not None and known.version is not None and known.version == target.version()
            self._left[target.uri] = known.left if known is not None and goes_on else wanted.after
        left = self._left[target.uri] = min(self._left[target.uri], wanted.after)
        evidence = _evidence(rule, wanted, left, commit_id, properties)
        if evidence is not None and self.compares_all:
            evidence.rows = None
        return evidence

    def took(self, target: Target, evidence: RowEvidence | None, commit_id: CommitId, tally: TableProgress) -> None:
        """Rows are in the target, which has not contradicted them: count what they show of it."""
        if evidence is None:
            return
        uri = target.uri
        self._left[uri] = max(0, self._left[uri] - evidence.compared)
        known = self.before.get(uri)
        new = self._unrecorded.get(uri, 0 if known is None else known.unrecorded) + evidence.proved
        stated = stated_rows(target.properties() or {})
        # A commit of its own for each doubling: tens in the life of a target.
        if new >= max(stated, RECORDED_MIN):
            text = f"{stated + new} rows, last at {commit_id.gtid or commit_id.last_change}"
            target.set_properties(commit_id, recorded={PROVED_PROPERTY: text})
            new = 0
        self._unrecorded[uri] = new
        tally.proved += evidence.proved
        tally.missing += evidence.missing
        if evidence.missing:
            tally.notes |= {Note.ROWS_MISSING}

    def changed(self, uri: str) -> None:
        """Note that rows of the target were changed otherwise than by row events."""
        self._left[uri] = _ALL

    def watched(self, uri: str) -> tuple[int, int]:
        """`Watched.left` and `Watched.unrecorded` of a target."""
        known = self.before.get(uri, Watched(None, _ALL))
        return self._left.get(uri, known.left), self._unrecorded.get(uri, known.unrecorded)


def _evidence(
    rule: TableRule, wanted: WantedEvidence, left: int, commit_id: CommitId, properties: Mapping[str, str] | None
) -> RowEvidence | None:
    # *left*: how many rows are to be compared as a whole, whatever is wanted.
    is_off = wanted.kind is Evidence.OFF or commit_id.mode is Mode.CHANGELOG
    # A table that may begin with gaps counts as complete where the log begins with the server's first transaction.
    if is_off or rule.begin is Begin.EMPTY or not _is_compared(wanted, commit_id, properties or {}):
        return None
    # These leave rows in the target that the server has no more, and that may come again.
    retains = rule.on_truncate is OnStatement.IGNORE or rule.on_partition_drop is OnPartitionDrop.KEEP
    rows = None if wanted.kind is Evidence.ROWS else left
    return RowEvidence(not retains, rows, wanted.sample, rule.writes_unknown_as_null)


def _is_compared(wanted: WantedEvidence, commit_id: CommitId, properties: Mapping[str, str]) -> bool:
    if wanted.compares_incomplete:
        return bool(commit_id.keys)  # without a key every delete needs its row
    if commit_id.complete is None:
        return properties.get(COMPLETE_PROPERTY) == "true"
    return commit_id.complete


def stated_rows(properties: Mapping[str, str]) -> int:
    """Number of proved rows that a target records."""
    found = re.match(r"\d+", properties.get(PROVED_PROPERTY, ""))
    return int(found[0]) if found else 0
