"""A classic log of transactions, made event by event, and what of it was committed, by a model in plain Python."""

from __future__ import annotations

import itertools
import json
import struct
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

from binlog_format.classic.reader import ClassicLog
from binlog_format.events.gtid_events import XaName
from binlog_format.events.layout import (
    GTID_FLAG_COMPLETED_XA,
    GTID_FLAG_PREPARED_XA,
    GTID_FLAG_STANDALONE,
    GTID_FLAG_TRANSACTIONAL,
    EventType,
)
from binlog_format.gtids.gtid import Gtid
from binlog_format.position import Position
from binlog_format.transactions.xa import XaId, XaKind, XaStep
from binlog_format.views.changes import ChangesView
from binlog_lab.event_encoding.event_encoding import (
    Origin,
    QueryContext,
    compress_event,
    encode_event,
    encode_payload,
    encode_query,
    encode_xid,
)
from binlog_lab.event_encoding.gtid_events import GtidEvent, encode_gtid_event
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableEncoder, TableSpec
from tests.corpus import SERVER_CASES
from tests.format.classic.logs import MemoryDirectory, file_of, raw_events

if TYPE_CHECKING:
    from collections.abc import Iterable

    from binlog_format.block import Block

ORIGIN = Origin(1_700_000_000, 1)
UUID = bytes(range(16))
ITEMS = TableSpec(
    "shop", "items", (ColumnSpec("id", "int", nullable=False), ColumnSpec("note", "varchar(400)")), ("id",)
)
_ENCODER = TableEncoder(ITEMS, 7)


class Vendor(Enum):
    """Whose log it is, and whether it is compressed."""

    MARIADB = "mariadb"
    MARIADB_COMPRESSED = "mariadb, compressed"
    MYSQL = "mysql"
    MYSQL_COMPRESSED = "mysql, compressed"

    @property
    def is_mysql(self) -> bool:
        return self in (Vendor.MYSQL, Vendor.MYSQL_COMPRESSED)


@dataclass
class Transaction:
    """One event group.

    Attributes:
        actions: `("row", size of its text)`, `("save", name)` and `("back", name)`.
        end: `commit`, `rollback`, `prepare`, `one phase`, `xa commit` or `xa rollback`.
        is_safe: What a MariaDB server reports of it: the flag TRANSACTIONAL.
    """

    actions: list[tuple[str, int]] = field(default_factory=list)
    end: str = "commit"
    xid: XaId | None = None
    is_safe: bool = False


@dataclass
class Expected:
    """A committed row: the group it is reported in, and its id."""

    group: int
    row: int


class TransactionLog:
    """A log of *transactions*; ids of rows count on.

    Args:
        transactions: In log order.
    """

    def __init__(self, transactions: list[Transaction], vendor: Vendor, *, file_groups: int = 1000) -> None:
        self.vendor = vendor
        self.expected: list[Expected] = []
        self.steps: list[XaStep] = []
        self.positions: list[Position] = []
        self.files: dict[str, bytes] = {}
        self._prepared: dict[XaId, list[int]] = {}
        self._ids = itertools.count(1)
        for file_no, first in enumerate(range(0, max(len(transactions), 1), file_groups), start=1):
            events = _head(vendor, first)
            place = 4 + sum(map(len, events))
            for number, transaction in enumerate(transactions[first : first + file_groups], start=first):
                position = Position(file_no, *divmod(place, 16384))
                self.positions.append(position)
                group = self._group(number, transaction, position)
                events += map(_with_checksum, group)
                place += sum(len(event) + 4 for event in group)
            self.files[f"bin.{file_no:06}"] = file_of(events)
        self.end = Position(file_no, *divmod(place, 16384))

    def open(self, block_size: int) -> ClassicLog:
        """The log; blocks are about so large."""
        return ClassicLog(MemoryDirectory(self.files), block_size=block_size)

    def rows_between(self, start: Position, end: Position | None) -> list[tuple[tuple[int, int, int], int]]:
        """Position and id of each row that is reported in [start, end)."""
        rows = [(self.positions[row.group], row.row) for row in self.expected]
        return [
            ((position.file_no, position.page, position.chunk), row)
            for position, row in rows
            if start <= position and (end is None or position < end)
        ]

    def _group(self, number: int, transaction: Transaction, position: Position) -> list[bytes]:
        body, kept = self._body(transaction)
        end, xid = transaction.end, transaction.xid
        if end in ("commit", "one phase"):
            self.expected += [Expected(number, row) for row in kept]
        elif end == "prepare":
            assert xid is not None
            self._prepared[xid] = kept
            self.steps.append(XaStep(position, xid, XaKind.PREPARED))
        elif end in ("xa commit", "xa rollback"):
            assert xid is not None
            rows = self._prepared.pop(xid)
            if end == "xa commit":
                self.expected += [Expected(number, row) for row in rows]
            kind = XaKind.COMMITTED if end == "xa commit" else XaKind.ROLLED_BACK
            self.steps.append(XaStep(position, xid, kind))
        compress = self.vendor in (Vendor.MYSQL_COMPRESSED, Vendor.MARIADB_COMPRESSED)
        if self.vendor.is_mysql:
            return _mysql_group(number, transaction, body, compress=compress)
        return _mariadb_group(number, transaction, body, compress=compress)

    def _body(self, transaction: Transaction) -> tuple[list[bytes], list[int]]:
        """The events between begin and end, and the rows that are left of them."""
        events: list[bytes] = []
        kept: list[int] = []
        points: list[tuple[int, int]] = []
        for action, argument in transaction.actions:
            if action == "row":
                row = next(self._ids)
                events += [_ENCODER.table_map(ORIGIN), *_ENCODER.insert([(row, "x" * argument)], ORIGIN)]
                kept.append(row)
            elif action == "save":
                events.append(query(f"SAVEPOINT `s{argument}`"))
                points = [point for point in points if point[0] != argument] + [(argument, len(kept))]
            elif any(point[0] == argument for point in points):
                events.append(query(f"ROLLBACK TO `s{argument}`"))
                while points[-1][0] != argument:
                    points.pop()
                del kept[points[-1][1] :]
        return events, kept


def query(sql: str) -> bytes:
    """A Query event."""
    return encode_query(sql, ORIGIN, QueryContext(database="shop"))


def reported(blocks: Iterable[Block]) -> list[tuple[tuple[int, int, int], int]]:
    """Position and id of each row that is reported; sees to it that rows come in their total order."""
    rows = [row for batch in ChangesView().batches(blocks) for row in batch.to_pylist()]
    keys = [(*_tuple(row["position"]), row["event_no"], row["row_no"]) for row in rows]
    assert keys == sorted(set(keys))
    return [(_tuple(row["position"]), json.loads(row["after"])["id"]) for row in rows]


def _tuple(position: dict[str, int]) -> tuple[int, int, int]:
    return position["file_no"], position["page"], position["chunk"]


def _with_checksum(event: bytes) -> bytes:
    return event[:9] + struct.pack("<I", len(event) + 4) + event[13:] + b"\0\0\0\0"


def _head(vendor: Vendor, last: int) -> list[bytes]:
    """How a server begins a file after *last* groups."""
    case = "mysql-9/oltp_small" if vendor.is_mysql else "mariadb-10.11/oltp_small"
    events = raw_events((SERVER_CASES / case / "mysql-bin.000001").read_bytes())
    first = next(number for number, event in enumerate(events) if event[4] in (EventType.GTID, EventType.MARIADB_GTID))
    if vendor.is_mysql:
        body = struct.pack("<Q", 1) + UUID + struct.pack("<QQQ", 1, 1, last + 1) if last else struct.pack("<Q", 0)
        known = encode_event(EventType.PREVIOUS_GTIDS, body, ORIGIN)
    else:
        body = struct.pack("<IIIQ", 1, 0, 1, last) if last else struct.pack("<I", 0)
        known = encode_event(EventType.MARIADB_GTID_LIST, body, ORIGIN)
    return [_with_checksum(known) if event[4] == known[4] else event for event in events[:first]]


def _xa_prepare(xid: XaId, *, one_phase: bool) -> bytes:
    fixed = struct.pack("<BiII", one_phase, xid.format_id, len(xid.gtrid), len(xid.bqual))
    return encode_event(EventType.XA_PREPARE, fixed + xid.gtrid + xid.bqual, ORIGIN)


def _mariadb_group(number: int, transaction: Transaction, body: list[bytes], *, compress: bool) -> list[bytes]:
    end, xid = transaction.end, transaction.xid
    flags = GTID_FLAG_TRANSACTIONAL if transaction.is_safe else 0
    name = None
    if xid is not None and end != "one phase":
        flags |= GTID_FLAG_PREPARED_XA if end == "prepare" else GTID_FLAG_COMPLETED_XA | GTID_FLAG_STANDALONE
        name = XaName(xid.format_id, xid.gtrid, xid.bqual)
    gtid = encode_gtid_event(GtidEvent(Gtid(0, 1, number + 1), ORIGIN.timestamp, 8, flags, xa_name=name))
    ends = {
        "commit": [encode_xid(number, ORIGIN)],
        "one phase": [query("COMMIT")],
        "rollback": [query("ROLLBACK")],
        "prepare": [query(f"XA END {xid}")] + ([] if xid is None else [_xa_prepare(xid, one_phase=False)]),
        "xa commit": [query(f"XA COMMIT {xid}")],
        "xa rollback": [query(f"XA ROLLBACK {xid}")],
    }
    if compress:
        body = [compress_event(event) if event[4] == EventType.WRITE_ROWS_V1 else event for event in body]
    return [gtid, *body, *ends[end]]


def _mysql_group(number: int, transaction: Transaction, body: list[bytes], *, compress: bool) -> list[bytes]:
    end, xid = transaction.end, transaction.xid
    fixed = b"\0" + UUID + struct.pack("<QBQQ", number + 1, 2, number, number + 1)
    gtid = encode_event(EventType.GTID, fixed, ORIGIN)
    if end in ("xa commit", "xa rollback"):
        return [gtid, query(f"{end.upper()} {xid}")]
    inner = [query("BEGIN" if xid is None else f"XA START {xid}"), *body]
    if xid is not None:
        inner += [query(f"XA END {xid}"), _xa_prepare(xid, one_phase=end == "one phase")]
    else:
        inner.append(query("ROLLBACK") if end == "rollback" else encode_xid(number, ORIGIN))
    # A server compresses no transaction that it does not commit as a whole.
    if compress and end != "rollback" and not any(action == "back" for action, _ in transaction.actions):
        return [gtid, encode_payload(inner, ORIGIN)]
    return [gtid, *inner]
