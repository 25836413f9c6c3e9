"""One way to run a job, for the commands `run` and `mirror`: `run_job`."""

from __future__ import annotations

import contextlib
import signal
import threading
from typing import TYPE_CHECKING

import typer

from binlog_format.errors import visible
from binlog_streaming.cli.output import Output, write_json_lines
from binlog_streaming.cli.progress import starting
from binlog_streaming.cli.status.observing import NO_PAGE, observed
from binlog_streaming.job_state.progress import NOTE_TEXTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from types import FrameType

    from binlog_connector.following.offsets import SourceOffset
    from binlog_streaming.cli.status.observing import PageOptions
    from binlog_streaming.job_state.progress import BatchProgress, Note
    from binlog_streaming.settings import Job
    from binlog_streaming.tables.job import TablesJob

SIGNALLED = 128
"""Exit status of a program that a signal has ended, minus the number of the signal."""


def run_job(
    job: Job,
    *,
    once: bool,
    output: Output,
    page: PageOptions = NO_PAGE,
    held: Iterable[tuple[str, str]] = (),
    from_first: bool | None = None,
) -> None:
    """Run *job* until it ends, or until SIGINT or SIGTERM; report what it does.

    Args:
        job: The settings.
        once: Take what is there now, then end.
        output: How it reports what it does.
        page: Where it shows how it is.
        held: As `TablesJob` takes it.
        from_first: The same.

    Raises:
        BinlogError: What ended it.
        OSError: What it does cannot be printed.
        typer.Exit: A signal stopped it before it had taken what it was to take, and then end.
    """
    # Spark takes a second to import: only where it is needed.
    from binlog_streaming.lineage.reporter import reporting
    from binlog_streaming.tables.job import TablesJob

    printer = _JsonPrinter() if output is Output.JSONL else LinePrinter()
    with contextlib.ExitStack() as stack:
        watched = stack.enter_context(observed(job, page))
        lineage = stack.enter_context(reporting(job, once=once or job.trigger.available_now))
        reader, stopped_by = OutputReader(), list[int]()  # signals

        def stop_running() -> None:
            watched.recorder.stopping()
            running.request_stop()

        def listen(batch: BatchProgress) -> None:
            watched.recorder.batch(batch, running.record.record)
            if lineage is not None:
                lineage.batch(batch)
            with reader.may_leave():
                printer.batch(batch)
            if reader.left is not None:
                stop_running()

        running = TablesJob(job, listener=listen, held=held, from_first=from_first)

        def stop(number: int, frame: FrameType | None) -> None:
            del frame
            stopped_by.append(number)
            stop_running()

        watched.recorder.goes_on_at(_checkpoint_offset(job))
        with _ended_by_signals(), starting("Spark"):
            running.start(once=once)
        signal.signal(signal.SIGINT, stop)
        signal.signal(signal.SIGTERM, stop)
        watched.recorder.started(running.record.record)
        with reader.may_leave():
            printer.started(job, running, watched.addresses)
        if reader.left is not None:
            stop_running()
        running.wait()
        if reader.left is not None:
            raise reader.left  # now that the running batch is done
        printer.ended(running, stopped=bool(stopped_by))
        if stopped_by and (once or job.trigger.available_now):
            raise typer.Exit(SIGNALLED + stopped_by[0])


def _checkpoint_offset(job: Job) -> SourceOffset | None:
    from binlog_streaming.job_state.checkpoint import read_checkpoint
    from binlog_streaming.job_state.state_files import state_of

    checkpoint = read_checkpoint(state_of(job))
    return None if checkpoint is None else checkpoint.offset


@contextlib.contextmanager
def _ended_by_signals() -> Iterator[None]:
    """SIGINT and SIGTERM end at once what is done in here, and then the program; nothing has been begun yet.

    Raises:
        typer.Exit: One did. Whatever the parts of Spark that had started make of it is not an error.
    """
    from binlog_streaming.spark_session import kill_java

    caught: list[int] = []

    def end(number: int, frame: FrameType | None) -> None:
        del frame
        caught.append(number)
        kill_java()
        raise KeyboardInterrupt  # some of Spark's functions swallow it; without Java they end all the same

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, end)
    try:
        yield
    except BaseException:
        if not caught:
            raise
    if caught:  # also where somebody on the way has swallowed what was raised
        raise typer.Exit(SIGNALLED + caught[0])


@contextlib.contextmanager
def stopped_by_signals(stop_running: Callable[[], None]) -> Iterator[list[int]]:
    """SIGINT and SIGTERM let a job end in order, a second one ends it at once; gives those that came."""
    caught: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        caught.append(number)
        # In a thread: this one may be holding the lock that `stop` needs.
        threading.Thread(target=stop_running).start()
        signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class OutputReader:
    """Reader of our output; without one, as after the end of `| head`, the job finishes its batch, then stops.

    Attributes:
        left: What became of the output; None: it is there.
    """

    def __init__(self) -> None:
        self.left: OSError | None = None

    @contextlib.contextmanager
    def may_leave(self) -> Iterator[None]:
        """Print in here."""
        try:
            yield
        except OSError as error:
            self.left = error


def say_addresses(addresses: Mapping[str, str]) -> None:
    """Print the addresses of metrics and page, for people."""
    for name, address in addresses.items():
        typer.echo(f"{name}: {address}")


class LinePrinter:
    """Lines for people."""

    def __init__(self) -> None:
        self._told: set[tuple[str, Note]] = set()

    def started(self, job: Job, running: TablesJob, addresses: Mapping[str, str]) -> None:
        """Report the start of the job."""
        del running
        typer.echo(f"{job.name}: {job.source.path} -> {job.sink.directory} ({job.sink.format})")
        say_addresses(addresses)

    def batch(self, batch: BatchProgress) -> None:
        """Report a finished batch."""
        parts = [
            f"batch {batch.batch_id}",
            f"{len(batch.tables)} tables",
            f"{batch.changes:,} changes",
            f"{batch.seconds:.2f} s",
            f"{batch.changes / max(batch.seconds, 1e-9):,.0f} changes/s",
        ]
        if batch.lag_seconds is not None:
            parts.append(f"lag {batch.lag_seconds:.1f} s")
        if batch.bytes_behind is not None:
            parts.append(f"{batch.bytes_behind:,} bytes behind")
        repeated = sum(table.outcome == "repeated" for table in batch.tables)
        if repeated:
            parts.append(f"{repeated} tables had it already")
        typer.echo("  ".join(parts))
        for table in batch.tables:
            for note in sorted(table.notes):
                # They stay the same from batch to batch.
                if (table.source_table, note) not in self._told:
                    self._told.add((table.source_table, note))
                    typer.echo(visible(f"{table.source_table}: {NOTE_TEXTS[note]}"))
        for stopped in batch.set_aside:
            typer.echo(visible(f"{stopped.name}: set aside at {stopped.gtid or stopped.position}: {stopped.reason}"))

    def ended(self, running: TablesJob, *, stopped: bool) -> None:
        """Sum up."""
        progress = running.progress
        how = "stopped" if stopped else "ended"
        typer.echo(f"{how}: {progress.changes:,} changes in {progress.batches} batches")


class _JsonPrinter:
    """Lines for programs: events `started`, `batch`, and `ended` or `stopped`."""

    def started(self, job: Job, running: TablesJob, addresses: Mapping[str, str]) -> None:
        """Report the start of the job."""
        write_json_lines(
            [
                {
                    "event": "started",
                    "name": job.name,
                    "source": job.source.path,
                    "directory": job.sink.directory,
                    "format": str(job.sink.format),
                    "checkpoint": job.checkpoint,
                    "query_id": running.query_id,
                    "spark_log": None if running.spark_log is None else str(running.spark_log),
                    "metrics": addresses.get("metrics"),
                    "status": addresses.get("status"),
                }
            ]
        )

    def batch(self, batch: BatchProgress) -> None:
        """Report a finished batch."""
        write_json_lines([batch.as_json()])

    def ended(self, running: TablesJob, *, stopped: bool) -> None:
        """Sum up."""
        progress = running.progress
        how = "stopped" if stopped else "ended"
        write_json_lines([{"event": how, "batches": progress.batches, "changes": progress.changes}])
