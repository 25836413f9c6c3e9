"""Writes `targets.tar.xz`: a log, and for each kind of target a job that has taken it, as the version of that day does.

It was run at commit 983b6c7, with that commit's packages (encoders were in `binlog_format.events.encoding` then):

    PYTHONPATH=format:connector:streaming:. python tests/data/yesterday/make_targets.py targets.tar.xz

Iceberg's files name each other by whole paths, so everything is written to, and goes on in, one place: `PLACE`.
"""

from __future__ import annotations

import lzma
import shutil
import sys
import tarfile
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

from binlog_format.gtids.gtid import Gtid
from binlog_lab.event_encoding.event_encoding import Origin, encode_gtid, encode_xid
from binlog_lab.event_encoding.table_encoding import TableEncoder
from binlog_streaming.settings import load_job
from binlog_streaming.spark_session import local_session
from binlog_streaming.tables.job import TablesJob
from tests.connector.shop import FIRST_SECOND, ORDERS, SERVER_ID, Shop

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PLACE = Path("/tmp/binlog-stream-yesterday")
JOB = """
name = "{name}"
checkpoint = "{place}/{name}/checkpoint"

[source]
path = "{place}/log"

[[tables]]
select = ".*"
mode = [{modes}]
target = "{{mode}}/{{database}}/{{table}}"

[sink]
directory = "{place}/{name}/tables"
{sink}
"""
KEYED = '"mirror", "changelog", "scd2"'
JOBS = {
    "delta-marked": (KEYED, 'format = "delta"\nmerge = "mark"'),
    "delta-rewritten": (KEYED, 'format = "delta"\nmerge = "rewrite"'),
    "iceberg": (KEYED, 'format = "iceberg"'),
    "parquet": ('"changelog"', 'format = "parquet"'),
}
"""Modes, and lines of the sink."""


class LongShop(Shop):
    """A shop whose orders are changed, and deleted, long after they came."""

    def trade(self, count: int) -> None:
        """Commit *count* transactions: three orders each; one of an earlier transaction changes, and one is deleted."""
        for _ in range(count):
            seqno = self.seqnos[self.domain] = self.seqnos.get(self.domain, 0) + 1
            gtid, second = Gtid(self.domain, SERVER_ID, seqno), FIRST_SECOND + seqno
            origin = Origin(second, SERVER_ID)
            new = [order(3 * seqno + number, "new") for number in range(3)]
            events = [ORDER_ROWS.table_map(origin), *ORDER_ROWS.insert(new, origin)]
            if seqno % 2 == 0:
                changed, deleted = 3 * (seqno // 2), 3 * (seqno // 2) + 1
                pair = order(changed, "new"), order(changed, f"changed by {seqno}")
                events += [ORDER_ROWS.table_map(origin), *ORDER_ROWS.update([pair], origin)]
                events += [ORDER_ROWS.table_map(origin), *ORDER_ROWS.delete([order(deleted, "new")], origin)]
            self.writer.write_group(gtid, encode_gtid(gtid, second), [*events, encode_xid(seqno, origin)])
        self.writer.checkpoint()


ORDER_ROWS = TableEncoder(ORDERS, 18)


def order(number: int, note: str) -> tuple[int, str, Decimal, str]:
    """A row."""
    return number, f"customer {number}", Decimal(number) / 100, note


def make(archive: Path) -> None:
    """Write the log, run each job twice, so that rows of the first batch are changed by the second, and pack it all."""
    shutil.rmtree(PLACE, ignore_errors=True)
    session = local_session("yesterday")
    for transactions in (20, 10):
        with LongShop(PLACE / "log", files_of=1 << 18) as shop:
            shop.trade(transactions)
        for name, (modes, sink) in JOBS.items():
            job = PLACE / f"{name}.toml"
            job.write_text(JOB.format(place=PLACE, name=name, modes=modes, sink=sink))
            run(job, session)
    with lzma.open(archive, "wb") as packed, tarfile.open(fileobj=packed, mode="w") as tar:
        tar.add(PLACE, PLACE.name, filter=lambda info: None if info.name.endswith(".log") else info)


def run(path: Path, session: SparkSession) -> None:
    """As `binlog-stream run PATH --once`."""
    job = TablesJob(load_job(path), session=session, once=True)
    job.run()


if __name__ == "__main__":
    make(Path(sys.argv[1]))
