"""`binlog-stream status JOB.toml`: how a job is, whoever runs it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Annotated

import typer

from binlog_streaming.cli.options import PANEL, JobArgument, help_of
from binlog_streaming.cli.output import output_console, write_json_lines

if TYPE_CHECKING:
    from binlog_streaming.status.model import Verdict
    from binlog_streaming.status.view import JobView

WATCH_SECONDS = 2.0
EXIT_STATUS = {"ok": 0, "warning": 3, "danger": 1}


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("status", help=help_of(status), rich_help_panel=PANEL)(status)


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
        from binlog_streaming.cli.status.status_view import render

        found = view.status()
        output_console().print(render(found))
        verdict = found.verdict
    if code := EXIT_STATUS[verdict.level]:
        raise typer.Exit(code)


def _watch(view: JobView, *, as_json: bool) -> Verdict:
    """Show it until Ctrl-C; the last verdict."""
    from rich.live import Live

    from binlog_streaming.cli.status.status_view import render
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
