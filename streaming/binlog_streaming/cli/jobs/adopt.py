"""`binlog-stream adopt JOB.toml --table T --at GTID`: a target that somebody else has filled becomes the job's."""

from __future__ import annotations

from typing import Annotated

import typer

from binlog_format.messages import count_text
from binlog_streaming.cli.jobs.snapshot_report import is_confirmed
from binlog_streaming.cli.options import JobArgument, OptionalServerOption, PasswordFileOption
from binlog_streaming.cli.output import output_console


def adopt(
    job: JobArgument,
    table: Annotated[str, typer.Option(metavar="TABLE", help="database.table, as the log has it.")],
    at: Annotated[str, typer.Option(metavar="GTID", help="Place of the rows in the log; without GTIDs FILE:BYTE.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Begin without asking.")] = False,
    server: OptionalServerOption = None,
    password_file: PasswordFileOption = None,
) -> None:
    """Adopt a target that another program has filled: from Spark, an export, another tool.

    Its columns are compared with those of the log, one by one, and its keys are checked for duplicates. Then the job
    owns it, complete at the GTID, and continues from there. A job at an earlier position reads up to the GTID first; it
    must not run meanwhile. Rows are not compared with the server. For example:

        binlog-stream adopt job.toml --table shop.orders --at 0-1-575

    With --server the table's definition is written into the server's log first: from there on the job knows names and
    types of its columns, foreign keys and generated columns.

    Exit status: 0 the target is the job's, 1 a named error, 2 wrong use, 130 interrupted.
    """
    from binlog_streaming.jobs.mirror import job_at
    from binlog_streaming.snapshot.reading.adoption import adopt as adopt_tables
    from binlog_streaming.snapshot.reading.adoption import plan_adoption
    from binlog_streaming.snapshot.reading.job_batch import parse_point

    settings, point = job_at(job), parse_point(at)
    if server is not None:
        from binlog_connector.schema.definitions import TableName
        from binlog_streaming.cli.definitions import bring_also

        passwords = None if password_file is None else str(password_file)
        bring_also(settings, server, passwords, among={TableName.parse(table)})
    adoption = plan_adoption(settings, table, point)
    console = output_console()
    keys = ", ".join(adoption.keys) or "the whole row"
    console.print(
        f"target   {adoption.uri}: {count_text(adoption.row_count, 'row')}, key: {keys}", soft_wrap=True, markup=False
    )
    console.print(f"at       {adoption.offset.gtid} ({adoption.offset.position})", soft_wrap=True, markup=False)
    if yes or is_confirmed("makes the target the job's"):
        adopt_tables(settings, adoption)
        console.print(f"{table} is complete, and the job goes on with it", markup=False)
