"""Output of `binlog-stream snapshot`: the plan, its progress, and its result."""

from __future__ import annotations

import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import typer
from rich.table import Table

from binlog_format.errors import OptionError
from binlog_format.messages import count_text
from binlog_streaming.cli.output import escaped, output_console, say
from binlog_streaming.cli.progress import progress_line
from binlog_streaming.status.wording import names_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from binlog_streaming.snapshot.plan import SnapshotPlan
    from binlog_streaming.snapshot.run import SnapshotProgress, SnapshotResult
    from binlog_streaming.snapshot.server_load import SnapshotLoad
    from binlog_streaming.snapshot.server_tables import LeftOut, ServerTable

_MIB = 1 << 20


def is_confirmed(what: str) -> bool:
    """Ask for confirmation. *what*: the command does, for who cannot be asked."""
    if not sys.stdin.isatty():
        hint = "Look at what it would do, above, and give --yes"
        raise OptionError("MISSING", f"--yes: nobody can be asked here, and this {what}", hint=hint)
    return typer.confirm("Begin?", err=True)


def print_plan(plan: SnapshotPlan, address: str) -> None:
    """Print the plan of a snapshot."""
    console = output_console()
    console.print(f"server   {escaped(address)}, {escaped(plan.server)}")
    for name, text in _facts(plan):
        console.print(f"{name:<8} {escaped(text)}", soft_wrap=True)
    print_left_out(plan.left_out)
    if plan.tables:
        purposes = (
            (planned.table, "goes on" if planned.is_resumed else str(planned.purpose)) for planned in plan.tables
        )
        console.print(planned_tables("chunks by", "one chunk", "purpose", purposes))
    else:
        console.print("Nothing to do.")


def _facts(plan: SnapshotPlan) -> Iterator[tuple[str, str]]:
    if plan.tables:
        engine = (
            "" if plan.engine.is_installed else "; installs its plugin (INSTALL SONAME 'ha_blackhole'), which stays"
        )
        yield "writes", f"into the database binlog_stream, tables in {plan.engine.engine}{engine}"
        yield "log", f"grows by about {size_text(plan.size_estimate)}"
        from binlog_streaming.snapshot.run import LOCK_SECONDS  # whoever has a plan has loaded it

        yield "load", f"1 connection; a chunk holds its locks, and old versions of rows, for about {LOCK_SECONDS:g} s"
        yield "replicas", _replicas(plan)
    if plan.locked:
        what = "locked as a whole against changes for each chunk, as their engines lock no rows"
        yield "warning", f"{what}: {names_text(plan.locked)}"
    if plan.keyless:
        yield "warning", f"no unique key, so all rows are locked at once against changes: {names_text(plan.keyless)}"
    if plan.unseen:
        yield (
            "warning",
            f"tables of the job that the server does not show, or not to this account: {names_text(plan.unseen)}",
        )
    if plan.taken:
        yield "taken", f"by the run that was cut off (--restart takes them again): {names_text(plan.taken)}"
    if plan.complete:
        yield "complete", f"left out (--tables takes them again): {names_text(plan.complete)}"


def print_left_out(left_out: Sequence[LeftOut]) -> None:
    """Say what is not taken, and why."""
    for table in left_out:
        output_console().print(f"left out {escaped(str(table))}", soft_wrap=True)


def exit_if_rows_are_missing(failed: Sequence[LeftOut], left_out: Sequence[LeftOut]) -> None:
    """End the program with 1 if rows of a table are not taken; the plan, with the reasons, was printed long before.

    Raises:
        typer.Exit: There are such tables.
    """
    missing = [table for table in left_out if table.has_rows]
    if missing:
        say(f"left out, as the plan tells: {names_text([table.name for table in missing])}", err=True)
    if failed or missing:
        raise typer.Exit(1)


def _replicas(plan: SnapshotPlan) -> str:
    if plan.replicas == ():
        return "none is connected; one that connects later makes the same database, table of marks and shadows"
    if plan.replicas is None:
        who = "not known, this account may not see them (REPLICATION MASTER ADMIN, or REPLICATION SLAVE): they"
    else:
        who = names_text([str(replica) for replica in plan.replicas])
    return (
        f"{who} make the same database, table of marks and shadows, and receive the rows; without the engine BLACKHOLE "
        "they keep those in InnoDB until the snapshot of a table has ended. To spare them: "
        r"replicate_wild_ignore_table='binlog\_stream.%' there; MariaDB also: "
        "replicate_events_marked_for_skip=FILTER_ON_MASTER"
    )


def planned_tables(keys: str, without_key: str, last: str, tables: Iterable[tuple[ServerTable, str]]) -> Table:
    """Tables of a plan, for people.

    Args:
        keys: Head of the column for the key that divides a table.
        without_key: What stands there for a table that is not divided.
        last: Head of the last column.
        tables: With their texts in the last column.
    """
    shown = Table(box=None, pad_edge=False)
    shown.add_column("table", overflow="fold")
    shown.add_column("rows, about", justify="right")
    shown.add_column("size, about", justify="right")
    shown.add_column(keys, overflow="fold")
    shown.add_column(last)
    for table, text in tables:
        shown.add_row(
            escaped(table.source.full_name),
            f"{table.row_estimate:,}",
            size_text(table.size_estimate),
            escaped(", ".join(table.source.key.names)) if table.source.key is not None else without_key,
            text,
        )
    return shown


@contextmanager
def showing_progress() -> Iterator[Callable[[SnapshotProgress], None]]:
    """A function that shows progress: in one line of a terminal, else as a line now and then."""
    with progress_line() as (show, interval):
        yield _Progress(show, interval)


class _Progress:
    """Turns progress into a line, not more often than *interval* seconds, and when a table is done."""

    def __init__(self, show: Callable[[str], None], interval: float) -> None:
        self._show = show
        self._interval = interval
        self._table = ""
        self._started = self._shown = 0.0
        self._rows_before = 0

    def __call__(self, progress: SnapshotProgress) -> None:
        now = time.monotonic()
        if progress.table != self._table:
            self._table, self._started, self._shown = progress.table, now, now
            self._rows_before = progress.row_count
        elif progress.is_done or now - self._shown >= self._interval:
            self._shown = now
            self._show(self._line(progress, now - self._started))

    def _line(self, progress: SnapshotProgress, seconds: float) -> str:
        rate = (progress.row_count - self._rows_before) / seconds if seconds > 0 else 0.0
        speed = f", {rate:,.0f} rows/s" if rate else ""  # of one chunk there is none
        line = f"{progress.table}: {count_text(progress.row_count, 'row')}{speed}"
        if progress.is_done:
            return f"{line}, done"
        if progress.is_locked:
            return f"{line}, waits for rows that others have locked"
        left = max(0, progress.row_estimate - progress.row_count)
        remaining = f", about {left / rate:,.0f} s remaining" if rate and left else ""
        chunks = f", chunks of {progress.chunk_size:,}" if progress.chunk_size else ""
        return f"{line}{chunks}{remaining}"


def print_result(result: SnapshotResult, place: str = "the log") -> None:
    """Print the result: the tables that are in the log now, or in another place."""
    tables = count_text(result.tables, "table")
    console = output_console()
    console.print(f"{tables}, {count_text(result.rows, 'row')} are in {place}, after {result.seconds:,.1f} s")
    console.print(f"load     {'; '.join(_load(result.load))}", soft_wrap=True)
    for table in result.failed:
        say(f"not taken {table}", err=True)


def _load(load: SnapshotLoad) -> Iterator[str]:
    yield count_text(load.connections, "connection")
    if load.lock_count:
        percentile, longest = (1000 * seconds for seconds in load.lock_seconds)
        yield f"locks {load.lock_count:,} times, 99 % of them up to {percentile:,.1f} ms, {longest:,.1f} ms at most"
    else:
        yield "no locks of rows"
    if load.log_bytes is None:
        yield "log: not known (REPLICATION CLIENT)"
    else:
        others = ", with what others wrote" if load.is_log_shared else ""
        yield f"log {size_text(load.log_bytes)}{others}"
    if load.history is None:
        yield "undo history: not known (PROCESS)"
    else:
        yield f"undo history {load.history[0]:,} before, {load.history[1]:,} at most"


def size_text(size: int) -> str:
    """A number of bytes for people."""
    return f"{size / _MIB:,.1f} MiB"
