"""State of a job: `RecordedStatus` is the job's own record, `JobStatus` adds facts from its log and the verdict.

Plain values throughout, so that msgspec writes them as JSON and reads them back. Times are seconds since 1970 UTC.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from binlog_format.messages import count_text

BATCHES_MAX = 50
ERRORS_MAX = 10
MINUTES_MAX = 60


class Level(StrEnum):
    """Urgency of a message."""

    OK = "ok"
    WARNING = "warning"
    """Look at it today."""
    DANGER = "danger"
    """Changes are not taken, or will be lost."""

    @property
    def rank(self) -> int:
        """Larger is worse."""
        return list(Level).index(self)


class Phase(StrEnum):
    """Activity of a job."""

    STARTING = "starting"
    RUNNING = "running"
    ENDED = "ended"
    """The job has reached the end that was set."""
    STOPPED = "stopped"
    """A signal ended it, or nobody read its output any more."""
    FAILED = "failed"
    LOST = "lost"
    """The job should run, and gives no sign of life: killed, or its machine is gone. Never recorded: readers find it
    out."""


@dataclass(frozen=True, slots=True)
class ProcessId:
    """A process, as far as others can recognise it.

    Attributes:
        host: Name of its machine or container.
        pid: Its number there.
        space: Which numbers these are: the start of the machine and the namespace of processes. Empty: not known.
    """

    host: str
    pid: int
    space: str


@dataclass(frozen=True, slots=True)
class BatchStatus:
    """A batch that is in the tables, or a transaction of Kafka.

    Attributes:
        finished_at: When all of it was there.
        log_seconds: From the server's commit of its last change to the start of the batch; None: not known.
        read_seconds: Reading and decoding, until what to write was known.
        commit_seconds: Writing and committing.
        changes: Row changes, events, or messages.
        size: Bytes of the log; None: not known.
        tables: How many tables or topics it wrote.
        position: Where the log goes on.
        gtids: Those of its transactions, as ranges; empty: it has none.
    """

    number: int
    finished_at: float
    log_seconds: float | None
    read_seconds: float
    commit_seconds: float
    changes: int
    size: int | None
    tables: int
    position: str
    gtids: str

    @property
    def lag_seconds(self) -> float | None:
        """Seconds from the server's commit of its last change to the commit in the target."""
        return None if self.log_seconds is None else self.log_seconds + self.read_seconds + self.commit_seconds


@dataclass(frozen=True, slots=True)
class SnapshotStatus:
    """Progress of the newest snapshot of a table.

    Attributes:
        rows: That have been applied.
        chunks: Event groups that had them.
        begun_gtid: Where it begins in the log.
        problem: Why it does not complete the table; None: it does, or may still.
    """

    rows: int
    chunks: int
    begun_gtid: str | None
    is_ended: bool
    problem: str | None


@dataclass(frozen=True, slots=True)
class TableStatus:
    """A table of the source, or a topic.

    Attributes:
        name: `database.table`; or the topic.
        targets: Folders or URLs; empty for a topic.
        modes: What the targets hold, in the same order.
        changes: Row changes, events, or messages since the job began to record its state.
        last_commit: When the server committed the last of them; None: not known.
        last_batch: Number of the batch with it; None: not known.
        gtid: The GTIDs that the table is complete up to; empty: not known, as of one that was set aside.
        stopped_before: GTID, or place, of the event group that a table which was set aside could not take.
        is_complete: Whether all its rows lie in what was read; None: not known.
        verified_through: GTIDs up to which all its targets were proved to equal it; None: they were not.
        waits_for_snapshot: Its changes are left out until a snapshot of it begins.
        set_aside: Why it does not go on; None: it does.
        snapshot: Its newest snapshot; None: it has none.
        schema_changed_at: When a statement that changes its columns, keys or name was last applied; None: not since
            the job began to record its state.
        schema_changed_in: Number of the batch with them.
        definition: `known`, or `partial`: no statement defines what table maps lack; None: not known, as of topics.
        proved: Rows of its targets that changes proved since the job began to record its state.
        proved_through: GTIDs of the last batch that proved any; empty: none did.
        proved_since: Those of the first one; empty: not known.
        missing: Rows that its targets lacked when changes showed them, since the job began to record its state.
        missing_in: Number of the last batch with such changes.
    """

    name: str
    targets: tuple[str, ...] = ()
    modes: tuple[str, ...] = ()
    changes: int = 0
    last_commit: float | None = None
    last_batch: int | None = None
    gtid: str = ""
    stopped_before: str = ""
    is_complete: bool | None = None
    verified_through: str | None = None
    waits_for_snapshot: bool = False
    set_aside: str | None = None
    snapshot: SnapshotStatus | None = None
    schema_changed_at: float | None = None
    schema_changed_in: int | None = None
    definition: str | None = None
    proved: int = 0
    proved_through: str = ""
    proved_since: str = ""
    missing: int = 0
    missing_in: int | None = None

    @property
    def proof(self) -> str:
        """Rows that changes proved, in words; empty: none."""
        return (
            f"{count_text(self.proved, 'row')} proved by changes, last at {self.proved_through}" if self.proved else ""
        )


@dataclass(frozen=True, slots=True)
class Minute:
    """Work done within a minute.

    Attributes:
        changes: Row changes, events, or messages.
        size: Bytes of the log.
        lag_seconds: The longest time from a commit to its being in the target, of the minute's batches; None: no batch.
    """

    start: int
    changes: int
    size: int
    lag_seconds: float | None


@dataclass(frozen=True, slots=True)
class ErrorStatus:
    """An error of the job.

    Attributes:
        text: Condition, place and reason.
        hint: What to do; None: the error does not tell.
    """

    at: float
    text: str
    hint: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedStatus:
    """A job's own record of its state, in its checkpoint.

    Attributes:
        source: Of its log, or of its topics.
        kind: `tables`, `topics` (it publishes), `events` (a structured log into tables), `from_topics`.
        phase: What it does, or how it ended.
        process: Which one runs it, or ran it.
        seen_at: The last sign of life.
        ended_at: None: it runs.
        offset: What it has taken, as `SourceOffset.to_json`; None: nothing yet, or it reads no log.
        commit_time: When the server committed the last change that it has taken; None: not known.
        gtid: The last GTID of each domain that it has taken; of a MySQL log the set of all.
        position: Where it goes on.
        batches_total: Since it began to record its state.
        changes_total: The same.
        batches: The newest ones, in order.
        tables: By name.
        minutes: Of the last hour, those in which something was done.
        errors: The newest ones, in order.
        addresses: Where the process listens, by name: `metrics`, `status`.
    """

    name: str
    source: str
    target: str
    kind: str
    phase: Phase
    process: ProcessId
    started_at: float
    seen_at: float
    ended_at: float | None = None
    offset: dict[str, int | str] | None = None
    commit_time: int | None = None
    gtid: str = ""
    position: str = ""
    batches_total: int = 0
    changes_total: int = 0
    batches: tuple[BatchStatus, ...] = ()
    tables: tuple[TableStatus, ...] = ()
    minutes: tuple[Minute, ...] = ()
    errors: tuple[ErrorStatus, ...] = ()
    addresses: dict[str, str] = field(default_factory=dict)
    version: int = 1


class PurgeRisk(StrEnum):
    """Risk that the server removes what a job needs."""

    NONE = "none"
    """An archive has all that the server may remove."""
    TIMED = "timed"
    """The server removes it at `PurgeStatus.at`, unless the job has gone on by then."""
    GONE = "gone"
    """The file no longer exists."""
    UNKNOWN = "unknown"


@dataclass(frozen=True, slots=True)
class PurgeStatus:
    """Time left for the files that a job needs.

    Attributes:
        left_seconds: Until the server may remove it.
        expiry_seconds: How long the server keeps a file that it no longer writes.
        reason: Why it is not known, or what has gone.
    """

    risk: PurgeRisk
    file: str = ""
    left_seconds: float | None = None
    expiry_seconds: float | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class LogStatus:
    """Facts from the log beside what a job has taken.

    Attributes:
        problem: Why the lag is not known; None: it is.
        waiting_seconds: Age of the oldest change that is not taken; 0: there is none; None: its commit time is not
            known.
        transactions: Not taken, by the numbers in GTIDs; 0 in logs without GTIDs.
        size: Bytes not taken.
        pages: That these lie in.
        gtid: The last GTID of each domain in the log; of a MySQL log the set of all.
        file: Name of the oldest file that is needed.
        purge: How long it stays.
    """

    problem: str | None
    waiting_seconds: float | None
    transactions: int
    size: int
    pages: int
    gtid: str
    file: str
    purge: PurgeStatus


@dataclass(frozen=True, slots=True)
class Verdict:
    """State of a job, in words. *advice*: what to do, line by line; empty: nothing."""

    level: Level
    text: str
    advice: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JobStatus:
    """All that people and programs are shown of a job.

    Attributes:
        phase: What it does; other than `state.phase` where it gives no sign of life.
        log: What its log shows; None: it reads no log.
    """

    verdict: Verdict
    now: float
    phase: Phase
    state: RecordedStatus
    log: LogStatus | None
