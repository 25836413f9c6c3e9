"""GTID, XA_prepare and Gtid_list events."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format.errors import CorruptError
from binlog_format.events.gtid_events import XaName, parse_gtid_list, parse_xa_prepare_event
from binlog_format.events.layout import GTID_FLAG_GROUP_COMMIT_ID
from binlog_format.gtids.gtid import Gtid
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
