"""`binlog-stream prove JOB.toml --server URL`: whether a job's tables are those of its server."""

from __future__ import annotations

from typing import Annotated

import typer

from binlog_connector.installing import require
from binlog_streaming.cli.options import (
    PANEL,
    JobArgument,
    PasswordFileOption,
    ServerOption,
    TablesOption,
    help_of,
)


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("prove", help=help_of(prove), rich_help_panel=PANEL)(prove)


def prove(  # noqa: PLR0913 - the options of the command
    job: JobArgument,
    server: ServerOption,
    tables: TablesOption = None,
    rows: Annotated[
        bool, typer.Option("--rows", help="Name every row that differs, by its key, and the columns; never values.")
    ] = False,
    repair: Annotated[
        bool,
        typer.Option(
            "--repair",
            help="Make the server write the rows that differ into its log, from which the job repairs its tables.",
        ),
    ] = False,
    table_timeout: Annotated[
        int | None, typer.Option(min=1, metavar="SECONDS", help="A target may take so long; then the next one.")
    ] = None,
    sample: Annotated[
        int | None,
        typer.Option(
            min=1, max=100, metavar="PERCENT", help="Compare the values of so many rows, by chance, and count all."
        ),
    ] = None,
    password_file: PasswordFileOption = None,
) -> None:
    r"""Prove that a job's tables equal those of the server: all rows and columns, at one GTID.

    The server computes checksums of all rows as of one place in its log, without a lock; the same are computed from the
    job's tables at a later place, and from the changes between the two. The job may run meanwhile, or have read the log
    before. Equal tables are noted in the log, and record it in a property (verifiedThrough).

    For example:

        binlog-stream prove job.toml --server mysql://cdc@db.example.com/ --tables 'shop\..*'

    Exit status: 0 all tables that can be compared are equal, 1 one differs or is not complete, 2 wrong use, or
    not the log's server.
    """
    require("pymysql")
    # Decoder and tables take a second to import: not for other commands.
    from binlog_streaming.cli.jobs.prove.report import print_result, print_summary, showing_progress
    from binlog_streaming.jobs.mirror import job_at
    from binlog_streaming.prove.run import JobProof
    from binlog_streaming.server.address import ServerAddress
    from binlog_streaming.server.credentials import find_credentials
    from binlog_streaming.server.session import connect

    address = ServerAddress.parse(server)
    settings = job_at(job)
    credentials = find_credentials(address.user, None if password_file is None else str(password_file))
    with showing_progress() as on_progress:
        proof = JobProof(
            settings,
            lambda: connect(address, credentials),
            on_progress,
            lambda one: print_result(one, rows=rows),
            repair,
            table_timeout,
            sample,
        )
        results = proof.prove(tables)
    if not print_summary(results):
        raise typer.Exit(1)
