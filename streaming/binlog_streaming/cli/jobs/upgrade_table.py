"""`binlog-stream upgrade-table JOB.toml`: tables that are there get what new tables of the job would have."""

from __future__ import annotations

from contextlib import closing
from typing import Annotated

import typer
from rich.table import Table

from binlog_format.errors import OptionError, TableError
from binlog_format.messages import count_text
from binlog_streaming.cli.jobs.snapshot_report import is_confirmed
from binlog_streaming.cli.options import JobArgument
from binlog_streaming.cli.output import escaped, output_console


def upgrade_table(
    job: JobArgument,
    table: Annotated[
        list[str] | None,
        typer.Option(metavar="TABLE", help="database.table, also several times; default: all."),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what each table would get.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Begin without asking.")] = False,
) -> None:
    """Turn on, in tables that are there, what new tables with the settings of the job would have.

    `row_ids` gives Delta's row tracking, or Iceberg's version 3; `merge = "mark"` Delta's deletion vectors; Delta
    tables without a retention of their own get that of the job. Each table is changed by one commit, which moves no
    row. The list names who does not read the table any more. The job may run meanwhile. There is no way back but
    Spark's DROP FEATURE, and for Iceberg none. For example:

        binlog-stream upgrade-table job.toml --table shop.orders --dry-run

    Exit status: 0 the tables have it, 1 a named error: tables before it in the list have it; 130 interrupted.
    """
    from binlog_streaming.jobs.mirror import job_at
    from binlog_streaming.lake.sinks import sink_type
    from binlog_streaming.tables.batch_run import BatchVersions

    settings = job_at(job)
    versions = [version for version in BatchVersions(settings).at().tables if not table or version.table in table]
    unknown = sorted({*(table or ())} - {version.table for version in versions})
    if unknown:
        raise OptionError("INVALID_VALUE", f"--table: the job has written no table {', '.join(unknown)}")
    factory = sink_type(settings.sink.format)
    shown = Table(box=None, pad_edge=False)
    for name in ("table", "gets", "shuts out"):
        shown.add_column(name, overflow="fold")
    waiting = []
    for version in versions:
        with closing(factory.at(settings.sink, version.target)) as target:
            upgrades = target.upgrade(settings.sink, is_dry=True)
        for upgrade in upgrades:
            shown.add_row(escaped(version.table), upgrade.feature, upgrade.shuts_out)
        if upgrades:
            waiting.append(version)
    console = output_console()
    if not waiting:
        console.print("All tables have what new ones would have")
        return
    console.print(shown)
    if dry_run or not (yes or is_confirmed(f"changes {count_text(len(waiting), 'table')} in one commit each")):
        return
    for version in waiting:
        with closing(factory.at(settings.sink, version.target)) as target:
            try:
                target.upgrade(settings.sink, is_dry=False)
            except Exception as error:
                if not target.is_conflict(error):
                    raise
                raise TableError(
                    "WRITE_FAILED",
                    f"{version.table}: somebody else has changed the table meanwhile",
                    hint="Call the command again: tables that have the features already stay as they are",
                ) from error
        console.print(f"{version.table} is upgraded", markup=False)
