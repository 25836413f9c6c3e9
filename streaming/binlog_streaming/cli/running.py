"""One way to run a job, for the commands `run` and `mirror`: `run_job`."""

from __future__ import annotations

import contextlib
import signal
from typing import TYPE_CHECKING

import typer

from binlog_streaming.cli.output import Output, write_json_lines

if TYPE_CHECKING:
    from types import FrameType

    from binlog_streaming.settings import Job
    from binlog_streaming.tables.job import TablesJob
    from binlog_streaming.tables.progress import BatchProgress


def run_job(job: Job, *, once: bool, output: Output) -> None:
    """Run *job* until it ends, or until SIGINT or SIGTERM; say what it does.

    Raises:
        BinlogError: What ended it.
    """
    # Spark takes a second to import: only where it is needed.
    from binlog_streaming.job_metrics import exported
    from binlog_streaming.tables.job import TablesJob

    printer = _JsonPrinter() if output is Output.JSONL else _LinePrinter()
    with contextlib.ExitStack() as stack:
        metrics = stack.enter_context(exported(job))

        def listen(batch: BatchProgress) -> None:
            if metrics is not None:
                metrics.batch(batch)
            printer.batch(batch)

        running = TablesJob(job, listener=listen)

        def stop(number: int, frame: FrameType | None) -> None:
            del number, frame
            running.request_stop()

        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGTERM, stop)
        running.start(once=once)
        printer.started(job, running, None if metrics is None else metrics.address)
        running.wait()
        printer.ended(running)


class _LinePrinter:
    """A line for people."""

    def started(self, job: Job, running: TablesJob, metrics: str | None) -> None:
        """Say what runs."""
        del running
        typer.echo(f"{job.name}: {job.source.path} -> {job.sink.directory} ({job.sink.format})")
        if metrics is not None:
            typer.echo(f"metrics: {metrics}")

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

    def started(self, job: Job, running: TablesJob, metrics: str | None) -> None:
        """Say what runs."""
        write_json_lines(
            [
                {
                    "event": "started",
                    "name": job.name,
                    "source": job.source.path,
                    "directory": job.sink.directory,
                    "format": str(job.sink.format),
                    "query_id": running.query_id,
                    "spark_log": str(running.spark_log),
                    "metrics": metrics,
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
