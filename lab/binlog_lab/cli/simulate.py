"""`binlog-stream simulate`: a log made of operations, as a server would have written it."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer

from binlog_lab.cli.log_options import CacheSizeOption, MaxBinlogSizeOption, StateIntervalOption, parse_size
from binlog_lab.cli.repack import stop_on_signals
from binlog_lab.innodb_writer.files import find_files
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.simulation.run import SimulatedRate, Simulation, SimulationProgress
from binlog_streaming.cli.progress import progress_bar

_DEFAULTS = WriterOptions()


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("simulate")(simulate)


def _rate(text: str) -> SimulatedRate:
    try:
        return SimulatedRate.parse(text)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


def simulate(  # noqa: PLR0913 - the options of the command
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="Operations: an .ops file, or JSON lines.")],
    to: Annotated[Path, typer.Option("--to", help="Directory for the .ibb files; must contain none.")],
    page_size: Annotated[
        str, typer.Option(metavar="SIZE", help="Servers write 16K; a power of two from 512 to 64K.")
    ] = str(_DEFAULTS.page_size),
    max_binlog_size: MaxBinlogSizeOption = "1G",
    state_interval: StateIntervalOption = "2M",
    cache_size: CacheSizeOption = "32K",
    no_prealloc: Annotated[bool, typer.Option("--no-prealloc", help="Make no file before it is needed.")] = False,
    live: Annotated[
        SimulatedRate | None,
        typer.Option(
            parser=_rate,
            metavar="RATE",
            help="Write in real time, so that a reader can follow: event groups a second (200), "
            "or event bytes a second with a unit (500K, 2M).",
        ),
    ] = None,
    snapshots: Annotated[
        Path | None, typer.Option(help="Directory for the copies of the log that the operations ask for.")
    ] = None,
) -> None:
    """Write the log that a MariaDB 12.3 server would write for given operations, byte for byte.

    Both forms of the operations are described in docs/simulate.md.

    For example:

        binlog-stream simulate shop.jsonl --to log --max-binlog-size 1M
    """
    options = WriterOptions(
        page_size=parse_size(page_size),
        max_binlog_size=parse_size(max_binlog_size),
        state_interval=parse_size(state_interval),
        cache_size=parse_size(cache_size),
        preallocate=not no_prealloc,
    )
    started = time.monotonic()
    with stop_on_signals() as stop, progress_bar("writing") as show:
        simulation = Simulation(
            file, to, options, snapshots=snapshots, on_progress=lambda now: show(now.source_bytes, now.source_size)
        )
        simulation.run(stop, live)
    typer.echo(_summary(simulation.progress, to, time.monotonic() - started))


def _summary(progress: SimulationProgress, directory: Path, seconds: float) -> str:
    crashes = f", {progress.crashes} crash{'es' if progress.crashes > 1 else ''}" if progress.crashes else ""
    files = find_files(directory)
    return (
        f"{progress.operations:,} operations, {progress.groups:,} event groups, "
        f"{progress.event_bytes / 1e6:,.1f} MB{crashes} in {seconds:.1f} s: {len(files)} files in {directory}"
    )
