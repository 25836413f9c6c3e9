"""Changed rows decoded in Python, value by value: `changed_rows`; what a reader without columns has to do for each.

It knows what the benchmarks' log holds: 4-byte integers, texts, and row events of version 1.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, NamedTuple

from binlog_format.events.layout import EVENT_HEADER_SIZE, EventType
from binlog_format.events.table_map_layout import ColumnType

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from binlog_format.block import Block

ROWS_HEADER_SIZE = 8

_INT_SIZE = 4
_OPS = {
    EventType.WRITE_ROWS_V1: "insert",
    EventType.UPDATE_ROWS_V1: "update",
    EventType.DELETE_ROWS_V1: "delete",
}

Image = dict[str, object]


class Table(NamedTuple):
    """What a table map contains: names, and of each column its type and the bytes that a text's length takes."""

    database: str
    table: str
    columns: tuple[tuple[int, int], ...]


def changed_rows(block: Block, names: Sequence[str]) -> Iterator[tuple[object, ...]]:
    """The rows of the view `changes`, typed, of one table."""
    data = block.data.tobytes()
    tables: dict[int, Table] = {}
    for event in block.events:
        start, size, kind = int(event["start"]), int(event["size"]), int(event["type"])
        body = data[start + EVENT_HEADER_SIZE : start + size]
        if kind == EventType.TABLE_MAP:
            tables[_table_id(body)] = _read_table(body)
        elif kind in _OPS:
            group = block.groups[int(event["group"])]
            table = tables[_table_id(body)]
            position = (int(group["file_no"]), int(group["page"]), int(group["chunk"]))
            gtid = f"{group['domain']}-{group['server_id']}-{group['seqno']}"
            committed = datetime.fromtimestamp(int(group["timestamp"]), UTC)
            for row_no, (before, after) in enumerate(_changes(body, kind, table, names)):
                yield (
                    position,
                    int(event["event_no"]),
                    row_no,
                    gtid,
                    committed,
                    int(event["server_id"]),
                    _OPS[EventType(kind)],
                    table.database,
                    table.table,
                    before,
                    after,
                    None,
                )


def _changes(body: bytes, kind: int, table: Table, names: Sequence[str]) -> Iterator[tuple[Image | None, Image | None]]:
    at = ROWS_HEADER_SIZE + 1  # fewer than 251 columns: their number is one byte
    at += (len(table.columns) + 7) // 8 * (2 if kind == EventType.UPDATE_ROWS_V1 else 1)
    while at < len(body):
        image, at = _read_image(body, at, table, names)
        if kind == EventType.WRITE_ROWS_V1:
            yield None, image
        elif kind == EventType.DELETE_ROWS_V1:
            yield image, None
        else:
            after, at = _read_image(body, at, table, names)
            yield image, after


def _read_image(body: bytes, at: int, table: Table, names: Sequence[str]) -> tuple[Image, int]:
    nulls = at
    at += (len(table.columns) + 7) // 8
    image: Image = {}
    for number, (name, (kind, length_size)) in enumerate(zip(names, table.columns, strict=True)):
        if body[nulls + number // 8] >> number % 8 & 1:
            image[name] = None
        elif kind == ColumnType.LONG:
            image[name] = int.from_bytes(body[at : at + _INT_SIZE], "little", signed=True)
            at += _INT_SIZE
        else:
            size = int.from_bytes(body[at : at + length_size], "little")
            at += length_size
            image[name] = body[at : at + size].decode()
            at += size
    return image, at


def _read_table(body: bytes) -> Table:
    at = ROWS_HEADER_SIZE
    database, at = _name(body, at)
    table, at = _name(body, at)
    count = body[at]
    kinds = body[at + 1 : at + 1 + count]
    at += 1 + count + 1  # the metadata's own length is one byte here
    columns = []
    for kind in kinds:
        length_size = 1
        if kind == ColumnType.STRING:
            # The upper bits of a CHAR's length are in its real type, inverted.
            longest = body[at + 1] | ((body[at] & 0x30) ^ 0x30) << 4
            length_size = 2 if longest > 255 else 1
            at += 2
        elif kind != ColumnType.LONG:
            raise ValueError(f"a column of type {kind} in a log that has none")
        columns.append((kind, length_size))
    return Table(database, table, tuple(columns))


def _name(body: bytes, at: int) -> tuple[str, int]:
    end = at + 1 + body[at]
    return body[at + 1 : end].decode(), end + 1


def _table_id(body: bytes) -> int:
    return int.from_bytes(body[:6], "little")
