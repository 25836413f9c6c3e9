"""`binlog-stream prove JOB.toml`: whether a job's tables are those of its server, or those of another job."""

from __future__ import annotations

from typing import Annotated

import typer

from binlog_connector.installing import require
from binlog_streaming.cli.options import JobArgument, PasswordFileOption, TablesOption

ProvedServerOption = Annotated[
    str | None,
    typer.Option(
        "--server",
        metavar="URL",
        help="The server that writes the job's log: mysql://user@host:3306/, without the password; or with "
        "?socket=PATH. TLS: ?ssl-mode=VERIFY_IDENTITY&ssl-ca=PATH.",
    ),
]
AgainstOption = Annotated[
    str | None,
    typer.Option("--against", metavar="OTHER.toml", help="Another job, in place of a server: its tables are read."),
]
RowsOption = Annotated[
    bool, typer.Option("--rows", help="Name every row that differs, by its key, and the columns; never values.")
]
RepairOption = Annotated[
    bool,
    typer.Option(
        "--repair",
        help="Make the server write the rows that differ into its log, from which the job repairs its tables.",
    ),
]
TimeoutOption = Annotated[
    int | None, typer.Option(min=1, metavar="SECONDS", help="A target may take so long; then the next one.")
]
SampleOption = Annotated[
    int | None,
    typer.Option(
        min=1, max=100, metavar="PERCENT", help="Compare the values of so many rows, by chance, and count all."
    ),
]


def prove(  # noqa: PLR0913 - the options of the command
    job: JobArgument,
    server: ProvedServerOption = None,
    against: AgainstOption = None,
    tables: TablesOption = None,
    rows: RowsOption = False,
    repair: RepairOption = False,
    table_timeout: TimeoutOption = None,
    sample: SampleOption = None,
    password_file: PasswordFileOption = None,
) -> None:
    """Prove that a job's tables equal those of the server, or of another job: all rows and columns, at one GTID.

    The server computes checksums of all rows as of one place in its log, without a lock; the same are computed from the
    job's tables at a later place, and from the changes between the two. The job may run meanwhile, or have read the log
    before. Equal tables are noted in the log, and record it in a property (verifiedThrough).

    For example:

        binlog-stream prove job.toml --server mysql://cdc@db.example.com/

    With --against there is no server: the tables of two jobs are compared with each other, for example before one takes
    the place of the other, or to see whether a copy of the tables is whole. Formats, modes (mirror, scd2) and logs may
    differ, GTIDs must be those of one replication. Where the jobs are at different places, the first one's log has what
    lies between. "missing" is a row that the other job alone has, "extra" one that it does not have.

        binlog-stream prove new.toml --against old.toml --rows

    Exit status: 0 all tables that can be compared are equal, 1 one differs or is not complete, 2 wrong use, or
    not the log's server.
    """
    if (server is None) == (against is None):
        raise typer.BadParameter("give one of --server and --against", param_hint="--server")
    if against is not None:
        if repair or password_file is not None:
            raise typer.BadParameter("is for a server", param_hint="--repair" if repair else "--password-file")
        _compare(job, against, tables, rows=rows, table_timeout=table_timeout, sample=sample)
        return
    assert server is not None, "it is one of both"
    require("pymysql")
    # Decoder and tables take a second to import: not for other commands.
    from binlog_streaming.cli.jobs.prove_report import print_result, print_summary, showing_progress
    from binlog_streaming.jobs.mirror import job_at
    from binlog_streaming.prove.run import JobProof
    from binlog_streaming.server.address import ServerAddress, find_credentials
    from binlog_streaming.server.session import connect

    address = ServerAddress.parse(server)
    settings = job_at(job)
    credentials = find_credentials(address.user, None if password_file is None else str(password_file))
    with showing_progress() as on_progress:
        proof = JobProof(
            settings,
            lambda: connect(address, credentials),
            on_progress,
            lambda result: print_result(result, rows=rows),
            repair,
            table_timeout,
            sample,
        )
        results = proof.prove(tables)
    if not print_summary(results):
        raise typer.Exit(1)


def _compare(
    job: str, against: str, tables: str | None, *, rows: bool, table_timeout: int | None, sample: int | None
) -> None:
    from binlog_streaming.cli.jobs.prove_report import print_result, print_summary, showing_progress
    from binlog_streaming.jobs.mirror import job_at
    from binlog_streaming.prove.two_jobs import TwoJobsProof

    with showing_progress() as on_progress:
        proof = TwoJobsProof(
            job_at(job),
            job_at(against),
            on_progress,
            lambda result: print_result(result, rows=rows, other="the other one"),
            table_timeout,
            sample,
        )
        results = proof.prove(tables)
    if not print_summary(results, can_repair=False):
        raise typer.Exit(1)
