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
from binlog_connector.rules.predicate_parser import PredicateError, parse_predicate
from binlog_format.errors import BinlogError, OptionError
from binlog_format.events.layout import EventType
from binlog_format.messages import count_text
from binlog_format.position import Place
from binlog_format.rows.images import ImageKind, read_images
from binlog_format.views.filters import ALL_GROUPS, TableFilter
from binlog_format.views.selection import Selection
from binlog_streaming.job_state.checkpoint import OTHER_CHECKPOINT, state_of
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
EXECUTE, STOP, PAUSE, RESUME = "execute-snapshot", "stop-snapshot", "pause-snapshot", "resume-snapshot"
_TYPES = (EXECUTE, STOP, PAUSE, RESUME)
_CONDITIONS = "additional-conditions"
LOOK_SECONDS = 0.5
"""Time between looks for signals while a snapshot is taken."""
_COLUMNS = ("id", "type", "data")
_METHODS = {"incremental", "blocking"}
_INSERTS = frozenset([EventType.WRITE_ROWS_V0, EventType.WRITE_ROWS_V1, EventType.WRITE_ROWS_V2])


class WantedTables(msgspec.Struct, frozen=True, kw_only=True):
    """Tables whose rows a signal asks for, and that are not there yet.

    Attributes:
        tables: Regular expression for `database.table`.
        has_begun: Its snapshot has begun, and goes on.
        is_stopped: Its snapshot, which has begun, is to be cancelled.
        filters: Conditions for the rows that are taken, by names of tables or expressions for them.
    """

    signal: str
    tables: str
    is_table: bool = False
    has_begun: bool = False
    is_stopped: bool = False
    filters: dict[str, str] = {}

    @property
    def row_filter(self) -> str | None:
        """The condition for the rows of this table; None: all are taken."""
        name = self.tables.replace("\\", "")
        return next((text for table, text in self.filters.items() if table == name or re.fullmatch(table, name)), None)

    def is_named_by(self, expressions: list[str]) -> bool:
        """True if a signal to stop is about this."""
        name = self.tables.replace("\\", "") if self.is_table else self.tables
        return not expressions or any(
            expression == self.tables or re.fullmatch(expression, name) for expression in expressions
        )


class _State(msgspec.Struct, frozen=True, kw_only=True):
    offset: dict[str, int | str]
    wanted: tuple[WantedTables, ...] = ()
    is_paused: bool = False


class Signal(NamedTuple):
    """A row of the table of signals."""

    id: str
    type: str
    data: str


class SignalQueue:
    """Tables that signals of a log ask for; a context manager.

    Args:
        job: Whose `sink.signal_table` it is.

    Attributes:
        wanted: In order.
        is_paused: Nothing is taken until a signal says so.

    Raises:
        OptionError: `INVALID_VALUE`: the checkpoint has something else in the place of the queue.
    """

    def __init__(self, job: PublishJob, tell: Callable[[str], None]) -> None:
        table = job.sink.signal_table
        assert table is not None, "who follows signals has checked it"
        self._tables, self._tell = TableFilter(re.escape(table).replace(",", r"\x2c")), tell
        self._folder = state_of(job)
        state = self._folder.decoded(STATE_FILE, _State, "signals of a job", OTHER_CHECKPOINT)
        self.wanted = () if state is None else state.wanted
        self.is_paused = state is not None and state.is_paused
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

    @property
    def next(self) -> WantedTables | None:
        """The item to be done now; None: nothing is."""
        return next((wanted for wanted in self.wanted if wanted.is_stopped or not self.is_paused), None)

    def put(self, item: WantedTables, *instead: WantedTables) -> None:
        """Write down what takes the place of an item of `wanted`, which may have been stopped meanwhile."""
        known = (item, msgspec.structs.replace(item, is_stopped=True))
        number = next(number for number, wanted in enumerate(self.wanted) if wanted in known)
        self.wanted = (*self.wanted[:number], *instead, *self.wanted[number + 1 :])
        self._save(self._tailer.offset)

    def _save(self, offset: SourceOffset) -> None:
        self.is_paused = self.is_paused and bool(self.wanted)  # a pause ends with what it is about
        state = _State(offset=offset.to_json(), wanted=self.wanted, is_paused=self.is_paused)
        self._folder.write(STATE_FILE, msgspec.json.encode(state))

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
            data = _data(signal)
            expressions, filters = _expressions(signal.type, data), _filters(signal.type, data)
        except ValueError as error:
            self._tell(f"signal {signal.id}: not obeyed: {error}")
            return
        names = ", ".join(expressions)
        if signal.type in (PAUSE, RESUME):
            self.is_paused = signal.type == PAUSE
            names = ", ".join(wanted.tables for wanted in self.wanted) or "nothing: none is taken"
        elif signal.type == EXECUTE:
            self.wanted += tuple(
                WantedTables(signal=signal.id, tables=tables, filters=filters) for tables in expressions
            )
        else:
            stopped = [wanted for wanted in self.wanted if wanted.is_named_by(expressions)]
            left = [wanted for wanted in self.wanted if wanted.has_begun or wanted not in stopped]
            self.wanted = tuple(
                msgspec.structs.replace(wanted, is_stopped=True) if wanted in stopped else wanted for wanted in left
            )
            names = ", ".join(wanted.tables for wanted in stopped) or "nothing: none is taken"
        self._tell(f"signal {signal.id}: {signal.type} {names}")


def _data(signal: Signal) -> dict[str, Any]:
    """Read the data of a signal, which depends on its type."""
    if signal.type not in _TYPES:
        raise ValueError(f"its type is {signal.type!r}, and {', '.join(_TYPES)} are known")
    data: Any = json.loads(signal.data or "{}")
    if not isinstance(data, dict):
        raise ValueError("data: expected a JSON object")
    known = {"data-collections", "type", _CONDITIONS} if signal.type == EXECUTE else {"data-collections", "type"}
    unknown = sorted(name for name, value in data.items() if name not in known and value)
    if unknown:
        raise ValueError(f"data: {unknown[0]} is not supported: chunks are made in the order of the table's key")
    if str(data.get("type", "incremental")).lower() not in _METHODS:
        raise ValueError(f"data: type: expected incremental or blocking, got {data['type']!r}")
    return data


def _expressions(signal_type: str, data: dict[str, Any]) -> list[str]:
    """The tables that a signal is about."""
    tables = data.get("data-collections") or []
    if not isinstance(tables, list) or not all(isinstance(expression, str) for expression in tables):
        raise ValueError("data: data-collections: expected a list of tables")
    if signal_type == EXECUTE and not tables:
        raise ValueError("data: data-collections: expected tables, got none")
    for expression in tables:
        try:
            TableFilter(_escaped(expression))
        except OptionError as error:
            raise ValueError(f"data: data-collections: {error.reason}") from error
    return [_escaped(expression) for expression in tables]


def _filters(signal_type: str, data: dict[str, Any]) -> dict[str, str]:
    """The conditions of a signal, by the tables that they are for."""
    conditions = (data.get(_CONDITIONS) or []) if signal_type == EXECUTE else []
    filters: dict[str, str] = {}
    for condition in conditions if isinstance(conditions, list) else [conditions]:
        parts = condition if isinstance(condition, dict) else {}
        table, text = parts.get("data-collection"), parts.get("filter")
        if not isinstance(table, str) or not isinstance(text, str):
            raise ValueError(f"data: {_CONDITIONS}: expected objects with data-collection and filter")
        try:
            re.compile(table)
            parse_predicate(text)
        except re.error as error:
            raise ValueError(f"data: {_CONDITIONS}: {table}: {error}") from error
        except PredicateError as error:
            raise ValueError(f"data: {_CONDITIONS}: filter {error.told(text)}") from error
        filters.setdefault(table, text)
    return filters


def _escaped(expression: str) -> str:
    return expression.replace(",", r"\x2c")


def require_signal_table(job: PublishJob) -> None:
    """See that *job* names a table of signals."""
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
    """
    with SignalQueue(job, tell) as queue:
        while queue.wanted or not is_ended():
            queue.look(LOOK_SECONDS if queue.next is None else 0.0)
            if (item := queue.next) is not None:
                _obey(job, address, credentials, queue, item, rate=rate, tell=tell)


def _obey(
    job: PublishJob,
    address: ServerAddress,
    credentials: Credentials,
    queue: SignalQueue,
    item: WantedTables,
    *,
    rate: int | None,
    tell: Callable[[str], None],
) -> None:
    """Find the tables of an item that is wanted, or take its table."""
    current, begun = item, msgspec.structs.replace(item, has_begun=True)
    restart, row_filter = not item.has_begun, item.row_filter if item.is_table else None
    try:
        with connect(address, credentials) as session:
            plan = make_plan(session, job, tables=item.tables, restart=restart, row_filter=row_filter)
            for left in plan.left_out:
                tell(f"signal {item.signal}: {left.name}: left out: {left.reason}")
            if not item.is_table:
                names = [re.escape(planned.table.source.full_name) for planned in plan.tables]
                queue.put(item, *(msgspec.structs.replace(item, tables=name, is_table=True) for name in names))
                return
            if not plan.tables:
                queue.put(item)
                return
            queue.put(item, begun)
            current = begun
            result = run_snapshot(session, plan, rate=rate, restart=restart, on_progress=_Watch(queue, begun))
    except SnapshotPausedError as paused:
        tell(f"signal {item.signal}: {paused}")
        return
    except SnapshotStoppedError as stopped:
        tell(f"signal {item.signal}: {stopped}")
    except BinlogError as error:
        if not is_of_one_table(error):
            raise
        tell(f"signal {item.signal}: {error}")
    else:
        for failed in result.failed:
            tell(f"signal {item.signal}: {failed.name}: {failed.reason}")
        if not result.failed:
            tell(f"signal {item.signal}: {count_text(result.rows, 'row is', 'rows are')} in the log")
    queue.put(current)


class SnapshotPausedError(Exception):
    """The snapshot of a table has to wait; it goes on after the chunks that are in the log."""


class _Watch:
    """Looks for signals between chunks; called as `OnProgress`."""

    def __init__(self, queue: SignalQueue, begun: WantedTables) -> None:
        self._queue, self._begun = queue, begun
        self._looked = time.monotonic()

    def __call__(self, progress: SnapshotProgress) -> None:
        if progress.is_done:
            return
        if not self._begun.is_stopped:
            if time.monotonic() - self._looked < LOOK_SECONDS:
                return
            self._queue.look(0.0)
            self._looked = time.monotonic()
        if self._begun.is_stopped or self._begun not in self._queue.wanted:
            raise SnapshotStoppedError(f"the snapshot of {progress.table} was stopped by a signal")
        if self._queue.is_paused:
            raise SnapshotPausedError(
                f"the snapshot of {progress.table} waits after {count_text(progress.row_count, 'row')}"
            )
