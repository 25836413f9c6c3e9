"""Display of the demo: `DemoView` shows steps, progress and the result; plain lines if output is piped."""

from __future__ import annotations

import contextlib
import time
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from binlog_lab.demo.proof.comparison import CURRENT_VERSIONS, NET_CHANGELOG
from binlog_lab.demo.state import DemoMarkKind
from binlog_streaming.status.wording import bytes_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from rich.console import RenderableType

    from binlog_lab.demo.proof.comparison import Comparison
    from binlog_lab.demo.state import DemoMark, Snapshot

REFRESHES_PER_S = 8
PLAIN_INTERVAL_S = 2.0
DIFFERENCES_SHOWN = 5
_NONE = "-"
_MARK_STYLES = {
    DemoMarkKind.ALTERED: "yellow",
    DemoMarkKind.KILLED: "bold red",
    DemoMarkKind.RESTARTED: "green",
    DemoMarkKind.REPEATED: "green",
    DemoMarkKind.SNAPSHOT: "cyan",
}
_EXPLANATIONS = {
    NET_CHANGELOG: "the rows that its changes leave, played through in order",
    CURRENT_VERSIONS: "the versions that hold now; and of each row one version must follow another",
}


class DemoView:
    """Prints to one console."""

    def __init__(self, console: Console | None = None) -> None:
        self.console = console or Console(highlight=False)

    def title(self, source: str, target: str, *, by: str = "Spark", log: str = ".ibb log") -> None:
        """Announce the demo: *by* brings the *log* of *source* to *target*."""
        self.console.print()
        self.console.print(f"[bold]binlog-stream demo[/]  {source} [dim]→ {log} → {by} →[/] {target}")
        self.console.print()

    @contextlib.contextmanager
    def step(self, doing: str, done: str) -> Iterator[Callable[[str], None]]:
        """Show a step while it runs, and its duration when it is done.

        Yields:
            Says how far it is.
        """
        started = time.monotonic()
        spinner = Spinner("dots", f"{doing} ...")
        if self.console.is_terminal:
            with Live(spinner, console=self.console, transient=True):
                yield lambda how_far: spinner.update(text=f"{doing} ... {how_far}")
        else:
            yield lambda _: None
        self.console.print(f"[green]✓[/] {done} [dim]({time.monotonic() - started:.1f} s)[/]")

    def note(self, text: str) -> None:
        """One line."""
        self.console.print(text, soft_wrap=True)

    def mark(self, mark: DemoMark, seconds: float) -> None:
        """Print an event of the demo, *seconds* after its start."""
        text = Text(mark.text, _MARK_STYLES[mark.kind])
        self.console.print(Text.assemble((f"{seconds:5.1f} s  ", "dim"), text), soft_wrap=True)

    def progress(self, snapshot: Callable[[], Snapshot], is_done: Callable[[], bool]) -> None:
        """Show progress until *is_done*; what that raises goes through."""
        if not self.console.is_terminal:
            self._plain_progress(snapshot, is_done)
            return
        with Live(console=self.console, auto_refresh=False) as live:
            while True:
                finished = is_done()
                live.update(progress_panel(snapshot()), refresh=True)
                if finished:
                    return
                time.sleep(1 / REFRESHES_PER_S)

    def _plain_progress(self, snapshot: Callable[[], Snapshot], is_done: Callable[[], bool]) -> None:
        due = time.monotonic()
        while True:
            finished = is_done()
            if finished or time.monotonic() >= due:
                self.console.print(progress_line(snapshot()), soft_wrap=True)
                due += PLAIN_INTERVAL_S
            if finished:
                return
            time.sleep(0.1)

    def result(self, comparisons: Sequence[Comparison]) -> None:
        """Table by table, whether it is what it must be."""
        self.console.print(result_table(comparisons))
        explained = [
            (mode, text) for mode, text in _EXPLANATIONS.items() if any(one.mode == mode for one in comparisons)
        ]
        for mode, text in explained:
            self.console.print(f"[dim]{mode}: {text}[/]")
        if explained:
            self.console.print()
        for comparison in comparisons:
            if not comparison.is_equal:
                self.console.print(differences_table(comparison))

    def verdict(self, comparisons: Sequence[Comparison]) -> None:
        """All in one line."""
        wrong = [comparison for comparison in comparisons if not comparison.is_equal]
        rows = sum(comparison.got for comparison in comparisons)
        if wrong:
            count = sum(one.difference_count for one in wrong)
            self.console.print(f"[bold red]✗ {len(wrong)} of {len(comparisons)} tables differ[/], in {count:,} places.")
        else:
            self.console.print(
                f"[bold green]✓ All {len(comparisons)} tables are equal to the expected rows[/], {rows:,} rows."
            )

    def facts(self, facts: Sequence[tuple[str, str]]) -> None:
        """Names and values, one below the other."""
        table = Table.grid(padding=(0, 2))
        table.add_column(style="dim")
        table.add_column(overflow="fold")
        for name, value in facts:
            table.add_row(name, value)
        self.console.print()
        self.console.print(table)

    def code(self, heading: str, lines: Sequence[str]) -> None:
        """Lines to be copied; they are never broken or shortened."""
        self.console.print()
        self.console.print(f"[dim]{heading}[/]")
        for line in lines:
            self.console.print(Text("  " + line, style="cyan"), soft_wrap=True)


def progress_panel(snapshot: Snapshot) -> RenderableType:
    """The live view."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_footer=True)
    table.add_column("table", footer="all", footer_style="bold")
    table.add_column("row changes in the log", justify="right", footer=f"{snapshot.total_in_log:,}")
    table.add_column("in the tables", justify="right", footer=f"{snapshot.total_applied:,}")
    table.add_column("", width=24)
    for name in sorted(snapshot.in_log | snapshot.applied):
        there, applied = snapshot.in_log.get(name, 0), snapshot.applied.get(name, 0)
        bar = ProgressBar(total=max(there, 1), completed=min(applied, there), width=24, complete_style="cyan")
        table.add_row(name, f"{there:,}", f"{applied:,}", bar)
    values = Table.grid(padding=(0, 3))
    for _ in range(6):
        values.add_column()
    values.add_row(*(Text.assemble((f"{name} ", "dim"), (value, "bold")) for name, value in _values(snapshot)))
    return Group(table, values, "")


def progress_line(snapshot: Snapshot) -> str:
    """The same as one line."""
    parts = [
        f"{snapshot.seconds:5.1f} s",
        f"in the log {snapshot.total_in_log:,}",
        f"in the tables {snapshot.total_applied:,}",
    ]
    parts += [f"{name} {value}" for name, value in _values(snapshot)]
    return "  ".join(parts)


def result_table(comparisons: Sequence[Comparison]) -> Table:
    """One row for each target table."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("table")
    table.add_column("mode", style="dim", no_wrap=True)
    table.add_column("rows expected", justify="right")
    table.add_column("rows found", justify="right")
    table.add_column("differences", justify="right")
    last = None
    for comparison in comparisons:
        verdict = (
            Text("none ✓", "green") if comparison.is_equal else Text(f"{comparison.difference_count:,} ✗", "bold red")
        )
        name, last = "" if comparison.table == last else comparison.table, comparison.table
        table.add_row(name, comparison.mode, f"{comparison.expected:,}", f"{comparison.got:,}", verdict)
    return table


def differences_table(comparison: Comparison) -> Table:
    """The first differences of a table."""
    shown = comparison.differences[:DIFFERENCES_SHOWN]
    title = (
        f"{comparison.table} ({comparison.mode}): the first {len(shown)} of {comparison.difference_count:,} differences"
    )
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, title=title, title_justify="left", title_style="bold red")
    for name in ("row", "column", "expected", "got"):
        table.add_column(name, overflow="fold")
    for one in shown:
        table.add_row(one.key or _NONE, one.column or "the row", one.expected, one.got)
    return table


def _values(snapshot: Snapshot) -> list[tuple[str, str]]:
    lag = _NONE if snapshot.lag_seconds is None else f"{snapshot.lag_seconds:.1f} s"
    behind = _NONE if snapshot.bytes_behind is None else bytes_text(snapshot.bytes_behind)
    return [
        ("rows/s", f"{snapshot.rate:,.0f}"),
        ("lag", lag),
        ("behind", behind),
        ("batches", f"{snapshot.batches}"),
        ("last GTID", snapshot.last_gtid or _NONE),
    ]
