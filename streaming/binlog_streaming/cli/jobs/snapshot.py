"""`binlog-stream snapshot JOB.toml --server URL`: existing rows of a server's tables, through its log or by reading."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from binlog_connector.installing import require
from binlog_format.errors import OptionError
from binlog_format.messages import count_text
from binlog_streaming.cli.definitions import bring_definitions_of
from binlog_streaming.cli.jobs.snapshot_report import (
    exit_if_rows_are_missing,
    is_confirmed,
    planned_tables,
    print_left_out,
    print_plan,
    print_result,
    showing_progress,
    size_text,
)
from binlog_streaming.cli.options import JobArgument, PasswordFileOption, ServerOption, TablesOption
from binlog_streaming.cli.output import escaped, output_console, say
from binlog_streaming.status.wording import names_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from binlog_streaming.server.address import Credentials, ServerAddress
    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.settings import Job, PublishJob
    from binlog_streaming.snapshot.plan import SnapshotPlan
    from binlog_streaming.snapshot.reading.plan import ReadingPlan
    from binlog_streaming.snapshot.run import SnapshotResult
    from binlog_streaming.snapshot.server_tables import LeftOut


SESSIONS = 2


def _read_tables(
    job: Job,
    address: ServerAddress,
    credentials: Credentials,
    tables: str | None,
    *,
    at: str | None,
    sessions: int,
    is_confirmed_by_option: bool,
) -> None:
    """Show what reading would do, ask, and do it."""
    from binlog_streaming.server.session import connect
    from binlog_streaming.snapshot.reading.job_batch import parse_point
    from binlog_streaming.snapshot.reading.plan import plan_reading
    from binlog_streaming.snapshot.reading.run import run_reading

    point = None if at is None else parse_point(at)
    with connect(address, credentials) as session:
        plan = plan_reading(session, job, tables=tables, at=point, sessions=sessions)
    _print_plan(plan, job, str(address))
    failed: tuple[LeftOut, ...] = ()
    if plan.tables and (is_confirmed_by_option or is_confirmed("writes tables anew")):
        try:
            with showing_progress() as on_progress:
                result = run_reading(plan, job, lambda: connect(address, credentials), on_progress=on_progress)
        except KeyboardInterrupt:
            say("Tables that were complete stay so; the same command reads the others.", err=True)
            raise
        print_result(result, "their targets")
        failed = result.failed
    exit_if_rows_are_missing(failed, plan.left_out)


def _print_plan(plan: ReadingPlan, job: Job, address: str) -> None:
    console = output_console()
    console.print(f"server   {escaped(address)}, {escaped(plan.server)}")
    for name, text in _facts(plan, job):
        console.print(f"{name:<8} {escaped(text)}", soft_wrap=True)
    print_left_out(plan.left_out)
    if not plan.tables:
        console.print("Nothing to do.")
        return
    modes = ((table.table, ", ".join(table.table.rule.modes)) for table in plan.tables)
    console.print(planned_tables("ranges of", "one range", "modes", modes))


def _facts(plan: ReadingPlan, job: Job) -> Iterator[tuple[str, str]]:
    if plan.tables:
        sessions = count_text(plan.sessions, "session")
        locks = "locks tables against changes while they begin" if plan.locks_tables else "locks nothing"
        yield "reads", f"about {size_text(plan.size_estimate)}, in {sessions}; writes nothing there, {locks}"
        connections = count_text(plan.connections, "connection")
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
SignalsOption = Annotated[
    bool,
    typer.Option(
        "--follow-signals",
        help="Stay, and take the tables that rows of sink.signal_table ask for, as Debezium's signals do.",
    ),
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
    follow_signals: SignalsOption = False,
    sessions: SessionsOption = SESSIONS,
    at: AtOption = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Begin without asking.")] = False,
    password_file: PasswordFileOption = None,
) -> None:
    """Complete a job's tables, or topics, with the existing rows of a server that is older than its log.

    --method log writes rows into the server's own log, where the job reads them, running or not, in chunks that are
    marked. Rows of a chunk are locked for about 20 ms against changes, not against reading. After an interruption at
    any point the same command continues after the last chunk. A job that publishes gives the rows as messages (op r).

    --method read, for targets only, writes nothing on the server and locks nothing (MySQL: the tables, while it
    begins): it reads the tables as they are at one point of the log, several times as fast, and writes them into their
    targets. The job must not run meanwhile; it continues from that point. After an interruption the same command reads
    incomplete tables anew. With --at GTID the server is a restored backup.

    --definitions writes SHOW CREATE TABLE of each table into the server's log, and copies no rows: from there on a job
    knows foreign keys, generated columns and types such as UUID of tables that are older than the log.

    --follow-signals asks nothing: it waits for rows of the table that sink.signal_table of a job that publishes names,
    and takes the tables that these name (execute-snapshot), until others stop it (stop-snapshot). It runs until it is
    interrupted, and goes on later where it was.

    Shown and asked first: what is read and written, and how much. For example:

        binlog-stream snapshot job.toml --server mysql://cdc@db.example.com/

    docs/snapshot.md has all of it. Exit status: 0 all rows are there, 1 a named error, or a table was left out, 2 wrong
    use, or not the log's server, 130 interrupted.
    """
    require("pymysql")
    _check_options(method, definitions=definitions, rate=rate, restart=restart, follows=follow_signals, at=at)
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
        _read_tables(settings, address, credentials, tables, at=at, sessions=sessions, is_confirmed_by_option=yes)
        return
    if follow_signals:
        refused = {"--tables": tables, "--restart": restart, "--definitions": definitions}
        _follow_signals(settings, address, credentials, rate, [name for name, value in refused.items() if value])
        return
    if definitions:
        bring_definitions_of(settings, address, credentials, tables, yes=yes)
        return
    with connect(address, credentials) as session:
        _write_into_log(session, settings, tables, rate=rate, restart=restart, is_confirmed_by_option=yes)


def _check_options(
    method: Method, *, definitions: bool, rate: int | None, restart: bool, follows: bool, at: str | None
) -> None:
    of_rows = {"--rate": rate is not None, "--restart": restart}
    of_log = {"--definitions": definitions, "--follow-signals": follows}
    others = {Method.LOG: {"--at": at is not None}, Method.READ: of_rows | of_log}
    for name, is_given in others[method].items():
        if is_given:
            raise OptionError("INVALID_VALUE", f"{name} has no effect with --method {method}")
    for name, is_given in of_rows.items():
        if definitions and is_given:
            raise OptionError("INVALID_VALUE", f"{name} has no effect with --definitions")


def _follow_signals(
    job: Job | PublishJob, address: ServerAddress, credentials: Credentials, rate: int | None, others: Sequence[str]
) -> None:
    from binlog_streaming.settings import PublishJob
    from binlog_streaming.snapshot.signals import follow_signals, require_signal_table
    from binlog_streaming.topics.connecting import require_start

    for name in others:
        raise OptionError("INVALID_VALUE", f"{name} means nothing with --follow-signals: signals name tables")
    if not isinstance(job, PublishJob):
        raise OptionError("INVALID_VALUE", "--follow-signals is for jobs that publish")
    require_signal_table(job)
    require_start(job)
    follow_signals(job, address, credentials, rate=rate, tell=typer.echo)


def _not_read() -> OptionError:
    reason = (
        "--method read is for jobs with tables: rows that are read beside the log would be one transaction of Kafka, "
        "which brokers end after 15 minutes, or would appear in topics before it is sure that all of them do"
    )
    hint = "Topics get existing rows through the log, exactly once and at any time: leave --method out"
    return OptionError("INVALID_VALUE", reason, hint=hint)


def _write_into_log(
    session: ServerSession,
    job: Job | PublishJob,
    tables: str | None,
    *,
    rate: int | None,
    restart: bool,
    is_confirmed_by_option: bool,
) -> None:
    from binlog_streaming.settings import PublishJob
    from binlog_streaming.snapshot.plan import make_plan
    from binlog_streaming.topics.connecting import require_start

    if isinstance(job, PublishJob):
        require_start(job)
    plan = make_plan(session, job, tables=tables, restart=restart)
    print_plan(plan, str(session.address))
    failed: tuple[LeftOut, ...] = ()
    if plan.tables and (is_confirmed_by_option or is_confirmed("writes on the server")):
        failed = _run(session, plan, rate=rate, restart=restart).failed
    exit_if_rows_are_missing(failed, plan.left_out)


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
