"""Progress of what takes more than a moment: `progress_bar` and `starting` on a terminal only, `progress_line`."""

from __future__ import annotations

import os
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from binlog_streaming.cli.output import escaped, say

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    OnProgress = Callable[[int, int], None]
    ShowLine = Callable[[str], None]

SHOWN_AFTER_SECONDS = 1.0
_UPDATE_SECONDS = 0.1
_TERMINAL_SECONDS = 0.2
_PIPED_SECONDS = 10.0


@contextmanager
def starting(what: str) -> Iterator[None]:
    """Show on a terminal that *what* is starting, and then how long it took."""
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


@contextmanager
def progress_line() -> Iterator[tuple[ShowLine, float]]:
    """A function that shows a line, on a terminal in the place of the one before; and seconds to leave between two."""
    if not sys.stderr.isatty():
        yield lambda text: say(text, err=True), _PIPED_SECONDS
        return
    with Console(stderr=True, highlight=False).status("") as status:
        yield lambda text: status.update(escaped(text)), _TERMINAL_SECONDS
