"""A log that is written live, transaction by transaction, with the time in each row: `TickWriter`."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from binlog_format.gtids.gtid import Gtid
from binlog_lab.event_encoding.event_encoding import Origin, encode_format_description, encode_gtid, encode_xid
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableEncoder, TableSpec
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter

if TYPE_CHECKING:
    from pathlib import Path

COMMITS_PER_S = 50
TICKS = TableSpec("bench", "ticks", (ColumnSpec("id", "bigint"), ColumnSpec("written_ns", "bigint")), ("id",))
SERVER_ID = 1


class TickWriter(threading.Thread):
    """Commits `COMMITS_PER_S` times a second, once started; each transaction is in the file as soon as it is committed.

    Args:
        rows: Of a transaction; all of them have the same time.
    """

    def __init__(self, directory: Path, rows: int = 1) -> None:
        super().__init__(daemon=True)
        now = int(time.time())
        start = encode_format_description("12.3.1-MariaDB-log", now, Origin(now, SERVER_ID))
        self._writer = BinlogWriter(directory, WriterOptions(sync=False), format_description=start)
        self._encoder = TableEncoder(TICKS, 20)
        self._rows = rows
        self._seqno = 0
        self._ends = threading.Event()

    def commit(self) -> None:
        """Write one transaction."""
        self._seqno += 1
        gtid, now = Gtid(0, SERVER_ID, self._seqno), time.time_ns()
        origin = Origin(now // 1_000_000_000, SERVER_ID)
        first = self._seqno * self._rows
        rows = self._encoder.insert([(number, now) for number in range(first, first + self._rows)], origin)
        events = [self._encoder.table_map(origin), *rows, encode_xid(self._seqno, origin)]
        self._writer.write_group(gtid, encode_gtid(gtid, origin.timestamp), events)
        self._writer.checkpoint()

    def run(self) -> None:
        """Until `stop` is called."""
        while not self._ends.wait(1 / COMMITS_PER_S):
            self.commit()

    def stop(self) -> None:
        """End, and close the log."""
        self._ends.set()
        if self.is_alive():
            self.join()
        self._writer.close()
