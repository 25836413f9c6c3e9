"""Compressed transactions of MySQL, and what becomes of damaged ones."""

from __future__ import annotations

import random
import tracemalloc

import numpy as np
import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from binlog_format.errors import BinlogError, CorruptError, UnsupportedError
from binlog_format.events.compression.payload import Payload, find_payloads, payload_pieces, read_payloads
from binlog_format.events.layout import EventType
from binlog_format.kernels import as_bytes, empty_bytes
from binlog_format.position import Place
from binlog_lab.event_encoding.event_encoding import Origin, encode_event, encode_payload, packed

ORIGIN = Origin(1_700_000_000, 3)
AT = Place("/log/bin.000007", byte=1234)


def _payload(stored: bytes) -> Payload:
    starts, sizes = np.zeros(1, dtype=np.int64), np.full(1, len(stored), dtype=np.int64)
    (payload,) = find_payloads(as_bytes(stored), starts, sizes, place=lambda _: AT)
    return payload


def _parsed(stored: bytes) -> list[bytes]:
    payload = _payload(stored)
    data = empty_bytes(payload.plain_size)
    events, counts = read_payloads([payload], data, np.zeros(1, dtype=np.int64), np.full(1, len(data)))
    assert counts.tolist() == [len(events)]
    return [data[start : start + size].tobytes() for start, size in zip(events["start"], events["size"], strict=True)]


def _outcome(stored: bytes) -> list[bytes] | BinlogError:
    try:
        return _parsed(stored)
    except (CorruptError, UnsupportedError) as error:
        return error


inner_events = st.lists(
    st.builds(
        lambda kind, body: encode_event(EventType(kind), body, ORIGIN),
        st.sampled_from([2, 16, 19, 30, 31, 32, 39]),
        st.binary(max_size=400),
    ),
    min_size=1,
    max_size=12,
)


@given(inner_events, st.booleans())
def test_payload_gives_its_events(events: list[bytes], compressed: bool) -> None:
    assert _parsed(encode_payload(events, ORIGIN, compressed=compressed)) == events


@given(inner_events, st.booleans(), st.integers(1, 500))
def test_pieces_give_the_same_events(events: list[bytes], compressed: bool, size_max: int) -> None:
    found: list[bytes] = []
    payload = _payload(encode_payload(events, ORIGIN, compressed=compressed))
    for piece in payload_pieces(payload, size_max):
        assert piece.first_no == len(found)
        assert len(piece.data) == piece.events["size"].sum()
        assert len(piece.events) == 1 or len(piece.data) <= max(size_max, 19)
        found += [
            piece.data[s : s + n].tobytes() for s, n in zip(piece.events["start"], piece.events["size"], strict=True)
        ]
        assert piece.is_last == (len(found) == len(events))
    assert found == events


@given(inner_events, st.booleans(), st.data())
def test_damaged_payload_is_an_error_or_other_events(
    events: list[bytes], compressed: bool, data: st.DataObject
) -> None:
    stored = bytearray(encode_payload(events, ORIGIN, compressed=compressed))
    bit = data.draw(st.integers(19 * 8, len(stored) * 8 - 1))
    stored[bit // 8] ^= 1 << (bit % 8)
    size = sum(map(len, events))
    found = _outcome(bytes(stored))
    assert found.at == AT if isinstance(found, BinlogError) else sum(map(len, found)) == size


@given(inner_events, st.booleans(), st.data())
def test_cut_payload_is_an_error(events: list[bytes], compressed: bool, data: st.DataObject) -> None:
    stored = encode_payload(events, ORIGIN, compressed=compressed)
    with pytest.raises(CorruptError, match="TRANSACTION_PAYLOAD") as raised:
        _parsed(stored[: data.draw(st.integers(19, len(stored) - 1))])
    assert raised.value.at == AT


@given(st.binary(max_size=200))
def test_any_bytes_are_an_error_or_events(body: bytes) -> None:
    found = _outcome(encode_event(EventType.TRANSACTION_PAYLOAD, body, ORIGIN))
    assert found.at == AT if isinstance(found, BinlogError) else len(found) > 0


EVENTS = [encode_event(EventType.QUERY, bytes(500), ORIGIN)] * 4
SIZE = sum(map(len, EVENTS))


def _stored(content: bytes, *fields: tuple[int, int]) -> bytes:
    body = b""
    for kind, number in fields:
        body += packed(kind) + packed(len(packed(number))) + packed(number)
    return encode_event(EventType.TRANSACTION_PAYLOAD, body + b"\0" + content, ORIGIN)


FRAME = zstandard.ZstdCompressor(write_checksum=True).compress(b"".join(EVENTS))
UNSIZED = zstandard.ZstdCompressor(write_content_size=False).compress(b"".join(EVENTS))
PLAIN = b"".join(EVENTS)


def test_frames_of_any_kind_are_read() -> None:
    half = zstandard.ZstdCompressor().compress(PLAIN[:700]) + zstandard.ZstdCompressor().compress(PLAIN[700:])
    for content in (FRAME, UNSIZED, half):
        assert _parsed(_stored(content, (2, 0), (3, SIZE), (1, len(content)))) == EVENTS
    assert _parsed(_stored(FRAME, (2, 0), (3, SIZE), (77, 1234567))) == EVENTS


@pytest.mark.parametrize(
    ("stored", "reason"),
    [
        (_stored(FRAME, (2, 0), (3, SIZE - 1)), "more than the 2075 bytes"),
        (_stored(FRAME, (2, 0), (3, SIZE + 1)), "2077 bytes of events claimed, 2076 are there"),
        (_stored(FRAME, (2, 0), (3, 1 << 40)), "131072 are possible"),
        (_stored(FRAME, (2, 0)), "no size of events claimed"),
        (_stored(FRAME[:-1], (2, 0), (3, SIZE)), "cut off"),
        (_stored(FRAME[:-6], (2, 0), (3, SIZE)), "cut off"),
        (_stored(FRAME[:-4] + bytes(4), (2, 0), (3, SIZE)), "damaged"),
        (_stored(FRAME + b"x", (2, 0), (3, SIZE)), "zstd frame is damaged"),
        (_stored(b"", (2, 0), (3, SIZE)), "cut off"),
        (_stored(FRAME, (2, 0), (3, SIZE), (1, 5)), "not as long as it claims"),
        (_stored(PLAIN, (2, 255), (3, SIZE + 1)), "2076 are possible"),
        (_stored(PLAIN[:-1], (2, 255)), "goes on beyond"),
        (_stored(PLAIN + bytes(3), (2, 255)), "goes on beyond"),
        (_stored(PLAIN[:9] + bytes(4) + PLAIN[13:], (2, 255)), "a size that no event has"),
        (encode_payload([encode_payload(EVENTS, ORIGIN)], ORIGIN), "stands in no payload"),
        (encode_event(EventType.TRANSACTION_PAYLOAD, b"\x02", ORIGIN), "ends within its fields"),
        (encode_event(EventType.TRANSACTION_PAYLOAD, b"\x02\x09\0", ORIGIN), "ends within its fields"),
        (encode_event(EventType.TRANSACTION_PAYLOAD, b"\x02\x02\0\0\0", ORIGIN), "a number of its size"),
        (encode_event(EventType.TRANSACTION_PAYLOAD, b"\xff", ORIGIN), "ends within its fields"),
        (encode_event(EventType.TRANSACTION_PAYLOAD, b"\x09\x01\0" * 100, ORIGIN), "more than 64 fields"),
    ],
)
def test_lie_is_named(stored: bytes, reason: str) -> None:
    with pytest.raises(CorruptError, match=reason) as raised:
        _parsed(stored)
    assert (raised.value.subclass, raised.value.at) == ("BAD_EVENT", AT)


def test_unknown_compression_is_named() -> None:
    with pytest.raises(UnsupportedError, match="algorithm 7") as raised:
        _parsed(_stored(FRAME, (2, 7), (3, SIZE)))
    assert raised.value.condition == "BINLOG_UNSUPPORTED.EVENT_TYPE"


def test_large_payload_is_never_whole_in_memory() -> None:
    """128 MiB of events, and one of 8 MiB among them, in pieces of 1 MiB."""
    noise = random.Random(1).randbytes(1 << 16)
    small, large = encode_event(EventType.QUERY, noise, ORIGIN), encode_event(EventType.QUERY, noise * 128, ORIGIN)
    events = [small] * 1000 + [large] + [small] * 1000
    stored = encode_payload(events, ORIGIN)
    payload = _payload(stored)
    next(payload_pieces(payload, 1 << 20))
    tracemalloc.start()
    number = pieces = 0
    for piece in payload_pieces(payload, 1 << 20):
        first = piece.events[0]
        assert piece.data[int(first["start"]) : int(first["start"] + first["size"])].tobytes() == events[number]
        number += len(piece.events)
        pieces += 1
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert number == len(events)
    assert pieces > 100
    assert peak < 48 << 20


def test_inner_event_that_claims_more_than_there_is_takes_no_memory() -> None:
    event = bytearray(encode_event(EventType.QUERY, bytes(100), ORIGIN))
    event[9:13] = (1 << 30).to_bytes(4, "little")
    payload = _payload(encode_payload([bytes(event)], ORIGIN))
    tracemalloc.start()
    with pytest.raises(CorruptError, match="goes on beyond"):
        list(payload_pieces(payload, 50))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1 << 20
