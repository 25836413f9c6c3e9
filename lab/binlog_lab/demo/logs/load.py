"""A program that logs: several threads write a structured log that is rotated. Runs as a process of its own.

It also writes down what the table must hold, from what its threads were asked to log, not from the log.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import msgspec
import pyarrow as pa

from binlog_format.structured.layout import Severity
from binlog_format.structured.writing import RotatingStream, Session, SessionWriter
from binlog_lab.demo.proof import expected_rows
from binlog_lab.demo.proof.expected_rows import ExpectedTable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.structured.writing import LogSource

LOG_NAME = "shop.blog"
TABLE = "logs"
KEY = ("writer", "ns")
CONSUME_INTERVAL_S = 0.05
_PAUSE_S = 0.01
_QUEUE_SIZE = 1 << 14
_AT_ONCE = 10
"""One event in so many is logged before the others are waited for."""
_CATEGORY = "shop"
_EXPECTED_SCHEMA = pa.schema(
    [
        ("writer", pa.string()),
        ("ns", pa.int64()),
        ("severity", pa.string()),
        ("category", pa.string()),
        ("function", pa.string()),
        ("line", pa.int64()),
        ("format", pa.string()),
        ("message", pa.string()),
        ("args", pa.string()),
    ]
)


class LoadReport(msgspec.Struct, frozen=True, kw_only=True):
    """Progress of the log.

    Attributes:
        events: Logged so far.
        files: Of the log.
        is_done: Nothing more is written, and what the table must hold is there.
    """

    events: int
    files: int = 1
    is_done: bool = False


class _Statement(NamedTuple):
    """A line of the program that logs."""

    severity: Severity
    function: str
    format: str
    tags: str


_STATEMENTS = (
    _Statement(Severity.INFO, "take_order", "order {} of {} items by {}", "ll[c"),
    _Statement(Severity.WARNING, "take_payment", "payment of order {} took {} s", "ld"),
    _Statement(Severity.ERROR, "take_payment", "payment of order {} failed: {}", "l<0[c>"),
    _Statement(Severity.DEBUG, "look_up", "items {} in stock: {}", "[ly"),
)


class Load:
    """Threads that log orders.

    Args:
        session: Of the log.
        events: Of all threads together; one in ten at once, the others from `go_live` on.
        seconds: Time to take for those.
    """

    def __init__(self, session: Session, *, threads: int, events: int, seconds: float) -> None:
        self._session = session
        self._seconds = seconds
        self._per_thread = events // threads
        self._is_live = threading.Event()
        self._sources = [self._source(number) for number in range(len(_STATEMENTS))]
        self._rows: list[list[tuple[object, ...]]] = [[] for _ in range(threads)]
        self._threads = [threading.Thread(target=self._work, args=(number,)) for number in range(threads)]

    @property
    def event_count(self) -> int:
        """Events so far."""
        return sum(map(len, self._rows))

    @property
    def is_over(self) -> bool:
        """True if all threads have ended."""
        return not any(thread.is_alive() for thread in self._threads)

    def start(self) -> None:
        """Start the threads."""
        for thread in self._threads:
            thread.start()

    def go_live(self) -> None:
        """Make the threads log the rest, live."""
        self._is_live.set()

    def expected_table(self) -> ExpectedTable:
        """Expected rows of the table; only when the load is over."""
        columns = zip(*(row for rows in self._rows for row in rows), strict=True)
        arrays = [pa.array(values, kind) for values, kind in zip(columns, _EXPECTED_SCHEMA.types, strict=True)]
        return ExpectedTable(TABLE, KEY, pa.Table.from_arrays(arrays, schema=_EXPECTED_SCHEMA))

    def _source(self, number: int) -> LogSource:
        statement = _STATEMENTS[number]
        return self._session.add_source(
            statement.format,
            statement.tags,
            severity=statement.severity,
            category=_CATEGORY,
            function=statement.function,
            file=__file__,
            line=number + 1,
        )

    def _work(self, number: int) -> None:
        name = f"till {number}"
        chance = random.Random(number)
        writer = SessionWriter(self._session, id=number, name=name, queue_size=_QUEUE_SIZE)
        started, clock = time.monotonic(), 0
        at_once = self._per_thread // _AT_ONCE
        for count in range(self._per_thread):
            if count == at_once:
                self._is_live.wait()
                started = time.monotonic()
            which, args = _arguments(chance, count)
            clock = max(time.time_ns(), clock + 1)  # a key of this thread's events
            writer.add_event(self._sources[which], clock, *args)
            self._rows[number].append((name, clock, *_expected(which, args)))
            due = started + (count - at_once) * self._seconds / self._per_thread
            if due > time.monotonic() + _PAUSE_S:
                time.sleep(due - time.monotonic())
        writer.close()


def _expected(which: int, args: tuple[object, ...]) -> tuple[object, ...]:
    """Expected columns of an event, after its writer and its time."""
    statement = _STATEMENTS[which]
    message = statement.format.replace("{}", "%s") % tuple(map(_shown, args))
    arguments = msgspec.json.encode(args).decode()
    severity = statement.severity.name.lower()
    return severity, _CATEGORY, statement.function, which + 1, statement.format, message, arguments


def _arguments(chance: random.Random, count: int) -> tuple[int, tuple[object, ...]]:
    which = chance.randrange(len(_STATEMENTS))
    arguments: tuple[tuple[object, ...], ...] = (
        (count, chance.randrange(9), f"customer {chance.randrange(100)}"),
        (count, chance.randrange(1, 400) + 0.25),
        (count, chance.choice([None, "no credit", "é €"])),
        ([chance.randrange(1000) for _ in range(chance.randrange(5))], chance.random() < 0.5),
    )
    return which, arguments[which]


def _shown(value: object) -> str:
    """A value as messages show it."""
    if value is None:
        return "{null}"
    return str(value).lower() if isinstance(value, bool) else str(value)


def write_log(directory: Path, load: Load, session: Session, *, max_bytes: int) -> Iterator[LoadReport]:
    """Write what the threads log until they end, and tell how far it is."""
    with RotatingStream(session, directory / LOG_NAME, max_bytes=max_bytes) as stream:
        while True:
            is_over = load.is_over  # before what it has logged is taken
            if session.consume(stream) or is_over:
                files = sum(1 for _ in directory.glob(f"{LOG_NAME}*"))
                yield LoadReport(events=load.event_count, files=files)
            if is_over:
                return
            time.sleep(CONSUME_INTERVAL_S)


def _say(report: LoadReport) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.flush()


def _wait_for_input(load: Load) -> None:
    sys.stdin.readline()
    load.go_live()


def main() -> int:
    """Write the log that the arguments ask for, the larger part of it when a line of input comes."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--directory", type=Path, required=True, help="of the log")
    parser.add_argument("--expected", type=Path, required=True, help="where to put what the table must hold")
    parser.add_argument("--threads", type=int, default=4)
    parser.add_argument("--events", type=int, default=200_000)
    parser.add_argument("--seconds", type=float, default=20.0, help="time to take for them")
    parser.add_argument("--max-bytes", type=int, default=1 << 18, help="of a file")
    options = parser.parse_args()
    session = Session()
    load = Load(session, threads=options.threads, events=options.events, seconds=options.seconds)
    load.start()
    threading.Thread(target=_wait_for_input, args=(load,), daemon=True).start()
    for report in write_log(options.directory, load, session, max_bytes=options.max_bytes):
        _say(report)
    expected_rows.save([load.expected_table()], options.expected)
    _say(LoadReport(events=load.event_count, files=report.files, is_done=True))
    return 0


if __name__ == "__main__":
    sys.exit(main())
