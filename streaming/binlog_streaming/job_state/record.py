"""Settings at the start of a checkpoint, which must not differ later: `JobRecord`, `with_declared_types`.

A checkpoint knows how far a job has come, but not with which tables, modes and places. What would let tables begin or
go on in the middle of the log, without a word, is therefore written down in the checkpoint's directory, with the names
of the tables that have been written, and compared whenever the job starts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from binlog_connector.rules.row_rules import hiding_changes, salt_fingerprints
from binlog_format.errors import OptionError
from binlog_format.rows.decoding import ZeroDates
from binlog_format.source_file import without_archive
from binlog_format.views.filters import TableFilter
from binlog_streaming.job_state.checkpoint import DATABASE_STATE_FILE, read_checkpoint, state_of
from binlog_streaming.lake.table_places import target_uri
from binlog_streaming.plan.job_state import SetAside  # noqa: TC001 - msgspec looks it up
from binlog_streaming.plan.snapshots import PlannedSnapshot  # noqa: TC001 - msgspec looks it up
from binlog_streaming.settings.choices import Mode
from binlog_streaming.settings.model import START_OPTIONS, TableRule

if TYPE_CHECKING:
    from binlog_connector.following.offsets import SourceOffset
    from binlog_streaming.job_state.checkpoint import StateFolder
    from binlog_streaming.settings.model import Job

RECORD_FILE = DATABASE_STATE_FILE
"""Record in the checkpoint's directory, so that it is copied, restored and deleted with it; Spark ignores it."""
_START_AGAIN = "start again with a new checkpoint and another sink.directory"


class ScopeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """A `StatementScope` around a batch, which may have to be done again.

    Attributes:
        before: `StatementScope.to_json`, before its statements.
        after: The same, after them.
    """

    batch_id: int = -1
    before: dict[str, Any] = {}
    after: dict[str, Any] = {}

    def at(self, batch_id: int) -> dict[str, Any]:
        """Arguments for a state before a batch's statements: this batch again, or the next one."""
        return self.before if batch_id <= self.batch_id else self.after


class TableStates(msgspec.Struct, frozen=True, kw_only=True):
    """The tables as known when the newest batch began, which may have to be done again.

    Attributes:
        complete: As in `JobRecord`, and so are the others.
        incomplete: The same.
        set_aside: The same.
        snapshots: The same.
    """

    batch_id: int = -1
    complete: tuple[tuple[str, str], ...] = ()
    incomplete: tuple[tuple[str, str], ...] = ()
    set_aside: tuple[SetAside, ...] = ()
    snapshots: tuple[PlannedSnapshot, ...] = ()


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    """The newest proof that a target is the same as its table on the server.

    Attributes:
        gtids: Up to where in the log it was the same.
        commit_time: When the proof was noted in the log, seconds since 1970 UTC.
    """

    database: str
    table: str
    mode: str
    gtids: str
    rows: int
    commit_time: int


class RecordedSelection(msgspec.Struct, frozen=True):
    """Table selection of a job. *select*: expressions of its rules."""

    select: str
    exclude: str | None

    def filter(self) -> TableFilter:
        """The tables."""
        return TableFilter(self.select, self.exclude)


class JobRecord(msgspec.Struct, frozen=True, kw_only=True):
    """Settings of a job that belong to its checkpoint.

    Attributes:
        options: Options of the source that set where the job began, which transactions it takes and what values
            become, as the source takes them.
        rules: `[[tables]]`.
        salts: Fingerprints of their salts, by the environment variables in which these are.
        tables: Those that have been written: database and name.
        targets: Those that are there since: database and name of the table, and mode. Of a table that was dropped, or
            has another name now, none is: whoever likes may remove them.
        from_first: The job reads its log from the server's first transaction on; None: not known.
        began: Where the log began when the first batch was written, as an offset; None: the job began elsewhere, or it
            is not known.
        complete: Tables all of whose rows lie in what was read: database and name.
        incomplete: Tables of which earlier changes, or changes by statements, are missing.
        set_aside: Tables that do not go on, and why.
        snapshots: The newest snapshot of each table that has one.
        before: The tables as known when the newest batch began.
        earlier: Selections that the job had before the one of *rules*: a table outside of one of them is new to it.
        scope: What statements mean for later ones, before and after the newest batch.
        verified: The newest proof of each target that has one.
    """

    path: str
    options: dict[str, str]
    exclude: str | None
    directory: str
    format: str
    rules: tuple[TableRule, ...]
    salts: dict[str, str] = {}
    tables: tuple[tuple[str, str], ...] = ()
    targets: tuple[tuple[str, str, str], ...] = ()
    from_first: bool | None = None
    began: dict[str, int | str] | None = None
    complete: tuple[tuple[str, str], ...] = ()
    incomplete: tuple[tuple[str, str], ...] = ()
    set_aside: tuple[SetAside, ...] = ()
    snapshots: tuple[PlannedSnapshot, ...] = ()
    before: TableStates = TableStates()
    earlier: tuple[RecordedSelection, ...] = ()
    scope: ScopeRecord = ScopeRecord()
    verified: tuple[Verified, ...] = ()

    @property
    def selection(self) -> RecordedSelection:
        """Table selection of the job."""
        return RecordedSelection(",".join(rule.select for rule in self.rules), self.exclude)

    def states(self, batch_id: int) -> TableStates | JobRecord:
        """The tables as known when a batch begins: the newest one again, or the next one."""
        return self.before if batch_id <= self.before.batch_id else self

    def going_on(self, record: JobRecord) -> JobRecord:
        """Copy of this record, before it has written anything, with the facts of *record*.

        Of tables that are not selected any more it is not remembered what they are: selected again, they are new.
        """
        learned = msgspec.structs.replace(self, **{name: getattr(record, name) for name in _LEARNED})
        if self.selection == record.selection:
            return learned
        selected = self.selection.filter()
        known = {
            "complete": tuple(name for name in record.complete if selected.accepts_name(*name)),
            "incomplete": tuple(name for name in record.incomplete if selected.accepts_name(*name)),
            "snapshots": tuple(snapshot for snapshot in record.snapshots if selected.accepts_name(*snapshot.name)),
        }
        earlier = (*record.earlier, record.selection)
        before = msgspec.structs.replace(record.before, **known)
        return msgspec.structs.replace(learned, earlier=earlier, before=before, **known)

    @staticmethod
    def of(job: Job) -> JobRecord:
        """The record of *job*, before it has written anything."""
        given = job.source.options()
        if given.get(_ZERO_DATES) != ZeroDates.TEXT:
            given.pop(_ZERO_DATES, None)  # null and error make the same columns
        return JobRecord(
            path=without_archive(job.source.path),
            options={name: given[name] for name in (*START_OPTIONS, *_CONTENT_OPTIONS) if name in given},
            exclude=job.source.exclude_tables,
            directory=job.sink.directory,
            format=str(job.sink.format),
            rules=job.tables,
            salts=salt_fingerprints(job.tables),
        )


_LEARNED = (
    "tables",
    "targets",
    "from_first",
    "began",
    "complete",
    "incomplete",
    "set_aside",
    "snapshots",
    "before",
    "earlier",
    "scope",
    "verified",
)
DECLARED_TYPES = "declaredTypes"
_ZERO_DATES = "zeroDates"
_CONTENT_OPTIONS = ("ignoreDomainIds", "ignoreServerIds", "timeType", _ZERO_DATES, DECLARED_TYPES)
_UNRECORDED = {DECLARED_TYPES: "false"}
"""Values of options before records had them."""


@dataclass(frozen=True, slots=True)
class RecordChange:
    """A setting that is not what it was. *hint*: what would go wrong, and what to do."""

    setting: str
    reason: str
    hint: str


def changed_log(record: JobRecord, now: JobRecord, offset: SourceOffset) -> RecordChange:
    """Make the change that *now* names another log than *record*; consumed data ends at *offset*."""
    hint = (
        f"The same log may be named elsewhere, as its archive, where the bytes before {offset.position} are the same: "
        "an archive may not have them yet, and a server may have purged them (then name both: source.archive). "
        "The log of another server of the same replication: binlog-stream switch JOB.toml --to PATH. "
        f"Another log has other changes: set it back, or {_START_AGAIN}"
    )
    return _changed("source.path", record.path, now.path, hint)


def changes_between(record: JobRecord, now: JobRecord) -> list[RecordChange]:
    """Forbidden differences between *now* and *record*; `changed_log` compares the logs."""
    return [*_changed_places(record, now), *_changed_options(record, now), *_changed_tables(record, now)]


def _changed_places(record: JobRecord, now: JobRecord) -> list[RecordChange]:
    changes = []
    for name, was, is_now in (
        ("sink.directory", record.directory, now.directory),
        ("sink.format", record.format, now.format),
    ):
        if was != is_now:
            hint = f"Tables that begin there now would miss the past: set it back, or {_START_AGAIN}"
            changes.append(_changed(name, was, is_now, hint))
    return changes


def _changed_options(record: JobRecord, now: JobRecord) -> list[RecordChange]:
    changes = []
    for name in (*START_OPTIONS, *_CONTENT_OPTIONS):
        was, is_now = (settings.options.get(name, _UNRECORDED.get(name)) for settings in (record, now))
        if was == is_now:
            continue
        why = "It counts only for a new checkpoint" if name in START_OPTIONS else "The tables have been begun with it"
        changes.append(_changed(f"source.{name}", was, is_now, f"{why}: set it back, or {_START_AGAIN}"))
    return changes


def _changed_tables(record: JobRecord, now: JobRecord) -> list[RecordChange]:
    # Tables that were written are compared one by one, so that rules may be ordered, split and joined anew.
    changes = []
    seen: set[str] = set()
    for database, table in record.tables:
        before = _rule_of(record, database, table)
        after = _rule_of(now, database, table)
        if before is None or after is None:
            continue  # no longer kept, which takes nothing away; taken again, it is new below
        for change in _changed_rule(record, record.rules[before], now, after, (database, table)):
            if change.setting not in seen:  # a rule is for many tables
                seen.add(change.setting)
                changes.append(change)
    return changes


def _rule_of(record: JobRecord, database: str, table: str) -> int | None:
    for number, rule in enumerate(record.rules):
        if TableFilter(rule.select, record.exclude).accepts_name(database, table):
            return number
    return None


def _changed_rule(
    record: JobRecord, before: TableRule, now: JobRecord, number: int, name: tuple[str, str]
) -> list[RecordChange]:
    after = now.rules[number]
    path, told = f"tables[{number}]", ".".join(name)
    changes = []
    new_modes = [mode for mode in after.modes if mode not in before.modes]
    if new_modes:
        hint = (
            f"{' and '.join(new_modes)} would begin in the middle of the log: set it back, or keep the new mode by a "
            "job of its own, with its own checkpoint"
        )
        was, is_now = (" and ".join(rule.modes) for rule in (before, after))
        changes.append(RecordChange(f"{path}.mode", _told(told, was, is_now), hint))
    hint = f"Rows that are there were kept by it: set it back, or {_START_AGAIN}"
    for setting, was, is_now in hiding_changes(before, record.salts, after, now.salts):
        changes.append(RecordChange(f"{path}.{setting}", _told(told, was, is_now), hint))
    common = [mode for mode in after.modes if mode in before.modes]
    if any(_place(before, name, mode) != _place(after, name, mode) for mode in common):
        hint = f"The table there would begin in the middle of the log: set it back, or {_START_AGAIN}"
        changes.append(RecordChange(f"{path}.target", _told(told, before.target, after.target), hint))
    if all(mode is Mode.CHANGELOG for mode in common):
        return changes
    if before.keys != after.keys:
        changes.append(RecordChange(f"{path}.keys", _told(told, ", ".join(before.keys), ", ".join(after.keys)), hint))
    if Mode.MIRROR in common and before.deletes is not after.deletes:
        changes.append(RecordChange(f"{path}.deletes", _told(told, before.deletes, after.deletes), hint))
    return changes


def _place(rule: TableRule, name: tuple[str, str], mode: Mode) -> str:
    database, table = name
    return target_uri("", rule.target, database=database, table=table, mode=mode)


def _changed(setting: str, was: str | None, is_now: str | None, hint: str) -> RecordChange:
    return RecordChange(setting, f"this checkpoint was begun with {_shown(was)}, now it is {_shown(is_now)}", hint)


def _told(table: str, was: str, is_now: str) -> str:
    return f"{table} was begun with {_shown(was)}, now it is {_shown(is_now)}"


def _shown(value: str | None) -> str:
    return repr(str(value)) if value else "nothing"


def read_record(state: StateFolder) -> JobRecord | None:
    """Read the record in a job's checkpoint; None: there is none."""
    hint = "It was damaged, or written by a later version. Delete it to let the job file count as it is"
    return state.decoded(RECORD_FILE, JobRecord, "the record of a job", hint)


def with_declared_types(job: Job) -> Job:
    """The same job with `source.declaredTypes`, as it was begun where the job file leaves it open."""
    if job.source.declared_types is not None:
        return job
    source = msgspec.structs.replace(job.source, declared_types=_was_begun_with(job))
    return msgspec.structs.replace(job, source=source)


def _was_begun_with(job: Job) -> bool:
    state = state_of(job)
    checkpoint = read_checkpoint(state)
    if checkpoint is None or (checkpoint.pending or checkpoint.offset) is None:
        return True
    try:
        record = read_record(state)
    except OptionError:
        return False  # `RecordKeeper` names what is wrong with it
    # A version that kept no record knew no declared types.
    return record is not None and record.options.get(DECLARED_TYPES) == "true"
