"""Events that MariaDB compresses one by one, and what becomes of damaged ones."""

from __future__ import annotations

import tracemalloc
import zlib
from typing import TYPE_CHECKING

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format.block import EVENT_DTYPE
from binlog_format.errors import CorruptError
from binlog_format.events.compression.compressed_streams import expand_streams, find_streams
from binlog_format.events.compression.compression_layout import COMPRESSED_MARK, PLAIN_TYPES
from binlog_format.events.layout import EVENT_SIZE_MAX, EVENT_SIZE_OFFSET, EventType
from binlog_format.kernels import as_bytes, empty_bytes
from binlog_format.position import Place
from binlog_lab.event_encoding.event_encoding import (
    Origin,
    QueryContext,
    compress_event,
    encode_event,
    encode_query,
    plain_head_size,
)

if TYPE_CHECKING:
    from collections.abc import Callable

ORIGIN = Origin(1_700_000_000, 3)


def _packed(number: int) -> bytes:
    return bytes([number]) if number <= 250 else b"\xfc" + number.to_bytes(2, "little")


@st.composite
def row_events(draw: st.DrawFn) -> bytes:
    """Row events of all kinds: only what precedes the rows is looked at."""
    kind = EventType(draw(st.sampled_from([23, 24, 25, 30, 31, 32])))
    columns = draw(st.sampled_from([1, 8, 9, 250, 251, 300, 4096]))
    bitmap = b"\xff" * ((columns + 7) // 8)
    extra = b""
    if kind >= EventType.WRITE_ROWS_V2:
        info = draw(st.binary(max_size=20))
        extra = (len(info) + 2).to_bytes(2, "little") + info
    is_update = kind in (EventType.UPDATE_ROWS_V1, EventType.UPDATE_ROWS_V2)
    head = bytes(8) + extra + _packed(columns) + bitmap * (2 if is_update else 1)
    return encode_event(kind, head + draw(st.binary(min_size=1, max_size=3000)), ORIGIN, flags=draw(st.integers(0, 1)))


@st.composite
def queries(draw: st.DrawFn) -> bytes:
    """Statements."""
    context = QueryContext(database=draw(st.sampled_from(["", "shop", "x" * 64])))
    return encode_query(draw(st.text(min_size=1, max_size=2000)), ORIGIN, context)


plain_events = st.one_of(row_events(), queries())


def place_of(byte: int) -> Place:
    return Place("/log/bin.000007", byte=1000 + byte)


def expand(stored: bytes, size: int | None = None) -> bytes:
    """The plain form of one event."""
    table = np.zeros(1, dtype=EVENT_DTYPE)
    table["size"], table["type"] = len(stored) if size is None else size, stored[4]
    data = as_bytes(stored)
    found = find_streams(data, table, place=place_of)
    target = empty_bytes(int(found.plain_sizes[0]))
    expand_streams(data, found, target, np.zeros(1, dtype=np.int64), place=place_of)
    return target.tobytes()


def _outcome(stored: bytes) -> bytes | CorruptError:
    try:
        return expand(stored)
    except CorruptError as error:
        return error


@given(plain_events)
def test_compressed_event_expands_to_the_plain_one(event: bytes) -> None:
    stored = compress_event(event)
    assert PLAIN_TYPES[stored[4]] == event[4]
    assert expand(stored) == event


@given(st.lists(plain_events, min_size=1, max_size=5))
def test_many_events_are_expanded_at_once(events: list[bytes]) -> None:
    stored = [compress_event(event) for event in events]
    table = np.zeros(len(events), dtype=EVENT_DTYPE)
    sizes = np.array([len(event) for event in stored], dtype=np.int64)
    table["start"], table["size"] = np.cumsum(sizes) - sizes, sizes
    table["type"] = [event[4] for event in stored]
    data = as_bytes(b"".join(stored))
    found = find_streams(data, table)
    starts = np.cumsum(found.plain_sizes) - found.plain_sizes
    target = empty_bytes(int(found.plain_sizes.sum()))
    expand_streams(data, found, target, starts)
    assert target.tobytes() == b"".join(events)


@given(plain_events, st.data())
def test_damaged_event_is_an_error_or_another_plain_one(event: bytes, data: st.DataObject) -> None:
    """A flipped bit: zlib's own checksum covers the text and the rows, so these never change."""
    stored = bytearray(compress_event(event))
    bit = data.draw(st.integers(19 * 8, len(stored) * 8 - 1))
    stored[bit // 8] ^= 1 << (bit % 8)
    found = _outcome(bytes(stored))
    if isinstance(found, CorruptError):
        assert (found.condition, str(found.at)) == ("BINLOG_CORRUPT.BAD_EVENT", "/log/bin.000007: byte 0x3e8")
    else:
        head = plain_head_size(event)
        # The bit is in the head; or it is one that neither MariaDB nor zlib looks at.
        assert found[head:] == event[head:] or bit // 8 < head


@given(plain_events, st.data())
def test_cut_event_is_an_error(event: bytes, data: st.DataObject) -> None:
    stored = compress_event(event)
    with pytest.raises(CorruptError, match="BAD_EVENT"):
        expand(stored, data.draw(st.integers(0, len(stored) - 1)))


@given(st.sampled_from([165, 166, 167, 168, 169, 170, 171]), st.binary(max_size=200))
def test_any_bytes_are_an_error_or_an_event(kind: int, body: bytes) -> None:
    plain = _outcome(encode_event(EventType(kind), body, ORIGIN))
    assert isinstance(plain, CorruptError) or len(plain) == int.from_bytes(
        plain[EVENT_SIZE_OFFSET : EVENT_SIZE_OFFSET + 4], "little"
    )


def _with_stream(length: int, content: bytes, *, mark: int = COMPRESSED_MARK) -> bytes:
    event = encode_query("x", ORIGIN)
    head = bytearray(event[: plain_head_size(event)])
    size = (length.bit_length() + 7) // 8
    stored = head + bytes([mark | size]) + length.to_bytes(size, "big") + content
    stored[4] = EventType.QUERY_COMPRESSED
    return bytes(stored)


SQL = b"INSERT INTO t VALUES (1)" * 40


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        (_with_stream(len(SQL) - 1, zlib.compress(SQL)), "more of 959 bytes"),
        (_with_stream(len(SQL) + 1, zlib.compress(SQL)), "960 of 961 bytes"),
        (_with_stream(len(SQL), zlib.compress(SQL)[:-1]), "does not end"),
        (_with_stream(len(SQL), zlib.compress(SQL) + b"x"), "after its zlib stream"),
        (_with_stream(len(SQL), zlib.compress(SQL)[:-4] + bytes(4)), "incorrect data check"),
        (_with_stream(len(SQL), zlib.compress(SQL), mark=0), "does not begin as one"),
        (_with_stream(len(SQL), zlib.compress(SQL), mark=0x90), "unknown algorithm"),
        (_with_stream(0, zlib.compress(SQL)), "size is missing"),
        (_with_stream(1 << 32, zlib.compress(SQL)), "size is missing"),
        (_with_stream(EVENT_SIZE_MAX, zlib.compress(SQL)), "not possible"),
        (_with_stream(1 << 20, zlib.compress(SQL)), "not possible"),
    ],
)
def test_lie_is_named(stored: bytes, reason: str) -> None:
    with pytest.raises(CorruptError, match=reason) as raised:
        expand(stored)
    assert raised.value.subclass == "BAD_EVENT"


def _memory_of(action: Callable[[], object]) -> int:
    tracemalloc.start()
    try:
        action()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_bomb_takes_no_more_memory_than_it_claims() -> None:
    """64 MB of zeros that are declared as 100 bytes: no more than those are ever made."""
    bomb = _with_stream(100, zlib.compress(bytes(64 << 20), 9))
    expand(compress_event(encode_query("x" * 100, ORIGIN)))  # whatever is made once is made now

    def refused() -> None:
        with pytest.raises(CorruptError, match="more of 100 bytes"):
            expand(bomb)

    assert _memory_of(refused) < 1 << 20
