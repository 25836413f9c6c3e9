"""Report on a table of a job: `report_table` asks its sink, which refuses the same as later; `where_it_stops`.

Notes about tables, each once with the names of all its tables: `merged_notes`.
"""

from __future__ import annotations

import contextlib
import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from binlog_connector.following.watched import WatchedLog
from binlog_connector.rules.row_rules import rules_fingerprint
from binlog_connector.schema.definitions import TableName
from binlog_format.errors import BinlogError, OptionError
from binlog_format.messages import row_value, told_options
from binlog_format.rows.columns import arrow_schema
from binlog_format.rows.decoding import ZeroDates
from binlog_streaming.jobs.touched_tables import TouchedTables
from binlog_streaming.lake.commit_id import CommitId, commit_id_of
from binlog_streaming.lake.evolution import common_schema
from binlog_streaming.lake.sinks import may_have_tables, sink_type
from binlog_streaming.lake.table_places import target_uri
from binlog_streaming.modes.mode_columns import mode_schema
from binlog_streaming.modes.row_keys import key_columns
from binlog_streaming.settings.choices import Begin, Deletes, Mode
from binlog_streaming.settings.names import as_job_setting
from binlog_streaming.status.wording import NAMES_SHOWN_MAX, names_text
from binlog_streaming.tables.open_targets import target_gone

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    import pyarrow as pa

    from binlog_format.position import Position
    from binlog_streaming.jobs.log_tables import FoundTable
    from binlog_streaming.lake.target import Target
    from binlog_streaming.plan.job_state import Written
    from binlog_streaming.plan.snapshots import PlannedSnapshot
    from binlog_streaming.settings.model import Job, TableRule

_NAME, _EXPRESSION = "\0name\0", "\0expression\0"


@dataclass(frozen=True, slots=True)
class TargetReport:
    """A table that the job would write. *exists*: whether it is there already."""

    mode: str
    uri: str
    exists: bool


@dataclass(frozen=True, slots=True)
class TableReport:
    """A table of the log, and what would become of it.

    Attributes:
        name: `database.table`.
        rule: Number of the entry in `[[tables]]`, from 0.
        keys: Key columns; empty where none are known.
        keys_said_by: `primary key`, `job file`, or None.
        columns: Name and type of each column, in order; empty where they are not known.
        changes: Rows inserted, updated and deleted in the part of the log that was looked at.
        complete: Whether all its rows lie in what was read, or will be; None: nothing is known.
        snapshot: The newest snapshot of it that the job has read of; None: there is none.
        definition: `known`; `partial`: nothing states its foreign keys, generated columns and defaults; None: the part
            of the log that was looked at states nothing.
        proof: In words, what changes have proved of its targets; empty: nothing is known.
        problems: Why the job would stop at it.
    """

    name: str
    rule: int
    keys: tuple[str, ...]
    keys_said_by: str | None
    columns: tuple[tuple[str, str], ...]
    targets: tuple[TargetReport, ...]
    changes: int
    problems: tuple[str, ...]
    warnings: tuple[str, ...]
    complete: bool | None = None
    snapshot: PlannedSnapshot | None = None
    definition: str | None = None
    proof: str = ""


def report_table(job: Job, found: FoundTable, rule_number: int, query_id: str | None) -> TableReport:
    """Report on a table of *job*.

    Args:
        query_id: Of the job's checkpoint; None: it has none yet.

    Raises:
        OptionError: The sink cannot be used at all: its library is missing, or it does not write there.
    """
    rule = job.tables[rule_number]
    problems: list[str] = []
    schema: pa.Schema | None = None
    keys: tuple[str, ...] = ()
    decoding = job.decoding()
    try:
        if found.problem is not None:
            raise found.problem
        found = replace(found, layout=decoding.shown(found.layout))
        schema = arrow_schema(found.layout, decoding)
        keys = _keys(found, rule)
    except BinlogError as error:
        problems.append(told(found.name, error))
    warnings = [*_warnings(found, rule, keys), *_about_zero_dates(found, rule, keys, decoding.zero_dates)]
    targets: list[TargetReport] = []
    for mode in rule.modes:
        look = _Look(job, found, rule, mode, keys, query_id)
        target, problem = look.report(None if problems else schema)
        targets.append(target)
        problems.extend([] if problem is None else [problem])
    return TableReport(
        name=found.name,
        rule=rule_number,
        keys=keys,
        keys_said_by=("job file" if rule.keys else "primary key") if keys else None,
        columns=() if schema is None else tuple((field.name, str(field.type)) for field in schema),
        targets=tuple(targets),
        changes=found.changes,
        problems=tuple(problems),
        warnings=tuple(warnings),
        definition=None if found.is_defined is None else "known" if found.is_defined else "partial",
    )


def with_missing(report: TableReport, written: Written) -> TableReport:
    """Report the targets that are gone: of a changelog the job would make one that lacks what came before."""
    name = TableName.parse(report.name)
    there = written.get(name, frozenset())
    problems = [
        told(report.name, target_gone(name, target.mode, target.uri))
        for target in report.targets
        if not target.exists and target.mode in there
    ]
    return replace(report, problems=(*report.problems, *problems))


def where_it_stops(reports: tuple[TableReport, ...], job: Job, begins_at: Position) -> tuple[TableReport, ...]:
    """Let problems of tables that nothing touches after a place be warnings: the job goes on until something does."""
    if not any(report.problems for report in reports):
        return reports
    with WatchedLog(job.source.path, job.source.format) as watched:
        waiting = set(map(str, TouchedTables(watched, job).within(begins_at, None)))

    def sorted_out(report: TableReport) -> TableReport:
        if report.name in waiting:
            return report
        later = (f"at the next change of {report.name}: {problem}" for problem in report.problems)
        return replace(report, problems=(), warnings=(*report.warnings, *later))

    return tuple(map(sorted_out, reports))


def _keys(found: FoundTable, rule: TableRule) -> tuple[str, ...]:
    # Without a key the whole row is one, but not where old rows have to be told from new ones.
    layout = found.layout
    needs_key = rule.keys or Mode.SCD2 in rule.modes or rule.deletes is Deletes.MARK
    indices = key_columns(layout, rule.keys) if needs_key else layout.primary_key
    return tuple(str(layout.columns[index].name) for index in indices)


def _warnings(found: FoundTable, rule: TableRule, keys: Sequence[str]) -> list[str]:
    warnings = []
    keeps_rows = set(rule.modes) != {Mode.CHANGELOG}
    if not found.layout.primary_key:
        consequence = ""
        if keeps_rows and keys:
            consequence = f": rows are told apart by {', '.join(keys)}"
        elif keeps_rows:
            consequence = (
                ": the whole row tells rows apart, and a batch with updates or deletes of it reads and writes all of "
                "its target (keys in [[tables]] names columns that are enough)"
            )
        warnings.append(f"{found.name}: the log names no primary key for it{consequence}")
    if not found.layout.has_names:
        warnings.append(f"{found.name}: the log does not name its columns (binlog_row_metadata=FULL on the server)")
    if found.definitions > 1:
        times = "once" if found.definitions == 2 else f"{found.definitions - 1} times"
        warnings.append(f"{found.name}: its columns change {times} in the log; its targets change with them")
    if keeps_rows:
        warnings += _about_absent_columns(found, rule)
    return warnings


def _about_zero_dates(found: FoundTable, rule: TableRule, keys: Sequence[str], zero_dates: ZeroDates) -> list[str]:
    """Warn of columns that cannot store the zero dates that they have in the log."""
    first = found.zero_dates
    if not first or zero_dates is ZeroDates.TEXT:
        return []
    if zero_dates is ZeroDates.ERROR:
        told = ", ".join(f"{name} (the first is {row_value(date)})" for name, date in first.items())
        return [f"{found.name}: dates that no calendar has in {told}: a job stops there (zeroDates = error)"]
    in_key = [name for name in keys if name in first]
    if not in_key or set(rule.modes) == {Mode.CHANGELOG}:
        return []
    told = ", ".join(f"{name} (the first is {row_value(first[name])})" for name in in_key)
    warning = (
        f"{found.name}: dates that no calendar has in the key column {told}: they become null, which a key cannot be, "
        'and a job stops there (BINLOG_TABLE.NULL_KEY). zeroDates = "text" in [source] of a new job makes dates texts, '
        "as the server prints them; or name other keys"
    )
    return [warning]


def _about_absent_columns(found: FoundTable, rule: TableRule) -> list[str]:
    warnings = []
    unknown = [name for name in found.unknown_columns if name not in found.generated_columns]
    if unknown:
        warnings.append(
            f"{found.name}: rows in the log came without {', '.join(unknown)}, and nothing that was read gives their "
            "values there (no default is known, or not whether the column is generated); a job stops at a row whose "
            "values nobody knows (BINLOG_UNSUPPORTED.ROW_IMAGE). A schemaFile gives the definition; "
            "binlog_row_image=FULL on the server logs all columns that are not generated"
        )
    if found.generated_columns and not rule.drops_generated:
        named = ", ".join(found.generated_columns)
        consequence = (
            "they are null there (generated, unknown_values)"
            if rule.computed_is_null
            else 'a job stops there (BINLOG_UNSUPPORTED.ROW_IMAGE). generated = "null" in [[tables]] makes them null, '
            'drop_columns and generated = "drop" leave them out'
        )
        warnings.append(f"{found.name}: rows in the log came without the generated columns {named}: {consequence}")
    return warnings


@dataclass(frozen=True, slots=True)
class _Look:
    # At one target of a table, as the job itself would look.
    job: Job
    found: FoundTable
    rule: TableRule
    mode: Mode
    keys: tuple[str, ...]
    query_id: str | None

    def report(self, schema: pa.Schema | None) -> tuple[TargetReport, str | None]:
        """The target, and why the job could not write there; *schema* is None where that is known already."""
        layout, sink = self.found.layout, self.job.sink
        uri = target_uri(sink.directory, self.rule.target, database=layout.database, table=layout.table, mode=self.mode)
        exists = False
        try:
            if sink.format.has_catalog and not may_have_tables(sink):
                if schema is not None:
                    self._check_columns(None, schema)
                return TargetReport(str(self.mode), uri, exists), None  # a look would make the catalog
            with contextlib.closing(sink_type(sink.format).at(sink, uri)) as target:
                exists = target.properties() is not None
                if schema is not None:
                    target.check_owner(self._commit_id(target))
                    self._check_columns(target, schema)
        except OptionError:
            raise
        except BinlogError as error:
            return TargetReport(str(self.mode), uri, exists), told(self.found.name, error)
        return TargetReport(str(self.mode), uri, exists), None

    def _check_columns(self, target: Target | None, schema: pa.Schema) -> None:
        """See that the target can follow the columns: from what it has, or through all that a new job would meet."""
        wanted = [self._stored(target, schema)]
        if target is not None and target.properties() is not None:
            if not self.found.is_made_there:
                wanted.insert(0, target.schema())
        elif self.query_id is None and self.job.source.starts_at_the_beginning and not self._waits:
            decoding = self.job.decoding()
            wanted = [self._stored(target, arrow_schema(layout, decoding)) for layout in self.found.earlier] + wanted
        common_schema(wanted, self.found.name)

    @property
    def _waits(self) -> bool:
        # A new job leaves out what the log has of such a table before its snapshot.
        return self.rule.begin is Begin.SNAPSHOT and self.found.begun_at is None

    def _stored(self, target: Target | None, schema: pa.Schema) -> pa.Schema:
        columns = mode_schema(self.mode, schema, self.rule.deletes, self.rule.foreign_keys)
        return columns if target is None else target.stored_schema(columns)

    def _commit_id(self, target: Target) -> CommitId:
        properties = target.properties()
        found = commit_id_of(properties or {}, self.query_id or "(none yet)", self.found.name, self.mode)
        # A statement in the part of the log that is still to come may have changed the primary key.
        keys = self.keys if properties is None or self.rule.keys else found.keys
        rules = rules_fingerprint(self.job.decoding(), self.found.layout.database, self.found.layout.table)
        return replace(found, keys=() if self.mode is Mode.CHANGELOG else keys, rules=rules)


def told(name: str, error: BinlogError) -> str:
    """Words of an error about the table *name*, as the job ends with them."""
    hint = f". {error.hint}" if error.hint is not None else ""
    reason = error.reason if name in error.reason else f"{name}: {error.reason}"
    return told_options(f"[{error.condition}] {reason}{hint}", as_job_setting)


def merged_notes(notes: Iterable[tuple[str, str]]) -> list[str]:
    """Texts about tables, those of one wording as one. *notes*: name of a table, and a text that contains the name."""
    tables: dict[str, list[str]] = {}
    for name, text in notes:
        wording = text.replace(f"'{re.escape(name)}'", _EXPRESSION).replace(f"{name}: ", _NAME, 1)
        # A text that has the name in another place, too, is about this table alone.
        known = tables.setdefault(wording if _NAME in wording and name not in wording else text, [])
        if name not in known:
            known.append(name)
    return [_with_names(wording, names) for wording, names in tables.items()]


def _with_names(wording: str, names: list[str]) -> str:
    # A command for some tables of many would leave the others as they are.
    expression = "" if len(names) > NAMES_SHOWN_MAX else f"'{','.join(map(re.escape, names))}'"
    if not expression:
        wording = wording.replace(f" --tables {_EXPRESSION}", "")
    return wording.replace(_EXPRESSION, expression).replace(_NAME, f"{names_text(names)}: ")
