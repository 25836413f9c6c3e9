"""Progress of a job: `TableProgress` and `BatchProgress` report on one batch, `Progress` sums up."""

from __future__ import annotations

import logging
import threading
import time
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING

import msgspec

from binlog_connector.metrics.lag import known_time
from binlog_streaming.plan.job_state import StateChange
from binlog_streaming.plan.snapshots import snapshot_command
from binlog_streaming.settings import Begin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.schema.definitions import TableName
    from binlog_connector.schema.snapshot_marks import TableProved
    from binlog_format.position import Position
    from binlog_streaming.plan.job_state import SelectedTable, SetAside
    from binlog_streaming.plan.snapshots import PlannedSnapshot

    BatchListener = Callable[["BatchProgress"], None]


logger = logging.getLogger(__name__)


class Outcome(StrEnum):
    """Outcome of a table in a batch; of several steps the one that is first here counts."""

    SET_ASIDE = "set_aside"
    """The table cannot go on; `TableProgress.set_aside` contains the reason."""
    WRITTEN = "written"
    REPEATED = "repeated"
    """The batch was in the table already, from a run that ended before the checkpoint knew."""
    EMPTY = "empty"
    """The batch has no rows left to write."""
    UNTOUCHED = "untouched"
    """No step did anything to it, or had done it before; such a table is not reported."""


class Note(StrEnum):
    """Note on a table for an operator; it stays the same from batch to batch."""

    WHOLE_ROWS = "whole_rows"
    KEPT_ASIDE = "kept_aside"
    INCOMPLETE = "incomplete"
    ASSUMED_COMPLETE = "assumed_complete"
    ROWS_MISSING = "rows_missing"


NOTE_TEXTS = {
    Note.WHOLE_ROWS: "it has no key, so whole rows tell its rows apart: a batch with updates or deletes reads and "
    "replaces all of its target; tables.keys names a key",
    Note.KEPT_ASIDE: "no rule selects it; it is kept because it may take the place of a table that is selected",
    Note.INCOMPLETE: "changes of it are missing in the part of the log that is read (earlier ones, or statements); its "
    "targets state binlog-stream.complete = false",
    Note.ASSUMED_COMPLETE: "the log begins with the server's first transaction, and has no CREATE TABLE of it (without "
    "IF NOT EXISTS): if the table is older (log_bin was switched on later, or RESET MASTER), its earlier rows are "
    "missing. binlog-stream prove tells, binlog-stream snapshot brings them",
    Note.ROWS_MISSING: "changes are about rows that it does not have: rows from before its topic began, or that a "
    "RENAME TABLE brought. binlog-stream snapshot with the job that publishes brings all of them; without one, each "
    "comes with its next change",
}
"""Texts of notes."""


@dataclass(slots=True)
class TableProgress:
    """One target in one batch, counted step by step.

    Attributes:
        source_table: `database.table` in the log.
        target: Folder or URL.
        inserts: Row changes in the log, by kind.
        updates: The same.
        deletes: The same.
        rows_written: Rows and keys that went into the target.
        seconds: Time taken to reduce, write and commit.
        position: Where the log goes on after the batch.
        commit_time: When the last of these changes was committed on the server, seconds since 1970 UTC.
        first_commit_time: The same of the first one.
        version: What a reader names to get the target as it is after the batch; None: its format has no versions.
        bytes_per_row: `Target.bytes_per_row` after the batch.
        statements: Statements that did something to the target.
        schema_changes: Those of them that changed columns, keys or the name of the table.
        set_aside: Why the table does not go on; None: it does.
        verified: The last proof of the target in the batch; None: there was none.
        proved: Rows of the target that changes proved: they were there, as these need them.
        missing: Rows that the target lacked when changes showed them.
        watched: What the job remembers of the evidence, see `EvidenceWatch.watched`.
    """

    source_table: str
    target: str
    mode: str
    outcome: Outcome
    inserts: int
    updates: int
    deletes: int
    rows_written: int
    seconds: float
    position: Position
    commit_time: int
    first_commit_time: int = 0
    version: str | None = None
    bytes_per_row: float | None = None
    statements: int = 0
    schema_changes: int = 0
    notes: frozenset[Note] = frozenset()
    set_aside: SetAside | None = None
    verified: TableProved | None = None
    proved: int = 0
    missing: int = 0
    watched: tuple[int, int] = (0, 0)

    @property
    def changes(self) -> int:
        """Row changes in the log."""
        return self.inserts + self.updates + self.deletes

    def count_step(self, outcome: Outcome, rows_written: int = 0) -> None:
        """Count one more step; of several outcomes the one counts that `Outcome` has first."""
        self.outcome = min(self.outcome, outcome, key=list(Outcome).index)
        self.rows_written += rows_written

    def count_commits(self, first_commit_time: int, commit_time: int) -> None:
        """Count the times of changes that the server committed from one to the other."""
        self.first_commit_time = min(self.first_commit_time or first_commit_time, first_commit_time)
        self.commit_time = max(self.commit_time, commit_time)


def notes_about(table: SelectedTable) -> frozenset[Note]:
    """Notes about a table, whatever a batch does to it."""
    if table.is_aside:
        return frozenset({Note.KEPT_ASIDE})
    if table.complete is False:
        return frozenset({Note.INCOMPLETE})
    is_assumed = table.is_assumed and table.rule.begin is Begin.CREATED
    return frozenset({Note.ASSUMED_COMPLETE} if is_assumed else ())


@dataclass(frozen=True, slots=True)
class BatchProgress:
    """One batch.

    Attributes:
        tables: A table that has several modes comes once for each.
        seconds: From the start of the batch to the last commit.
        finished_at: When the batch was in the tables, seconds since 1970 UTC.
        bytes_behind: Bytes of the log after `position` at that time; None when no table was touched.
        read_seconds: Of `seconds`, until what to write was known.
        offset: Where the job goes on in its log; None: it reads none, or that is not known.
        transactions: Event groups that it took; None: the GTIDs of offsets tell.
        defined: Tables that are defined after it; None: not known.
    """

    batch_id: int
    tables: tuple[TableProgress, ...]
    seconds: float
    finished_at: float
    bytes_behind: int | None
    state_change: StateChange = field(default_factory=StateChange)
    read_seconds: float = 0.0
    offset: SourceOffset | None = None
    transactions: int | None = None
    defined: frozenset[TableName] | None = None

    @property
    def position(self) -> Position | None:
        """End of the batch in the log, as far as its tables record it; None if no table was touched."""
        return max((table.position for table in self.tables), default=None)

    @property
    def commit_time(self) -> int | None:
        """Commit time on the server of the batch's last change, seconds since 1970 UTC; None: not known."""
        return known_time(max((table.commit_time for table in self.tables), default=None))

    @property
    def set_aside(self) -> list[SetAside]:
        """Tables that stopped in it."""
        stopped = {aside.name: aside for table in self.tables if (aside := table.set_aside) is not None}
        return sorted(stopped.values(), key=lambda aside: aside.name)

    @property
    def changes(self) -> int:
        """Row changes of the batch, counted once for each table, also where it has several modes."""
        return sum(self.changes_by_table.values())

    @property
    def changes_by_table(self) -> dict[str, int]:
        """Row changes of each table; those of one that stopped in the batch are not taken."""
        return {table.source_table: table.changes for table in self.tables if table.set_aside is None}

    @property
    def lag_seconds(self) -> float | None:
        """Seconds from the server's commit of the last change to that in the table; commit times are whole seconds."""
        return None if self.commit_time is None else max(0.0, self.finished_at - self.commit_time)

    def as_json(self) -> dict[str, object]:
        """Plain values, for a line of JSON."""
        lag = self.lag_seconds
        return {
            "event": "batch",
            "batch_id": self.batch_id,
            "changes": self.changes,
            "seconds": round(self.seconds, 3),
            "lag_seconds": None if lag is None else round(lag, 3),
            "bytes_behind": self.bytes_behind,
            "position": None if self.position is None else str(self.position),
            "finished_at": round(self.finished_at, 3),
            "tables": [
                {
                    "table": table.source_table,
                    "target": table.target,
                    "mode": table.mode,
                    "outcome": str(table.outcome),
                    "inserts": table.inserts,
                    "updates": table.updates,
                    "deletes": table.deletes,
                    "rows_written": table.rows_written,
                    "rows_proved": table.proved,
                    "rows_missing": table.missing,
                    "statements": table.statements,
                    "version": table.version,
                    **({} if table.bytes_per_row is None else {"bytes_per_row": round(table.bytes_per_row)}),
                    "notes": sorted(table.notes),
                    "seconds": round(table.seconds, 3),
                    **({} if table.set_aside is None else {"set_aside": msgspec.to_builtins(table.set_aside)}),
                    **({} if table.verified is None else {"verified_through": table.verified.gtids}),
                }
                for table in self.tables
            ],
        }


@dataclass(slots=True)
class _News:
    """Logs what is new in a batch: each thing once.

    Attributes:
        notes: Tables, and what was logged of them.
        waiting: Tables that wait for their snapshots.
        sequences: Names of sequences.
        snapshots: Those that have ended.
    """

    notes: set[tuple[str, Note]] = field(default_factory=set)
    waiting: set[TableName] = field(default_factory=set)
    sequences: set[TableName] = field(default_factory=set)
    snapshots: set[str] = field(default_factory=set)

    def log(self, batch: BatchProgress) -> None:
        for stopped in batch.set_aside:
            logger.error(
                "set aside: %s at=%s gtid=%s: %s", stopped.name, stopped.position, stopped.gtid, stopped.reason
            )
        for snapshot in batch.state_change.snapshots.values():
            self._log_snapshot(snapshot)
        for name in sorted(batch.state_change.waiting - self.waiting):
            logger.warning("waits for its snapshot: table=%s (%s)", name, snapshot_command(name))
        self.waiting |= batch.state_change.waiting
        for name in sorted(batch.state_change.sequences - self.sequences):
            logger.warning("left out: %s is a sequence, and no table", name)
        self.sequences |= batch.state_change.sequences
        for table in batch.tables:
            for note in sorted(table.notes):
                if (table.source_table, note) not in self.notes:
                    self.notes.add((table.source_table, note))
                    logger.warning(
                        "%s: %s table=%s target=%s", note, NOTE_TEXTS[note], table.source_table, table.target
                    )

    def _log_snapshot(self, snapshot: PlannedSnapshot) -> None:
        if snapshot.is_open or snapshot.snapshot in self.snapshots:
            return
        self.snapshots.add(snapshot.snapshot)
        if snapshot.problem is None:
            logger.info(
                "complete: table=%s rows=%d gtid=%s snapshot=%s",
                snapshot.name,
                snapshot.rows,
                snapshot.ended_gtid,
                snapshot.snapshot,
            )
        else:
            logger.error(
                "not complete: table=%s snapshot=%s: %s; take it again (%s)",
                snapshot.name,
                snapshot.snapshot,
                snapshot.problem,
                snapshot_command(snapshot.name),
            )


@dataclass(slots=True)
class Progress:
    """Progress of a job since its start; may be read from any thread. *set_aside*: tables that stopped since then."""

    started_at: float = field(default_factory=time.time)
    batches: int = 0
    changes: int = 0
    last: BatchProgress | None = None
    changes_by_table: dict[str, int] = field(default_factory=dict)
    set_aside: set[TableName] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _news: _News = field(default_factory=_News)

    def know(self, snapshots: Iterable[PlannedSnapshot]) -> None:
        """Take *snapshots*, which the job's record has, as told."""
        self._news.snapshots |= {snapshot.snapshot for snapshot in snapshots if not snapshot.is_open}

    def add(self, batch: BatchProgress) -> None:
        """Take in one more batch, and log what an operator should know of it."""
        self._news.log(batch)
        with self._lock:
            self.batches += 1
            self.changes += batch.changes
            self.set_aside |= {stopped.name for stopped in batch.set_aside}
            self.last = batch
            for name, changes in batch.changes_by_table.items():
                self.changes_by_table[name] = self.changes_by_table.get(name, 0) + changes
