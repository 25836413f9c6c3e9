"""`binlog-stream versions JOB.toml`: which version of each table to read, for all of them as of one GTID."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.table import Table

from binlog_streaming.cli.options import JobArgument
from binlog_streaming.cli.output import Output, OutputOption, escaped, output_console, write_json_lines

if TYPE_CHECKING:
    from rich.console import Console

    from binlog_streaming.tables.batch_run import Versions


def versions(
    job: JobArgument,
    at: Annotated[
        str | None,
        typer.Option(
            "--at",
            metavar="GTID",
            help="A GTID, or a position such as 0-1-100,1-2-7: versions of the first batch that has all of it. Without "
            "it: the newest ones.",
        ),
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Print the version of each table to read, so that all of them are as of one GTID.

    Tables are written one after the other. Read by these versions (Delta: versionAsOf; Iceberg: snapshot-id) they
    belong together, whatever is written meanwhile; as long as the sink's retention keeps old files.

    For example:

        binlog-stream versions job.toml --at 0-1-575

    Exit status: 0 they are shown, 2 the GTID is in no batch yet.
    """
    # Libraries of the formats take a moment to load: not for --help.
    from binlog_streaming.jobs.mirror import job_at
    from binlog_streaming.tables.batch_run import BatchVersions

    found = BatchVersions(job_at(job)).at(at)
    if output is Output.JSONL:
        common = {"batch_id": found.batch_id, "gtid_position": found.gtid_position}
        write_json_lines([common | msgspec.to_builtins(table) for table in found.tables])
    else:
        _print(output_console(), found)


def _print(console: Console, found: Versions) -> None:
    console.print(
        f"GTIDs up to {escaped(found.gtid_position)}, of batch {found.batch_id}, last commit {found.last_commit_time}"
    )
    shown = Table(box=None, pad_edge=False)
    for name in ("table", "mode", "version", "target"):
        shown.add_column(name, overflow="fold")
    for table in found.tables:
        shown.add_row(escaped(table.table), table.mode, table.version, escaped(table.target))
    console.print(shown)
