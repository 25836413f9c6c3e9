"""`binlog-stream snapshot JOB.toml --server URL`: existing rows of a server's tables."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from binlog_connector.installing import require
from binlog_format.errors import OptionError
from binlog_streaming.cli.definitions import bring_definitions_of
from binlog_streaming.cli.jobs.snapshot_reading import SESSIONS, Reading, read_tables
from binlog_streaming.cli.jobs.snapshot_report import is_confirmed, print_plan, print_result, showing_progress
from binlog_streaming.cli.options import (
    PANEL,
    JobArgument,
    PasswordFileOption,
    ServerOption,
    TablesOption,
    help_of,
)
from binlog_streaming.cli.output import say

if TYPE_CHECKING:
    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.snapshot.plan import SnapshotPlan
    from binlog_streaming.snapshot.run import SnapshotResult


class Method(StrEnum):
    """Way in which existing rows come into targets."""

    LOG = "log"
    READ = "read"


DefinitionsOption = Annotated[
    bool,
    typer.Option(
        "--definitions", help="Write the tables' definitions into the server's log, and copy no rows (--method log)."
    ),
]
RateOption = Annotated[
    int | None, typer.Option(min=1, metavar="ROWS", help="Rows in a second, at most (--method log).")
]
RestartOption = Annotated[
    bool,
    typer.Option("--restart", help="Begin every table anew, also if an earlier run was interrupted (--method log)."),
]
SessionsOption = Annotated[
    int, typer.Option(min=1, max=64, help="Sessions that read at the same time (--method read).")
]
AtOption = Annotated[
    str | None,
    typer.Option(
        metavar="GTID",
        help="The server is a restored backup or dump, and has all of the job's log up to there (--method read).",
    ),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("snapshot", help=help_of(snapshot), rich_help_panel=PANEL)(snapshot)


def snapshot(  # noqa: PLR0913 - the options of the command
    job: JobArgument,
    server: ServerOption,
    tables: TablesOption = None,
    definitions: DefinitionsOption = False,
    method: Annotated[
        Method, typer.Option(help="log: the server writes rows into its log; read: rows are read from the server.")
    ] = Method.LOG,
    rate: RateOption = None,
    restart: RestartOption = False,
    sessions: SessionsOption = SESSIONS,
    at: AtOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Begin without asking.")] = False,
    password_file: PasswordFileOption = None,
) -> None:
    r"""Complete a job's tables, or topics, with the existing rows of a server that is older than its log.

    --method log writes rows into the server's own log, where the job reads them, running or not, in chunks that are
    marked. Rows of a chunk are locked for about 20 ms against changes, not against reading. After an interruption at
    any point the same command continues after the last chunk. A job that publishes gives the rows as messages (op r).

    --method read, for targets only, writes nothing on the server and locks nothing (MySQL: the tables, while it
    begins): it reads the tables as they are at one point of the log, several times as fast, and writes them into their
    targets. The job must not run meanwhile; it continues from that point. After an interruption the same command reads
    incomplete tables anew. With --at GTID the server is a restored backup.

    --definitions writes SHOW CREATE TABLE of each table into the server's log, and copies no rows: from there on a job
    knows foreign keys, generated columns and types such as UUID of tables that are older than the log.

    Shown and asked first: what is read and written, and how much. For example:

        binlog-stream snapshot job.toml --server mysql://cdc@db.example.com/ --tables 'shop\..*'

    docs/snapshot.md has all of it. Exit status: 0 all rows are there, 1 a named error, or a table was left out, 2 wrong
    use, or not the log's server, 130 interrupted.
    """
    require("pymysql")
    _check_options(method, definitions=definitions, rate=rate, restart=restart, at=at)
    from binlog_streaming.jobs.mirror import any_job_at, job_at
    from binlog_streaming.server.address import ServerAddress, find_credentials
    from binlog_streaming.server.session import connect
    from binlog_streaming.settings import PublishJob

    address = ServerAddress.parse(server)
    found = any_job_at(job)
    # What is wrong with jobs of other kinds `job_at` reports.
    settings = found if isinstance(found, PublishJob) else job_at(job)
    credentials = find_credentials(address.user, None if password_file is None else str(password_file))
    if method is Method.READ:
        if isinstance(settings, PublishJob):
            raise _not_read()
        read_tables(settings, address, credentials, Reading(tables, at, sessions, is_confirmed=yes))
        return
    if definitions:
        bring_definitions_of(settings, address, credentials, tables, yes=yes)
        return
    from binlog_streaming.snapshot.plan import make_plan
    from binlog_streaming.topics.connecting import require_start

    if isinstance(settings, PublishJob):
        require_start(settings)
    with connect(address, credentials) as session:
        plan = make_plan(session, settings, tables=tables, restart=restart)
        print_plan(plan, str(address))
        if plan.tables and (yes or is_confirmed("writes on the server")):
            failed = _run(session, plan, rate=rate, restart=restart).failed
        else:
            failed = ()
    if failed or any(one.has_rows for one in plan.left_out):
        raise typer.Exit(1)


def _check_options(method: Method, *, definitions: bool, rate: int | None, restart: bool, at: str | None) -> None:
    of_rows = {"--rate": rate is not None, "--restart": restart}
    others = {Method.LOG: {"--at": at is not None}, Method.READ: of_rows | {"--definitions": definitions}}
    for name, is_given in others[method].items():
        if is_given:
            raise OptionError("INVALID_VALUE", f"{name} means nothing with --method {method}")
    for name, is_given in of_rows.items():
        if definitions and is_given:
            raise OptionError("INVALID_VALUE", f"{name} means nothing with --definitions")


def _not_read() -> OptionError:
    hint = "Topics get existing rows through the log, at their place among the changes: leave --method out"
    return OptionError("INVALID_VALUE", "--method read is for jobs with tables", hint=hint)


def _run(session: ServerSession, plan: SnapshotPlan, *, rate: int | None, restart: bool) -> SnapshotResult:
    from binlog_streaming.snapshot.run import run_snapshot

    try:
        with showing_progress() as on_progress:
            result = run_snapshot(session, plan, rate=rate, restart=restart, on_progress=on_progress)
    except KeyboardInterrupt:
        say("The same command goes on where this one was.", err=True)
        raise
    print_result(result)
    return result
