"""`binlog-stream repack`: a real server's classic log as a live `.ibb` log."""

from __future__ import annotations

import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.live import Live
from rich.text import Text

from binlog_format.classic.reader import ClassicLog
from binlog_format.errors import UnsupportedError, storage_error
from binlog_format.format_traits import CLASSIC
from binlog_format.formats.directories import open_directory
from binlog_format.formats.opening import detect_format
from binlog_format.gtids.gtid_set import GtidSet
from binlog_lab.cli.log_options import CacheSizeOption, MaxBinlogSizeOption, StateIntervalOption, parse_size
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.repack.repacker import CHECKPOINT_SECONDS, Repacker, RepackProgress
from binlog_streaming.cli.output import stopped_by_signals

if TYPE_CHECKING:
    from collections.abc import Iterator


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("repack")(repack)


def repack(
    classic: Annotated[str, typer.Argument(help="Directory of a MariaDB server's binlog files, or one of them.")],
    to: Annotated[Path, typer.Option("--to", help="Directory for the .ibb files; a log in it is continued.")],
    follow: Annotated[
        bool, typer.Option("--follow", help="Continue while the server writes, until interrupted.")
    ] = False,
    cache_size: CacheSizeOption = "32K",
    max_binlog_size: MaxBinlogSizeOption = "64M",
    state_interval: StateIntervalOption = "2M",
    checkpoint_every: Annotated[
        float, typer.Option(min=0.0, help="Seconds after which a page that is not full is written out.")
    ] = CHECKPOINT_SECONDS,
) -> None:
    """Write a server's event groups as a live .ibb log, as a MariaDB 12.3 server would have written them.

    Started again, it continues at the end of the .ibb log, also after a kill.

    For example:

        binlog-stream repack /var/lib/mysql --to ibb --follow
    """
    options = WriterOptions(
        cache_size=parse_size(cache_size),
        max_binlog_size=parse_size(max_binlog_size),
        state_interval=parse_size(state_interval),
    )
    source = _mariadb_log(classic)
    started = time.monotonic()
    try:
        with (
            stop_on_signals() as stop,
            _Display(started) as display,
            Repacker(source, to, options, checkpoint_seconds=checkpoint_every, on_progress=display.show) as repacker,
        ):
            repacker.run(stop, follow=follow)
    except OSError as error:
        raise storage_error(error.filename or to, "write", error) from error
    typer.echo(_line(repacker.progress, time.monotonic() - started))


def _mariadb_log(path: str) -> ClassicLog:
    directory, only = open_directory(path)
    if (found := detect_format(directory, only)) != CLASSIC:
        raise UnsupportedError("FORMAT", f"{path}: repack reads classic logs, and this log is {found} already")
    source = ClassicLog(directory, only)
    if isinstance(source.gtid_position_at(source.start_position()), GtidSet):
        raise UnsupportedError(
            "FORMAT",
            f"{path}: this is the log of a MySQL server; only MariaDB's logs become .ibb logs",
            hint="Every other command reads it as it is",
        )
    return source


@contextmanager
def stop_on_signals() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set; the second SIGINT interrupts as usual."""
    stop = threading.Event()
    with stopped_by_signals(stop.set):
        yield stop


class _Display:
    """One line on the terminal that shows how far it is; nothing where there is no terminal."""

    def __init__(self, started: float) -> None:
        self._started = started
        self._live = Live(console=Console(stderr=True), transient=True) if sys.stderr.isatty() else None

    def __enter__(self) -> _Display:
        if self._live is not None:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._live.stop()

    def show(self, progress: RepackProgress) -> None:
        """Show *progress*."""
        if self._live is not None:
            self._live.update(Text(_line(progress, time.monotonic() - self._started), no_wrap=True))


def _line(progress: RepackProgress, seconds: float) -> str:
    rate = progress.source_bytes / max(seconds, 1e-9) / 1e6
    line = (
        f"{progress.groups:,} event groups, {progress.source_bytes / 1e6:,.1f} MB in {seconds:.1f} s ({rate:.1f} MB/s)"
    )
    known = f", {progress.skipped:,} were there already" if progress.skipped else ""
    gtids = f", up to {progress.gtids}" if progress.gtids.last else ""
    return line + known + gtids
