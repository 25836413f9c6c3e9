"""`binlog-stream run JOB.toml`: keep Delta tables in step with a log."""

from __future__ import annotations

import signal
from pathlib import Path  # noqa: TC003 (typer looks at annotations)
from typing import TYPE_CHECKING, Annotated

import typer

from binlog_streaming.cli.output import Output, write_json_lines
from binlog_streaming.settings import load_job

if TYPE_CHECKING:
    from types import FrameType

    from binlog_streaming.settings import Job
    from binlog_streaming.tables.job import TablesJob
    from binlog_streaming.tables.progress import BatchProgress


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("run")(run)


def run(
    job_file: Annotated[Path, typer.Argument(metavar="JOB.toml", help="The job: see conf/demo.toml.")],
    once: Annotated[bool, typer.Option("--once", help="Take what is there now, then end.")] = False,
    output: Annotated[
        Output, typer.Option("--output", "-o", help="A line for each batch: for people (table) or as JSON (jsonl).")
    ] = Output.TABLE,
) -> None:
    """Keep Delta tables in step with a log, exactly once, until it is stopped (SIGINT or SIGTERM).

    Started again, it goes on where it was: the checkpoint directory of the job knows.
    """
    job = load_job(job_file)
    # Spark takes a second to import: only where it is needed.
    from binlog_streaming.tables.job import TablesJob

    printer = _JsonPrinter() if output is Output.JSONL else _LinePrinter()
    running = TablesJob(job, listener=printer.batch)

    def stop(number: int, frame: FrameType | None) -> None:
        del number, frame
        running.request_stop()

    signal.signal(signal.SIGINT, stop)
    signal.signal(signal.SIGTERM, stop)
    running.start(once=once)
    printer.started(job, running)
    running.wait()
    printer.ended(running)


class _LinePrinter:
    """A line for people."""

    def started(self, job: Job, running: TablesJob) -> None:
        """Say what runs."""
        del running
        typer.echo(f"{job.name}: {job.source.path} -> {job.sink.directory}")

    def batch(self, batch: BatchProgress) -> None:
        """Say what a batch did."""
        parts = [
            f"batch {batch.batch_id}",
            f"{len(batch.tables)} tables",
            f"{batch.changes:,} changes",
            f"{batch.seconds:.2f} s",
            f"{batch.changes / max(batch.seconds, 1e-9):,.0f} changes/s",
        ]
        if batch.lag_seconds is not None:
            parts.append(f"lag {batch.lag_seconds:.1f} s")
        if batch.bytes_behind is not None:
            parts.append(f"{batch.bytes_behind:,} bytes behind")
        repeated = sum(table.outcome == "repeated" for table in batch.tables)
        if repeated:
            parts.append(f"{repeated} tables had it already")
        typer.echo("  ".join(parts))

    def ended(self, running: TablesJob) -> None:
        """Sum up."""
        progress = running.progress
        typer.echo(f"ended: {progress.changes:,} changes in {progress.batches} batches")


class _JsonPrinter:
    """Lines for programs: events `started`, `batch`, `ended`."""

    def started(self, job: Job, running: TablesJob) -> None:
        """Say what runs."""
        write_json_lines(
            [
                {
                    "event": "started",
                    "name": job.name,
                    "source": job.source.path,
                    "directory": job.sink.directory,
                    "query_id": running.query_id,
                    "spark_log": str(running.spark_log),
                }
            ]
        )

    def batch(self, batch: BatchProgress) -> None:
        """Say what a batch did."""
        write_json_lines([batch.as_json()])

    def ended(self, running: TablesJob) -> None:
        """Sum up."""
        progress = running.progress
        write_json_lines([{"event": "ended", "batches": progress.batches, "changes": progress.changes}])
