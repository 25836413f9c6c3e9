"""`binlog-stream snapshot --method read`: what it would do, and the run of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import typer
from rich.table import Table

from binlog_streaming.cli.jobs.snapshot_report import (
    is_confirmed,
    names_text,
    print_left_out,
    print_result,
    showing_progress,
    size_text,
)
from binlog_streaming.cli.output import escaped, output_console, say

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_streaming.server.address import Credentials, ServerAddress
    from binlog_streaming.settings.model import Job
    from binlog_streaming.snapshot.reading.plan import ReadingPlan
    from binlog_streaming.snapshot.server_tables import LeftOut

SESSIONS = 2


@dataclass(frozen=True, slots=True)
class Reading:
    """Options of the command.

    Attributes:
        tables: Expressions of tables; None: those of the job that are not complete.
        at: Where in the job's log the server is, as text; None: the server reports it.
        sessions: That read at the same time.
        is_confirmed: Nobody is to be asked.
    """

    tables: str | None
    at: str | None
    sessions: int
    is_confirmed: bool


def read_tables(job: Job, address: ServerAddress, credentials: Credentials, asked: Reading) -> None:
    """Show what reading would do, ask, and do it.

    Raises:
        BinlogError: What is wrong with the server, the job, its log or a target.
    """
    from binlog_streaming.server.session import connect
    from binlog_streaming.snapshot.reading.log_place import parse_point
    from binlog_streaming.snapshot.reading.plan import plan_reading
    from binlog_streaming.snapshot.reading.run import run_reading

    at = None if asked.at is None else parse_point(asked.at, "--at")
    with connect(address, credentials) as session:
        plan = plan_reading(session, job, tables=asked.tables, at=at, sessions=asked.sessions)
    _print_plan(plan, job, str(address))
    failed: tuple[LeftOut, ...] = ()
    if plan.tables and (asked.is_confirmed or is_confirmed("writes tables anew")):
        try:
            with showing_progress() as on_progress:
                result = run_reading(plan, job, lambda: connect(address, credentials), on_progress=on_progress)
        except KeyboardInterrupt:
            say("Tables that were complete stay so; the same command reads the others.", err=True)
            raise
        print_result(result, "their targets")
        failed = result.failed
    if failed or any(left.has_rows for left in plan.left_out):
        raise typer.Exit(1)


def _print_plan(plan: ReadingPlan, job: Job, address: str) -> None:
    console = output_console()
    console.print(f"server   {escaped(address)}, {escaped(plan.server)}")
    for name, text in _facts(plan, job):
        console.print(f"{name:<8} {escaped(text)}", soft_wrap=True)
    print_left_out(plan.left_out)
    if not plan.tables:
        console.print("Nothing to do.")
        return
    shown = Table(box=None, pad_edge=False)
    shown.add_column("table", overflow="fold")
    shown.add_column("rows, about", justify="right")
    shown.add_column("size, about", justify="right")
    shown.add_column("ranges of", overflow="fold")
    shown.add_column("modes")
    for table in plan.tables:
        shown.add_row(
            escaped(table.source.full_name),
            f"{table.table.row_estimate:,}",
            size_text(table.table.size_estimate),
            escaped(", ".join(table.source.key.names)) if table.source.key is not None else "one range",
            ", ".join(table.table.rule.modes),
        )
    console.print(shown)


def _facts(plan: ReadingPlan, job: Job) -> Iterator[tuple[str, str]]:
    if plan.tables:
        sessions = "1 session" if plan.sessions == 1 else f"{plan.sessions} sessions"
        locks = "locks tables against changes while they begin" if plan.locks_tables else "locks nothing"
        yield "reads", f"about {size_text(plan.size_estimate)}, in {sessions}; writes nothing there, {locks}"
        connections = "1 connection" if plan.connections == 1 else f"{plan.connections} connections"
        yield "load", f"{connections}; old versions of rows (undo history) stay until the last table has been read"
        yield "writes", f"all targets of these tables anew, in {job.sink.directory}; the job must not run meanwhile"
    if plan.at is not None:
        confirmed = "confirmed by the server" if plan.is_known else "the server cannot confirm it: check it"
        yield "at", f"{plan.at}, {confirmed}"
    if plan.unseen:
        yield (
            "warning",
            f"tables of the job that the server does not show, or not to this account: {names_text(plan.unseen)}",
        )
    if plan.complete:
        yield "complete", f"left out (--tables takes them again): {names_text(plan.complete)}"
