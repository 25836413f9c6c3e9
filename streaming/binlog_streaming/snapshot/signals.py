"""Snapshots that are asked for by rows of a table on the server, as Debezium's signals are: `follow_signals`.

Signals are read from the log, in its order, and kept in the job's checkpoint with the place up to where that has been
read: so each of them is obeyed once, also those that come while nobody follows them, and a snapshot that was cut off
goes on. One thread does all of it: it looks for signals between the chunks of a snapshot.
"""

from __future__ import annotations

import json
import re
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import msgspec

from binlog_connector.following.offsets import SourceOffset
from binlog_connector.following.starts import Edge
from binlog_connector.following.tailer import FollowOptions, Tailer
from binlog_format.errors import BinlogError, OptionError
from binlog_format.events.layout import EventType
from binlog_format.position import Place
from binlog_format.rows.images import ImageKind, read_images
from binlog_format.views.filters import ALL_GROUPS, TableFilter
from binlog_format.views.selection import Selection
from binlog_streaming.job_state.state_files import OTHER_CHECKPOINT, state_of
from binlog_streaming.server.session import connect
from binlog_streaming.snapshot.plan import make_plan
from binlog_streaming.snapshot.run import SnapshotStoppedError, is_of_one_table, run_snapshot

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from binlog_format.block import Block
    from binlog_streaming.server.address import Credentials, ServerAddress
    from binlog_streaming.settings.publish_model import PublishJob
    from binlog_streaming.snapshot.run import SnapshotProgress

STATE_FILE = "binlog-stream-signals.json"
EXECUTE, STOP = "execute-snapshot", "stop-snapshot"
LOOK_SECONDS = 0.5
"""Time between looks for signals while a snapshot is taken."""
_COLUMNS = ("id", "type", "data")
_METHODS = {"incremental", "blocking"}
_INSERTS = frozenset([EventType.WRITE_ROWS_V0, EventType.WRITE_ROWS_V1, EventType.WRITE_ROWS_V2])


class WantedTables(msgspec.Struct, frozen=True, kw_only=True):
    """Tables whose rows a signal asks for, and that are not there yet.

    Attributes:
        tables: Regular expression for `database.table`.
        is_table: It is the name of one table, which the server has.
        has_begun: Its snapshot has begun, and goes on.
    """

    signal: str
    tables: str
    is_table: bool = False
    has_begun: bool = False

    def is_named_by(self, expressions: list[str]) -> bool:
        """True if a signal to stop is about this."""
        name = self.tables.replace("\\", "") if self.is_table else self.tables
        return not expressions or any(
            expression == self.tables or re.fullmatch(expression, name) for expression in expressions
        )


class _State(msgspec.Struct, frozen=True, kw_only=True):
    offset: dict[str, int | str]
    wanted: tuple[WantedTables, ...] = ()


class Signal(NamedTuple):
    """A row of the table of signals."""

    id: str
    type: str
    data: str


class SignalQueue:
    """Tables that signals of a log ask for; a context manager.

    Args:
        job: Whose `sink.signal_table` it is.
        tell: Takes a line about each signal.

    Attributes:
        wanted: In order.

    Raises:
        OptionError: `INVALID_VALUE`: the checkpoint has something else in the place of the queue.
        BinlogError: The log cannot be read where it was left.
    """

    def __init__(self, job: PublishJob, tell: Callable[[str], None]) -> None:
        table = job.sink.signal_table
        assert table is not None, "who follows signals has checked it"
        self._tables, self._tell = TableFilter(re.escape(table).replace(",", r"\x2c")), tell
        self._folder = state_of(job)
        state = self._folder.decoded(STATE_FILE, _State, "signals of a job", OTHER_CHECKPOINT)
        self.wanted = () if state is None else state.wanted
        saved = None if state is None else SourceOffset.from_json(state.offset)
        how = FollowOptions(format_name=job.source.format)
        self._tailer = Tailer(job.source.path, Edge.LATEST, saved=saved, how=how)
        self._save(self._tailer.offset)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._tailer.close()

    def look(self, seconds: float) -> None:
        """Take in signals that are in the log, and wait so long for the first one."""
        while (step := self._tailer.step(seconds)) is not None:
            for block in step.blocks():
                for signal in self._signals(block):
                    self._take(signal)
            self._save(step.end)
            seconds = 0.0

    def put(self, number: int, *instead: WantedTables) -> None:
        """Write down what takes the place of an item of `wanted`."""
        self.wanted = (*self.wanted[:number], *instead, *self.wanted[number + 1 :])
        self._save(self._tailer.offset)

    def _save(self, offset: SourceOffset) -> None:
        self._folder.write(STATE_FILE, msgspec.json.encode(_State(offset=offset.to_json(), wanted=self.wanted)))

    def _signals(self, block: Block) -> Iterator[Signal]:
        for touched in Selection(self._tables, ALL_GROUPS, event_types=_INSERTS).of(block):
            layout = touched.layout
            if len(layout.columns) != len(_COLUMNS):
                self._tell(f"{layout.full_name}: expected the columns {', '.join(_COLUMNS)}: its rows are no signals")
                continue
            columns = tuple(
                replace(column, name=name, charset=column.charset or "utf8mb4")
                for column, name in zip(layout.columns, _COLUMNS, strict=True)
            )
            layout = replace(layout, columns=columns)
            images = read_images(block.data, block.events, touched.events, layout, place=block.place)
            images = images.select(images.table["kind"] == ImageKind.INSERT)
            values = (images.column(number).to_pylist() for number in range(len(_COLUMNS)))
            for row in zip(*values, strict=True):
                yield Signal(*("" if value is None else str(value) for value in row))

    def _take(self, signal: Signal) -> None:
        try:
            expressions = _expressions(signal)
        except ValueError as error:
            self._tell(f"signal {signal.id}: not obeyed: {error}")
            return
        if signal.type == EXECUTE:
            self._tell(f"signal {signal.id}: {EXECUTE} {', '.join(expressions)}")
            self.wanted += tuple(WantedTables(signal=signal.id, tables=expression) for expression in expressions)
            return
        stopped = [wanted for wanted in self.wanted if wanted.is_named_by(expressions)]
        self.wanted = tuple(wanted for wanted in self.wanted if wanted not in stopped)
        self._tell(
            f"signal {signal.id}: {STOP} {', '.join(wanted.tables for wanted in stopped) or 'nothing: none is taken'}"
        )


def _expressions(signal: Signal) -> list[str]:
    """The tables that a signal is about.

    Raises:
        ValueError: It asks for something that nobody does here.
    """
    if signal.type not in (EXECUTE, STOP):
        raise ValueError(f"its type is {signal.type!r}, and {EXECUTE} and {STOP} are known")
    data: Any = json.loads(signal.data or "{}")
    if not isinstance(data, dict):
        raise ValueError("data: expected a JSON object")
    known = {"data-collections", "type"}
    unknown = sorted(name for name, value in data.items() if name not in known and value)
    if unknown:
        raise ValueError(f"data: {unknown[0]} is not supported: chunks have all rows, in the order of the table's key")
    if str(data.get("type", "incremental")).lower() not in _METHODS:
        raise ValueError(f"data: type: expected incremental or blocking, got {data['type']!r}")
    tables = data.get("data-collections") or []
    if not isinstance(tables, list) or not all(isinstance(expression, str) for expression in tables):
        raise ValueError("data: data-collections: expected a list of tables")
    if signal.type == EXECUTE and not tables:
        raise ValueError("data: data-collections: expected tables, got none")
    for expression in tables:
        try:
            TableFilter(_escaped(expression))
        except OptionError as error:
            raise ValueError(f"data: data-collections: {error.reason}") from error
    return [_escaped(expression) for expression in tables]


def _escaped(expression: str) -> str:
    return expression.replace(",", r"\x2c")


def require_signal_table(job: PublishJob) -> None:
    """See that *job* names a table of signals.

    Raises:
        OptionError: `MISSING`.
    """
    if job.sink.signal_table is None:
        hint = 'Name it: signal_table = "shop.debezium_signal"'
        raise OptionError("MISSING", "sink.signal_table: it is not set", at=Place(job.name), hint=hint)


def follow_signals(
    job: PublishJob,
    address: ServerAddress,
    credentials: Credentials,
    *,
    rate: int | None = None,
    tell: Callable[[str], None],
    is_ended: Callable[[], bool] = lambda: False,
) -> None:
    """Obey signals until it is interrupted.

    Args:
        address: Of the server that writes the job's log.
        rate: Rows in a second, at most; None: no limit.
        tell: Takes a line about what is done.
        is_ended: Asked when nothing is left to do.

    Raises:
        ServerError: The server cannot be reached, or is not the log's.
    """
    with SignalQueue(job, tell) as queue:
        while queue.wanted or not is_ended():
            queue.look(0.0 if queue.wanted else LOOK_SECONDS)
            if queue.wanted:
                _obey(job, address, credentials, queue, rate=rate, tell=tell)


def _obey(
    job: PublishJob,
    address: ServerAddress,
    credentials: Credentials,
    queue: SignalQueue,
    *,
    rate: int | None,
    tell: Callable[[str], None],
) -> None:
    """Find the tables of the first item that is wanted, or take its table."""
    first = queue.wanted[0]
    try:
        with connect(address, credentials) as session:
            plan = make_plan(session, job, tables=first.tables, restart=not first.has_begun)
            for left in plan.left_out:
                tell(f"signal {first.signal}: {left.name}: left out: {left.reason}")
            if not first.is_table:
                names = [planned.table.source.full_name for planned in plan.tables]
                queue.put(
                    0, *(WantedTables(signal=first.signal, tables=re.escape(name), is_table=True) for name in names)
                )
                return
            begun = msgspec.structs.replace(first, has_begun=True)
            queue.put(0, begun)
            watch = _Watch(queue, begun)
            result = run_snapshot(session, plan, rate=rate, restart=not first.has_begun, on_progress=watch)
    except SnapshotStoppedError as stopped:
        tell(f"signal {first.signal}: {stopped}")
        return
    except BinlogError as error:
        if not is_of_one_table(error):
            raise
        tell(f"signal {first.signal}: {error}")
        queue.put(0)
        return
    for failed in result.failed:
        tell(f"signal {first.signal}: {failed.name}: {failed.reason}")
    if not result.failed:
        tell(f"signal {first.signal}: {result.rows:,} rows are in the log")
    if watch.is_wanted:
        queue.put(queue.wanted.index(begun))


class _Watch:
    """Looks for signals between chunks; called as `OnProgress`."""

    def __init__(self, queue: SignalQueue, begun: WantedTables) -> None:
        self._queue, self._begun = queue, begun
        self._looked = time.monotonic()

    @property
    def is_wanted(self) -> bool:
        return self._begun in self._queue.wanted

    def __call__(self, progress: SnapshotProgress) -> None:
        if progress.is_done or time.monotonic() - self._looked < LOOK_SECONDS:
            return
        self._queue.look(0.0)
        self._looked = time.monotonic()
        if not self.is_wanted:
            raise SnapshotStoppedError(f"the snapshot of {progress.table} was stopped by a signal")
