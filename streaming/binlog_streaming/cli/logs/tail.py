"""`binlog-stream tail`: the changes of a live log, as they are committed."""

from __future__ import annotations

import logging
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Protocol

import typer
from rich.console import Console
from rich.logging import RichHandler

from binlog_format.errors import OptionError, StartError
from binlog_format.log.log import parse_edge
from binlog_format.names import folds_table_names
from binlog_format.rows.decoding import Decoding, TimeType, ZeroDates
from binlog_format.views.filters import TableFilter, as_folded
from binlog_streaming.cli.logs.ranges import StartOption
from binlog_streaming.cli.logs.tail_view import EventLines, Saving
from binlog_streaming.cli.options import (
    ExcludeTablesOption,
    LowerCaseOption,
    ReplaceInvalidTextOption,
    RulesOption,
    SchemaFileOption,
    TablesOption,
    TimeTypeOption,
    ZeroDatesOption,
)
from binlog_streaming.cli.output import PathArgument, VisibleFormatter, stopped_by_signals, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from binlog_connector.following.steps import Step
    from binlog_connector.following.tailer import Start, Tailer
    from binlog_connector.metrics.follower import Follower
    from binlog_connector.schema.history import SchemaHistory
    from binlog_format.views.changes import ChangesView
    from binlog_streaming.cli.jobs.row_format import RowFormatWarnings


class TailOutput(StrEnum):
    """Form of the changes in the output."""

    LIVE = "live"
    JSONL = "jsonl"


class From(StrEnum):
    """The two ends of a log."""

    LATEST = "latest"
    EARLIEST = "earliest"


class TailSink(Protocol):
    """Destination of changes."""

    def take(self, batch: pa.RecordBatch, view: ChangesView) -> None:
        """Take changes, in order."""

    def finish(self) -> None:
        """A step has been taken: its changes are out when this returns."""

    def draw(self) -> None:
        """Draw what has changed, if it is time to."""


_FromOption = Annotated[
    From | None,
    typer.Option("--from", help="Begin with new changes (latest, the default), or with the oldest change in the log."),
]
_TimestampOption = Annotated[
    str | None,
    typer.Option(
        metavar="TIME",
        help="Begin with the first transaction committed at this time or later: "
        "2026-01-31T12:00:00, UTC unless it has a zone.",
    ),
]
_ResumeOption = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Continue at the position in FILE, and keep it up to date; other starts are used only "
        "if it does not exist.",
    ),
]
_OutputOption = Annotated[
    TailOutput | None,
    typer.Option(
        "--output",
        "-o",
        help="For people (live, the default on a terminal) or for programs (jsonl: the same lines as `changes`).",
    ),
]
_OnceOption = Annotated[bool, typer.Option("--once", help="End at the present end of the log.")]
_LossOption = Annotated[
    bool,
    typer.Option(
        "--fail-on-data-loss/--skip-data-loss", help="Effect of lost log data: stop, or warn and continue after it."
    ),
]


def tail(  # noqa: PLR0913 - the options of the command
    path: PathArgument,
    *,
    output: _OutputOption = None,
    tables: TablesOption = None,
    exclude_tables: ExcludeTablesOption = None,
    start: StartOption = None,
    from_: _FromOption = None,
    timestamp: _TimestampOption = None,
    resume: _ResumeOption = None,
    until_idle: Annotated[
        float | None, typer.Option(min=0.0, metavar="SECONDS", help="End when nothing has come for this time.")
    ] = None,
    once: _OnceOption = False,
    schema_file: SchemaFileOption = None,
    lower_case_table_names: LowerCaseOption = None,
    rules: RulesOption = None,
    zero_dates: ZeroDatesOption = ZeroDates.NULL,
    time_type: TimeTypeOption = TimeType.TEXT,
    replace_invalid_text: ReplaceInvalidTextOption = False,
    fail_on_data_loss: _LossOption = True,
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Export metrics for Prometheus at this port.")
    ] = None,
    metrics_host: Annotated[str, typer.Option(help="Address to export them at.")] = "127.0.0.1",
) -> None:
    """Follow a log and give its changed rows as they are committed, until SIGINT or SIGTERM.

    Of a structured log, the events of a program.

    For example:

        binlog-stream tail /var/lib/mysql
        binlog-stream tail /var/lib/mysql --resume shop.offset --output jsonl
    """
    begin = start_of(start, from_, timestamp)
    is_live = _is_live(output)
    # Compiled code takes a moment to load: not for --help.
    from binlog_connector.following.offsets import OffsetFile
    from binlog_connector.following.tailer import FollowOptions, Tailer
    from binlog_connector.rules.row_rules import decoding_under, read_rules
    from binlog_connector.schema.history import SchemaHistory
    from binlog_streaming.cli.jobs.row_format import RowFormatWarnings

    _log_warnings()
    folds_names = folds_table_names(lower_case_table_names)
    file = None if schema_file is None else str(schema_file)
    schemas = SchemaHistory.from_schema_file(file, folds_names=folds_names)
    hidden = None if rules is None else read_rules(rules, folds_names=folds_names)
    decoding = decoding_under(hidden, schemas, zero_dates, time_type, replace_invalid_text=replace_invalid_text)
    offset_file = None if resume is None else OffsetFile(resume)
    how = FollowOptions(fail_on_data_loss=fail_on_data_loss, ends=once)
    saved = None if offset_file is None else offset_file.load()
    with ExitStack() as stack:
        tailer = stack.enter_context(Tailer(path, begin, saved=saved, how=how))
        if tailer.has_log_events:
            database_options = {"tables": tables, "exclude_tables": exclude_tables, "schema_file": schema_file}
            _refuse(**database_options, lower_case_table_names=lower_case_table_names, rules=rules)
            follower = _follower(stack, tailer, metrics_port, metrics_host, has_view=False)
            stack.enter_context(stopped_by_signals(tailer.stop))
            Saving(tailer, offset_file, follower).run(EventLines(is_live), until_idle)
            return
        follower = _follower(stack, tailer, metrics_port, metrics_host, has_view=is_live)
        sink = stack.enter_context(_sink(is_live, follower, tailer))
        stack.enter_context(stopped_by_signals(tailer.stop))
        wanted = TableFilter(as_folded(tables, folds_names), as_folded(exclude_tables, folds_names))
        warnings = RowFormatWarnings(wanted, folds_names=folds_names, rules=hidden)
        stack.callback(warnings.finish)
        taker = _ChangesTaker(tailer, sink, wanted, decoding, schemas, warnings)
        Saving(tailer, offset_file, follower).run(taker, until_idle)


def start_of(start: str | None, edge: From | None, timestamp: str | None) -> Start:
    """Find the start of a new tail."""
    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.following.starts import Edge
    from binlog_connector.options.option_values import moment
    from binlog_format.position import Position

    given = [f"--{name}" for name, value in (("start", start), ("from", edge), ("timestamp", timestamp)) if value]
    if len(given) > 1:
        raise StartError(
            "CONFLICTING_OPTIONS", f"{' and '.join(given)}: there is one start", hint="Leave out all but one"
        )
    if timestamp is not None:
        return datetime.fromtimestamp(moment("timestamp", timestamp), UTC)
    if start is not None:
        parsed = parse_edge(start)
        return SourceOffset(parsed) if isinstance(parsed, Position) else parsed
    return Edge.EARLIEST if edge is From.EARLIEST else Edge.LATEST


def _is_live(output: TailOutput | None) -> bool:
    is_terminal = sys.stdout.isatty()
    if output is TailOutput.LIVE and not is_terminal:
        raise OptionError("INVALID_VALUE", "--output live needs a terminal", hint="For programs: --output jsonl")
    return is_terminal if output is None else output is TailOutput.LIVE


def _log_warnings() -> None:
    # Whoever has set up logging has decided already.
    console = Console(stderr=True)
    handler = RichHandler(console=console, show_path=False) if console.is_terminal else logging.StreamHandler()
    handler.setFormatter(VisibleFormatter("%(message)s"))
    logging.basicConfig(level=logging.WARNING, handlers=[handler])


def _follower(stack: ExitStack, tailer: Tailer, port: int | None, host: str, *, has_view: bool) -> Follower | None:
    """Measurements for people and for Prometheus; None if neither needs them: they cost a little."""
    if not has_view and port is None:
        return None
    from binlog_connector.metrics.exporter import MetricsExporter
    from binlog_connector.metrics.follower import Follower
    from binlog_connector.metrics.lag import Consumed, LagMeter

    meter = LagMeter(tailer.path, tailer.format_name)
    stack.callback(meter.close)
    follower = Follower("tail", meter)
    follower.progress.consumed = Consumed(tailer.offset)
    if port is not None:
        exporter = stack.enter_context(MetricsExporter(port, host))
        exporter.add(follower)
        if not has_view:
            print(f"metrics: http://{host}:{exporter.port}/metrics", file=sys.stderr, flush=True)  # noqa: T201
    return follower


@contextmanager
def _sink(is_live: bool, follower: Follower | None, tailer: Tailer) -> Iterator[TailSink]:
    if not is_live:
        yield JsonLines()
        return
    from binlog_streaming.cli.logs.tail_view import TailView

    assert follower is not None
    with TailView(tailer.path, tailer.format_name, follower) as view:
        yield view


class JsonLines:
    """Lines on standard output, which are out when a step is finished."""

    def take(self, batch: pa.RecordBatch, view: ChangesView) -> None:
        """Write the changes."""
        from binlog_format.rows.json.json_rows import json_lines

        write_json(json_lines(batch, view.json_styles()))

    def finish(self) -> None:
        """Flush."""
        sys.stdout.buffer.flush()

    def draw(self) -> None:
        """Do nothing: lines need no drawing."""


@dataclass(slots=True)
class _ChangesTaker:
    """Gives the changed rows of steps to a sink."""

    tailer: Tailer
    sink: TailSink
    tables: TableFilter
    decoding: Decoding
    schemas: SchemaHistory
    warnings: RowFormatWarnings

    def take(self, step: Step) -> int:
        """Give them; they are out when this returns. How many there were."""
        from binlog_format.views.changes import ChangesView

        view = ChangesView(tables=self.tables, groups=step.groups, decoding=self.decoding)
        blocks = self.warnings.observed(step.blocks(), step.watched.log, step.groups)
        blocks = self.schemas.following(blocks, self.tailer.path, step.start.position)
        rows = 0
        for batch in view.batches(blocks):
            rows += batch.num_rows
            self.sink.take(batch, view)
        # Between the last block and the end of the step are no groups, so no DDL either.
        self.schemas.known_to = step.end.position
        self.sink.finish()
        return rows

    def draw(self) -> None:
        """Draw what has changed, if it is time to."""
        self.sink.draw()


def _refuse(**given: object) -> None:
    """See that no option is given that means nothing to a structured log."""
    for name, value in given.items():
        if value is not None:
            flag = name.replace("_", "-")
            raise OptionError("INVALID_VALUE", f"--{flag}: it has no effect on a structured log", hint="Leave it out")
