"""A small server with two tables, whose log the tests of the connector read: `Shop`."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Self

from binlog_format.gtids.gtid import Gtid
from binlog_lab.event_encoding.event_encoding import Origin, encode_format_description, encode_gtid, encode_xid
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableEncoder, TableSpec
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter

if TYPE_CHECKING:
    from pathlib import Path

SERVER_ID = 11
FIRST_SECOND = 1_767_225_600
"""2026-01-01, when this server begins; each transaction takes a second."""

ORDERS = TableSpec(
    "shop",
    "orders",
    (
        ColumnSpec("id", "int unsigned"),
        ColumnSpec("customer", "varchar(60)"),
        ColumnSpec("amount", "decimal(10,2)"),
        ColumnSpec("note", "text", nullable=True),
    ),
    ("id",),
)
ITEMS = TableSpec("shop", "items", (ColumnSpec("id", "bigint"), ColumnSpec("name", "varchar(20)")), ("id",))


class Shop:
    """Writes transactions into a live `.ibb` log; a context manager.

    Args:
        domain: GTID domain of the transactions.
        files_of: Bytes of one file.
    """

    def __init__(
        self, directory: Path, *, domain: int = 0, files_of: int = 1 << 20, orders: TableSpec = ORDERS
    ) -> None:
        self.directory = directory
        self.domain = domain
        self.seqnos: dict[int, int] = {}
        options = WriterOptions(max_binlog_size=files_of, state_interval=65536, sync=False)
        start = encode_format_description("12.3.1-MariaDB-log", FIRST_SECOND, Origin(FIRST_SECOND, SERVER_ID))
        self.writer = BinlogWriter(directory, options, format_description=start)
        for gtid in self.writer.gtids():
            self.seqnos[gtid.domain] = gtid.seqno
        self._orders = TableEncoder(orders, 18)
        self._items = TableEncoder(ITEMS, 19)
        self._next_id = sum(self.seqnos.values()) * 1_000_000

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.writer.close()

    def sell(self, count: int = 1, *, rows: int = 1, note: str | None = None) -> None:
        """Commit *count* transactions: *rows* orders each, an update of the first of them, and an item."""
        for _ in range(count):
            self._commit(rows, note)
        self.writer.checkpoint()

    def _commit(self, rows: int, note: str | None) -> None:
        seqno = self.seqnos[self.domain] = self.seqnos.get(self.domain, 0) + 1
        gtid = Gtid(self.domain, SERVER_ID, seqno)
        second = FIRST_SECOND + seqno
        origin = Origin(second, SERVER_ID)
        first = self._next_id + 1
        self._next_id += rows
        more = (None,) * (len(self._orders.spec.columns) - len(ORDERS.columns))
        new = [(first + i, f"customer {first + i}", Decimal(first + i) / 100, note, *more) for i in range(rows)]
        changed = (*new[0][:2], Decimal("0.01"), "changed", *more)
        events = [
            self._orders.table_map(origin),
            *self._orders.insert(new, origin),
            self._orders.table_map(origin),
            *self._orders.update([(new[0], changed)], origin),
            self._items.table_map(origin),
            *self._items.insert([(seqno, f"item {seqno}")], origin),
            encode_xid(seqno, origin),
        ]
        self.writer.write_group(gtid, encode_gtid(gtid, second), events)
