"""Good bytes to begin with, and ways to spoil them."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from binlog_format import Gtid
from binlog_format.events.layout import EventType
from binlog_lab.innodb_writer.encoding import set_page_checksum
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter, Cache
from binlog_lab.innodb_writer.sessions import Xid
from tests.format.innodb.inspection.small_logs import Files, read_files
from tests.format.innodb.test_large_groups import event, gtid_event, write_group
from tests.format.rows.plain_json import INSERT, REMOVE, REPLACE, Opaque, change, document

if TYPE_CHECKING:
    from collections.abc import Sequence

    from hypothesis.strategies import SearchStrategy

PAGE_SIZE = 512

Edit = tuple[int, int, bytes]
"""What to do (see `spoiled`), where, and with which bytes."""

EDITS: SearchStrategy[list[Edit]] = st.lists(
    st.tuples(st.integers(0, 4), st.integers(0, 1 << 20), st.binary(min_size=1, max_size=12)), min_size=1, max_size=4
)


def spoiled(data: bytes, edits: Sequence[Edit], *, keeps_size: bool = False) -> bytes:
    """*data* with bytes overwritten, bits flipped, and unless it keeps its size, bytes put in, taken out or cut off."""
    content = bytearray(data)
    for action, place, part in edits:
        at = place % (len(content) + 1)
        if action == 0 or (keeps_size and action > 1):
            content[at : at + len(part)] = part[: max(len(content) - at, 0)] if keeps_size else part
        elif action == 1 and at < len(content):
            content[at] ^= 1 << part[0] % 8
        elif action == 2:
            content[at:at] = part
        elif action == 3:
            del content[at : at + part[0]]
        elif action == 4:
            del content[at:]
    return bytes(content)


@functools.cache
def small_log() -> Files:
    """A log of tiny pages with every kind of record, small enough to be read a thousand times."""
    options = WriterOptions(
        page_size=PAGE_SIZE,
        max_binlog_size=12 * PAGE_SIZE,
        state_interval=2 * PAGE_SIZE,
        cache_size=700,
        stmt_cache_size=700,
        preallocate=False,
        sync=False,
    )
    with tempfile.TemporaryDirectory() as folder:
        with BinlogWriter(Path(folder), options) as writer:
            write_group(writer, 1, [event(EventType.QUERY, 100)])
            writer.begin(2)
            for number in range(6):
                writer.piece(2, event(EventType.QUERY, 60 + 40 * number, number))
            xid = Xid(1, b"b", b"g")
            writer.begin(3)
            writer.event(3, event(EventType.QUERY, 90))
            writer.xa_prepare(3, xid)
            write_group(writer, 2, [event(EventType.QUERY, 300)], [event(EventType.QUERY, 50)])
            writer.event(2, event(EventType.QUERY, 33), Cache.TRANSACTIONAL)
            writer.commit(2, Gtid(0, 1, 3), gtid_event(3))
            writer.xa_commit(xid, Gtid(0, 1, 4), gtid_event(4))
            for seqno in range(5, 12):
                write_group(writer, seqno, [event(EventType.QUERY, 250, seqno), event(EventType.XID, 27)])
        return read_files(Path(folder))


JSON_CHANGES = b"".join(
    [
        change(REPLACE, "$.a", [1, {"b": 2.5}]),
        change(INSERT, '$."new key"', "x" * 20),
        change(INSERT, "$[1]", {"a": None}),
        change(REMOVE, "$.a[0]"),
        change(REMOVE, "$[0]"),
    ]
)
"""Changes to a JSON document: some fit an object, some an array."""


@functools.cache
def mysql_documents() -> tuple[bytes, ...]:
    """JSON documents of MySQL of all types."""
    scalars = [None, True, 7, -70_000, 2**40, 2**64 - 1, 1.5, "text\n", Opaque(15, b"bytes" * 20, "")]
    decimal, moment = Opaque(246, bytes.fromhex("0804807b1194"), ""), Opaque(12, bytes(8), "")
    values = [*scalars, scalars, {"a": scalars, "b": {"c": []}}, [decimal, moment, [[["x"]]]], {"a": [1, 2], "n": {}}]
    return tuple(document(value, large=large) for value in values for large in (False, True))


def with_right_checksums(content: bytes, page_size: int = PAGE_SIZE) -> bytes:
    """Whole pages with their checksums computed anew; pages of zeros stay so."""
    pages = bytearray(content)
    for start in range(0, len(pages) - page_size + 1, page_size):
        page = pages[start : start + page_size]
        if any(page):
            set_page_checksum(page)
            pages[start : start + page_size] = page
    return bytes(pages)
