"""`binlog-stream publish JOB.toml`, or `publish LOG --to HOST:PORT/PREFIX`: publish a log to Kafka."""

from __future__ import annotations

import time
from collections import Counter
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from binlog_format.errors import OptionError
from binlog_format.position import Place
from binlog_streaming.cli.help_text import PANEL, help_of
from binlog_streaming.cli.jobs.run import OnceOption  # noqa: TC001 (typer looks at annotations)
from binlog_streaming.cli.jobs.running import SIGNALLED, OutputReader, say_addresses, stopped_by_signals
from binlog_streaming.cli.options import ExcludeTablesOption, TablesOption  # noqa: TC001 (typer looks at annotations)
from binlog_streaming.cli.output import Output, write_json_lines
from binlog_streaming.cli.status.observing import PageOptions, StatusOption, StatusTokenOption, observed

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from binlog_connector.following.offsets import SourceOffset
    from binlog_streaming.settings import PublishJob
    from binlog_streaming.topics.progress import Published, PublishProgress

LINE_SECONDS = 1.0
"""A line tells of all transactions of so long: there may be hundreds."""

PublishArgument = Annotated[
    str, typer.Argument(metavar="JOB.toml|LOG", help='A job file with sink.kind = "kafka"; with --to: a log.')
]
ToOption = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT/PREFIX", help="Without a job file: a broker, and the first part of topics' names."),
]
LineOption = Annotated[
    Output,
    typer.Option("--output", "-o", help="A line for each second with changes: for people (table) or as JSON (jsonl)."),
]


def register(app: typer.Typer) -> None:
    """Add the command."""
    app.command("publish", help=help_of(publish), rich_help_panel=PANEL)(publish)


def publish(  # noqa: PLR0913 - the options of the command
    job: PublishArgument,
    to: ToOption = None,
    tables: TablesOption = None,
    exclude_tables: ExcludeTablesOption = None,
    once: OnceOption = False,
    output: LineOption = Output.TABLE,
    status: StatusOption = None,
    status_token_file: StatusTokenOption = None,
) -> None:
    r"""Publish the changes of a log to topics of Kafka, exactly once, as a job file describes.

    It follows the log until it is stopped (SIGINT or SIGTERM: it ends after the transaction under way). Started again
    it goes on where it was: the offset is in Kafka, written by the same transactions as the messages. What cannot be
    read or sent ends the job before anything of it is visible.

    For a first try no job file is needed: --to names a broker without TLS and passwords, and a prefix. Topics
    PREFIX.<database>.<table> are created, with one partition. Called again it goes on. What is not set there is in the
    job file that it writes beside its checkpoint, whose place it tells.

    For example:

        binlog-stream publish /var/lib/mysql --to 127.0.0.1:9092/shop --tables 'shop\..*' --once

    Exit status: 0 ended as asked, 1 a named error (docs/operations.md has them all), 2 a mistake in the job file; 143
    (SIGTERM) or 130 (SIGINT) stopped before it had taken what --once was to take.
    """
    settings = _settings(job, to, tables, exclude_tables)
    if to is not None:
        _write_down(settings, output)
    # Kafka's client takes a second to import: not for a mistake in the file.
    from binlog_streaming.topics.job import TopicsJob

    lines = _JsonLines() if output is Output.JSONL else _Lines()
    reader = OutputReader()
    with observed(settings, PageOptions(status, status_token_file)) as watched:

        def started(offset: SourceOffset) -> None:
            watched.recorder.goes_on_at(offset)
            watched.recorder.started()
            with reader.may_leave():
                lines.started(settings, offset, watched.addresses)

        def stop() -> None:
            watched.recorder.stopping()
            running.stop()

        def print_now(line: Callable[[], None]) -> None:
            with reader.may_leave():
                line()
            if reader.left is not None:
                stop()

        def published(one: Published) -> None:
            watched.recorder.published(one)
            print_now(partial(lines.published, one))

        running = TopicsJob(settings, once=once, listener=published)
        with stopped_by_signals(stop) as stopped_by:
            running.run(started, partial(print_now, lines.idle))
    if reader.left is not None:
        raise reader.left  # now that the transaction under way is done
    lines.ended(running.progress, stopped=bool(stopped_by))
    if stopped_by and once:
        raise typer.Exit(SIGNALLED + stopped_by[0])


def _settings(job: str, to: str | None, tables: str | None, exclude_tables: str | None) -> PublishJob:
    from binlog_streaming.jobs.publish import publish_job
    from binlog_streaming.settings import load_publish_job

    if to is not None:
        return publish_job(job, to, tables=tables, exclude_tables=exclude_tables)
    for name, value in (("--tables", tables), ("--exclude-tables", exclude_tables)):
        if value is not None:
            raise typer.BadParameter("it is for --to; a job file names the tables", param_hint=name)
    if "://" in job or Path(job).is_dir():
        hint = f"Without a job file: binlog-stream publish {job} --to HOST:PORT/PREFIX"
        raise OptionError("INVALID_VALUE", "expected a job file, got a folder or a URL", at=Place(job), hint=hint)
    return load_publish_job(Path(job))


def _write_down(settings: PublishJob, output: Output) -> None:
    from binlog_format import open_log
    from binlog_streaming.jobs.publish import write_down
    from binlog_streaming.topics.job_log import require_changes

    with open_log(settings.source.path) as log:  # what is wrong with it is reported before anything is written
        require_changes(log)
        file = write_down(settings)
    if output is Output.TABLE:
        typer.echo(f"job file: {file}")


class _Lines:
    """A line for all that was published within a second; for people.

    Args:
        clock: Seconds that only go forward.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: list[Published] = []
        self._since = clock()

    def started(self, job: PublishJob, offset: SourceOffset, addresses: Mapping[str, str]) -> None:
        """Report the start of the job."""
        typer.echo(f"{job.name}: {job.source.path} -> {job.sink.bootstrap_servers} ({job.sink.topic_prefix})")
        typer.echo(f"from {offset.position}{f', after GTID {offset.gtid}' if offset.gtid else ''}")
        say_addresses(addresses)
        self._since = self._clock()

    def published(self, one: Published) -> None:
        """Take one more transaction."""
        self._waiting.append(one)
        if self._clock() - self._since >= LINE_SECONDS:
            self._say_waiting()

    def idle(self) -> None:
        """Print the last published transaction, after a while without new ones: no later line would show it."""
        if self._waiting:
            self._say_waiting()

    def ended(self, progress: PublishProgress, *, stopped: bool) -> None:
        """Sum up."""
        self.idle()
        how = "stopped" if stopped else "ended"
        typer.echo(f"{how}: {progress.records:,} messages, {progress.groups:,} transactions of the log")

    def _say_waiting(self) -> None:
        records: Counter[str] = Counter()
        for one in self._waiting:
            records.update(one.records.counts)
        now = self._clock()
        self._say(self._waiting, records, now - self._since)
        self._waiting, self._since = [], now

    def _say(self, published: list[Published], records: Counter[str], seconds: float) -> None:
        last = published[-1]
        parts = [
            f"{sum(one.groups for one in published):,} transactions of the log in {len(published):,} of Kafka",
            f"{records.total():,} messages in {len(records)} topics",
            f"{records.total() / max(seconds, 1e-9):,.0f} messages/s",
            f"up to {last.offset.position}",
        ]
        if last.last_timestamp is not None:
            parts.append(f"committed {max(time.time() - last.last_timestamp, 0):.1f} s before")
        typer.echo("  ".join(parts))


class _JsonLines(_Lines):
    """Lines for programs: events `started`, `published`, and `ended` or `stopped`."""

    def started(self, job: PublishJob, offset: SourceOffset, addresses: Mapping[str, str]) -> None:
        """Report the start of the job."""
        facts = {
            "event": "started",
            "name": job.name,
            "source": job.source.path,
            "bootstrap_servers": job.sink.bootstrap_servers,
            "topic_prefix": job.sink.topic_prefix,
            "offset": offset.to_json(),
            "metrics": addresses.get("metrics"),
            "status": addresses.get("status"),
        }
        write_json_lines([facts])

    def ended(self, progress: PublishProgress, *, stopped: bool) -> None:
        """Sum up."""
        self.idle()
        facts = {
            "event": "stopped" if stopped else "ended",
            "messages": progress.records,
            "transactions": progress.groups,
            "kafka_transactions": progress.transactions,
        }
        write_json_lines([facts])

    def _say(self, published: list[Published], records: Counter[str], seconds: float) -> None:
        facts = {
            "event": "published",
            "messages": dict(records),
            "transactions": sum(one.groups for one in published),
            "kafka_transactions": len(published),
            "bytes": sum(one.size for one in published),
            "seconds": round(seconds, 3),
            "offset": published[-1].offset.to_json(),
            "commit_time": published[-1].last_timestamp,
        }
        write_json_lines([facts])
