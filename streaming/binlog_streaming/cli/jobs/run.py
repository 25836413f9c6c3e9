"""`binlog-stream run JOB.toml`: keep lakehouse tables in step with a log, as a job file describes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from binlog_connector.installing import require
from binlog_streaming.cli.jobs.running import run_job
from binlog_streaming.cli.options import JobArgument
from binlog_streaming.cli.output import Output
from binlog_streaming.cli.status.observing import (
    PageOptions,
    StatusOption,
    StatusTokenOption,
)

if TYPE_CHECKING:
    from binlog_streaming.settings.job_file import AnyJob

OnceOption = Annotated[bool, typer.Option("--once", help="Read the present log, then end.")]
BatchOutputOption = Annotated[
    Output, typer.Option("--output", "-o", help="A line for each batch: for people (table) or as JSON (jsonl).")
]


def run(
    job: JobArgument,
    once: OnceOption = False,
    output: BatchOutputOption = Output.TABLE,
    status: StatusOption = None,
    status_token_file: StatusTokenOption = None,
) -> None:
    """Keep lakehouse tables in step with a log, or with topics of Kafka, exactly once, as a job file describes.

    The log may be a database server's, or a structured log of a program.

    It follows them until it is stopped: Ctrl-C (SIGINT) or SIGTERM finishes the current batch, then stops. Started
    again it continues where it stopped, as its checkpoint records. A table that cannot be written ends the job before
    anything is counted as done.

    `binlog-stream status JOB.toml` shows its state, and so does a page with --status ADDRESS. Settings that belong to
    the checkpoint (log, tables, modes, places) cannot be changed in the job file later on.

    For example, until it is stopped, with a page of its state; or what is there now:

        binlog-stream run job.toml --status 127.0.0.1:8080
        binlog-stream run job.toml --once

    Exit status: 0 ended as asked, 1 a named error (docs/errors.md has them all), 2 a mistake in the job file; 143
    (SIGTERM) or 130 (SIGINT) stopped before it had taken what --once was to take.
    """
    from binlog_streaming.jobs.mirror import any_job_at
    from binlog_streaming.settings import EventTablesJob, TopicTablesJob, tables_job

    settings: AnyJob = any_job_at(job)
    if not isinstance(settings, EventTablesJob | TopicTablesJob):
        require("pyspark")  # before anything is written
        settings = tables_job(settings, Path(job))
    run_job(settings, once=once, output=output, page=PageOptions(status, status_token_file))
