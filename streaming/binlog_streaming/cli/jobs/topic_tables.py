"""Commands `run` and `check` for a job whose sources are topics: `run_topic_job`, `check_topic_job`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from binlog_streaming.cli.jobs.in_process import run_in_process
from binlog_streaming.cli.output import Output, write_json_lines

if TYPE_CHECKING:
    from binlog_streaming.cli.status.observing import PageOptions
    from binlog_streaming.settings import TopicTablesJob


def run_topic_job(job: TopicTablesJob, *, once: bool, output: Output, page: PageOptions) -> None:
    """Run *job*; see `run_in_process`."""
    # Kafka's client and the sinks take a second to import: not for a mistake in the file.
    from binlog_streaming.topic_tables.run import TopicTablesRun

    run_in_process(
        job,
        lambda listener: TopicTablesRun(job, once=once, listener=listener),
        source=job.source.topics,
        source_text=f"{job.source.bootstrap_servers} ({job.source.topics})",
        once=once,
        output=output,
        page=page,
    )


def check_topic_job(job: TopicTablesJob, output: Output) -> None:
    """Report where *job* would continue; nothing is written.

    Raises:
        BinlogError: What the job itself would report at its start.
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
