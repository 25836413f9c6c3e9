"""One way to run a job of any kind, for the commands `run`, `mirror`, `publish` and `replay`: `run_job`."""

from __future__ import annotations

import contextlib
import os
import signal
from functools import partial
from typing import TYPE_CHECKING, Any

import typer

from binlog_connector.installing import require
from binlog_streaming.cli.jobs.lines import BatchJsonLines, BatchLines, PublishJsonLines, PublishLines
from binlog_streaming.cli.output import ENDED_BY_SIGNAL, SIGNALLED, Output, stopped_by_signals
from binlog_streaming.cli.progress import starting
from binlog_streaming.cli.status.observing import NO_PAGE, observed
from binlog_streaming.settings import EventTablesJob, Job, PublishJob, TopicTablesJob

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import FrameType

    from binlog_streaming.cli.status.observing import PageOptions
    from binlog_streaming.job_state.job_run import JobRun
    from binlog_streaming.settings.job_file import AnyJob

    Listener = Callable[[Any], None]

_STANDARD_ERROR = 2


def run_job(
    job: AnyJob,
    *,
    once: bool,
    output: Output,
    page: PageOptions = NO_PAGE,
    held: Iterable[tuple[str, str]] = (),
    from_first: bool | None = None,
) -> None:
    """Run *job* until it ends, or until SIGINT or SIGTERM; report what it does.

    Args:
        once: Take what is there now, then end.
        held: As `TablesJob` takes it.

    Raises:
        OSError: What it does cannot be printed.
        typer.Exit: A signal stopped it before it had taken what it was to take, and then end.
    """
    lines, reader = _lines_of(job, output), OutputReader()
    with contextlib.ExitStack() as stack:
        recorder = stack.enter_context(observed(job, page))
        told: list[Listener] = [lambda batch: recorder.batch(batch, running.recorded)]
        if isinstance(job, PublishJob):
            told = [recorder.published]
        if isinstance(job, Job) and job.lineage.namespace is not None:
            require("openlineage")
            from binlog_streaming.jobs.lineage import reporting

            told.append(stack.enter_context(reporting(job, once=once or job.trigger.available_now)).batch)

        def stop() -> None:
            recorder.stopping()
            running.stop()

        def print_now(line: Callable[[], None]) -> None:
            with reader.may_leave():
                line()
            if reader.left is not None:
                stop()

        def listen(batch: Any) -> None:
            for tell in told:
                tell(batch)
            print_now(partial(lines.batch, batch))

        running = _run_of(job, listen, once=once, held=held, from_first=from_first)
        stopped_by = stack.enter_context(stopped_by_signals(stop, ends_at_once=isinstance(job, Job)))
        with _starting_spark() if isinstance(job, Job) else contextlib.nullcontext():
            running.start(recorder.goes_on_at)
        recorder.started(running.recorded)
        print_now(partial(lines.started, job, running, recorder.addresses))
        running.wait(partial(print_now, lines.idle))
        if reader.left is not None:
            raise reader.left  # now that the batch under way is done
        lines.ended(running.progress, stopped=bool(stopped_by))
        if stopped_by and running.once:
            raise typer.Exit(SIGNALLED + stopped_by[0])


def _lines_of(job: AnyJob, output: Output) -> Any:
    if isinstance(job, PublishJob):
        return PublishJsonLines() if output is Output.JSONL else PublishLines()
    return BatchJsonLines() if output is Output.JSONL else BatchLines()


def _run_of(
    job: AnyJob, listen: Listener, *, once: bool, held: Iterable[tuple[str, str]], from_first: bool | None
) -> JobRun[Any, Any, Any]:
    # Spark, Kafka's client and the sinks take a second to import: only those that are needed.
    if isinstance(job, PublishJob):
        from binlog_streaming.topics.job import TopicsJob

        return TopicsJob(job, once=once, listener=listen)
    if isinstance(job, TopicTablesJob):
        from binlog_streaming.topic_tables.run import TopicTablesRun

        return TopicTablesRun(job, once=once, listener=listen)
    if isinstance(job, EventTablesJob):
        from binlog_streaming.event_tables.run import EventTablesRun

        return EventTablesRun(job, once=once, listener=listen)
    from binlog_streaming.tables.job import TablesJob

    return TablesJob(job, once=once, listener=listen, held=held, from_first=from_first)


@contextlib.contextmanager
def _starting_spark() -> Iterator[None]:
    """SIGINT and SIGTERM end at once what is done in here, and then the program; nothing has been begun yet.

    Spark tells of each call that gets no answer any more, from several threads, until the process ends; so nothing else
    is printed than the one line of a program that a signal has ended.
    """
    from binlog_streaming.spark_session import kill_java

    caught: list[int] = []
    terminal = os.dup(_STANDARD_ERROR)

    def end(number: int, frame: FrameType | None) -> None:
        del frame
        caught.append(number)
        _let_go_of_messages()
        kill_java()
        raise KeyboardInterrupt  # some of Spark's functions swallow it; without Java they end all the same

    before = {number: signal.signal(number, end) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with starting("Spark"):
            yield
    except BaseException:
        if not caught:
            raise
    for number, handler in before.items():
        signal.signal(number, handler)
    if caught:  # also where somebody on the way has swallowed what was raised
        _let_go_of_messages()  # it was another file while Java was started
        status = SIGNALLED + caught[0]
        os.write(terminal, f"{ENDED_BY_SIGNAL[status]}\n".encode())
        raise typer.Exit(status)
    os.close(terminal)


def _let_go_of_messages() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), _STANDARD_ERROR)


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
