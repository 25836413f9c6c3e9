"""Events that are made must be, byte for byte, the events that a real server made.

Values as row images have them: what is encoded is decoded to itself.
"""

from __future__ import annotations

import datetime
import struct
import zlib
from decimal import Context, Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format.events.layout import EventType
from binlog_format.events.table_map import Column, TableLayout
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.gtids.gtid import Gtid
from binlog_format.rows.columns import arrow_type, column_array
from binlog_format.rows.declared.completion import ColumnCompletion, column_of
from binlog_format.rows.encoded_values import encoded
from binlog_format.vendor import Vendor
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


DATES = st.dates(datetime.date(1, 1, 1), datetime.date(9999, 12, 31))
SECONDS = st.datetimes(datetime.datetime(1, 1, 1), datetime.datetime(9999, 12, 31)).map(  # noqa: DTZ001
    lambda moment: moment.replace(microsecond=0)
)


def decimals(precision: int, scale: int) -> st.SearchStrategy[Decimal]:
    end = 10**precision - 1
    return st.integers(-end, end).map(lambda number: Decimal(number).scaleb(-scale, Context(prec=80)))


VALUES: dict[str, tuple[ColumnCompletion, st.SearchStrategy[Any]]] = {
    "tinyint": (ColumnCompletion("c", "tinyint", False), st.integers(-128, 127)),
    "smallint unsigned": (ColumnCompletion("c", "smallint", True), st.integers(0, 65535)),
    "mediumint": (ColumnCompletion("c", "mediumint", False), st.integers(-(1 << 23), (1 << 23) - 1)),
    "int": (ColumnCompletion("c", "int", False), st.integers(-(1 << 31), (1 << 31) - 1)),
    "bigint unsigned": (ColumnCompletion("c", "bigint", True), st.integers(0, (1 << 64) - 1)),
    "float": (ColumnCompletion("c", "float", False), st.floats(width=32, allow_nan=False, allow_infinity=False)),
    "double": (ColumnCompletion("c", "double", False), st.floats(allow_nan=False, allow_infinity=False)),
    "decimal(10,2)": (ColumnCompletion("c", "decimal(10,2)", False), decimals(10, 2)),
    "decimal(38,19)": (ColumnCompletion("c", "decimal(38,19)", False), decimals(38, 19)),
    "decimal(9,9)": (ColumnCompletion("c", "decimal(9,9)", False), decimals(9, 9)),
    "decimal(18,0)": (ColumnCompletion("c", "decimal(18,0)", False), decimals(18, 0)),
    "varchar(20)": (ColumnCompletion("c", "varchar(20)", charset="utf8mb4"), st.text(max_size=20)),
    "varchar(300)": (ColumnCompletion("c", "varchar(300)", charset="utf8mb4"), st.text(max_size=300)),
    "char(10)": (ColumnCompletion("c", "char(10)", charset="ascii"), st.from_regex(r"[a-z]{0,10}", fullmatch=True)),
    "text": (ColumnCompletion("c", "text", charset="utf8mb4"), st.text(max_size=50)),
    "varbinary(16)": (ColumnCompletion("c", "varbinary(16)", charset="binary"), st.binary(max_size=16)),
    "date": (ColumnCompletion("c", "date"), DATES),
    "datetime": (ColumnCompletion("c", "datetime"), SECONDS),
    "datetime(3)": (
        ColumnCompletion("c", "datetime(3)"),
        st.tuples(SECONDS, st.integers(0, 999)).map(lambda pair: pair[0].replace(microsecond=pair[1] * 1000)),
    ),
    "datetime(6)": (
        ColumnCompletion("c", "datetime(6)"),
        st.tuples(SECONDS, st.integers(0, 999_999)).map(lambda pair: pair[0].replace(microsecond=pair[1])),
    ),
}


@pytest.mark.parametrize("declared", VALUES)
@given(data=st.data())
def test_values_are_what_they_were(declared: str, data: st.DataObject) -> None:
    completion, values = VALUES[declared]
    column = column_of(completion, Vendor.MARIADB)
    layout = TableLayout("shop", "t", (column,), (), "", b"", Vendor.MARIADB)
    array = pa.array(data.draw(st.lists(st.none() | values, max_size=20)), arrow_type(layout, 0))
    written = encoded(column, array)
    assert written is not None
    places, content = written
    assert column_array(layout, 0, content, np.ascontiguousarray(places, dtype=np.int32)).equals(array)


def test_other_types_are_not_encoded() -> None:
    column = Column("c", ColumnType.TIME2, 0, True)
    assert encoded(column, pa.array(["10:00:00"])) is None
    # More digits than Arrow has room for are a text.
    wide = column_of(ColumnCompletion("c", "decimal(45,2)", False), Vendor.MARIADB)
    assert encoded(wide, pa.array(["1.00"])) is None
