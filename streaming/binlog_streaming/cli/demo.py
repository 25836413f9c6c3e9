"""`binlog-stream demo`: the main job on a live log, compared with the truth row by row."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

# Names of `binlog_streaming.demo.run.Source`, which takes Spark with it: not for --help.
_SOURCES = ("workload", "mariadb")


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("demo")(demo)


def demo(
    source: Annotated[
        str,
        typer.Option(
            metavar="|".join(_SOURCES),
            help="The project's own workload, or a MariaDB server from PATH under load.",
        ),
    ] = "workload",
    rows: Annotated[int, typer.Option(min=1000, help="Row changes of the workload, about.")] = 150_000,
    seconds: Annotated[
        float, typer.Option(min=1, help="Time in which they are written, or for which the server is under load.")
    ] = 10.0,
    directory: Annotated[
        Path, typer.Option(help="Where log, tables and checkpoint go; what the last demo left there is deleted.")
    ] = Path("demo-output"),
    keep: Annotated[bool, typer.Option(help="Leave the tables there.")] = True,
) -> None:
    """Keep Delta tables in step with a live log, and compare every row with the truth.

    Exit status 0 only if all rows are equal.
    """
    if source not in _SOURCES:
        raise typer.BadParameter(f"{source!r} is not one of {', '.join(_SOURCES)}", param_hint="--source")
    # Spark takes a second to import: only where it is needed.
    from binlog_streaming.demo.run import DemoOptions, Source, run_demo

    options = DemoOptions(source=Source(source), rows=rows, seconds=seconds, directory=directory, keep=keep)
    if not run_demo(options):
        raise typer.Exit(1)
