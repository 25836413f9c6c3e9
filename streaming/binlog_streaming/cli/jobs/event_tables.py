"""Commands `run` and `check` for a job whose source is a structured log: `run_event_job`, `check_event_job`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import typer

from binlog_streaming.cli.jobs.in_process import run_in_process
from binlog_streaming.cli.output import Output, write_json_lines

if TYPE_CHECKING:
    from binlog_streaming.cli.status.observing import PageOptions
    from binlog_streaming.settings import EventTablesJob


def run_event_job(job: EventTablesJob, *, once: bool, output: Output, page: PageOptions) -> None:
    """Run *job*; see `run_in_process`."""
    # Compiled code and the sinks take a second to import: not for a mistake in the file.
    from binlog_streaming.event_tables.run import EventTablesRun

    run_in_process(
        job,
        lambda listener: EventTablesRun(job, once=once, listener=listener),
        source=job.source.path,
        source_text=job.source.path,
        once=once,
        output=output,
        page=page,
    )


def check_event_job(job: EventTablesJob, output: Output) -> None:
    """Report where *job* would continue, and the tables for the waiting events; nothing is written.

    Raises:
        BinlogError: What the job itself would report at its start.
    """
    from binlog_streaming.event_tables.run import EventTablesRun

    waiting = EventTablesRun(job).waiting()
    position = str(waiting.offset.position)
    if output is Output.JSONL:
        write_json_lines([{"kind": "log", "path": job.source.path, "position": position, "bytes": waiting.size}])
        write_json_lines(
            {"kind": "table", "target": place, "sources": count} for place, count in waiting.tables.items()
        )
        write_json_lines([{"kind": "result", "can_run": True}])
        return
    typer.echo(f"{job.name}: {job.source.path} -> {job.sink.directory} ({job.sink.format})")
    typer.echo(f"from {position}, {waiting.size:,} bytes to read")
    for place, count in waiting.tables.items():
        typer.echo(f"{place}: events of {count} source{'' if count == 1 else 's'}")
    typer.echo("It can run.")
