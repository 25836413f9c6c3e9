"""Query events."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from binlog_format.errors import CorruptError
from binlog_format.events.query import parse_query
from binlog_lab.event_encoding.event_encoding import Origin, QueryContext, encode_query, query_with_text

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
