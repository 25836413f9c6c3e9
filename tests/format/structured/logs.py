"""Structured logs for tests, entry by entry: `log_entries`, `event`."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from binlog_format.structured.metadata import ClockSync, EventSource, WriterProp

if TYPE_CHECKING:
    from hypothesis.strategies import SearchStrategy

IDS = (0, 1, 2, 3, 0x7F12_3456_7890 >> 6, (1 << 63) - 1)
U64 = st.integers(0, (1 << 64) - 1)
TEXTS = st.binary(max_size=6)


class MemoryImage:
    """An image of a process, in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self.size = len(data)

    def read(self, offset: int, size: int) -> bytes:
        return self._data[offset : offset + size]


def entry(payload: bytes) -> bytes:
    """An entry, its size before it."""
    return struct.pack("<I", len(payload)) + payload


def event(source_id: int, clock: int, arguments: bytes = b"") -> bytes:
    """The entry of an event."""
    return entry(struct.pack("<QQ", source_id, clock) + arguments)


def source(source_id: int, text: bytes = b"text", severity: int = 128) -> EventSource:
    """A source that tests need not say more of."""
    return EventSource(source_id, severity, b"main", b"run", b"app.cpp", 7, text, b"")


_METADATA = st.one_of(
    st.builds(source, st.sampled_from((*IDS, (1 << 63) + 1)), TEXTS),
    st.builds(WriterProp, st.integers(0, 2), st.sampled_from([b"", b"a", b"worker", b"x" * 40]), st.integers(0, 99)),
    st.builds(ClockSync, st.integers(0, 2), st.sampled_from([0, 10**9]), st.integers(0, 2), st.just(3600), TEXTS),
)
_UNKNOWN = st.builds(
    lambda tag, rest: entry(struct.pack("<Q", tag) + rest), st.integers(1 << 63, (1 << 64) - 4), st.binary(max_size=30)
)
_EVENTS = st.builds(event, st.sampled_from(IDS), U64, st.binary(max_size=40))


def _with_extra(one: bytes, extra: bytes) -> bytes:
    return entry(one[4:] + extra)


def log_entries() -> SearchStrategy[list[bytes]]:
    """Entries of all kinds; sources are defined, defined anew, or missing."""
    metadata = st.builds(lambda one, extra: _with_extra(one.entry(), extra), _METADATA, st.binary(max_size=3))
    return st.lists(st.one_of(metadata, metadata, _EVENTS, _EVENTS, _EVENTS, _UNKNOWN), max_size=30)


def defined() -> list[bytes]:
    """The sources of all ids, so that no event lacks its own."""
    return [source(number, b"at the start").entry() for number in IDS]
