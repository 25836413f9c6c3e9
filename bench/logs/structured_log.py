"""A structured log as a busy C++ program writes it: ten sources, four writers, a million events of 62 bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from bench.logs.datasets import DATA
from binlog_format.structured.layout import ARGUMENTS_OFFSET, ENTRY_HEAD_SIZE, Severity
from binlog_format.structured.metadata import ClockSync, EventSource, WriterProp

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    Rows = NDArray[np.uint8]

EVENTS = 1_000_000
WRITERS = tuple(WriterProp(number, b"worker-%d" % number) for number in range(1, 5))
BATCH = 250
"""Events that a writer has ready whenever the log is written; all writers had them at the same time."""

START_NS = 1_710_072_000_000_000_000
CLOCK_SYNC = ClockSync(START_NS, 1_000_000_000, START_NS, 3600, b"CET")
STEP_NS = 1_000
"""On average, from a writer's event to its next one."""

_LETTERS = np.frombuffer(b"abcdefghijklmnopqrstuvwxyz 0123456789-/", dtype=np.uint8)


@dataclass(frozen=True, slots=True)
class _Statement:
    """A log statement: its source, how often it is reached, and how long its text or list is."""

    source: EventSource
    weight: float
    lengths: tuple[int, ...] = (0,)


def _statement(
    number: int, severity: Severity, text: str, tags: str, weight: float, lengths: tuple[int, ...] = (0,)
) -> _Statement:
    file = b"/home/build/app/src/module_%d.cpp" % (number % 3)
    category = b"net" if number % 2 else b"main"
    source = EventSource(number, severity, category, b"run", file, 40 + 10 * number, text.encode(), tags.encode())
    return _Statement(source, weight, lengths)


_NAMES = (20, 34, 46, 66)
_LISTS = (0, 7, 15, 24)
STATEMENTS = (
    _statement(1, Severity.INFO, "request {} took {} ms", "Ld", 0.20),
    _statement(2, Severity.INFO, "user {} logged in", "[c", 0.16, _NAMES),
    _statement(3, Severity.DEBUG, "read {} bytes of {}", "L[c", 0.16, _NAMES),
    _statement(4, Severity.DEBUG, "points {}", "[i", 0.12, _LISTS),
    _statement(5, Severity.TRACE, "state is {} after {} tries", "/i`State'0`Idle'1`Busy'2`Down'\\s", 0.10),
    _statement(6, Severity.INFO, "order {} of {} at {} x {}", "LLdi", 0.10),
    _statement(7, Severity.WARNING, "slow query {}: {}", "[cd", 0.08, (70, 110, 160)),
    _statement(8, Severity.DEBUG, "pair {}", "(Ld)", 0.05),
    _statement(9, Severity.ERROR, "cannot write {}", "[c", 0.02, _NAMES),
    _statement(10, Severity.CRITICAL, "limit {} of {} reached", "II", 0.01),
)


def structured_log(events: int = EVENTS) -> Path:
    """The file, made once and kept."""
    path = DATA / f"structured-{events}.blog"
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        partial = path.with_suffix(".partial")
        partial.write_bytes(log_bytes(events))
        partial.rename(path)
    return path


def log_bytes(events: int) -> bytes:
    """The same log with another number of events."""
    draw = np.random.default_rng(1)
    statement = draw.choice(len(STATEMENTS), size=events, p=[one.weight for one in STATEMENTS])
    length = np.zeros(events, dtype=np.int64)
    for number, one in enumerate(STATEMENTS):
        rows = statement == number
        length[rows] = draw.choice(one.lengths, size=int(rows.sum()))
    clocks = _clocks(events, draw)
    kinds = [(number, size) for number, one in enumerate(STATEMENTS) for size in one.lengths]
    made = [_events(kind, clocks, np.flatnonzero((statement == kind[0]) & (length == kind[1])), draw) for kind in kinds]
    sizes = np.zeros(events, dtype=np.int64)
    for rows, content in made:
        sizes[rows] = content.shape[1]
    return _joined(sizes, made)


def _clocks(events: int, draw: np.random.Generator) -> NDArray[np.uint64]:
    window = np.arange(events) // (BATCH * len(WRITERS))
    within = np.arange(events) % BATCH
    jitter = draw.integers(0, STEP_NS, events)
    return (START_NS + (window * BATCH + within) * STEP_NS + jitter).astype(np.uint64)


def _events(
    kind: tuple[int, int], clocks: NDArray[np.uint64], rows: NDArray[np.int64], draw: np.random.Generator
) -> tuple[NDArray[np.int64], Rows]:
    """The rows of the events of one statement with texts of one length, and their bytes, one row each."""
    number, length = kind
    source = STATEMENTS[number].source
    count = len(rows)
    arguments = _arguments(source.argument_tags.decode(), count, length, draw)
    size = np.full(count, ARGUMENTS_OFFSET - ENTRY_HEAD_SIZE + arguments.shape[1])
    head = [_numbers(size, "<u4"), _numbers(np.full(count, source.id), "<u8"), _numbers(clocks[rows], "<u8")]
    return rows, np.concatenate([*head, arguments], axis=1)


def _arguments(tags: str, count: int, length: int, draw: np.random.Generator) -> Rows:
    columns: list[Rows] = [np.zeros((count, 0), dtype=np.uint8)]
    at = 0
    while at < len(tags):
        tag = tags[at]
        at += 1
        if tag == "/":
            columns.append(_numbers(draw.integers(0, 4, count), "<i4"))
            at = tags.index("\\", at) + 1
        elif tag == "[":
            columns.append(_numbers(np.full(count, length), "<u4"))
            is_text = tags[at] == "c"
            numbers = draw.integers(-1000, 1000, (count, length)).astype("<i4").view(np.uint8).reshape(count, -1)
            columns.append(_LETTERS[draw.integers(0, len(_LETTERS), (count, length))] if is_text else numbers)
            at += 1
        elif tag == "d":
            columns.append(_numbers(np.round(draw.random(count) * 1000, 3), "<f8"))
        elif tag in _NUMBER_TYPES:
            columns.append(_numbers(draw.integers(0, 30_000, count), _NUMBER_TYPES[tag]))
    return np.concatenate(columns, axis=1)


_NUMBER_TYPES = {"s": "<i2", "i": "<i4", "I": "<u4", "L": "<u8"}


def _numbers(values: NDArray[np.generic], kind: str) -> Rows:
    stored = np.ascontiguousarray(values.astype(kind))
    return stored.view(np.uint8).reshape(len(stored), stored.itemsize)


def _joined(sizes: NDArray[np.int64], made: list[tuple[NDArray[np.int64], Rows]]) -> bytes:
    """The file: metadata, then batches, each after the WriterProp that belongs to it."""
    first_of_batch = np.arange(0, len(sizes), BATCH)
    batch_sizes = np.add.reduceat(sizes, first_of_batch)
    writers = [
        WriterProp(writer.id, writer.name, int(size)).entry()
        for size, writer in zip(batch_sizes, WRITERS * len(batch_sizes), strict=False)
    ]
    head = CLOCK_SYNC.entry() + b"".join(one.source.entry() for one in STATEMENTS)
    before = np.zeros(len(sizes), dtype=np.int64)
    before[first_of_batch] = [len(writer) for writer in writers]
    starts = len(head) + np.cumsum(before) + np.cumsum(sizes) - sizes
    data = np.zeros(int(starts[-1] + sizes[-1]), dtype=np.uint8)
    data[: len(head)] = np.frombuffer(head, dtype=np.uint8)
    for start, writer in zip(starts[first_of_batch].tolist(), writers, strict=True):
        data[start - len(writer) : start] = np.frombuffer(writer, dtype=np.uint8)
    for rows, content in made:
        data[starts[rows][:, None] + np.arange(content.shape[1])] = content
    return data.tobytes()
