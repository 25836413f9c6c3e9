"""`binlog-stream init PATH`: a commented job file for a log, on standard output."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from binlog_streaming.cli.help_text import PANEL, help_of
from binlog_streaming.cli.jobs.check import MIB, SCAN_MIB, ScanOption
from binlog_streaming.cli.options import SchemaFileOption  # noqa: TC001 (typer looks at annotations)
from binlog_streaming.cli.output import PathArgument  # noqa: TC001 (typer looks at annotations)
from binlog_streaming.cli.progress import progress_bar
from binlog_streaming.settings.model import TableFormat


class SinkKind(StrEnum):
    """What a job keeps in step."""

    TABLES = "tables"
    KAFKA = "kafka"


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("init", help=help_of(init), rich_help_panel=PANEL)(init)


def init(
    path: PathArgument,
    sink: Annotated[SinkKind, typer.Option("--for", help="What the job keeps in step.")] = SinkKind.TABLES,
    table_format: Annotated[
        TableFormat | None, typer.Option("--format", help="Kind of the tables; default: delta.")
    ] = None,
    schema_file: SchemaFileOption = None,
    scan: ScanOption = SCAN_MIB,
) -> None:
    """Write a job file for a log: its tables, with keys and modes that suit them, and every setting explained.

    For example:

        binlog-stream init /var/lib/mysql > job.toml && binlog-stream check job.toml

    Tables with a primary key are mirrored, others get a changelog; tables whose columns nobody knows are left out, and
    the file explains why. Paths in the file that are relative start at its folder: tables and checkpoint lie beside it.

    With --for kafka the job publishes the log to topics: set its bootstrap_servers and topic_prefix, and see
    docs/kafka.md.
    """
    if sink is SinkKind.KAFKA and table_format is not None:
        raise typer.BadParameter("topics have none: it is for --for tables", param_hint="--format")
    # Compiled code takes a moment to load: not for --help.
    from binlog_streaming.jobs.init import init_text, publish_init_text

    schemas = None if schema_file is None else str(schema_file)
    with progress_bar("Looking for tables") as on_progress:
        if sink is SinkKind.KAFKA:
            text = publish_init_text(path, schema_file=schemas, scan_size=scan * MIB, on_progress=on_progress)
        else:
            text = init_text(
                path,
                schema_file=schemas,
                table_format=table_format or TableFormat.DELTA,
                scan_size=scan * MIB,
                on_progress=on_progress,
            )
    typer.echo(text, nl=False)
