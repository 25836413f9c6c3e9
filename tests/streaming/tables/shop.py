"""A small `.ibb` log of one's own: `ShopLog`."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from binlog_format.events.layout import GTID_FLAG_DDL, GTID_FLAG_STANDALONE, EventType
from binlog_format.gtids.gtid import Gtid
from binlog_lab.event_encoding.encoding_layout import DEFAULT_SQL_MODE
from binlog_lab.event_encoding.event_encoding import (
    Origin,
    QueryContext,
    encode_event,
    encode_format_description,
    encode_gtid,
    encode_query,
    encode_xid,
)
from binlog_lab.event_encoding.table_encoding import TableEncoder, _optional_metadata
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from binlog_lab.event_encoding.table_encoding import TableSpec
    from binlog_lab.event_encoding.value_encoding import Value

    Row = tuple[Value, ...]

SECOND = 1_790_000_000
ORIGIN = Origin(SECOND, 1)
LOST_EVENTS = b"\x01\x00"
DDL_FLAGS = GTID_FLAG_STANDALONE | GTID_FLAG_DDL


class BareEncoder(TableEncoder):
    """Writes table maps with types alone, as `binlog_row_metadata=NO_LOG`."""

    def _encode_table_map(self) -> bytes:
        whole = super()._encode_table_map()
        return whole[: len(whole) - len(_optional_metadata(self.spec, self._codecs))]


class ShopLog:
    """A live log; every call that changes rows or tables writes one transaction. Use it in a `with` block.

    Args:
        directory: Of the files; a log that is there is gone on with.
        first: Number in the GTIDs before the first one.
        metadata: Table maps name columns (`binlog_row_metadata=FULL`); else they have types alone.
    """

    def __init__(self, directory: Path, first: int = 0, *, metadata: bool = True) -> None:
        self._writer = BinlogWriter(
            directory,
            WriterOptions(max_binlog_size=1 << 20, sync=False),
            format_description=encode_format_description("12.3.1-MariaDB-log", SECOND, ORIGIN),
        )
        self._encoder_type = TableEncoder if metadata else BareEncoder
        self._seqno = first
        self._table_id = 100

    def insert(self, spec: TableSpec, *rows: Row, seen_as: TableSpec | None = None) -> None:
        """One transaction with one INSERT; *seen_as*: what its table map says, where that is not *spec*."""
        encoder = self._encoder(spec)
        table_map = self._encoder_type(seen_as or spec, self._table_id).table_map(ORIGIN)
        self._commit([table_map, *encoder.insert(rows, ORIGIN)])

    def insert_all(self, *tables: tuple[TableSpec, Sequence[Row]]) -> None:
        """One transaction with an INSERT into each of several tables; no rows: none into that one."""
        events: list[bytes] = []
        for spec, rows in tables:
            encoder = self._encoder(spec)
            if rows:
                events += [encoder.table_map(ORIGIN), *encoder.insert(rows, ORIGIN)]
        self._commit(events)

    def transaction(self, *changes: tuple[TableSpec, str, Sequence[object]]) -> None:
        """One transaction with several changes: `insert` or `delete` with rows, `update` with pairs of rows."""
        events: list[bytes] = []
        for spec, kind, rows in changes:
            if rows:
                encoder = self._encoder(spec)
                events += [encoder.table_map(ORIGIN), *getattr(encoder, kind)(rows, ORIGIN)]
        self._commit(events)

    def update(self, spec: TableSpec, *pairs: tuple[Row, Row]) -> None:
        """One transaction with one UPDATE."""
        encoder = self._encoder(spec)
        self._commit([encoder.table_map(ORIGIN), *encoder.update(pairs, ORIGIN)])

    def delete(self, spec: TableSpec, *rows: Row) -> None:
        """One transaction with one DELETE."""
        encoder = self._encoder(spec)
        self._commit([encoder.table_map(ORIGIN), *encoder.delete(rows, ORIGIN)])

    @contextmanager
    def large_insert(self, spec: TableSpec, *rows: Row) -> Iterator[None]:
        """A transaction whose rows are out of band before the block of code, and that is committed after it."""
        encoder, session = self._encoder(spec), 1
        self._writer.begin(session)
        for event in (encoder.table_map(ORIGIN), *encoder.insert(rows, ORIGIN)):
            self._writer.event(session, event)
        self._writer.spill(session)
        self._writer.checkpoint()
        yield
        gtid = self._next_gtid()
        self._writer.event(session, encode_xid(self._seqno, ORIGIN))
        self._writer.commit(session, gtid, encode_gtid(gtid, SECOND))
        self._writer.checkpoint()

    def statement(self, text: str, database: str = "shop", *, sql_mode: int = DEFAULT_SQL_MODE) -> None:
        """One DDL statement."""
        gtid = self._next_gtid()
        query = encode_query(text, ORIGIN, QueryContext(database, sql_mode=sql_mode))
        self._writer.write_group(gtid, encode_gtid(gtid, SECOND, flags=DDL_FLAGS), [query])
        self._writer.checkpoint()

    def incident(self, message: str) -> None:
        """The server states that it did not log changes (LOST_EVENTS)."""
        gtid = self._next_gtid()
        body = LOST_EVENTS + bytes([len(message)]) + message.encode()
        event = encode_event(EventType.INCIDENT, body, ORIGIN)
        self._writer.write_group(gtid, encode_gtid(gtid, SECOND, flags=GTID_FLAG_STANDALONE), [event])
        self._writer.checkpoint()

    def flush(self) -> None:
        """FLUSH BINARY LOGS: a new file begins."""
        self._writer.flush_logs()

    def purge(self, *, before: int) -> None:
        """PURGE BINARY LOGS: files with numbers below *before* go."""
        self._writer.purge(before)

    def _encoder(self, spec: TableSpec) -> TableEncoder:
        self._table_id += 1  # as after a FLUSH TABLES: a table's number is worth nothing
        return self._encoder_type(spec, self._table_id)

    def _commit(self, events: list[bytes]) -> None:
        gtid = self._next_gtid()
        self._writer.write_group(gtid, encode_gtid(gtid, SECOND), [*events, encode_xid(self._seqno, ORIGIN)])
        self._writer.checkpoint()

    def _next_gtid(self) -> Gtid:
        self._seqno += 1
        return Gtid(0, 1, self._seqno)

    def __enter__(self) -> ShopLog:
        self._writer.__enter__()
        return self

    def __exit__(self, *exception: object) -> None:
        self._writer.__exit__(*exception)
