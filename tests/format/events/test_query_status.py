"""Status variables of Query events."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format.errors import CorruptError
from binlog_format.events.query import QueryStatus, parse_query, parse_query_status
from binlog_format.events.query_layout import QUERY_FIXED_SIZE, QUERY_STATUS_SIZE_OFFSET
from binlog_lab.event_encoding.event_encoding import Origin, QueryContext, encode_query, query_with_text

CHARSETS = "04210008000900"  # client utf8mb3, connection latin1, server latin2
ANSI_QUOTES = "010400000000000000"


def _event(status: bytes) -> bytes:
    event = encode_query("CREATE TABLE t (a INT)", Origin(17, 3), QueryContext(database="shop"))
    old = int.from_bytes(event[QUERY_STATUS_SIZE_OFFSET : QUERY_STATUS_SIZE_OFFSET + 2], "little")
    head = bytearray(event[:QUERY_FIXED_SIZE])
    head[QUERY_STATUS_SIZE_OFFSET : QUERY_STATUS_SIZE_OFFSET + 2] = len(status).to_bytes(2, "little")
    return bytes(head) + status + event[QUERY_FIXED_SIZE + old :]


@pytest.mark.parametrize(
    "before",
    [
        "",
        "00000000000603737464",  # flags, catalog `std`
        "020373746400",
        "030100020005032b3a310701000808000901000000000000000a01000000",
        "0b026162036364650c0261620063000d010203",
        "0cfe100111010000000000000012ff0013001400",
        "80010203810100000000000000820283012d002e00",
        "82040100000000000000",
    ],
)
def test_variables_of_both_servers_are_stepped_over(before: str) -> None:
    status = parse_query_status(_event(bytes.fromhex(before + ANSI_QUOTES + CHARSETS)))
    assert (status.sql_mode, status.client_charset, status.server_charset) == (4, "utf8mb3", "latin2")


@pytest.mark.parametrize(("phase", "takes_effect"), [("02", False), ("04" + "01" * 8, True), ("08" + "01" * 8, False)])
def test_of_a_two_phase_alter_the_commit_takes_effect(phase: str, takes_effect: bool) -> None:
    assert parse_query_status(_event(bytes.fromhex("82" + phase))).takes_effect is takes_effect


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        ("0000000001" + "05062b30333a3030" + "80911f0c", ("+03:00", 794513, True)),  # MariaDB
        ("0000000000" + "0506" + b"SYSTEM".hex() + "0d400d03" + "1001", ("SYSTEM", 200000, True)),  # MySQL
        ("0000000000" + "1000", (None, None, False)),
        ("0000000000", (None, None, None)),
        ("", (None, None, None)),
    ],
)
def test_time_of_the_statement_is_read_from_both_servers(
    status: str, expected: tuple[str | None, int | None, bool | None]
) -> None:
    found = parse_query_status(_event(bytes.fromhex(status)))
    assert (found.time_zone, found.microseconds, found.explicit_timestamps) == expected


def test_nothing_is_read_after_a_variable_that_is_not_known() -> None:
    assert parse_query_status(_event(bytes.fromhex("7f" + ANSI_QUOTES))) == QueryStatus()
    assert parse_query_status(_event(b"")) == QueryStatus()


@pytest.mark.parametrize("status", ["01040000", "04", "0605", "0b02", "0b0261", "0c026100", "82", "8204", "8301"])
def test_variable_that_is_cut_is_damage(status: str) -> None:
    with pytest.raises(CorruptError, match="BAD_EVENT"):
        parse_query_status(_event(bytes.fromhex(status)))


@given(st.binary(max_size=60))
def test_any_bytes_are_read_or_damage(status: bytes) -> None:
    event = _event(status)
    assert parse_query(event).database == "shop"
    with contextlib.suppress(CorruptError):
        assert isinstance(parse_query_status(event).sql_mode, int)


TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@given(TEXT, st.text("abcäß_", max_size=30), st.integers(0, 2**32 - 1), TEXT)
def test_query_event_says_database_and_text(sql: str, database: str, thread_id: int, other: str) -> None:
    """Status variables, which stand before both, are passed over."""
    event = encode_query(sql, Origin(17, 3), QueryContext(database=database, thread_id=thread_id, xid=99))
    query = parse_query(event)
    assert (query.timestamp, query.thread_id, query.error_code) == (17, thread_id, 0)
    assert (query.database, query.text.decode()) == (database, sql)
    changed = query_with_text(event, other.encode())
    assert changed == encode_query(other, Origin(17, 3), QueryContext(database=database, thread_id=thread_id, xid=99))


def test_query_event_that_is_cut_is_damage() -> None:
    event = encode_query("", Origin(17, 3), QueryContext(database="shop"))
    for size in range(19, len(event)):
        with pytest.raises(CorruptError) as raised:
            parse_query(event[:size])
        assert raised.value.condition == "BINLOG_CORRUPT.BAD_EVENT"
