"""Layouts of real logs, as they are and as if the log contained less; what statements would have to give back.

Blocks of statements, each in a group of its own.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from binlog_format.block import EVENT_DTYPE, EXTENT_DTYPE, GROUP_DTYPE, Block
from binlog_format.events.layout import EventType
from binlog_format.kernels import as_bytes
from binlog_format.position import Position
from binlog_format.rows.table_events import TableMaps
from binlog_format.transactions.expansion import expanded
from binlog_lab.event_encoding.event_encoding import Origin, QueryContext, encode_query

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlog_connector.schema.history import SchemaHistory
    from binlog_format.events.table_map import Column, TableLayout
    from binlog_format.log.log import Log


class Seen(NamedTuple):
    """A layout, and a group in which it has rows."""

    layout: TableLayout
    position: Position


def seen_layouts(blocks: Iterable[Block]) -> Iterator[Seen]:
    """Each layout once for each group in which it has rows, in order."""
    maps = TableMaps()
    for block in blocks:
        found = []
        for touched in maps.resolve(block):
            for number in dict.fromkeys(block.events["group"][touched.events].tolist()):
                group = block.groups[number]
                position = Position(int(group["file_no"]), int(group["page"]), int(group["chunk"]))
                found.append(Seen(touched.layout, position))
        yield from sorted(found, key=lambda seen: seen.position)


def log_layouts(log: Log) -> Iterator[Seen]:
    """Those of a whole log."""
    return seen_layouts(expanded(log.blocks()))


def bare(layout: TableLayout) -> TableLayout:
    """As if `binlog_row_metadata=NO_LOG`."""
    logged = (*layout.columns, *layout.hidden)
    columns = (replace(one, name=None, unsigned=None, charset=None, enum_values=None) for one in logged)
    return replace(layout, columns=tuple(columns), primary_key=(), hidden=())


def undeclared(columns: Iterable[Column]) -> list[Column]:
    """What table maps and completions both speak of."""
    return [replace(one, declared=None, visible=None, geometry_type=None, dimensions=None) for one in columns]


def differences(history: SchemaHistory, seen: Iterable[Seen]) -> tuple[list[str], int]:
    """What *history* works out otherwise than FULL metadata has it; and how many layouts were compared."""
    found: list[str] = []
    compared = set()
    for layout, position in seen:
        compared.add(layout.digest)
        known = history.completed(bare(layout), position)
        found += [
            f"{layout.full_name}: {said} != {one}"
            for said, one in zip(undeclared(layout.columns), undeclared(known.columns), strict=True)
            if said != one
        ]
        if layout.primary_key != known.primary_key:
            found.append(f"{layout.full_name}: key {layout.primary_key} != {known.primary_key}")
    return found, len(compared)


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
