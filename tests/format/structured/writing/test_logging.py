"""Logging with formats and values, and through Python's own `logging`."""

from __future__ import annotations

import inspect
import io
import logging
import logging.handlers
import queue
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from binlog_format.errors import ArgumentError, StorageError
from binlog_format.structured.layout import Severity
from binlog_format.structured.metadata import EventSource
from binlog_format.structured.writing import Session, StructuredLogger, StructuredLogHandler
from binlog_format.structured.writing.logger import SOURCES_PER_LINE_MAX
from binlog_format.structured.writing.logging_handler import message_of
from tests.format.structured.plain_reader import Event, check_batch_sizes, entries, events

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@dataclass
class Promise:
    number: int


def text_of(event: Event) -> str:
    """The message, with values as `str` shows them."""
    text = event.source.format.decode()
    for value in event.args:
        text = text.replace("{}", "\0", 1).replace("\0", value.decode() if isinstance(value, bytes) else str(value))
    return text


def line_of(part: str) -> int:
    """The only line of this module with that text."""
    source = inspect.getsource(sys.modules[__name__]).splitlines()
    (number,) = [number for number, line in enumerate(source, start=1) if part in line and "line_of" not in line]
    return number


# --- StructuredLogger ----------------------------------------------------------------------------------------------


class Log:
    def __init__(self) -> None:
        self.session = Session()
        self.logger = StructuredLogger(self.session, "shop")
        self.stream = io.BytesIO()

    def entries(self) -> list[object]:
        self.session.consume(self.stream)
        return list(entries(self.stream.getvalue()))

    def events(self) -> list[Event]:
        self.session.consume(self.stream)
        return events(self.stream.getvalue())


def test_call_makes_a_source_once_with_types_of_its_values() -> None:
    log, before = Log(), time.time_ns()
    for number in range(3):
        log.logger.warning("user {} took {} s: {}", "ann", 0.5 + number, number > 1)
    found = log.events()
    assert [one.args for one in found] == [[b"ann", 0.5, False], [b"ann", 1.5, False], [b"ann", 2.5, True]]
    (source,) = [one for one in log.entries() if isinstance(one, EventSource)]
    assert source == EventSource(
        id=1,
        severity=Severity.WARNING,
        category=b"shop",
        function=b"test_call_makes_a_source_once_with_types_of_its_values",
        file=__file__.encode(),
        line=line_of('log.logger.warning("user {}'),
        format=b"user {} took {} s: {}",
        argument_tags=b"[cdy",
    )
    assert before <= found[0].clock <= found[-1].clock <= time.time_ns()


@pytest.mark.parametrize("severity", ["trace", "debug", "info", "warning", "error", "critical"])
def test_each_severity_has_a_method(severity: str) -> None:
    log = Log()
    getattr(log.logger, severity)("x")
    assert [one.source.severity for one in log.events()] == [Severity[severity.upper()]]


def test_threads_are_writers() -> None:
    log = Log()
    thread = threading.Thread(target=lambda: log.logger.info("a"), name="worker")
    thread.start()
    thread.join()
    log.logger.info("b")
    assert [(one.writer.name, one.source.format) for one in log.events()] == [
        (b"worker", b"a"),
        (threading.current_thread().name.encode(), b"b"),
    ]


def test_other_number_of_values_is_an_error() -> None:
    with pytest.raises(ArgumentError, match=r"COUNT\] 'user \{\}' has 1 times \{\}, but 2 arguments"):
        Log().logger.info("user {}", 1, 2)


def test_formats_without_end_become_texts_of_one_source() -> None:
    log = Log()
    for number in range(100):
        log.logger.info(f"number {number} {{}}", number)
    assert [text_of(one) for one in log.events()] == [f"number {number} {number}" for number in range(100)]
    assert sum(isinstance(one, EventSource) for one in log.entries()) == SOURCES_PER_LINE_MAX + 1


def test_values_without_a_type_become_text() -> None:
    log = Log()
    endless: list[object] = []
    endless.append(endless)
    for value in (endless, 2**64, Promise("not a number")):  # type: ignore[arg-type]
        log.logger.info("value {}", value)
    assert [(one.source.format, one.args) for one in log.events()] == [
        (b"{}", [b"value [[...]]"]),
        (b"{}", [b"value 18446744073709551616"]),
        (b"{}", [b"value Promise(number='not a number')"]),
    ]


# --- messages of logging -------------------------------------------------------------------------------------------


def record_of(message: object, *values: Any) -> logging.LogRecord:
    return logging.LogRecord("shop", logging.INFO, "a.py", 1, message, values, None)


@pytest.mark.parametrize(
    ("message", "values", "expected"),
    [
        ("no values", (), ("no values", ())),
        ("100%", (), ("100%", ())),
        ("a {} b", (), ("a {} b", ("{}",))),
        ("%s and %d", ("x", 5), ("{} and {}", ("x", 5))),
        ("%5.2f%%", (1.25,), ("{}%", (1.25,))),
        ("%d %f", (1.9, 2), ("{} {}", (1, 2.0))),
        ("%d", (True,), ("{}", (1,))),
        ("%s %s", ([1], None), ("{} {}", ([1], None))),
        ("%r %x %c %05o", ("a", 255, "z", 8), ("{} {} {} {}", ("'a'", "ff", "z", "00010"))),
        ("%(a)s is %(b)d %(a)s", ({"a": "x", "b": 2},), ("{} is {} {}", ("x", 2, "x"))),
        ("%(b)x %%", ({"a": "x", "b": 255},), ("{} %", ("ff",))),
        ("%s", ({"a": 1},), ("{}", ({"a": 1},))),
        ("{} took {}", ("ann", 5), ("{} took {}", ("ann", 5))),
        ("{} %s {}", (1,), ("{} {} {}", ("{}", 1, "{}"))),
        ("%*d", (5, 1), ("{}".replace("{}", "    1"), ())),
        (ValueError("of an object"), (), ("of an object", ())),
    ],
)
def test_messages_become_formats(message: object, values: tuple[Any, ...], expected: tuple[str, object]) -> None:
    assert message_of(record_of(message, *values)) == expected


@pytest.mark.parametrize(
    ("message", "values"),
    [("%d", ("x",)), ("%s", (1, 2)), ("%s %s", (1,)), ("nothing", (1,)), ("%(a)s", ({"b": 1},)), ("%q", (1,))],
)
def test_messages_that_do_not_fit_raise_as_elsewhere(message: str, values: tuple[Any, ...]) -> None:
    record = record_of(message, *values)
    with pytest.raises((TypeError, ValueError, KeyError)) as expected:
        record.getMessage()
    with pytest.raises(expected.type):
        message_of(record)


# --- StructuredLogHandler ------------------------------------------------------------------------------------------


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    made = logging.Logger("shop.orders")
    yield made
    for handler in made.handlers:
        handler.close()


def test_records_become_events(tmp_path: Path, logger: logging.Logger) -> None:
    path = tmp_path / "app.blog"
    logger.addHandler(StructuredLogHandler(path))
    before = time.time_ns()
    logger.info("user %s took %.1f s", "ann", 0.25)
    thread = threading.Thread(target=lambda: logger.log(45, "from a thread"), name="worker")
    thread.start()
    thread.join()
    try:
        raise ValueError("that is why")
    except ValueError:
        logger.exception("it failed: %d", 7)
    logger.handlers[0].flush()
    first, second, third = sorted(events(path.read_bytes()), key=lambda one: one.clock)
    check_batch_sizes(path.read_bytes())
    assert (first.source.format, first.args) == (b"user {} took {} s", [b"ann", 0.25])
    assert (first.source.category, first.source.function) == (b"shop.orders", b"test_records_become_events")
    assert (first.source.file.decode(), first.source.line) == (__file__, line_of('logger.info("user %s'))
    assert (first.writer.id, first.writer.name) == (threading.get_ident(), threading.current_thread().name.encode())
    assert before // 1000 <= first.clock // 1000 <= time.time_ns() // 1000
    assert (second.writer.name, second.source.severity, second.args) == (b"worker", Severity.ERROR, [])
    assert third.source.format == b"it failed: {}\n{}"
    assert third.args[0] == 7
    assert str(third.args[1]).endswith("ValueError: that is why'")


@pytest.mark.parametrize(
    ("level", "severity"),
    [(5, "TRACE"), (10, "DEBUG"), (19, "DEBUG"), (20, "INFO"), (30, "WARNING"), (40, "ERROR"), (99, "CRITICAL")],
)
def test_levels_become_severities(tmp_path: Path, logger: logging.Logger, level: int, severity: str) -> None:
    logger.addHandler(StructuredLogHandler(tmp_path / "app.blog"))
    logger.setLevel(1)
    logger.log(level, "x")
    logger.handlers[0].close()
    assert [one.source.severity for one in events((tmp_path / "app.blog").read_bytes())] == [Severity[severity]]


def test_events_are_written_without_flush(tmp_path: Path, logger: logging.Logger) -> None:
    path = tmp_path / "app.blog"
    logger.addHandler(StructuredLogHandler(path, sync_interval=0.0))
    logger.info("x")
    wait_for(lambda: len(events(path.read_bytes())) == 1)


def wait_for(is_done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 300
    while not is_done():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_threads_of_a_queue_listener_are_told_apart(tmp_path: Path, logger: logging.Logger) -> None:
    path, waiting = tmp_path / "app.blog", queue.SimpleQueue[logging.LogRecord]()
    handler = StructuredLogHandler(path)
    listener = logging.handlers.QueueListener(waiting, handler)
    logger.addHandler(logging.handlers.QueueHandler(waiting))
    for number in range(3):
        thread = threading.Thread(target=logger.info, args=("x",), name=f"thread {number}")
        thread.start()
        thread.join()
    listener.start()
    listener.stop()
    handler.close()
    assert [one.writer.name for one in events(path.read_bytes())] == [b"thread 0", b"thread 1", b"thread 2"]


def test_more_than_memory_holds_is_dropped_and_counted(tmp_path: Path, logger: logging.Logger) -> None:
    """While the disk refuses, events wait; those that would be too many are counted when it takes them again."""
    path = tmp_path / "app.blog"
    handler = StructuredLogHandler(path, queued_max=2000, max_bytes=300)
    logger.addHandler(handler)
    logger.info("first")
    handler.flush()
    blocked = tmp_path / ".app.blog.new"
    blocked.mkdir()  # where the next file would begin
    for number in range(21):
        logger.info("number %d", number)
    with pytest.raises(StorageError):
        handler.flush()
    for number in range(21, 200):
        logger.info("number %d", number)
    blocked.rmdir()
    handler.flush()
    logger.info("number %d", 200)
    handler.close()
    data = [one.read_bytes() for one in tmp_path.glob("app.blog*")]
    found = sorted((event for one in data for event in events(one)), key=lambda one: one.clock)
    numbers = [event.args[0] for event in found if event.source.format == b"number {}"]
    (dropped,) = [event for event in found if event.source.category == b"binlog_stream"]
    assert numbers == [*range(len(numbers) - 1), 200]
    assert 20 < len(numbers) < 200
    assert dropped.args == [201 - len(numbers), 2000]
    assert dropped.source.severity == Severity.WARNING


def test_record_that_cannot_be_formatted_is_logged_and_reported_as_elsewhere(
    tmp_path: Path, logger: logging.Logger, capsys: pytest.CaptureFixture[str]
) -> None:
    logger.addHandler(StructuredLogHandler(tmp_path / "app.blog"))
    logger.info("%d", "x")
    logger.info("after it")
    logger.handlers[0].close()
    assert "--- Logging error ---" in capsys.readouterr().err
    first, second = [text_of(one) for one in events((tmp_path / "app.blog").read_bytes())]
    assert first.startswith("%d ('x',) (TypeError: ")
    assert second == "after it"


class Unshown:
    def __str__(self) -> str:
        raise RuntimeError("no text")


@pytest.mark.parametrize(
    ("message", "value", "text"),
    [
        ("count %d", np.int64(7), "count 7"),
        ("count %d", np.uint64((1 << 64) - 1), "count 18446744073709551615"),
        ("share %.1f", np.float32(0.5), "share 0.5"),
        ("since %s", datetime.min, "0001-01-01 00:00:00"),  # noqa: DTZ901
        ("since %s", datetime.max, "9999-12-31 23:59:59.999999"),  # noqa: DTZ901
        ("took %s", timedelta.max, "999999999 days"),
        ("number %s", 1 << 70, str(1 << 70)),
        ("it is %s", Unshown(), "no text"),
        ("%d and %d", 1, "%d and %d"),
    ],
)
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_no_record_is_lost_whatever_its_values_are(
    tmp_path: Path, logger: logging.Logger, message: str, value: object, text: str
) -> None:
    logger.addHandler(StructuredLogHandler(tmp_path / "app.blog"))
    logger.info(message, value)
    logger.handlers[0].close()
    (event,) = events((tmp_path / "app.blog").read_bytes())
    assert text in text_of(event)


FORKING = """
import logging, os, sys, threading
from binlog_format.structured.writing import StructuredLogHandler
logging.basicConfig(level=logging.INFO, handlers=[StructuredLogHandler(sys.argv[1])])
logging.info("parent %d", 1)
child = os.fork()
if child == 0:
    for number in range(3):
        logging.info("child %d", number)
    logging.shutdown()
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
logging.info("parent %d", 2)
print(child)
"""


def test_forked_child_has_a_log_of_its_own(tmp_path: Path) -> None:
    path = tmp_path / "app.blog"
    done = subprocess.run([sys.executable, "-c", FORKING, str(path)], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    parent, child = path, tmp_path / f"app-{done.stdout.strip()}.blog"
    assert [text_of(one) for one in events(parent.read_bytes())] == ["parent 1", "parent 2"]
    assert [text_of(one) for one in events(child.read_bytes())] == ["child 0", "child 1", "child 2"]


def test_other_process_is_told_that_the_log_is_in_use(tmp_path: Path, logger: logging.Logger) -> None:
    path = tmp_path / "app.blog"
    logger.addHandler(StructuredLogHandler(path))
    program = "import sys; from binlog_format.structured.writing import StructuredLogHandler as H; H(sys.argv[1])"
    done = subprocess.run([sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "BINLOG_STORAGE.IN_USE" in done.stderr
