"""`binlog-stream demo-logs`: a live structured log into a Delta table, compared event by event."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from binlog_lab.cli.demo import ended_by_signals


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo-logs")(demo_logs)


def demo_logs(
    threads: Annotated[int, typer.Option(min=1, help="Threads of the program that logs.")] = 4,
    events: Annotated[int, typer.Option(min=100, help="Events that they log, about.")] = 200_000,
    seconds: Annotated[float, typer.Option(min=1, help="Time in which they log them.")] = 20.0,
    directory: Annotated[
        Path, typer.Option(help="Folder for log, table and checkpoint; files of the last demo are deleted.")
    ] = Path("demo-output"),
    keep: Annotated[bool, typer.Option(help="Keep the table at the end.")] = True,
) -> None:
    """Write a live structured log into a Delta table, and compare every event with the logged ones.

    Several threads of a program log; their files are renamed while they are read. The job that writes the table is
    killed (kill -9) on the way and started again. Exit status 0 only if every event is in the table, once.

    For example:

        binlog-stream demo-logs --threads 8 --events 1000000
    """
    from binlog_lab.demo.logs.run import run_logs_demo

    with ended_by_signals():
        is_equal = run_logs_demo(directory, threads=threads, events=events, seconds=seconds, keep=keep)
    raise typer.Exit(int(not is_equal))
