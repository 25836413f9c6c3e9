"""Comparison of the targets of two jobs with each other, without a server: `TwoJobsProof(...).prove(tables)`.

Both targets are read at the end of a batch. Where these are at different places, the log of the job that is proved has
what lies between, and the other side is moved along it, as a server's rows are (`run.TableProof`).
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from binlog_connector.following.resume import is_same_log
from binlog_connector.rules.rules_on_tables import BoundRule
from binlog_format.errors import BinlogError, SchemaError
from binlog_format.messages import closest_names
from binlog_format.names import folded_name
from binlog_format.position import Place, Position
from binlog_format.views.filters import TableFilter, as_folded
from binlog_streaming.job_state.record_keeper import RecordKeeper
from binlog_streaming.lake.commit_id import DROPPED_PROPERTY, KEYS_PROPERTY, split_keys
from binlog_streaming.modes.mode_columns import MARK_FIELDS, VERSION_FIELDS
from binlog_streaming.plan.job_state import TableSelection
from binlog_streaming.prove.column_forms import TableForms, target_form
from binlog_streaming.prove.comparison import (
    ProofOutcome,
    ProofResult,
    ProofTeller,
    TimeLimit,
    TimeUpError,
    changed_files_reason,
    compare_rows,
    later_rows,
    named_read_errors,
)
from binlog_streaming.prove.job_state import ProvedJobState
from binlog_streaming.prove.log_changes import DisturbedError, LogChanges
from binlog_streaming.prove.rows import sample_of
from binlog_streaming.prove.side_rows import TargetRows
from binlog_streaming.prove.unseen_table import drop_text, recorded_drop
from binlog_streaming.settings.choices import Mode

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from binlog_connector.schema.definitions import TableName
    from binlog_streaming.plan.job_state import SelectedTable
    from binlog_streaming.prove.comparison import OnProgress
    from binlog_streaming.prove.job_state import Reached
    from binlog_streaming.prove.log_changes import LogPlace
    from binlog_streaming.settings.model import Job, TableRule

_OWN_COLUMNS = frozenset(field.name for field in (*MARK_FIELDS, *VERSION_FIELDS))


@dataclass(frozen=True, slots=True)
class JobSide:
    """A job, and what it has written. *tables*: tables that it has written."""

    job: Job
    state: ProvedJobState
    tables: frozenset[TableName]

    @classmethod
    def of(cls, job: Job) -> JobSide:
        """The side of *job*."""
        keeper = RecordKeeper(job)
        keeper.changes()
        return cls(job, ProvedJobState(job, LogChanges(job)), frozenset(keeper.written))

    def rule(self, name: TableName) -> TableRule | None:
        """Settings for a table; None: it is not selected."""
        table = self._table(name)
        return None if table is None else table.rule

    def uri(self, name: TableName, mode: Mode) -> str:
        """Place of a target."""
        table = self._table(name)
        assert table is not None, "a rule selects it"
        return table.uri(self.job.sink.directory, mode)

    def _table(self, name: TableName) -> SelectedTable | None:
        return TableSelection.of(self.job).find(name)


@dataclass(frozen=True, slots=True)
class TwoJobsProof:
    """Input for the comparison of two jobs.

    Attributes:
        on_result: Told of each target, as soon as it is known.
        table_timeout: Seconds that a target may take; None: no limit.
        sample: Percent of the rows whose values are compared, beside the number of all; None: all.
    """

    job: Job
    other: Job
    on_progress: OnProgress
    on_result: Callable[[ProofResult], None]
    table_timeout: int | None = None
    sample: int | None = None

    def prove(self, tables: str | None = None) -> list[ProofResult]:
        """Compare all targets of both jobs. *tables*: only these tables: regular expressions on `database.table`."""
        job, other = JobSide.of(self.job), JobSide.of(self.other)
        wanted = TableFilter(as_folded(tables, self.job.source.folds_names))
        names = sorted(name for name in job.tables | other.tables if wanted.accepts_name(*name))
        if not names:
            written = map(str, job.tables | other.tables)
            asked = "" if tables is None else f": --tables '{tables}'"
            raise SchemaError(
                "TABLE_NOT_FOUND",
                f"neither job has written a table that is asked for{asked}",
                at=Place(self.job.checkpoint),
                hint=f"Tables that were written: {closest_names(tables or '', written)}",
            )
        results = []
        for name in names:
            rule = job.rule(name) or other.rule(name)
            for mode in rule.modes if rule is not None else (Mode.MIRROR,):
                results.append(self._judge(job, other, name, mode))
                self.on_result(results[-1])
        return results

    def _judge(self, job: JobSide, other: JobSide, name: TableName, mode: Mode) -> ProofResult:
        limit = TimeLimit(self.table_timeout)
        try:
            obstacle = _obstacle(job, other, name, mode)
            if obstacle is not None:
                return ProofResult(str(name), mode, *obstacle)
            tell, sample = limit.checked(self.on_progress), sample_of(self.sample)
            return TargetComparison(job, other, name, mode, tell, sample).prove()
        except (TimeUpError, BinlogError, DisturbedError) as error:
            return ProofResult(str(name), mode, ProofOutcome.NOT_COMPARED, limit.text(error))


def _obstacle(job: JobSide, other: JobSide, name: TableName, mode: Mode) -> tuple[ProofOutcome, str] | None:
    if mode is Mode.CHANGELOG:
        return ProofOutcome.EXEMPT, "a changelog holds changes, not the rows of the table"
    rules = job.rule(name), other.rule(name)
    for side, rule, text in ((job, rules[0], "the job"), (other, rules[1], "the other job")):
        if rule is None or name not in side.tables:
            dropped = _dropped(other if side is job else job, name, mode)
            if dropped:
                return ProofOutcome.EXEMPT, f"{dropped}, and {text} has not written it"
            return ProofOutcome.NOT_COMPARED, f"{text} has not written it"
        if not side.job.sink.format.replaces_rows:
            kind = side.job.sink.format.capitalize()
            return ProofOutcome.EXEMPT, f"plain {kind} files may go while they are read"
    assert rules[0] is not None
    assert rules[1] is not None
    if rules[0].where != rules[1].where:
        return ProofOutcome.EXEMPT, "its rules have different where: the targets hold different rows"
    if _other_mode(rules[1], mode) is None:
        return ProofOutcome.EXEMPT, "the other job keeps only a changelog of it"
    return None


def _dropped(side: JobSide, name: TableName, mode: Mode) -> str:
    """Say where one side has a DROP or RENAME of a table; empty: nowhere."""
    rule = side.rule(name)
    own_mode = None if rule is None else _other_mode(rule, mode)
    if own_mode is None:
        return ""
    dropped = recorded_drop(side.job.sink, side.uri(name, own_mode))
    return drop_text(dropped, side.state.changes) if dropped else ""


def _other_mode(rule: TableRule, mode: Mode) -> Mode | None:
    """The mode of the other side: the same, or else one that has the current rows too."""
    if mode in rule.modes:
        return mode
    return next((mode for mode in rule.modes if mode is not Mode.CHANGELOG), None)


@dataclass(slots=True)
class TargetComparison:
    """Compares one target with that of another job.

    Attributes:
        sample: Buckets whose values are compared, beside the counts of all; empty: all.
    """

    job: JobSide
    other: JobSide
    name: TableName
    mode: Mode
    on_progress: OnProgress
    sample: tuple[int, ...] = ()

    def prove(self) -> ProofResult:
        """Compare. Raises `DisturbedError`: the log between the two places does not tell what becomes of the table."""
        teller = self._teller()
        with contextlib.ExitStack() as opened:
            rules = self.job.rule(self.name), self.other.rule(self.name)
            assert rules[0] is not None
            assert rules[1] is not None
            other_mode = _other_mode(rules[1], self.mode)
            assert other_mode is not None, "there is no obstacle"
            theirs = opened.enter_context(self._reached(self.other, other_mode))
            ours = opened.enter_context(self._reached(self.job, self.mode))
            source, has_gtids = self.job.job.source, bool(ours.gtids and theirs.gtids)
            if not has_gtids and not is_same_log(source.path, source.format, theirs.offset):
                reason = "a log has no GTIDs: nothing tells which places in two logs are the same"
                return teller.result(ProofOutcome.NOT_COMPARED, reason)
            low = _place(theirs, has_gtids=has_gtids)
            if _place(ours, has_gtids=has_gtids) != low:
                ours = opened.enter_context(self._reached(self.job, self.mode, low))
            if bool(dropped := _own_drop(ours)) != bool(their_drop := _own_drop(theirs)):
                drop = drop_text(dropped or their_drop, (self.job if dropped else self.other).state.changes)
                who = ("the job", "the other job") if dropped else ("the other job", "the job")
                return teller.result(ProofOutcome.NOT_COMPARED, f"in {who[0]} it was {drop}, in {who[1]} it exists")
            forms = target_forms(ours, theirs, rules[0], rules[1])
            if not forms[0].columns:
                return teller.result(ProofOutcome.NOT_COMPARED, "none of its columns can be compared")
            high = _place(ours, has_gtids=has_gtids)
            through = self.job.state.changes.place(high) if isinstance(high, Position) else str(high)
            found = replace(teller.result(ProofOutcome.EQUAL), forms=forms[0], gtids=through)
            reason = changed_files_reason(ours.target) or changed_files_reason(theirs.target)
            if reason:
                return replace(found, outcome=ProofOutcome.DIFFERENT, reason=reason)
            expected_rows = TargetRows(theirs.target, other_mode, rules[1], forms[1])
            held_rows = TargetRows(ours.target, self.mode, rules[0], forms[0])
            sums = expected_rows.sums(teller.counter("other target")), held_rows.sums(teller.counter("target"))
            later = later_rows(self.job.state.changes, low, high, self.name, forms[0])
            return compare_rows(found, (expected_rows, held_rows), sums, later, self.sample)

    @contextlib.contextmanager
    def _reached(self, side: JobSide, mode: Mode, near: LogPlace | None = None) -> Iterator[Reached]:
        """The target of a side at the end of a batch, not far from a place."""
        uri, state, teller = side.uri(self.name, mode), side.state, self._teller()
        if near is None:
            reached = state.now(self.name, mode, uri, teller.waits)
        else:
            reached = state.near(near, self.name, mode, uri, teller.waits)
        with contextlib.closing(reached.target), named_read_errors(side.job.sink, self.name, uri):
            yield reached

    def _teller(self) -> ProofTeller:
        return ProofTeller(self.name, self.mode, self.on_progress)


def _place(reached: Reached, *, has_gtids: bool) -> LogPlace:
    return reached.gtids if has_gtids else reached.offset.position


def _own_drop(reached: Reached) -> str:
    return (reached.target.properties() or {}).get(DROPPED_PROPERTY) or ""


def target_forms(ours: Reached, theirs: Reached, rule: TableRule, other: TableRule) -> tuple[TableForms, TableForms]:
    """The columns of two targets that are compared: as they are called here, and there."""
    schema, other_schema = ours.target.schema(), theirs.target.schema()
    held = {folded_name(name): name for name in schema.names if name not in _OWN_COLUMNS}
    expected = {folded_name(name): name for name in other_schema.names if name not in _OWN_COLUMNS}
    forms, names, other_names = {}, [], []
    missing, hidden, unknown = [], [], []
    for key in {**held, **expected}:
        name = held.get(key) or expected[key]
        if not (_is_shown(rule, name) and _is_shown(other, name)):
            hidden.append(name)
        elif key not in held:
            missing.append(name)
        elif key not in expected:
            missing.append(f"{name} (the other one does)")
        elif (form := target_form(name, schema.field(held[key]).type, other_schema.field(expected[key]).type)) is None:
            unknown.append(name)
        else:
            forms[key] = form
            names.append(held[key])
            other_names.append(expected[key])
    keys: Sequence[str] = split_keys((ours.target.properties() or {}).get(KEYS_PROPERTY, ""))
    key_columns = tuple(forms[folded_name(key)] for key in keys if folded_name(key) in forms)
    if len(key_columns) < len(keys) or any(form.literal is None for form in key_columns):
        key_columns = ()
    found = TableForms(tuple(forms.values()), tuple(names), key_columns, tuple(missing), tuple(hidden), tuple(unknown))
    return found, replace(found, names=tuple(other_names))


def _is_shown(rule: TableRule, name: str) -> bool:
    bound = BoundRule(rule)
    return bound.shows(name) and bound.mask(name) is None
