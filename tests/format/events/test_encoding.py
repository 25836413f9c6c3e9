"""Events that are made must be, byte for byte, the events that a real server made."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

import pytest

from binlog_format.events.layout import EventType
from binlog_format.gtids.gtid import Gtid
from binlog_lab.event_encoding.event_encoding import (
    DDL_FLAGS,
    LATIN1_COLLATION,
    TRANSACTION_FLAGS,
    Origin,
    QueryContext,
    encode_annotate_rows,
    encode_format_description,
    encode_gtid,
    encode_query,
    encode_xid,
)
from tests.corpus import SERVER_CASES
from tests.format.events.classic_events import ClassicEvent, classic_events

if TYPE_CHECKING:
    from collections.abc import Iterable

LOG = SERVER_CASES / "mariadb-10.11" / "oltp_small" / "mysql-bin.000001"


@pytest.fixture(scope="module")
def events() -> list[ClassicEvent]:
    return list(classic_events(LOG))


def of_type(events: Iterable[ClassicEvent], event_type: EventType) -> list[ClassicEvent]:
    found = [event for event in events if event.type == event_type]
    assert found
    return found


def origin_of(event: ClassicEvent) -> Origin:
    return Origin(event.timestamp, event.server_id)


def test_gtid_events_are_the_servers(events: list[ClassicEvent]) -> None:
    made = {}
    for event in of_type(events, EventType.MARIADB_GTID):
        seqno, domain, flags = struct.unpack_from("<QIB", event.body)
        commit_id = struct.unpack_from("<Q", event.body, 13)[0] if flags & 2 else None
        gtid = Gtid(domain, event.server_id, seqno)
        assert encode_gtid(gtid, event.timestamp, flags=flags & ~2, commit_id=commit_id) == event.data
        made[flags & ~2] = True
    assert set(made) >= {TRANSACTION_FLAGS, DDL_FLAGS}


def test_query_events_are_the_servers(events: list[ClassicEvent]) -> None:
    for event in of_type(events, EventType.QUERY):
        thread_id, _, database_size, _, status_size = struct.unpack_from("<IIBHH", event.body)
        tail = event.body[13 + status_size :]
        database, sql = tail[:database_size].decode(), tail[database_size + 1 :].decode()
        xid = struct.unpack_from("<Q", event.body, 13 + 27)[0] if status_size == 35 else None
        context = QueryContext(database, thread_id, LATIN1_COLLATION, xid)
        # The server was started with utf8mb4 for clients: charset 45, 45 and 8.
        made = bytearray(encode_query(sql, origin_of(event), context, flags=event.flags))
        charsets = made.index(b"\x06\x03std\x04") + 6
        made[charsets : charsets + 4] = b"\x2d\x00\x2d\x00"
        assert bytes(made) == event.data


def test_xid_events_are_the_servers(events: list[ClassicEvent]) -> None:
    for event in of_type(events, EventType.XID):
        assert encode_xid(int.from_bytes(event.body, "little"), origin_of(event)) == event.data


def test_annotate_rows_events_are_the_servers(events: list[ClassicEvent]) -> None:
    for event in of_type(events, EventType.ANNOTATE_ROWS):
        assert encode_annotate_rows(event.body.decode(), origin_of(event)) == event.data


def test_format_description_is_the_servers_but_for_the_checksums(events: list[ClassicEvent]) -> None:
    """The real log has checksums, an `.ibb` log has none: the last byte of the body says so."""
    (event,) = of_type(events, EventType.FORMAT_DESCRIPTION)
    version = event.body[2:52].rstrip(b"\0").decode()
    made = encode_format_description(version, int.from_bytes(event.body[52:56], "little"), origin_of(event))
    assert made[:9] == event.data[:9]
    assert made[13:-5] == event.data[13:-1]
    assert (made[-5], event.data[-1]) == (0, 1)
    assert int.from_bytes(made[9:13], "little") == len(made)
    assert int.from_bytes(made[-4:], "little") == zlib.crc32(made[:-4])
