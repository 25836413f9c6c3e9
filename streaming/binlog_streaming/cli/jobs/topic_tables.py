"""What `run` and `check` do with a job whose source are topics: `run_topic_job`, `check_topic_job`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from binlog_streaming.cli.jobs.running import SIGNALLED, LinePrinter, OutputReader, stopped_by_signals
from binlog_streaming.cli.output import Output, write_json_lines

if TYPE_CHECKING:
    from binlog_streaming.settings import TopicTablesJob
    from binlog_streaming.tables.progress import BatchProgress


def run_topic_job(job: TopicTablesJob, *, once: bool, output: Output) -> None:
    """Run *job* until it ends, or until SIGINT or SIGTERM; say what it does.

    Raises:
        BinlogError: What ended it.
        OSError: What it does cannot be printed.
        typer.Exit: A signal stopped it before it had taken what --once was to take.
    """
    # Kafka's client and the sinks take a second to import: not for a mistake in the file.
    from binlog_streaming.topic_tables.run import TopicTablesRun

    lines, reader = LinePrinter(), OutputReader()
    is_json = output is Output.JSONL

    def started() -> None:
        with reader.may_leave():
            source, sink = job.source, job.sink
            if is_json:
                told = {"event": "started", "name": job.name, "source": source.topics, "directory": sink.directory}
                write_json_lines([{**told, "format": str(sink.format), "query_id": running.query_id}])
            else:
                typer.echo(
                    f"{job.name}: {source.bootstrap_servers} ({source.topics}) -> {sink.directory} ({sink.format})"
                )

    def listen(batch: BatchProgress) -> None:
        with reader.may_leave():
            if is_json:
                write_json_lines([batch.as_json()])
            else:
                lines.batch(batch)
        if reader.left is not None:
            running.stop()

    running = TopicTablesRun(job, once=once, listener=listen)
    with stopped_by_signals(running.stop) as stopped_by:
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


def check_topic_job(job: TopicTablesJob, output: Output) -> None:
    """Say where *job* would go on; nothing is written.

    Raises:
        BinlogError: What the job itself would say at its start.
    """
    from binlog_streaming.topic_tables.run import TopicTablesRun

    waiting = TopicTablesRun(job).waiting()
    if output is Output.JSONL:
        write_json_lines(
            {"kind": "partition", "topic": one.topic, "partition": one.number, "offset": offset, "end": end}
            for one, (offset, end) in sorted(waiting.items())
        )
        write_json_lines([{"kind": "result", "can_run": True}])
        return
    typer.echo(f"{job.name}: {job.source.bootstrap_servers} -> {job.sink.directory} ({job.sink.format})")
    for one, (offset, end) in sorted(waiting.items()):
        typer.echo(f"{one}: from offset {offset}, {end - offset:,} to read")
    typer.echo("It can run.")
