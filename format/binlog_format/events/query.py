"""Query events, statements in the log as text: `parse_query`; and INCIDENT events: `parse_incident`.

Session variables in Query events: `parse_query_status`.

Statements that contain passwords: `is_account_statement(text)`, `contain_passwords(texts)`; they are shown nowhere.

Statements about accounts are told by their first words, in upper or lower case, with comments between them. A routine,
a trigger or an event may contain such a statement.

XID events, with which a transaction that was committed ends: `ends_in_xid`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from binlog_format.errors import CorruptError
from binlog_format.events.charset_layout import CHARSET_OF_COLLATION
from binlog_format.events.layout import (
    EVENT_HEADER_SIZE,
    EVENT_HEADER_STRUCT,
    EVENT_TYPE_OFFSET,
    XID_BODY_STRUCT,
    EventType,
)
from binlog_format.events.query_layout import (
    ALTER_COMMIT,
    ALTER_ID_SIZE,
    ALTER_ROLLBACK,
    ALTER_START,
    CHARSET_STRUCT,
    FLAGS2_STRUCT,
    INCIDENT_MESSAGE_OFFSET,
    LOAD_QUERY_FIXED_SIZE,
    OPTION_EXPLICIT_TIMESTAMPS,
    PAIR_SIZE,
    QUERY_FIXED_SIZE,
    QUERY_STRUCT,
    SQL_MODE_STRUCT,
    STATUS_FORMS,
    UPDATED_DATABASES_UNKNOWN,
    Form,
    StatusVariable,
)


@dataclass(frozen=True, slots=True)
class QueryEvent:
    """Contents of a Query event.

    Attributes:
        timestamp: Seconds since 1970 UTC.
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


@dataclass(frozen=True, slots=True)
class QueryStatus:
    """The session variables that decide how a statement reads.

    Attributes:
        sql_mode: Bits; 0 when the event does not record it.
        client_charset: Of the statement's text; None when the event does not record it.
        connection_charset: To which the server converts literals; None when the event does not record it.
        server_charset: Default for new databases; None when the event does not record it.
        alter_flags: Phases of a MariaDB two-phase ALTER.
        time_zone: `+02:00`, a name, `SYSTEM`; None when the event does not record it.
        microseconds: Of the time at which the statement began, beyond the second in the event's header; None when the
            event does not record it.
        explicit_timestamps: `explicit_defaults_for_timestamp`; None when the event does not record it.
    """

    sql_mode: int = 0
    client_charset: str | None = None
    connection_charset: str | None = None
    server_charset: str | None = None
    alter_flags: int = 0
    time_zone: str | None = None
    microseconds: int | None = None
    explicit_timestamps: bool | None = None

    @property
    def takes_effect(self) -> bool:
        """True if the statement takes effect; the START of an ALTER and its ROLLBACK do not."""
        return not self.alter_flags & (ALTER_START | ALTER_ROLLBACK)


def parse_query_status(event: bytes) -> QueryStatus:
    """Read the status variables of a Query event.

    Args:
        event: Header and body, without a checksum; one that `parse_query` reads.

    Returns:
        What is known; variables after one that no server had when this was written are not read.
    """
    *_, status_size = QUERY_STRUCT.unpack_from(event, EVENT_HEADER_SIZE)
    start = query_fixed_size(event)
    content = event[start : start + status_size]
    values: dict[int, bytes] = {}
    place = 0
    while place < len(content):
        code = content[place]
        form = STATUS_FORMS.get(code)
        if form is None:
            break
        size = form if form >= 0 else _size(content, place + 1, Form(form))
        if place + 1 + size > len(content):
            raise CorruptError(
                "BAD_EVENT",
                f"Query event: status variable {code} at byte {place} takes {size} bytes, "
                f"{len(content) - place - 1} are left",
            )
        values[code] = content[place + 1 : place + 1 + size]
        place += 1 + size
    return _status(values)


def _status(values: dict[int, bytes]) -> QueryStatus:
    client = connection = server = None
    if StatusVariable.CHARSET in values:
        ids = CHARSET_STRUCT.unpack(values[StatusVariable.CHARSET])
        client, connection, server = (CHARSET_OF_COLLATION[number] for number in ids)
    mode = values.get(StatusVariable.SQL_MODE)
    phase = values.get(StatusVariable.GTID_FLAGS3)
    zone = values.get(StatusVariable.TIME_ZONE)
    micros = values.get(StatusVariable.HRNOW, values.get(StatusVariable.MICROSECONDS))
    return QueryStatus(
        SQL_MODE_STRUCT.unpack(mode)[0] if mode else 0,
        client,
        connection,
        server,
        phase[0] if phase else 0,
        None if zone is None else zone[1:].decode("utf-8", "replace"),
        None if micros is None else int.from_bytes(micros, "little"),
        _explicit_timestamps(values),
    )


def _explicit_timestamps(values: dict[int, bytes]) -> bool | None:
    explicit = values.get(StatusVariable.EXPLICIT_DEFAULTS_FOR_TIMESTAMP)
    if explicit is not None:
        return explicit != b"\0"
    flags = values.get(StatusVariable.FLAGS2)
    # MariaDB's bit; one that is not set means nothing: others write no such bit.
    return True if flags is not None and FLAGS2_STRUCT.unpack(flags)[0] & OPTION_EXPLICIT_TIMESTAMPS else None


def _size(content: bytes, start: int, form: Form) -> int:
    """Bytes of a value whose size is not fixed; more than there are where its first bytes are missing."""
    first = content[start] if start < len(content) else 0
    if form is Form.TEXT:
        return 1 + first
    if form is Form.TEXT_ZERO:
        return 2 + first
    if form is Form.TWO_TEXTS:
        second = start + 1 + first
        return 2 + first + (content[second] if second < len(content) else 0)
    if form is Form.PAIRS:
        return 1 + PAIR_SIZE * first
    if form is Form.ALTER_PHASE:
        return 1 + (ALTER_ID_SIZE if first & (ALTER_COMMIT | ALTER_ROLLBACK) else 0)
    end = start + 1
    if first != UPDATED_DATABASES_UNKNOWN:
        for _ in range(first):
            zero = content.find(b"\0", end)
            if zero < 0:
                return len(content)
            end = zero + 1
    return end - start


# What may be between two words: executable comments are read as what is in them, so their edges alone are passed over.
_GAP = r"(?:\s|--[^\n]*\n|#[^\n]*\n|/\*[^*]*\*+(?:[^/*][^*]*\*+)*/|/\*M?!{1,2}[0-9]*|\*/|\()"
_MODIFIERS = rf"(?:OR{_GAP}+REPLACE{_GAP}+|IF{_GAP}+(?:NOT{_GAP}+)?EXISTS{_GAP}+)*"
_ACCOUNT = (
    rf"(?:GRANT|REVOKE|(?:CREATE|ALTER|DROP|RENAME){_GAP}+{_MODIFIERS}(?:USER|ROLE|SERVER)"
    rf"|SET{_GAP}+(?:PASSWORD|ROLE|DEFAULT{_GAP}+ROLE)|CHANGE{_GAP}+(?:MASTER|REPLICATION))\b"
)
_DEFINER = rf"DEFINER{_GAP}*=(?:`[^`]*`|'[^']*'|\"[^\"]*\"|[\w$.%@]|\(\)|{_GAP})*?"
_ROUTINE = (
    rf"(?:CREATE|ALTER){_GAP}+{_MODIFIERS}(?:{_DEFINER})?{_GAP}*(?:AGGREGATE{_GAP}+)?"
    r"(?:PROCEDURE|FUNCTION|TRIGGER|EVENT|PACKAGE)\b"
)
# What comes before a password in any statement.
_PASSWORD = rf"(?:IDENTIFIED{_GAP}+(?:BY|VIA|WITH|AS)|PASSWORD)\b"
_IS_ACCOUNT = rf"{_ACCOUNT}|SET{_GAP}+STATEMENT\b.*\bFOR{_GAP}+{_ACCOUNT}"
# Statements that are none are nearly all, and have none of these words: Arrow compiles a pattern anew for each call.
_MAY_BE_ACCOUNT = re.compile("GRANT|REVOKE|USER|ROLE|SERVER|PASSWORD|MASTER|REPLICATION|IDENTIFIED", re.IGNORECASE)


def is_account_statement(text: str) -> bool:
    """True if a statement is about accounts, roles, rights or passwords: it changes neither tables nor rows."""
    return _MAY_BE_ACCOUNT.search(text) is not None and bool(_begin_with(_array_of(text), _IS_ACCOUNT)[0].as_py())


def contain_passwords(texts: pa.Array) -> pa.Array:
    """True for texts about accounts, and for routines that contain such a statement; null if there is no text."""
    return _begin_with(texts, rf"{_IS_ACCOUNT}|{_ROUTINE}.*\b{_PASSWORD}")


def contains_password(text: str) -> bool:
    """The same of one text."""
    return _MAY_BE_ACCOUNT.search(text) is not None and bool(contain_passwords(_array_of(text))[0].as_py())


def _array_of(text: str) -> pa.Array:
    # `pa.array` would import pandas, which takes longer than all else that a command does to print a first row.
    encoded = text.encode()
    return pa.StringArray.from_buffers(
        1, pa.py_buffer(np.array([0, len(encoded)], dtype=np.int32)), pa.py_buffer(encoded)
    )


def _begin_with(texts: pa.Array, pattern: str) -> pa.Array:
    # RE2, whose time is linear in the text, whatever is in it.
    # Takes a tenth of a second to load, and whoever opens a log loads this module.
    import pyarrow.compute as pc

    return pc.match_substring_regex(texts, rf"(?is)^{_GAP}*(?:{pattern})")


XID_SIZE = EVENT_HEADER_SIZE + XID_BODY_STRUCT.size


def ends_in_xid(data: bytes, *, checksum_size: int = 0) -> bool:
    """True if the last event in *data*, which may begin anywhere, is an XID event."""
    size = XID_SIZE + checksum_size
    if len(data) < size:
        return False
    _, kind, _, stored_size, _, _ = EVENT_HEADER_STRUCT.unpack_from(data, len(data) - size)
    return bool(kind == EventType.XID and stored_size == size)
