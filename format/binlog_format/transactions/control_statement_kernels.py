"""Kernel that finds the statements by which a transaction takes rows back or controls XA: `find_control_statements`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.events.event_table_kernels import query_text_start
from binlog_format.events.layout import EVENT_HEADER_SIZE, EventType
from binlog_format.events.query_layout import QUERY_FIXED_SIZE
from binlog_format.kernels import as_bytes, kernel
from binlog_format.memory_kernels import load_u8

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.kernels import Bytes, Int64s

STATEMENTS_DONE = 0
STATEMENTS_BAD_EVENT = 1

KIND_SAVEPOINT = 1
KIND_ROLLBACK = 2
"""`ROLLBACK`, or `ROLLBACK TO` a savepoint."""
KIND_XA = 3
"""`XA START`, `XA END`, `XA COMMIT` or `XA ROLLBACK`."""
KIND_XA_PREPARE = 4
"""An XA_prepare event."""
KIND_PAYLOAD = 5
"""A transaction payload: there may be control statements in it."""
KIND_COMMENTED = 6
"""A statement after a comment: nothing is known about it yet."""

# Fields of a control statement; the first three count as `Block` does.
FIELD_EVENT = 0  # row of the event table
FIELD_KIND = 1
FIELD_TEXT = 2  # byte of the data where the statement begins, blanks in front of it left out
STATEMENT_FIELDS = 3

_QUERY = int(EventType.QUERY)
_XA_PREPARE = int(EventType.XA_PREPARE)
_PAYLOAD = int(EventType.TRANSACTION_PAYLOAD)
_SAVEPOINT = as_bytes(b"SAVEPOINT")
_ROLLBACK = as_bytes(b"ROLLBACK")
_XA = as_bytes(b"XA")

_SPACE = 0x20
_DASH = 0x2D
_HASH = 0x23
_SLASH = 0x2F
_TAB = 0x09
_CARRIAGE_RETURN = 0x0D


@kernel
def _is_word(data: Bytes, start: int, end: int, word: Bytes) -> bool:
    # The bit that tells small from capital letters does not count.
    if end - start < word.size:
        return False
    for index in range(word.size):
        if load_u8(data, start + index) & 0xDF != word[index]:
            return False
    return True


@kernel
def _statement(data: Bytes, start: int, end: int) -> int:
    while start < end:
        byte = load_u8(data, start)
        if byte != _SPACE and not _TAB <= byte <= _CARRIAGE_RETURN:
            break
        start += 1
    return start


@kernel
def _kind(data: Bytes, start: int, end: int) -> int:
    # A longer word that begins like one of these is found out when the statement is read.
    if start == end:
        return 0
    first = load_u8(data, start)
    if first == _SLASH or first == _DASH or first == _HASH:
        return KIND_COMMENTED
    if _is_word(data, start, end, _SAVEPOINT):
        return KIND_SAVEPOINT
    if _is_word(data, start, end, _ROLLBACK):
        return KIND_ROLLBACK
    if _is_word(data, start, end, _XA):
        return KIND_XA
    return 0


@kernel
def find_control_statements(data: Bytes, events: Table, table: Int64s) -> tuple[int, int]:
    """List the events that take rows back or control XA, or may do so.

    Args:
        data: The block's bytes.
        table: Shape (Query, XA_prepare and payload events at least, `STATEMENT_FIELDS`): filled here, in the events'
            order.

    Returns:
        `STATEMENTS_DONE` and the number of control statements; or `STATEMENTS_BAD_EVENT` and the row of a Query event
        that is too short.
    """
    starts = events["start"]
    sizes = events["size"]
    types = events["type"]
    count = 0
    for row in range(len(types)):
        event_type = types[row]
        if event_type != _QUERY and event_type != _XA_PREPARE and event_type != _PAYLOAD:
            continue
        start = starts[row]
        size = sizes[row]
        if start < 0 or size < EVENT_HEADER_SIZE or start + size > data.size or count == len(table):
            return STATEMENTS_BAD_EVENT, row
        kind = KIND_XA_PREPARE if event_type == _XA_PREPARE else KIND_PAYLOAD
        text = start
        if event_type == _QUERY:
            if size < QUERY_FIXED_SIZE:
                return STATEMENTS_BAD_EVENT, row
            text = query_text_start(data, start)
            if text > start + size:
                return STATEMENTS_BAD_EVENT, row
            text = _statement(data, text, start + size)
            kind = _kind(data, text, start + size)
            if kind == 0:
                continue
        table[count, FIELD_EVENT] = row
        table[count, FIELD_KIND] = kind
        table[count, FIELD_TEXT] = text
        count += 1
    return STATEMENTS_DONE, count
