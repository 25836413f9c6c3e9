"""Compressed transactions of MySQL, TRANSACTION_PAYLOAD events: `find_payloads`, `read_payloads`, `payload_pieces`."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import zstandard

from binlog_format.block import EVENT_DTYPE
from binlog_format.errors import CorruptError, UnsupportedError
from binlog_format.events.compression import payload_kernels as kernels
from binlog_format.events.compression.compression_layout import PAYLOAD_COMPRESSION_NONE, STORED_FORMS
from binlog_format.events.layout import EVENT_HEADER_SIZE, EVENT_SIZE_MAX, EVENT_SIZE_OFFSET
from binlog_format.kernels import empty_bytes

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from binlog_format.block import PlaceOf, Table
    from binlog_format.kernels import Bytes, Int64s
    from binlog_format.position import Place

_WINDOW_SIZE_MAX = 128 << 20
"""Zstandard's own limit; its highest level of compression needs as much."""
_EVENT_SIZE_USUAL = 64
"""A guess at how many rows an event table needs; it grows."""
_REASONS = {
    kernels.PAYLOAD_CUT_OFF: "it ends within its fields",
    kernels.PAYLOAD_BAD_NUMBER: "a field does not hold a number of its size",
    kernels.PAYLOAD_MANY_FIELDS: f"more than {kernels.FIELDS_MAX} fields",
    kernels.PAYLOAD_BAD_SIZE: "the payload is not as long as it claims",
    kernels.PAYLOAD_BAD_FRAME: "its zstd frame is damaged",
    kernels.PAYLOAD_CUT_FRAME: "its zstd frame is cut off",
}


class Payload(NamedTuple):
    """Fields of a TRANSACTION_PAYLOAD event.

    Attributes:
        compression: `PAYLOAD_COMPRESSION_...`.
        plain_size: Bytes of all inner events; claimed, and checked when they are read.
        is_simple: The content is one zstd frame, which claims the same size.
        start: Byte of the event.
        place: Says where that is in the files, for messages.
    """

    content: memoryview
    compression: int
    plain_size: int
    is_simple: bool
    start: int
    place: PlaceOf | None

    def error(self, reason: str) -> CorruptError:
        """`BAD_EVENT`, with the place of the event."""
        at = self.place and self.place(self.start)
        return CorruptError("BAD_EVENT", f"TRANSACTION_PAYLOAD event: {reason}", at=at)


class PayloadPiece(NamedTuple):
    """Whole inner events, in order.

    Attributes:
        events: `EVENT_DTYPE`, pointing into `data`; `group` and `event_no` are 0.
        first_no: Number of the first of them in the payload, 0-based.
        is_last: Nothing follows.
    """

    data: Bytes
    events: Table
    first_no: int
    is_last: bool


class _Source(Protocol):
    def readinto(self, target: memoryview, /) -> int: ...


class _Uncompressed:
    def __init__(self, content: memoryview) -> None:
        self._left = content

    def readinto(self, target: memoryview, /) -> int:
        size = min(len(target), len(self._left))
        target[:size] = self._left[:size]
        self._left = self._left[size:]
        return size


def find_payloads(data: Bytes, starts: Int64s, sizes: Int64s, *, place: PlaceOf | None = None) -> list[Payload]:
    """Take TRANSACTION_PAYLOAD events apart; nothing is decompressed yet.

    Args:
        starts: Byte of each event's header.
        sizes: Of each event, checksum not counted.
        place: `Block.place`; only lets errors name the place of the damage in the files.
    """
    found = np.zeros((len(starts), kernels.FOUND_FIELDS), dtype=np.int64)
    code, event = kernels.locate_payloads(data, np.ascontiguousarray(starts), np.ascontiguousarray(sizes), found)
    ends = starts + sizes
    if code != kernels.PAYLOAD_FOUND:
        raise _error(code, found[event], at=place and place(int(starts[event])))
    view = data.data
    return [
        Payload(view[content:end], compression, plain_size, bool(is_simple), start, place)
        for (content, compression, plain_size, _, is_simple), start, end in zip(
            found.tolist(), starts.tolist(), ends.tolist(), strict=True
        )
    ]


def _error(code: int, found: Int64s, *, at: Place | None) -> CorruptError | UnsupportedError:
    if code == kernels.PAYLOAD_ALGORITHM:
        algorithm = int(found[kernels.COMPRESSION])
        reason = f"TRANSACTION_PAYLOAD event: compressed with algorithm {algorithm}, which is not known"
        return UnsupportedError("EVENT_TYPE", reason, at=at)
    if code == kernels.PAYLOAD_LIE:
        plain_size, possible = int(found[kernels.PLAIN_SIZE]), int(found[kernels.PLAIN_SIZE_MAX])
        claimed = "no size" if plain_size < 0 else f"{plain_size} bytes"
        reason = f"{claimed} of events claimed, {possible} are possible"
    else:
        reason = _REASONS[code]
    return CorruptError("BAD_EVENT", f"TRANSACTION_PAYLOAD event: {reason}", at=at)


class _PlainBytes:
    """The plain bytes of a payload, from front to back; checks that they are as many as claimed."""

    def __init__(self, payload: Payload) -> None:
        self._payload = payload
        self._source: _Source
        if payload.compression == PAYLOAD_COMPRESSION_NONE:
            self._source = _Uncompressed(payload.content)
        else:
            decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW_SIZE_MAX)
            self._source = decompressor.stream_reader(payload.content, read_across_frames=True)
        self.left = payload.plain_size

    def fill(self, target: memoryview) -> None:
        """Fill all of *target*, which is not longer than what is left."""
        filled = 0
        while filled < len(target):
            count = self._read(target[filled:])
            if count == 0:
                size = self._payload.plain_size
                raise self._payload.error(f"{size} bytes of events claimed, {size - self.left + filled} are there")
            filled += count
        self.left -= filled
        if self.left == 0 and self._read(memoryview(bytearray(1))):
            raise self._payload.error(f"more than the {self._payload.plain_size} bytes of events claimed")

    def _read(self, target: memoryview) -> int:
        try:
            return self._source.readinto(target)
        except zstandard.ZstdError as error:
            raise self._payload.error(f"its zstd frame is damaged ({error})") from error


def payload_pieces(payload: Payload, size_max: int) -> Iterator[PayloadPiece]:
    """The inner events, about *size_max* bytes at a time (at least one event): memory is bounded by that."""
    source = _PlainBytes(payload)
    rest = empty_bytes(0)
    number = 0
    while source.left:
        size = min(max(size_max, EVENT_HEADER_SIZE), len(rest) + source.left)
        while True:
            buffer = _filled(rest, source, size)
            edges = np.zeros(1, dtype=np.int64), np.full(1, len(buffer), dtype=np.int64)
            events, _, reached = _cut(buffer, *edges, [payload])
            if len(events) or not source.left:
                break
            # The first event is larger than the buffer, which grows as its bytes come in, not as it claims.
            size = min(max(2 * len(buffer), size_max), len(buffer) + source.left, _first_size(buffer))
            rest = buffer
        if reached < len(buffer) and not source.left:
            raise payload.error(f"its last event goes on beyond the {payload.plain_size} bytes of events")
        yield PayloadPiece(buffer[:reached], events, number, is_last=not source.left)
        number += len(events)
        rest = buffer[reached:].copy()


def read_payloads(payloads: Sequence[Payload], target: Bytes, starts: Int64s, ends: Int64s) -> tuple[Table, Int64s]:
    """Write all inner events of payloads into *target*.

    Args:
        payloads: Of which each becomes whole.
        target: Gets the events.
        starts: Byte of *target* where those of each payload begin, and
        ends: end; just its `plain_size` after that.

    Returns:
        `EVENT_DTYPE`, pointing into *target* (`group` and `event_no` are 0), and the number of events of each payload.
    """
    decompressor = zstandard.ZstdDecompressor(max_window_size=_WINDOW_SIZE_MAX)
    view = target.data
    for payload, start, end in zip(payloads, starts.tolist(), ends.tolist(), strict=True):
        if not payload.is_simple:
            _PlainBytes(payload).fill(view[start:end])
            continue
        try:
            content = decompressor.decompress(payload.content)
        except zstandard.ZstdError as error:
            raise payload.error(f"its zstd frame is damaged ({error})") from error
        if len(content) != end - start:
            raise payload.error(f"{end - start} bytes of events claimed, {len(content)} are there")
        view[start:end] = content
    events, counts, reached = _cut(target, starts, ends, payloads)
    if len(payloads) and reached < ends[-1]:
        payload = payloads[int(np.searchsorted(starts, reached, side="right")) - 1]
        raise payload.error(f"its last event goes on beyond the {payload.plain_size} bytes of events")
    return events, counts


def _filled(rest: Bytes, source: _PlainBytes, size: int) -> Bytes:
    # *rest* and what follows it, at least one byte more than that.
    size = min(max(size, len(rest) + 1), len(rest) + source.left)
    buffer = empty_bytes(size)
    buffer[: len(rest)] = rest
    source.fill(buffer.data[len(rest) :])
    return buffer


def _first_size(buffer: Bytes) -> int:
    # Claimed by the event at the start, of which the whole header is there if at all.
    if len(buffer) < EVENT_HEADER_SIZE:
        return EVENT_SIZE_MAX
    return int.from_bytes(buffer[EVENT_SIZE_OFFSET : EVENT_SIZE_OFFSET + 4].tobytes(), "little")


def _cut(data: Bytes, starts: Int64s, ends: Int64s, payloads: Sequence[Payload]) -> tuple[Table, Int64s, int]:
    # Events, their counts, and the byte of the first one that is not whole.
    events: Table = np.zeros(int((ends - starts).sum()) // _EVENT_SIZE_USUAL + 8, dtype=EVENT_DTYPE)
    counts = np.zeros(len(starts), dtype=np.int64)
    first = rows = 0
    while True:
        code, first, rows, reached = kernels.cut_inner_events(
            data, starts, ends, STORED_FORMS, events, counts, first, rows
        )
        if code != kernels.CUT_TABLE_FULL:
            break
        events = np.concatenate([events, np.zeros_like(events)])
    if code == kernels.CUT_BAD_SIZE:
        raise payloads[first].error(f"inner event at byte {reached - int(starts[first])}: a size that no event has")
    if code == kernels.CUT_NOT_PLAIN:
        at = reached - int(starts[first])
        raise payloads[first].error(f"inner event at byte {at}: of a type that stands in no payload")
    return events[:rows], counts, reached
