"""`binlog-stream status JOB.toml`: how a job is, whoever runs it; drawn on a terminal by `render`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer
from rich import box
from rich.console import Group
from rich.table import Table
from rich.text import Text

from binlog_format.messages import count_text, told_options
from binlog_streaming.cli.options import JobArgument
from binlog_streaming.cli.output import output_console, with_job, write_json_lines
from binlog_streaming.status.model import MINUTES_MAX, Level, PurgeRisk
from binlog_streaming.status.wording import bytes_text, clock_text, duration_text, visible

if TYPE_CHECKING:
    from rich.console import RenderableType

    from binlog_streaming.status.model import JobStatus, TableStatus, Verdict
    from binlog_streaming.status.view import JobView


WATCH_SECONDS = 2.0
EXIT_STATUS = {"ok": 0, "warning": 3, "danger": 1}


def status(
    job: JobArgument,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Show it again every two seconds, until Ctrl-C.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object, as /status.json of the page.")] = False,
) -> None:
    """Show the state of a job: running or not, lag, time until log files are purged, tables, batches and errors.

    The job records its work in its checkpoint; the lag, and the time at which the server removes files that the job
    needs, are measured now, also while the job does not run. Set status.purge_after in the job file to the server's
    binlog_expire_logs_seconds, so that this can tell how long the job is safe.

    For example, from a timer that sends a message if a check is needed:

        binlog-stream status job.toml || mail -s "binlog-stream" ops@example.com

    Exit status: 0 no problem, 3 a warning, 1 changes are not read or will be lost (or a named error), 2
    wrong use, or the job has recorded nothing.
    """
    # Compiled code takes a moment to load: not for --help.
    from binlog_streaming.jobs.mirror import any_job_at
    from binlog_streaming.status.view import status_json, view_of

    view = view_of(any_job_at(job))
    if watch:
        verdict = _watch(view, as_json=as_json)
    elif as_json:
        found = view.status()
        write_json_lines([status_json(found)])
        verdict = found.verdict
    else:
        found = view.status()
        output_console().print(render(found))
        verdict = found.verdict
    if code := EXIT_STATUS[verdict.level]:
        raise typer.Exit(code)


def _watch(view: JobView, *, as_json: bool) -> Verdict:
    """Show it until Ctrl-C; the last verdict."""
    from rich.live import Live

    from binlog_streaming.status.view import status_json

    found = view.status()
    try:
        if as_json:
            while True:
                write_json_lines([status_json(found)])
                time.sleep(WATCH_SECONDS)
                found = view.status()
        with Live(render(found), console=output_console(), auto_refresh=False, screen=False) as live:
            while True:
                time.sleep(WATCH_SECONDS)
                found = view.status()
                live.update(render(found), refresh=True)
    except KeyboardInterrupt:
        return found.verdict


TABLES_MAX = 20
BATCHES_MAX = 8
GTIDS_WIDTH = 60
STYLES = {Level.OK: "green", Level.WARNING: "yellow", Level.DANGER: "red"}
_STEPS = "▁▂▃▄▅▆▇█"
_NONE = "-"


def render(status: JobStatus) -> RenderableType:
    """All of it."""
    verdict, state = status.verdict, status.state
    parts: list[RenderableType] = [Text(_shown(verdict.text), style=f"bold {STYLES[verdict.level]}")]
    parts += [Text(_shown(line), style="dim") for line in verdict.advice]
    parts += ["", _facts(status)]
    if state.tables:
        parts += ["", _tables(status)]
    if state.batches:
        parts += ["", _batches(status)]
    for error in state.errors[-3:]:
        when = f"{clock_text(error.at, status.now)}: "
        parts += [Text.assemble("\n", (when, "dim"), (_shown(error.text), "red"))]
        parts += [Text(_shown(error.hint))] if error.hint else []
    return Group(*parts)


def _shown(text: str) -> str:
    """*text* of an error, with settings as a job file has them."""
    from binlog_streaming.settings.names import as_job_setting  # takes a moment to load: not for --help

    return visible(with_job(told_options(text, as_job_setting)))


def _facts(status: JobStatus) -> Table:
    state = status.state
    ran = status.now if state.ended_at is None else state.ended_at
    rows = [
        ("job", f"{visible(state.name)}, {status.phase} ({duration_text(ran - state.started_at)})"),
        ("from", visible(state.source)),
        ("into", visible(state.target)),
        ("behind", _behind(status)),
        ("safe", _safe(status)),
        ("has reached", visible(state.gtid or state.position or "nothing yet")),
        ("last hour", _last_hour(status)),
        (
            "in all",
            f"{count_text(state.changes_total, 'change')} in {count_text(state.batches_total, 'batch', 'batches')}",
        ),
    ]
    table = Table.grid(padding=(0, 2))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(name, Text(text))
    return table


def _behind(status: JobStatus) -> str:
    log = status.log
    if log is None:
        return "it reads no log"
    if log.problem is not None:
        return f"not known: {visible(with_job(log.problem))}"
    if log.size == 0:
        return "nothing waits"
    age = "" if log.waiting_seconds is None else f"{duration_text(log.waiting_seconds)}, "
    return f"{age}{count_text(log.transactions, 'transaction')}, {bytes_text(log.size)}"


def _safe(status: JobStatus) -> str:
    if status.log is None:
        return _NONE
    purge = status.log.purge
    if purge.risk is PurgeRisk.TIMED and purge.left_seconds is not None and purge.expiry_seconds is not None:
        left, kept = duration_text(max(purge.left_seconds, 0)), duration_text(purge.expiry_seconds)
        return f"for {left}, until the server may remove {visible(purge.file)} (it keeps files for {kept})"
    return {
        PurgeRisk.NONE: "an archive keeps what the server removes",
        PurgeRisk.GONE: f"no: {visible(with_job(purge.reason))}",
    }.get(purge.risk, "not known")


def _last_hour(status: JobStatus) -> str:
    changes = {minute.start: minute.changes for minute in status.state.minutes}
    last = int(status.now) // 60 * 60
    counts = [changes.get(last - 60 * ago, 0) for ago in range(MINUTES_MAX - 1, -1, -1)]
    top = max(counts)
    if not top:
        return "nothing"
    marks = "".join(_STEPS[count * (len(_STEPS) - 1) // top] if count else " " for count in counts)
    return f"{marks}  up to {top:,} changes a minute"


def _tables(status: JobStatus) -> Table:
    table = _headed("table", "state", "changes", "last commit", "schema changed", right=("changes",))
    tables = sorted(status.state.tables, key=lambda tally: (_urgency(tally), -(tally.last_commit or 0), tally.name))
    for tally in tables[:TABLES_MAX]:
        state, style = _table_state(tally)
        changed = (
            _NONE if tally.schema_changed_at is None else f"{duration_text(status.now - tally.schema_changed_at)} ago"
        )
        commit = _NONE if tally.last_commit is None else f"{duration_text(status.now - tally.last_commit)} ago"
        table.add_row(Text(visible(tally.name)), Text(visible(state), style), f"{tally.changes:,}", commit, changed)
    if len(tables) > TABLES_MAX:
        table.add_row(Text(f"and {len(tables) - TABLES_MAX:,} more (--json has all)", style="dim"))
    return table


def _urgency(table: TableStatus) -> int:
    return next((rank for rank, bad in enumerate((table.set_aside, _snapshot_problem(table))) if bad is not None), 2)


def _snapshot_problem(table: TableStatus) -> str | None:
    return None if table.snapshot is None else table.snapshot.problem


def _table_state(table: TableStatus) -> tuple[str, str]:
    """Text and colour of a table's state."""
    problem = _snapshot_problem(table)
    if table.set_aside is not None:
        return f"set aside at {table.stopped_before}: {table.set_aside}", "red"
    if problem is not None:
        return f"its snapshot failed: {problem}", "yellow"
    if table.waits_for_snapshot:
        return "waits for its snapshot", "yellow"
    if table.snapshot is not None and not table.snapshot.is_ended:
        return f"snapshot: {count_text(table.snapshot.rows, 'row')} so far", "cyan"
    if table.verified_through is not None:
        return f"verified through {table.verified_through}", "green"
    if table.is_complete is False:
        return "not complete", ""
    if table.missing:
        rows = count_text(table.missing, "row")
        return f"rows are missing: it lacked {rows} that changes were about, last in batch {table.missing_in}", "yellow"
    partial = "its definition is partial" if table.definition == "partial" else ""
    return ", ".join(filter(None, ("complete" if table.is_complete else "followed", partial, table.proof))), ""


def _batches(status: JobStatus) -> Table:
    right = ("batch", "changes", "log", "waited", "read", "written")
    table = _headed("batch", "done", "changes", "log", "waited", "read", "written", "GTIDs", right=right)
    for batch in reversed(status.state.batches[-BATCHES_MAX:]):
        gtids = visible(batch.gtids or batch.position)
        table.add_row(
            str(batch.number),
            time.strftime("%H:%M:%S UTC", time.gmtime(batch.finished_at)),
            f"{batch.changes:,}",
            _NONE if batch.size is None else bytes_text(batch.size),
            _NONE if batch.log_seconds is None else duration_text(batch.log_seconds),
            duration_text(batch.read_seconds),
            duration_text(batch.commit_seconds),
            Text(gtids if len(gtids) <= GTIDS_WIDTH else f"{gtids[: GTIDS_WIDTH - 1]}…"),
        )
    return table


def _headed(*names: str, right: tuple[str, ...]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, header_style="bold")
    for name in names:
        is_number = name in right
        table.add_column(name, justify="right" if is_number else "left", overflow="fold", no_wrap=is_number)
    return table
