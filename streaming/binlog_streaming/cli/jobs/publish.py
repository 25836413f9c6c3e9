"""`binlog-stream publish JOB.toml`, or `publish LOG --to HOST:PORT/PREFIX`: publish a log to Kafka."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from binlog_format.errors import OptionError
from binlog_format.position import Place
from binlog_streaming.cli.jobs.run import OnceOption
from binlog_streaming.cli.jobs.running import run_job
from binlog_streaming.cli.options import ExcludeTablesOption, TablesOption
from binlog_streaming.cli.output import Output, name_job, say
from binlog_streaming.cli.status.observing import PageOptions, StatusOption, StatusTokenOption

if TYPE_CHECKING:
    from binlog_streaming.settings import PublishJob

PublishArgument = Annotated[
    str, typer.Argument(metavar="JOB.toml|LOG", help='A job file with sink.kind = "kafka"; with --to: a log.')
]
ToOption = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT/PREFIX", help="Without a job file: a broker, and the first part of topics' names."),
]
LineOption = Annotated[
    Output,
    typer.Option("--output", "-o", help="A line for each second with changes: for people (table) or as JSON (jsonl)."),
]


def publish(  # noqa: PLR0913 - the options of the command
    job: PublishArgument,
    to: ToOption = None,
    tables: TablesOption = None,
    exclude_tables: ExcludeTablesOption = None,
    once: OnceOption = False,
    output: LineOption = Output.TABLE,
    status: StatusOption = None,
    status_token_file: StatusTokenOption = None,
) -> None:
    """Publish the changes of a log to topics of Kafka, exactly once, as a job file describes.

    It follows the log until it is stopped (SIGINT or SIGTERM: it ends after the current transaction). Started again it
    continues where it stopped: the offset is in Kafka, written by the same transactions as the messages. Data that
    cannot be read or sent ends the job before anything of it is visible.

    For a first try no job file is needed: --to names a broker without TLS and passwords, and a prefix. Topics
    PREFIX.<database>.<table> are created, with one partition. Called again it continues. All other settings are in the
    job file that it writes beside its checkpoint; it prints the path.

    For example:

        binlog-stream publish /var/lib/mysql --to 127.0.0.1:9092/shop --once

    Exit status: 0 ended as asked, 1 a named error (docs/errors.md has them all), 2 a mistake in the job file; 143
    (SIGTERM) or 130 (SIGINT) stopped before it had taken what --once was to take.
    """
    settings = _settings(job, to, tables, exclude_tables)
    if to is not None:
        _write_down(settings, output)
    run_job(settings, once=once, output=output, page=PageOptions(status, status_token_file))


def _settings(job: str, to: str | None, tables: str | None, exclude_tables: str | None) -> PublishJob:
    from binlog_streaming.jobs.mirror import publish_job
    from binlog_streaming.settings import load_publish_job

    if to is not None:
        return publish_job(job, to, tables=tables, exclude_tables=exclude_tables)
    for name, value in (("--tables", tables), ("--exclude-tables", exclude_tables)):
        if value is not None:
            raise typer.BadParameter("it is for --to; a job file names the tables", param_hint=name)
    if "://" in job or Path(job).is_dir():
        hint = f"Without a job file: binlog-stream publish {job} --to HOST:PORT/PREFIX"
        raise OptionError("INVALID_VALUE", "expected a job file, got a folder or a URL", at=Place(job), hint=hint)
    name_job(job)
    return load_publish_job(Path(job))


def _write_down(settings: PublishJob, output: Output) -> None:
    from binlog_format import open_log
    from binlog_streaming.jobs.mirror import write_down
    from binlog_streaming.topics.record import require_changes

    with open_log(settings.source.path) as log:  # what is wrong with it is reported before anything is written
        require_changes(log)
        file = write_down(settings)
    if output is Output.TABLE:
        say(f"job file: {file}")
