"""One machine for a life: its clock, its ids, no threads, and the memory of a process, which a kill throws away."""

from __future__ import annotations

import sys
import threading
import time
import uuid
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from binlog_connector import log_definitions
from binlog_connector.following import tailer
from binlog_connector.following.tailer import Tailer
from binlog_connector.kafka import publisher
from binlog_connector.kafka.publisher import Publisher
from binlog_connector.spark import stream_reader
from binlog_format.structured.files.file_list import known_heads
from binlog_streaming.archive import run as archive_run
from binlog_streaming.archive.archiver import Archiver
from binlog_streaming.lake import parquet
from binlog_streaming.lake.delta import log as delta_log
from binlog_streaming.tables import job as tables_job

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterable, Iterator, Sequence

FIRST_SECOND = 1_790_000_000
"""Start of lives, seconds since 1970 UTC."""

_TICK = 0.001


class Clock:
    """A clock that goes on a little whenever somebody looks at it, and as far as it is told to.

    Attributes:
        now: Seconds since 1970 UTC.
    """

    def __init__(self) -> None:
        self.now = float(FIRST_SECOND)

    def time(self) -> float:
        """Stands in for `time.time` and `time.monotonic`."""
        self.now += _TICK
        return self.now

    def time_ns(self) -> int:
        """Stands in for `time.time_ns`."""
        return int(self.time() * 1e9)

    def sleep(self, seconds: float) -> None:
        """Stands in for `time.sleep`."""
        self.now += seconds


class InlineExecutor:
    """Stands in for `ThreadPoolExecutor`: work is done when it is submitted, by the caller."""

    def __init__(self, *_: object, **__: object) -> None:
        pass

    def __enter__(self) -> InlineExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def submit(self, work: Callable[..., Any], *arguments: Any, **named: Any) -> Future[Any]:
        """Do *work*."""
        future: Future[Any] = Future()
        try:
            future.set_result(work(*arguments, **named))
        except Exception as error:
            future.set_exception(error)
        return future

    def map(self, work: Callable[..., Any], *items: Iterable[Any]) -> Iterator[Any]:
        """Do *work* on each of *items*."""
        return map(work, *items)

    def shutdown(self, *_: object, **__: object) -> None:
        """There is nothing to end."""


class _InlineThread:
    """Stands in for `threading.Thread`: what it is to do is done when it starts."""

    def __init__(self, *, target: Callable[..., Any], args: tuple[Any, ...] = (), **_: object) -> None:
        self._work = partial(target, *args)

    def start(self) -> None:
        """Do it."""
        self._work()


class _ClockEvent(threading.Event):
    """An event that nobody else sets while somebody waits for it."""

    def __init__(self, clock: Clock) -> None:
        super().__init__()
        self._clock = clock

    def wait(self, timeout: float | None = None) -> bool:
        """Let the time pass."""
        if not self.is_set():
            assert timeout is not None, "it will never be set"
            self._clock.sleep(timeout)
        return self.is_set()


class _ClockWatch:
    """Stands in for `DirectoryWatch`: a wait takes the clock's time, and something may be new after it."""

    def __init__(self, clock: Clock, *_: object, **__: object) -> None:
        self._clock = clock

    def __enter__(self) -> _ClockWatch:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def wait(self, timeout: float) -> bool:
        """Let the time pass."""
        self._clock.sleep(timeout)
        return True

    def forget(self) -> None:
        """Nothing is remembered."""

    def wake(self) -> None:
        """Nobody waits."""

    def close(self) -> None:
        """Nothing is watched."""


class _InlineThreads:
    """Stands in for `threading` where a thread waits for what has been done already, or for time to pass."""

    Thread = _InlineThread

    def __init__(self, clock: Clock) -> None:
        self._clock = clock

    def Event(self) -> _ClockEvent:
        """An event whose waits take the clock's time."""
        return _ClockEvent(self._clock)

    def __getattr__(self, name: str) -> object:
        return getattr(threading, name)


@contextmanager
def replaced(changes: Sequence[tuple[Any, str, Any]]) -> Iterator[None]:
    """Let attributes, each of a place and with a name, have other values."""
    before = [(place, name, getattr(place, name)) for place, name, _ in changes]
    for place, name, value in changes:
        setattr(place, name, value)
    try:
        yield
    finally:
        for place, name, value in before:
            setattr(place, name, value)


@contextmanager
def one_machine(clock: Clock, ids: random.Random) -> Iterator[None]:
    """Let this process have that clock, ids by that chance, and one thread."""
    changes: list[tuple[Any, str, Any]] = [
        (time, "time", _here(clock.time, time.time)),
        (time, "monotonic", _here(clock.time, time.monotonic)),
        (time, "time_ns", _here(clock.time_ns, time.time_ns)),
        (time, "sleep", _here(clock.sleep, time.sleep)),
        (uuid, "uuid4", _here(lambda: uuid.UUID(int=ids.getrandbits(128), version=4), uuid.uuid4)),
        *((module, "threading", _InlineThreads(clock)) for module in (tables_job, publisher)),
        *((module, "DirectoryWatch", partial(_ClockWatch, clock)) for module in (tailer, archive_run)),
        (stream_reader, "interpreted_if_small", lambda _: nullcontext()),  # it looks at files in a new process alone
        *((made.__init__, "__kwdefaults__", _with_clock(made, clock)) for made in (Publisher, Tailer, Archiver)),
        *((module, "ThreadPoolExecutor", InlineExecutor) for module in _with_executors(len(sys.modules))),
    ]
    with replaced(changes):
        yield


def _here(inside: Callable[..., Any], outside: Callable[..., Any]) -> Callable[..., Any]:
    """*inside* for this thread; others, which the process has for something else, keep *outside*.

    One that waits in a loop would let years pass.
    """
    here = threading.get_ident()

    def function(*arguments: Any) -> Any:
        return (inside if threading.get_ident() == here else outside)(*arguments)

    return function


def _with_clock(made: Any, clock: Clock) -> dict[str, object]:
    """Defaults of a class's arguments, with that clock."""
    return {**made.__init__.__kwdefaults__, "clock": clock.time}


@lru_cache(maxsize=1)
def _with_executors(modules: int) -> list[Any]:
    """Modules of ours with executors, of so many *modules* that are loaded."""
    del modules
    ours = (module for name, module in list(sys.modules.items()) if name.startswith("binlog_"))
    return [module for module in ours if getattr(module, "ThreadPoolExecutor", None) is ThreadPoolExecutor]


def forget_process() -> None:
    """Throw the memory of the job's process away: what its modules keep from batch to batch."""
    log_definitions._known.clear()
    delta_log._kept.clear()
    delta_log._seen.clear()
    parquet._newest_names.clear()
    known_heads.cache_clear()
