"""Kernel that finds what events contain in plain text: `find_texts`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.events.event_table_kernels import expect_event
from binlog_format.events.layout import EVENT_HEADER_SIZE, EventType
from binlog_format.events.query_layout import (
    LOAD_QUERY_FIXED_SIZE,
    QUERY_DATABASE_SIZE_OFFSET,
    QUERY_FIXED_SIZE,
    QUERY_STATUS_SIZE_OFFSET,
)
from binlog_format.events.table_map_layout import TABLE_BODY_OFFSET
from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u8, load_u16

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.kernels import Bytes, Int64s

_QUERY = int(EventType.QUERY)
_LOAD_QUERY = int(EventType.EXECUTE_LOAD_QUERY)
_TABLE_MAP = int(EventType.TABLE_MAP)
_ANNOTATE_ROWS = int(EventType.ANNOTATE_ROWS)
_ROWS_QUERY = int(EventType.ROWS_QUERY)


@kernel
def _put(starts: Int64s, sizes: Int64s, row: int, start: int, end: int) -> None:
    starts[row] = start
    sizes[row] = end - start


@kernel
def find_texts(data: Bytes, events: Table, databases: Int64s, tables: Int64s, texts: Int64s) -> int:
    """Note where each event names a database and a table, and where it has the text of a statement.

    Args:
        data: What *events* (`EVENT_DTYPE`) point into.
        events: All of a block.
        databases: Shape (2, event count): gets start and size; size -1 where there is none.
        tables: The same.
        texts: The same.

    Returns:
        The row of the first event that is too short for its contents; -1 when all are fine.
    """
    starts = events["start"]
    sizes = events["size"]
    types = events["type"]
    for row in range(len(events)):
        expect_event(data, starts, row)
        databases[1, row] = tables[1, row] = texts[1, row] = -1
        databases[0, row] = tables[0, row] = texts[0, row] = 0
        start = starts[row]
        end = start + sizes[row]
        kind = int(types[row])
        body = start + EVENT_HEADER_SIZE
        if start < 0 or body > end or end > data.size:
            return row
        if kind in (_QUERY, _LOAD_QUERY):
            fixed = start + (QUERY_FIXED_SIZE if kind == _QUERY else LOAD_QUERY_FIXED_SIZE)
            if fixed > end:
                return row
            database = fixed + load_u16(data, start + QUERY_STATUS_SIZE_OFFSET)
            database_end = database + load_u8(data, start + QUERY_DATABASE_SIZE_OFFSET)
            if database_end + 1 > end:
                return row
            if database_end > database:
                _put(databases[0], databases[1], row, database, database_end)
            _put(texts[0], texts[1], row, database_end + 1, end)
        elif kind == _TABLE_MAP:
            database = start + TABLE_BODY_OFFSET + 1
            if database > end:
                return row
            table = database + load_u8(data, database - 1) + 2
            if table > end:
                return row
            table_end = table + load_u8(data, table - 1)
            if table_end > end:
                return row
            _put(databases[0], databases[1], row, database, table - 2)
            _put(tables[0], tables[1], row, table, table_end)
        elif kind == _ANNOTATE_ROWS:
            _put(texts[0], texts[1], row, body, end)
        elif kind == _ROWS_QUERY and body < end:
            _put(texts[0], texts[1], row, body + 1, end)  # the first byte is a length that is too small to be of use
    return -1
