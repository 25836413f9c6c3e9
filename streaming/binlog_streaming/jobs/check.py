"""Report on a job without running it: `check_job(job)` -> `JobReport`; nothing is written, Spark is not started."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from binlog_connector.following.kept_definitions import definitions_kept_at
from binlog_connector.following.log_end import end_of_log, start_of_log
from binlog_connector.following.resume import compare
from binlog_connector.following.starts import initial_offset
from binlog_connector.following.watched import WatchedLog
from binlog_connector.metrics.lag import LagMeter
from binlog_connector.options.source_options import SourceOptions
from binlog_connector.rules.row_rules import WantedDefinitions
from binlog_connector.schema.definitions import TableName
from binlog_connector.schema.history import SchemaHistory
from binlog_format.messages import count_text
from binlog_format.views.filters import TableFilter
from binlog_streaming.job_state.checkpoint import place_errors, read_checkpoint, state_of
from binlog_streaming.job_state.record_keeper import RecordKeeper
from binlog_streaming.jobs.log_tables import SCAN_SIZE, find_tables
from binlog_streaming.jobs.row_format_report import look_at_statements
from binlog_streaming.jobs.tables import TableReport, report_table, told, where_it_stops, with_missing
from binlog_streaming.lake.target import same_target
from binlog_streaming.plan.job_state import SelectedTable, TableSelection
from binlog_streaming.plan.snapshots import snapshot_command
from binlog_streaming.plan.table_checks import incomplete
from binlog_streaming.settings.choices import Begin, Mode, OnCascade, OnError
from binlog_streaming.settings.model import START_OPTIONS
from binlog_streaming.status.view import StatusFile
from binlog_streaming.status.wording import names_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.schema.foreign_keys import ForeignKey
    from binlog_format.position import Position
    from binlog_streaming.job_state.checkpoint import Checkpoint
    from binlog_streaming.jobs.log_tables import FoundTable, OnProgress
    from binlog_streaming.plan.job_state import JobState
    from binlog_streaming.plan.snapshots import PlannedSnapshot
    from binlog_streaming.settings.model import Job


@dataclass(frozen=True, slots=True)
class LogReport:
    """The log.

    Attributes:
        path: Directory, file, or URL.
        files: Names, in order.
        size: Bytes in them.
        gtid_before: What had happened before its first file; empty: nothing.
        gtid: The last GTID of each domain at its end; of a MySQL log the set of all.
    """

    path: str
    format: str
    files: tuple[str, ...]
    size: int
    gtid_before: str
    gtid: str


@dataclass(frozen=True, slots=True)
class StartReport:
    """Start of the job.

    Attributes:
        is_fresh: Nothing is in there yet: `starting...` options count.
        batch_id: The batch that would be next.
        is_repeated: It was begun before, and would be done again.
        gtid: What has been taken up to there.
        size_behind: Bytes of the log after that place.
        said_by: The setting that says so, where the job is fresh.
    """

    checkpoint: str
    is_fresh: bool
    batch_id: int
    is_repeated: bool
    position: str
    gtid: str
    size_behind: int
    said_by: str | None = None


@dataclass(frozen=True, slots=True)
class JobReport:
    """Report on a job without running it.

    Attributes:
        tables: What it would write, by name.
        left_out: Names of tables that no rule wants.
        scan_size: Bytes of the log that were looked at for tables.
        warnings: What may surprise, beside what the tables report themselves.
        changed: Settings that differ from those the checkpoint was created with, and must not.
        statements: Statements, and lost events, that would stop the job and are about none of *tables*.
        places: Places that the job cannot write to, or listen at.
        sets_aside: A table with a problem is set aside, and the job goes on.
    """

    log: LogReport
    start: StartReport
    tables: tuple[TableReport, ...]
    left_out: tuple[str, ...]
    scan_size: int
    warnings: tuple[str, ...]
    changed: tuple[str, ...] = ()
    statements: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    sets_aside: bool = False

    @property
    def problems(self) -> tuple[str, ...]:
        """Reasons why the job could not run; none: it can."""
        return (*self.places, *self.changed, *(() if self.sets_aside else self.table_problems), *self.statements)

    @property
    def table_problems(self) -> tuple[str, ...]:
        """Problems of tables, each of which ends the job, or sets its table aside."""
        return tuple(problem for table in self.tables for problem in table.problems)


def check_job(job: Job, *, scan_size: int = SCAN_SIZE, on_progress: OnProgress | None = None) -> JobReport:
    """See what *job* would do.

    Args:
        scan_size: Bytes of the log, from its end, that are looked at for tables.
        on_progress: Called with the bytes looked at and the bytes there are.
    """
    options = SourceOptions.parse({"path": job.source.path, **job.source_options()})
    options.check_streaming()
    checkpoint = read_checkpoint(state_of(job))
    with WatchedLog(job.source.path, options.format, bound=options.bound) as watched:
        log = log_report(watched)
        start, begins_at, warnings = _start(watched, job, options, checkpoint)
        history = SchemaHistory.from_schema_file(options.schema_file, folds_names=options.folds_names)
        history.kept = definitions_kept_at(watched, options.kept_definitions, begins_at)
    found = find_tables(
        job.source.path,
        options.format,
        schemas=history,
        wanted=WantedDefinitions(options.defined_tables, options.full_source_images),
        scan_size=scan_size,
        on_progress=on_progress,
        tally_from=begins_at,
    )
    reports, left_out = _tables(job, found.tables, checkpoint)
    if found.size < found.size_all:
        warnings.append(
            f"tables were looked for in the newest {found.size:,} of {found.size_all:,} bytes; --scan looks at more"
        )
    if not found.tables:
        warnings.append("no table has row changes there: is binlog_format=ROW set on the server?")
    elif not reports:
        warnings.append("no rule in [[tables]] matches a table that the log has changes of")
    warnings.extend(_unused_rules(job, reports))
    warnings.extend(_excluded_ghosts(job, reports))
    warnings.extend(_undefined(reports))
    record = RecordKeeper(job)
    changed = tuple(map(str, record.refused_changes()))
    reports = tuple(with_missing(report, record.written) for report in reports)
    begun = {table.name: table.begun_at is not None and table.begun_at >= begins_at for table in found.tables}
    job_state = record.peek()
    statements = look_at_statements(job, found.tally)
    warnings.extend(statements.warnings)
    problems = dict(statements.problems)
    reports = tuple(
        _with_state(report, job, job_state, problems.pop(report.name, ()), begins_there=begun[report.name])
        for report in reports
    )
    for name in _waiting(filter(None, problems), job, job_state):
        if str(name) not in found.begun or found.begun[str(name)] < begins_at:
            del problems[str(name)]
            warnings.append(_waits(name))
    state = StatusFile(job).read()
    proofs = {} if state is None else {table.name: table.proof for table in state.tables}
    reports = tuple(replace(report, proof=proofs.get(report.name, "")) for report in reports)
    if not found.logs_cascades:
        cascading = {table.name: table.cascading for table in found.tables}
        reports = tuple(_with_cascading(report, job, cascading[report.name]) for report in reports)
    if checkpoint is not None:
        reports = where_it_stops(reports, job, begins_at)
    others = tuple(text for texts in problems.values() for text in texts)
    stopping = changed, others, tuple(map(str, place_errors(job).values())), job.on_error is OnError.SET_ASIDE
    return JobReport(log, start, reports, left_out, found.size, tuple(warnings), *stopping)


def _undefined(reports: Sequence[TableReport]) -> Iterator[str]:
    """Report once the tables of which only row events are known, and how to get their definitions."""
    names = [report.name for report in reports if report.definition == "partial"]
    if names:
        yield (
            f"definition = partial: {names_text(names)}: no CREATE TABLE in the log, so their "
            "foreign keys, generated columns, defaults and types such as UUID are not known. binlog-stream snapshot "
            "JOB.toml --server URL --definitions brings them, and copies no rows; a schemaFile states them too"
        )


def log_report(watched: WatchedLog) -> LogReport:
    """A log's facts."""
    files = watched.log.files()
    return LogReport(
        path=watched.log.path,
        format=watched.log.format_name,
        files=tuple(file.name for file in files if file.header),
        size=sum(file.used_size for file in files),
        gtid_before=str(start_of_log(watched).gtid),
        gtid=str(end_of_log(watched).gtid),
    )


def _start(
    watched: WatchedLog, job: Job, options: SourceOptions, checkpoint: Checkpoint | None
) -> tuple[StartReport, Position, list[str]]:
    warnings: list[str] = []
    said_by = None
    if checkpoint is not None and checkpoint.offset is not None:
        offset, warnings = resumed(watched, options, checkpoint.offset)
    else:
        offset = initial_offset(watched, options.start)
        said_by = next((name for name in START_OPTIONS if name in options.given), "startingOffsets")
    batch_id = 0 if checkpoint is None or checkpoint.batch_id is None else checkpoint.batch_id + 1
    report = StartReport(
        checkpoint=job.checkpoint,
        is_fresh=checkpoint is None,
        batch_id=batch_id,
        is_repeated=checkpoint is not None and checkpoint.pending is not None,
        position=str(offset.position),
        gtid=str(offset.gtid),
        size_behind=size_behind(watched, offset),
        said_by=said_by,
    )
    return report, offset.position, warnings


def resumed(watched: WatchedLog, options: SourceOptions, offset: SourceOffset) -> tuple[SourceOffset, list[str]]:
    """The offset at which a job goes on, and a warning if data is lost.

    Raises:
        DataLossError: Data is lost, and `failOnDataLoss` is true.
    """
    decision = compare(watched, offset)
    if decision.loss is None:
        return decision.offset, []
    if options.fail_on_data_loss:
        raise decision.loss
    return decision.offset, [f"data is lost, and failOnDataLoss is false: {decision.loss.reason}"]


def size_behind(watched: WatchedLog, offset: SourceOffset) -> int:
    """Bytes of the log after *offset*."""
    meter = LagMeter(watched.log.path, watched.log.format_name)
    try:
        return meter.size_between(offset.position, end_of_log(watched).position)
    finally:
        meter.close()


def _tables(
    job: Job, found: Sequence[FoundTable], checkpoint: Checkpoint | None
) -> tuple[tuple[TableReport, ...], tuple[str, ...]]:
    rules = [(TableFilter(rule.select, job.source.exclude_tables), rule) for rule in job.tables]
    reports: list[TableReport] = []
    left_out: list[str] = []
    query_id = None if checkpoint is None else checkpoint.query_id
    for table in found:
        layout = table.layout
        number = next((i for i, (wanted, _) in enumerate(rules) if wanted.accepts(layout)), None)
        if number is None:
            left_out.append(table.name)
        else:
            reports.append(report_table(job, table, number, query_id))
    return _with_meetings(reports), tuple(left_out)


def _with_meetings(reports: Sequence[TableReport]) -> tuple[TableReport, ...]:
    # Two tables in one place: the job would stop at the second one.
    owners: dict[str, str] = {}
    checked = []
    for report in reports:
        problems = list(report.problems)
        for target in report.targets:
            owner = owners.setdefault(target.uri, report.name)
            if owner != report.name:
                problems.append(told(report.name, same_target(report.name, target.uri, owner)))
        checked.append(replace(report, problems=tuple(problems)))
    return tuple(checked)


def _with_state(
    report: TableReport, job: Job, job_state: JobState, statements: Sequence[str], *, begins_there: bool
) -> TableReport:
    """Report if the table is complete, or set aside; *statements* stop only a job that applies it."""
    name = TableName.parse(report.name)
    stopped, snapshot = job_state.set_aside.get(name), job_state.snapshots.get(name)
    if stopped is not None:
        text = (
            f"{name}: set aside at {stopped.gtid or stopped.position}, its targets stay as they are: {stopped.reason}"
        )
        lost = [] if snapshot is None or snapshot.problem is None else _of_snapshot(snapshot)
        warnings = (*report.warnings, text, *lost)
        return replace(report, complete=job_state.complete.get(name), problems=(), warnings=warnings)
    rule = job.tables[report.rule]
    if snapshot is not None:
        report = replace(report, snapshot=snapshot, warnings=(*report.warnings, *_of_snapshot(snapshot)))
    if job_state.waits(SelectedTable(name, rule)) and not begins_there:
        return replace(report, complete=False, warnings=(*report.warnings, _waits(name)))
    report = replace(report, problems=(*report.problems, *statements))
    is_new = name not in (job_state.written or ())
    unless_met = job_state.from_first or begins_there if is_new and job_state.from_first is not None else None
    complete = job_state.complete.get(name, unless_met)
    report = replace(report, complete=complete)
    if complete and name not in job_state.complete and not begins_there and rule.begin is Begin.CREATED:
        text = (
            f"{name}: the log begins with the server's first transaction, and has no CREATE TABLE of it: if the table "
            "is older (log_bin was switched on later, or RESET MASTER), its earlier rows will be missing: "
            'begin = "snapshot"'
        )
        return replace(report, warnings=(*report.warnings, text))
    if complete is not False:
        return report
    if is_new and rule.begin is Begin.CREATED and set(rule.modes) != {Mode.CHANGELOG}:
        return replace(report, problems=(*report.problems, told(report.name, incomplete(name))))
    text = f"{name}: it is not complete: changes from before the start, or by statements, are missing in its targets"
    return replace(report, warnings=(*report.warnings, text))


def _waiting(names: Iterable[str], job: Job, job_state: JobState) -> list[TableName]:
    """The tables of *names* that wait for their snapshots."""
    tables = map(TableSelection.of(job).find, map(TableName.parse, names))
    waiting = (table.name for table in tables if table is not None and job_state.waits(table))
    return [name for name in waiting if name not in job_state.set_aside]


def _waits(name: TableName) -> str:
    return f"{name}: it waits for its snapshot, and its changes are left out until then: {snapshot_command(name)}"


def _of_snapshot(snapshot: PlannedSnapshot) -> list[str]:
    if snapshot.problem is not None:
        again = snapshot_command(snapshot.name)
        return [f"{snapshot.name}: its snapshot does not complete it: {snapshot.problem}; take it again: {again}"]
    if snapshot.is_ended:
        return []
    begun = snapshot.begun_gtid or snapshot.begun
    return [f"{snapshot.name}: its snapshot began at {begun}, and has {count_text(snapshot.rows, 'row')} so far"]


def _with_cascading(report: TableReport, job: Job, keys: Sequence[ForeignKey]) -> TableReport:
    """Report the foreign keys that change rows of the table without events in the log."""
    if job.tables[report.rule].foreign_keys is OnCascade.APPLY:
        return report  # they are derived
    if job.tables[report.rule].foreign_keys is OnCascade.IGNORE:
        then = "foreign_keys ignores it: the rows in the targets may be wrong"
    elif job.on_error is OnError.SET_ASIDE:
        then = "the table is set aside at the first one"
    else:
        then = 'the job stops at the first one; foreign_keys = "apply" derives them'
    told = (
        f"{report.name}: its foreign key {key.name} changes rows of it when rows of {key.parent} "
        f"{_carried(key)}, and no log has these changes: {then}"
        for key in keys
    )
    return replace(report, warnings=(*report.warnings, *told))


def _carried(key: ForeignKey) -> str:
    actions = ("are deleted" if key.on_delete else "", "change their key" if key.on_update else "")
    return " or ".join(filter(None, actions))


def _excluded_ghosts(job: Job, reports: Sequence[TableReport]) -> list[str]:
    # Before such a tool renames its table, nobody knows that its rows will be those of another one.
    wanted = TableFilter(None, job.source.exclude_tables)
    for report in reports:
        database, table = TableName.parse(report.name)
        left_out = [name for name in (f"_{table}_gho", f"_{table}_new") if not wanted.accepts_name(database, name)]
        if left_out:
            message = f"excludeTables leaves out {' and '.join(left_out)} in {database}"
            built = f"when gh-ost or pt-online-schema-change has built {report.name} anew there"
            return [f"{message}: {built}, the job stops (BINLOG_SCHEMA.TABLE_RENAMED)"]
    return []


def _unused_rules(job: Job, reports: Sequence[TableReport]) -> list[str]:
    used = {report.rule for report in reports}
    return [
        f"tables[{number}] (select = {rule.select!r}) is the first match of no table in the log"
        for number, rule in enumerate(job.tables)
        if number not in used and reports
    ]
