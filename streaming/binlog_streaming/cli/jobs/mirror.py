"""`binlog-stream mirror PATH --to DIR`: every table of a log in a folder, without a job file."""

from __future__ import annotations

from typing import Annotated

import typer

from binlog_connector.installing import require
from binlog_streaming.cli.jobs.run import BatchOutputOption, OnceOption
from binlog_streaming.cli.jobs.running import run_job
from binlog_streaming.cli.options import ExcludeTablesOption, TablesOption
from binlog_streaming.cli.output import Output, PathArgument, name_job, say
from binlog_streaming.cli.status.observing import PageOptions, StatusOption, StatusTokenOption
from binlog_streaming.settings.choices import (
    DEFAULT_FORMAT,
    Begin,
    Mode,
    OnCascade,
    OnError,
    OnPartitionDrop,
    OnRowStatement,
    TableFormat,
)
from binlog_streaming.settings.model import TableRule

CheckpointOption = Annotated[
    str | None,
    typer.Option(
        metavar="DIR",
        help="Folder of the checkpoint. Default: in the folder of the tables; for a URL: in the "
        "user's state folder, which is printed at the start.",
    ),
]
ModeOption = Annotated[
    Mode,
    typer.Option(
        help="mirror: the rows that a table has now, by primary key. changelog: every change, in order. scd2: "
        "every version of every row, with the times between which it was valid."
    ),
]
OnPartitionDropOption = Annotated[
    OnPartitionDrop,
    typer.Option(
        help="Effect of DROP PARTITION and TRUNCATE PARTITION. keep: the rows stay in the tables. "
        "apply: they are deleted, and go along with EXCHANGE PARTITION, if the rows of the partitions can be computed."
    ),
]
BeginOption = Annotated[
    Begin,
    typer.Option(
        help="created: refuse tables whose rows begin before the part of the log that is read. empty: begin "
        "without those rows."
    ),
]


ForeignKeysOption = Annotated[
    OnCascade,
    typer.Option(help="Effect of a change of a parent row, if foreign keys may change other rows that are not logged."),
]


def mirror(  # noqa: PLR0913 - the options of the command
    path: PathArgument,
    to: Annotated[str, typer.Option("--to", metavar="DIR", help="Folder or URL; tables go to DIR/<database>/<table>.")],
    checkpoint: CheckpointOption = None,
    tables: TablesOption = None,
    exclude_tables: ExcludeTablesOption = None,
    table_format: Annotated[TableFormat, typer.Option("--format", help="Kind of the tables.")] = DEFAULT_FORMAT,
    mode: ModeOption = Mode.MIRROR,
    begin: BeginOption = Begin.CREATED,
    on_statement: Annotated[
        OnRowStatement,
        typer.Option(help="Effect of a statement that changes rows without row events (binlog_format=MIXED)."),
    ] = OnRowStatement.FAIL,
    foreign_keys: ForeignKeysOption = OnCascade.FAIL,
    on_partition_drop: OnPartitionDropOption = OnPartitionDrop.FAIL,
    on_error: Annotated[
        OnError,
        typer.Option(
            help="Effect of an error in one table: stop, or set_aside: it stays as it is, all others continue."
        ),
    ] = OnError.STOP,
    once: OnceOption = False,
    output: BatchOutputOption = Output.TABLE,
    status: StatusOption = None,
    status_token_file: StatusTokenOption = None,
) -> None:
    r"""Keep every table of a log in a folder; no job file is needed.

    It follows the log until it is stopped; with --once it reads the present log, and ends. Called again for the same
    folder it continues where it stopped, exactly once: DIR/.binlog-stream contains the checkpoint, and job.toml, the
    same job as a file, to which you can add settings (then: binlog-stream run JOB.toml). Every command that takes a
    JOB.toml takes DIR in its place.

    Tables can go to an object store (--to s3://bucket/lake); access is taken from the environment (AWS_...). Spark
    writes the checkpoint to a folder of this machine: keep it as long as the tables.

    Exit status: as that of run.

    For example:

        binlog-stream mirror /var/lib/mysql --to lake --tables 'shop\..*' --once
    """
    name_job(to)
    from binlog_format import open_log
    from binlog_streaming.jobs.mirror import mirror_job, remember

    require("pyspark")  # before anything is written
    rule = TableRule(
        select=tables or ".*",
        mode=mode,
        begin=begin,
        on_statement=on_statement,
        foreign_keys=foreign_keys,
        on_partition_drop=on_partition_drop,
    )
    job = mirror_job(
        path,
        to,
        checkpoint=checkpoint,
        exclude_tables=exclude_tables,
        table_format=table_format,
        rule=rule,
        on_error=on_error,
    )
    with open_log(job.source.path):  # what is wrong with it is reported before anything is written
        remember(job)
    if "://" in job.sink.directory and output is Output.TABLE:
        say(f"checkpoint: {job.checkpoint}")
    run_job(job, once=once, output=output, page=PageOptions(status, status_token_file))
