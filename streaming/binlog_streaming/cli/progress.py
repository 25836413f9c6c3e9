"""A progress bar for what takes more than a moment, on a terminal only: `progress_bar`, `starting`."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    OnProgress = Callable[[int, int], None]

SHOWN_AFTER_SECONDS = 1.0
_UPDATE_SECONDS = 0.1


@contextmanager
def starting(what: str) -> Iterator[None]:
    """Say on a terminal that *what* is being started, and afterwards how long it took."""
    if not sys.stderr.isatty():
        yield
        return
    # A terminal of our own: standard error may be put elsewhere while Java starts, which keeps it.
    with os.fdopen(os.dup(sys.stderr.fileno()), "w") as terminal:
        console = Console(file=terminal)
        started = time.monotonic()
        with console.status(f"Starting {what} ..."):
            yield
        console.print(f"{what} started in {time.monotonic() - started:.1f} s", style="dim", highlight=False)


@contextmanager
def progress_bar(doing: str) -> Iterator[OnProgress]:
    """A function that takes the bytes done and the bytes there are, and shows them once a second has passed."""
    if not sys.stderr.isatty():
        yield lambda _done, _total: None
        return
    bar = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
    task = bar.add_task(doing, total=None)
    started = updated = time.monotonic()
    is_shown = False

    def show(done: int, total: int) -> None:
        nonlocal is_shown, updated
        now = time.monotonic()
        if now - updated < _UPDATE_SECONDS:
            return
        updated = now
        if not is_shown and now - started >= SHOWN_AFTER_SECONDS:
            is_shown = True
            bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield show
    finally:
        if is_shown:
            bar.stop()
