"""Blocks of structured logs by a plain walk over their entries, and the corpus of the C++ library."""

from __future__ import annotations

import json
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np

from binlog_format.kernels import as_bytes
from binlog_format.position import Position
from binlog_format.structured.event_log import LogBlock
from binlog_format.structured.layout import (
    ENTRY_HEAD_SIZE,
    EVENT_STRUCT,
    LOG_EVENT_DTYPE,
    METADATA_BIT,
    SIZE_STRUCT,
    Severity,
)
from binlog_format.structured.metadata import (
    ClockSync,
    EventSource,
    LogState,
    ShortEntryError,
    WriterProp,
    read_metadata,
)
from tests.corpus import corpus

if TYPE_CHECKING:
    from numpy.typing import NDArray


def source(tags: bytes, format_string: bytes = b"{}", number: int = 1) -> EventSource:
    return EventSource(number, Severity.INFO, b"main", b"run", b"main.cpp", 7, format_string, tags)


def block_of(data: bytes, path: str = "test.blog") -> LogBlock:
    """All events of a file up to its first damage; an event of no source ends it too."""
    state: dict[int, int] = {}
    sources: list[EventSource] = []
    events: list[tuple[int, ...]] = []
    at = 0
    while at + ENTRY_HEAD_SIZE <= len(data):
        (size,) = SIZE_STRUCT.unpack_from(data, at)
        payload = data[at + ENTRY_HEAD_SIZE : at + ENTRY_HEAD_SIZE + size]
        if len(payload) < max(size, 8):
            break
        if int.from_bytes(payload[:8], "little") < METADATA_BIT:
            if len(payload) < EVENT_STRUCT.size:
                break
            number, clock = EVENT_STRUCT.unpack_from(payload)
            if number not in state:
                break
            events.append((at, size, clock, state[number], 0, 0))
        else:
            try:
                one = read_metadata(payload)
            except ShortEntryError:
                break
            if isinstance(one, EventSource):
                state[one.id] = len(sources)
                sources.append(one)
        at += ENTRY_HEAD_SIZE + size
    return LogBlock(
        as_bytes(data[:at]),
        np.array(events, dtype=LOG_EVENT_DTYPE),
        tuple(sources),
        (WriterProp(),),
        (ClockSync(),),
        1,
        0,
        path,
        Position(1, 0, 0),
        LogState(),
    )


def block_of_events(one: EventSource, arguments: list[bytes]) -> LogBlock:
    """A block of one source with an event for each of *arguments*."""
    events = b"".join(
        SIZE_STRUCT.pack(EVENT_STRUCT.size + len(each)) + EVENT_STRUCT.pack(one.id, 0) + each for each in arguments
    )
    return block_of(one.entry() + events)


def all_rows(block: LogBlock) -> NDArray[np.int64]:
    return np.arange(len(block.events))


@cache
def corpus_files() -> list[str]:
    """Names of the files whose entries are listed in the corpus."""
    return sorted(path.stem for path in (corpus("cppbinlog") / "cppbinlog" / "entries").glob("*.jsonl"))


def corpus_block(name: str) -> LogBlock:
    return block_of((corpus("cppbinlog") / "cppbinlog" / "blog" / f"{name}.blog").read_bytes(), name)


def corpus_arguments(name: str) -> tuple[list[list[Any]], str | None]:
    """The arguments of each event, and the error that ends the list."""
    lines = (corpus("cppbinlog") / "cppbinlog" / "entries" / f"{name}.jsonl").read_text().splitlines()
    entries = [json.loads(line) for line in lines]
    error = entries[-1].get("error")
    return [entry["args"] for entry in entries if entry.get("entry") == "event"], error
