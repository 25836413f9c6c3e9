"""Blocks of statements, each in a group of its own."""

from __future__ import annotations

import numpy as np

from binlog_format.block import EVENT_DTYPE, EXTENT_DTYPE, GROUP_DTYPE, Block
from binlog_format.events.layout import EventType
from binlog_format.kernels import as_bytes
from binlog_format.position import Position
from binlog_lab.event_encoding.event_encoding import Origin, QueryContext, encode_query

STEP = 100


def query(text: str, database: str = "shop") -> bytes:
    return encode_query(text, Origin(17, 3), QueryContext(database=database))


def block_of(*queries: bytes, first: int = 1) -> Block:
    """Group number i, from *first* on, is at the position `(1, 0, STEP * i)` and holds one Query event, number 1."""
    groups, events = np.zeros(len(queries), GROUP_DTYPE), np.zeros(len(queries), EVENT_DTYPE)
    sizes = np.array([len(one) for one in queries], dtype=np.int64)
    numbers = np.arange(len(queries))
    groups["file_no"], groups["chunk"] = 1, STEP * (numbers + first)
    groups["first_event"], groups["event_count"] = numbers, 1
    groups["begins"] = groups["ends"] = True
    events["start"], events["size"], events["type"] = np.cumsum(sizes) - sizes, sizes, EventType.QUERY
    events["group"], events["event_no"] = numbers, 1
    extents = np.zeros(1, EXTENT_DTYPE)
    extents["size"] = sizes.sum()
    data = as_bytes(b"".join(queries))
    return Block(data, groups, events, extents, position(len(queries) + first))


def position(number: int) -> Position:
    """Of group *number*."""
    return Position(1, 0, STEP * number)
