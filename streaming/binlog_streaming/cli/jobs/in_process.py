"""One way to run a job that needs no Spark: `run_in_process`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import typer

from binlog_streaming.cli.jobs.running import SIGNALLED, LinePrinter, OutputReader, say_addresses, stopped_by_signals
from binlog_streaming.cli.output import Output, write_json_lines
from binlog_streaming.cli.status.observing import observed

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_connector.following.offsets import SourceOffset
    from binlog_streaming.cli.status.observing import PageOptions
    from binlog_streaming.job_state.progress import BatchListener, BatchProgress, Progress
    from binlog_streaming.settings import EventTablesJob, TopicTablesJob


class Running(Protocol):
    """A run of a job.

    Attributes:
        progress: What has been written.
        query_id: What the tables know the job by.
        offset: Where it goes on in its log; None: it reads none, or has not begun.
    """

    progress: Progress
    query_id: str

    @property
    def offset(self) -> SourceOffset | None:
        """See above."""

    def run(self, on_start: Callable[[], None]) -> None:
        """Run until the end, or `stop`; *on_start* is called once everything is ready."""

    def stop(self) -> None:
        """End after the batch under way."""


def run_in_process(
    job: TopicTablesJob | EventTablesJob,
    make: Callable[[BatchListener], Running],
    *,
    source: str,
    source_text: str,
    once: bool,
    output: Output,
    page: PageOptions,
) -> None:
    """Run *job* until it ends, or until SIGINT or SIGTERM; report what it does.

    Args:
        job: The settings.
        make: Makes its run, which tells the listener of each batch.
        source: What it reads, for programs.
        source_text: The same for people.
        once: It takes what is there now, and ends.
        output: How it reports what it does.
        page: Where it shows how it is.

    Raises:
        BinlogError: What ended it.
        OSError: What it does cannot be printed.
        typer.Exit: A signal stopped it before it had taken what --once was to take.
    """
    lines, reader = LinePrinter(), OutputReader()
    is_json = output is Output.JSONL

    with observed(job, page) as watched:

        def started() -> None:
            watched.recorder.goes_on_at(running.offset)
            watched.recorder.started()
            with reader.may_leave():
                if is_json:
                    told = {"event": "started", "name": job.name, "source": source, "directory": job.sink.directory}
                    told |= {"format": str(job.sink.format), "query_id": running.query_id}
                    write_json_lines([{**told, "status": watched.addresses.get("status")}])
                else:
                    typer.echo(f"{job.name}: {source_text} -> {job.sink.directory} ({job.sink.format})")
                    say_addresses(watched.addresses)

        def stop() -> None:
            watched.recorder.stopping()
            running.stop()

        def listen(batch: BatchProgress) -> None:
            watched.recorder.batch(batch)
            with reader.may_leave():
                if is_json:
                    write_json_lines([batch.as_json()])
                else:
                    lines.batch(batch)
            if reader.left is not None:
                stop()

        running = make(listen)
        with stopped_by_signals(stop) as stopped_by:
            running.run(started)
    if reader.left is not None:
        raise reader.left  # now that the batch under way is done
    how, progress = "stopped" if stopped_by else "ended", running.progress
    if is_json:
        write_json_lines([{"event": how, "batches": progress.batches, "changes": progress.changes}])
    else:
        typer.echo(f"{how}: {progress.changes:,} changes in {progress.batches} batches")
    if stopped_by and once:
        raise typer.Exit(SIGNALLED + stopped_by[0])
