"""GTID, XA_prepare and Gtid_list events.

MySQL's GTID events: the three types into group tables, sources numbered, PREVIOUS_GTIDS read.
"""

from __future__ import annotations

import random
import struct
import uuid

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format.block import GROUP_DTYPE
from binlog_format.classic.scratch import GtidSources
from binlog_format.errors import CorruptError, UnsupportedError
from binlog_format.events.gtid_events import XaName, parse_gtid_list, parse_previous_gtids, parse_xa_prepare_event
from binlog_format.events.layout import GTID_FLAG_GROUP_COMMIT_ID, EventType
from binlog_format.events.mysql_gtid_kernels import GTID_BAD, GTID_READ, GTID_SOURCES_FULL, read_mysql_gtid
from binlog_format.gtids.gtid import Gtid, GtidSource
from binlog_format.gtids.gtid_history import gtid_of
from binlog_format.gtids.gtid_set import SEQNO_MAX, AnyGtid, GtidSet, MysqlGtid
from binlog_format.kernels import as_bytes
from binlog_lab.event_encoding.gtid_events import XA_FLAGS, GtidEvent, encode_gtid_event, parse_gtid_event

U32 = st.integers(0, 2**32 - 1)
U64 = st.integers(0, 2**64 - 1)


@st.composite
def gtid_events(draw: st.DrawFn) -> GtidEvent:
    flags = draw(st.integers(0, 255))
    extra_flags = draw(st.sampled_from([0, 1, 2, 4, 8, 16, 17, 21, 31]))
    return GtidEvent(
        gtid=Gtid(draw(U32), draw(U32), draw(U64)),
        timestamp=draw(U32),
        header_flags=draw(st.integers(0, 2**16 - 1)),
        flags=flags,
        commit_id=draw(U64) if flags & GTID_FLAG_GROUP_COMMIT_ID else None,
        xa_name=draw(
            st.builds(
                XaName,
                st.integers(-(2**31), 2**31 - 1),
                st.binary(min_size=1, max_size=64),
                st.binary(max_size=64),
            )
        )
        if flags & XA_FLAGS
        else None,
        extra_flags=extra_flags,
        extra_engines=draw(st.integers(1, 255)) if extra_flags & 1 else 0,
        alter_seqno=draw(U64) if extra_flags & 12 else None,
        thread_id=draw(U32) if extra_flags & 16 else None,
    )


@given(gtid_events())
def test_gtid_event_survives_encoding(event: GtidEvent) -> None:
    encoded = encode_gtid_event(event)
    assert struct.unpack_from("<I", encoded, 9)[0] == len(encoded) >= 38
    assert parse_gtid_event(encoded) == event


@given(gtid_events().filter(lambda event: event.thread_id is not None))
def test_cut_gtid_event_is_damage(event: GtidEvent) -> None:
    """Its last field is missing in part, or everything but a part of the first ones."""
    encoded = encode_gtid_event(event)
    fields = (
        13 + 8 * (event.commit_id is not None) + 1 + (event.extra_engines > 0) + 8 * (event.alter_seqno is not None)
    )
    if event.xa_name is not None:
        fields += 6 + len(event.xa_name.gtrid) + len(event.xa_name.bqual)
    for size in (19, 25, 31, 19 + fields, 19 + fields + 3):
        with pytest.raises(CorruptError) as raised:
            parse_gtid_event(encoded[:size])
        assert raised.value.condition == "BINLOG_CORRUPT.BAD_EVENT"


def test_gtid_event_of_a_real_server() -> None:
    """MariaDB 10.11, XA PREPARE of X'786131': 47 bytes with checksum in the file."""
    body = bytes.fromhex("8400000000000000 00000000 4c 01000000 03 00 786131 01 00".replace(" ", ""))
    event = struct.pack("<IBIIIH", 1, 162, 1011, 19 + len(body), 0, 8) + body
    parsed = parse_gtid_event(event)
    assert parsed.gtid == Gtid(0, 1011, 132)
    assert parsed.xa_name == XaName(1, b"xa1", b"")
    assert str(parsed.xa_name) == "X'786131',X'',1"
    assert parsed.extra_flags == 1
    assert encode_gtid_event(parsed) == event


@given(st.integers(-(2**31), 2**31 - 1), st.binary(min_size=1, max_size=64), st.binary(max_size=64), st.booleans())
def test_xa_prepare_event_says_name_and_phase(format_id: int, gtrid: bytes, bqual: bytes, one_phase: bool) -> None:
    body = struct.pack("<BiII", one_phase, format_id, len(gtrid), len(bqual)) + gtrid + bqual
    event = struct.pack("<IBIIIH", 1, 38, 1, 19 + len(body), 0, 0) + body
    assert parse_xa_prepare_event(event) == (XaName(format_id, gtrid, bqual), one_phase)
    with pytest.raises(CorruptError):
        parse_xa_prepare_event(event[:-1])


@given(st.lists(st.builds(Gtid, U32, U32, U64), max_size=20), st.sampled_from([0, 1 << 28, 3 << 28]))
def test_gtid_list_keeps_order(gtids: list[Gtid], flags: int) -> None:
    body = struct.pack("<I", len(gtids) | flags)
    body += b"".join(struct.pack("<IIQ", gtid.domain, gtid.server, gtid.seqno) for gtid in gtids)
    event = struct.pack("<IBIIIH", 1, 163, 1, 19 + len(body), 0, 0) + body
    assert parse_gtid_list(event) == tuple(gtids)
    assert parse_gtid_list(event + b"\0\0") == tuple(gtids)
    with pytest.raises(CorruptError):
        parse_gtid_list(event[:-1])


UUIDS = st.uuids().map(str)
TAGS = st.from_regex(r"[a-z_][a-z0-9_]{0,31}", fullmatch=True)
GTIDS = st.builds(MysqlGtid, st.builds(GtidSource, UUIDS, st.just("") | TAGS), st.integers(1, SEQNO_MAX))

TAGGED = bytes.fromhex(
    "0280000000022102b903c0b1039103650322c503e902b90304f103000000020404060e7461675f6f6e65"
    "0879040a91040c7f18acd421b4600610c5051283120b"
)
"""Of MySQL 9.7: 88ee60ec-e4d9-11f1-baee-02fc00000001:tag_one:1."""


def with_header(event_type: EventType, body: bytes, *, flags: int = 0) -> bytes:
    return struct.pack("<IBIIIH", 1_795_176_638, event_type, 9000, 19 + len(body), 0, flags) + body


def varint(value: int) -> bytes:
    """An integer of variable length, written as it is described."""
    for size in range(1, 9):
        if value < 1 << (8 * size - size):
            return ((value << size) | ((1 << (size - 1)) - 1)).to_bytes(size, "little")
    return b"\xff" + value.to_bytes(8, "little")


def gtid_event(gtid: MysqlGtid | None) -> bytes:
    """A GTID event of the type that fits."""
    if gtid is None:
        return with_header(EventType.ANONYMOUS_GTID, bytes(25) + b"\x02" + bytes(16))
    raw = uuid.UUID(gtid.source.uuid).bytes
    if not gtid.source.tag:
        return with_header(EventType.GTID, b"\x01" + raw + struct.pack("<q", gtid.seqno) + b"\x02" + bytes(16))
    tag = gtid.source.tag.encode()
    fields = [varint(0), varint(1), varint(1), *(varint(byte) for byte in raw)]
    fields += [varint(2), varint(2 * gtid.seqno), varint(3), varint(len(tag)), tag]
    fields += [varint(4), varint(77), varint(8), varint(2**56 + 5)]
    content = varint(0) + b"".join(fields)
    size = next(n for n in range(len(content), len(content) + 9) if 1 + len(varint(n)) + len(content) == n)
    return with_header(EventType.GTID_TAGGED, varint(1) + varint(size) + content)


def read(event: bytes, sources: GtidSources) -> tuple[int, AnyGtid | None]:
    groups = np.zeros(1, dtype=GROUP_DTYPE)
    data = as_bytes(b"\xff" * 3 + event)
    while True:
        code = read_mysql_gtid(data, 3, len(event), groups, 0, sources.keys, sources.slots, sources.counts)
        if code != GTID_SOURCES_FULL:
            break
        sources.grow()
    if code == GTID_READ:
        assert groups["server_id"][0] == 9000
        assert groups["timestamp"][0] == 1_795_176_638
        assert groups["domain"][0] == groups["gtid_flags"][0] == 0
    return code, gtid_of(groups[0], sources.known())


@given(st.lists(st.none() | GTIDS, max_size=20))
def test_gtid_events_say_their_gtids(gtids: list[MysqlGtid | None]) -> None:
    sources = GtidSources()
    assert [read(gtid_event(gtid), sources) for gtid in gtids] == [(GTID_READ, gtid) for gtid in gtids]
    known = sources.known()
    assert sorted(known) == sorted({gtid.source for gtid in gtids if gtid is not None})


def test_tagged_event_of_a_real_server() -> None:
    source = GtidSource("88ee60ec-e4d9-11f1-baee-02fc00000001", "tag_one")
    event = with_header(EventType.GTID_TAGGED, TAGGED)
    assert read(event, GtidSources()) == (GTID_READ, MysqlGtid(source, 1))


def test_many_sources_keep_their_numbers() -> None:
    """More than there is room for at first, and in an order that comes back to each."""
    sources = GtidSources()
    rng = random.Random(5)
    made = [GtidSource(str(uuid.UUID(int=rng.getrandbits(128))), "abc"[: n % 3]) for n in range(700)]
    order = [*made, *rng.sample(made, 300)]
    for source in order:
        assert read(gtid_event(MysqlGtid(source, 9)), sources) == (GTID_READ, MysqlGtid(source, 9))
    assert list(sources.known()) == made


def test_cut_and_changed_tagged_events_are_bad_or_say_something_else() -> None:
    event = with_header(EventType.GTID_TAGGED, TAGGED)
    for size in range(32, len(event)):
        assert read(event[:size], GtidSources())[0] == GTID_BAD
    for byte in range(19, 19 + 42):
        for bit in range(8):
            changed = bytearray(event)
            changed[byte] ^= 1 << bit
            code, gtid = read(bytes(changed), GtidSources())
            assert code == GTID_BAD or isinstance(gtid, MysqlGtid)


@given(st.binary(max_size=120), st.sampled_from([EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED]))
def test_any_bytes_are_a_gtid_or_bad(body: bytes, event_type: EventType) -> None:
    code, gtid = read(with_header(event_type, body), GtidSources())
    assert code in (GTID_READ, GTID_BAD)
    assert (gtid is not None) == (code == GTID_READ and event_type != EventType.ANONYMOUS_GTID)


@pytest.mark.parametrize("seqno", [0, -1, -(2**63)])
def test_number_that_is_none_is_bad(seqno: int) -> None:
    event = with_header(EventType.GTID, bytes(17) + struct.pack("<q", seqno) + bytes(17))
    assert read(event, GtidSources())[0] == GTID_BAD


def previous_gtids_event(gtids: GtidSet, *, tagged: bool) -> bytes:
    count = len(gtids.intervals)
    body = struct.pack("<Q", 1 << 56 | count << 8 | 1 if tagged else count)
    for source, intervals in gtids.intervals.items():
        body += uuid.UUID(source.uuid).bytes
        if tagged:
            body += varint(len(source.tag)) + source.tag.encode()
        body += struct.pack("<Q", len(intervals))
        body += b"".join(struct.pack("<qq", first, last + 1) for first, last in intervals)
    return with_header(EventType.PREVIOUS_GTIDS, body, flags=0x80)


@given(st.lists(GTIDS, max_size=12), st.booleans())
def test_previous_gtids_are_read_in_both_forms(gtids: list[MysqlGtid], tagged: bool) -> None:
    if not tagged:
        gtids = [MysqlGtid(GtidSource(gtid.source.uuid), gtid.seqno) for gtid in gtids]
    expected = GtidSet.of((gtid.source, (gtid.seqno, gtid.seqno)) for gtid in gtids)
    event = previous_gtids_event(expected, tagged=tagged)
    assert parse_previous_gtids(event) == expected
    for size in range(19, len(event)):
        with pytest.raises(CorruptError) as raised:
            parse_previous_gtids(event[:size])
        assert raised.value.condition == "BINLOG_CORRUPT.BAD_EVENT"
    with pytest.raises(CorruptError):
        parse_previous_gtids(event + b"\0")


def test_previous_gtids_that_cannot_be_are_named() -> None:
    source = bytes(16)
    for body in (
        struct.pack("<Q", 1) + source + struct.pack("<Qqq", 1, 5, 5),
        struct.pack("<Q", 1) + source + struct.pack("<Qqq", 1, 0, 5),
        struct.pack("<Q", 2**55) + source,
        struct.pack("<Q", 1) + source + struct.pack("<Q", 2**60),
        struct.pack("<Q", 1 << 56 | 1 << 8 | 1) + source + b"\xff" * 9,
    ):
        with pytest.raises(CorruptError) as raised:
            parse_previous_gtids(with_header(EventType.PREVIOUS_GTIDS, body))
        assert raised.value.condition == "BINLOG_CORRUPT.BAD_EVENT"
    with pytest.raises(UnsupportedError, match="format 2"):
        parse_previous_gtids(with_header(EventType.PREVIOUS_GTIDS, struct.pack("<Q", 2 << 56)))
