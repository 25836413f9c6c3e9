"""Query events, statements in the log as text: `parse_query`; and INCIDENT events: `parse_incident`."""

from __future__ import annotations

from dataclasses import dataclass

from binlog_format.errors import CorruptError
from binlog_format.events.layout import (
    EVENT_HEADER_SIZE,
    EVENT_HEADER_STRUCT,
    EVENT_SIZE_OFFSET,
    EVENT_TYPE_OFFSET,
    EventType,
)
from binlog_format.events.query_layout import (
    INCIDENT_MESSAGE_OFFSET,
    LOAD_QUERY_FIXED_SIZE,
    QUERY_FIXED_SIZE,
    QUERY_STRUCT,
)


@dataclass(frozen=True, slots=True)
class QueryEvent:
    """Contents of a Query event.

    Attributes:
        timestamp: Seconds since 1970 UTC.
        thread_id: Of the session.
        seconds: That the statement took.
        error_code: That it ended with on the server.
        database: The session's current database, as the server has the name (UTF-8).
        text: The statement, in the character set that the status variables name; usually UTF-8.
    """

    timestamp: int
    thread_id: int
    seconds: int
    error_code: int
    database: str
    text: bytes


def parse_query(event: bytes) -> QueryEvent:
    """Read a Query event, or an Execute_load_query event; the status variables are passed over.

    Args:
        event: Header and body, without a checksum.

    Raises:
        CorruptError: `BAD_EVENT`: it is too short for its contents.
    """
    fixed_size = query_fixed_size(event)
    if len(event) < fixed_size:
        raise CorruptError("BAD_EVENT", f"a Query event of {len(event)} bytes, expected at least {fixed_size}")
    (timestamp, *_) = EVENT_HEADER_STRUCT.unpack_from(event)
    thread_id, seconds, database_size, error_code, status_size = QUERY_STRUCT.unpack_from(event, EVENT_HEADER_SIZE)
    database_start = fixed_size + status_size
    text_start = database_start + database_size + 1
    if text_start > len(event):
        raise CorruptError(
            "BAD_EVENT", f"a Query event of {len(event)} bytes, whose text would begin at byte {text_start}"
        )
    database = event[database_start : text_start - 1].decode("utf-8", "replace")
    return QueryEvent(timestamp, thread_id, seconds, error_code, database, event[text_start:])


def query_fixed_size(event: bytes) -> int:
    """Bytes before the status variables of a Query event, or of an Execute_load_query event."""
    return LOAD_QUERY_FIXED_SIZE if event[EVENT_TYPE_OFFSET] == EventType.EXECUTE_LOAD_QUERY else QUERY_FIXED_SIZE


def parse_incident(event: bytes) -> str:
    """The server's message in an INCIDENT event; empty where it gives none.

    Args:
        event: Header and body, without a checksum.
    """
    size = event[INCIDENT_MESSAGE_OFFSET - 1] if len(event) >= INCIDENT_MESSAGE_OFFSET else 0
    return event[INCIDENT_MESSAGE_OFFSET : INCIDENT_MESSAGE_OFFSET + size].decode("utf-8", "replace")


def query_with_text(event: bytes, text: bytes) -> bytes:
    """The Query event *event* with another statement; without a checksum, as it was."""
    head = bytearray(event[: len(event) - len(parse_query(event).text)])
    head[EVENT_SIZE_OFFSET : EVENT_SIZE_OFFSET + 4] = (len(head) + len(text)).to_bytes(4, "little")
    return bytes(head) + text
