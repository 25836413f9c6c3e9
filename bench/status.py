"""What it costs a job to record how it is, and to show that on a page."""

from __future__ import annotations

import contextlib
import functools
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from bench.registry import benchmark, share
from binlog_connector.following.log_end import end_of_log
from binlog_connector.following.watched import WatchedLog
from binlog_format.gtids.gtid import Gtid
from binlog_lab.event_encoding.event_encoding import Origin, encode_gtid, encode_xid
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableEncoder, TableSpec
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter
from binlog_streaming.job_state.progress import BatchProgress, Outcome, TableProgress
from binlog_streaming.settings import Job, Sink, Source
from binlog_streaming.status.page.serving import serving
from binlog_streaming.status.recorder import StatusRecorder

if TYPE_CHECKING:
    from collections.abc import Iterator

SECONDS = 30.0
TABLES = 20
GROUPS_A_BATCH = 200
ROWS_A_GROUP = 20
_SPEC = TableSpec("shop", "orders", (ColumnSpec("id", "int"), ColumnSpec("note", "varchar(60)")), ("id",))
_VIEWER = "import sys, urllib.request as u; [None for _ in u.urlopen(sys.argv[1] + 'events')]"


@benchmark("status.record.core_percent", unit="% of a core")
def record() -> float:
    """Recording the state of a job that takes a batch of 4,000 rows into 20 tables each second."""
    return 100 * (_load(is_recorded=True, is_shown=False) - _baseline())


@benchmark("status.page.core_percent", unit="% of a core")
def page() -> float:
    """The page of that job beside it, while one browser shows it."""
    return 100 * (_load(is_recorded=True, is_shown=True) - _load(is_recorded=True, is_shown=False))


@functools.cache
def _baseline() -> float:
    return _load(is_recorded=False, is_shown=False)


@functools.cache
def _load(*, is_recorded: bool, is_shown: bool) -> float:
    """Processor seconds a second of a process that writes the log and tells of batches."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        log = Path(folder) / "log"
        writer = stack.enter_context(BinlogWriter(log, WriterOptions(sync=False)))
        groups = _groups(writer)
        next(groups)
        recorder = StatusRecorder(Job(Source(str(log)), Sink(f"{folder}/lake"), checkpoint=f"{folder}/checkpoint"))
        if is_recorded:
            stack.enter_context(recorder)
        if is_shown:
            url = stack.enter_context(serving("127.0.0.1:0", None, recorder))
            viewer = subprocess.Popen([sys.executable, "-c", _VIEWER, url])
            stack.callback(viewer.wait)
            stack.callback(viewer.kill)
        watched = stack.enter_context(WatchedLog(str(log)))
        if is_recorded:
            recorder.goes_on_at(end_of_log(watched))
            recorder.started()
        started, used = time.monotonic(), time.process_time()
        batches = max(int(SECONDS * share()), 2)
        for number in range(batches):
            next(groups)
            offset = end_of_log(watched)
            table = TableProgress(
                "shop.t", "/lake/t", "mirror", Outcome.WRITTEN, 200, 0, 0, 200, 0.3, offset.position, 1
            )
            if is_recorded:
                names = (f"shop.table_{one}" for one in range(TABLES))
                tables = tuple(_named(table, name) for name in names)
                now = time.time()
                recorder.batch(BatchProgress(number, tables, 0.5, now, 0, read_seconds=0.2, offset=offset))
            time.sleep(max(started + number + 1 - time.monotonic(), 0))
        return (time.process_time() - used) / (time.monotonic() - started)


def _named(table: TableProgress, name: str) -> TableProgress:
    return replace(table, source_table=name, target=f"/lake/{name}", commit_time=int(time.time()))


def _groups(writer: BinlogWriter) -> Iterator[None]:
    """Writes a batch of transactions whenever it is asked for the next."""
    encoder, number = TableEncoder(_SPEC, 1), 0
    while True:
        for _ in range(GROUPS_A_BATCH):
            number += 1
            now = int(time.time())
            origin, gtid = Origin(now, 1), Gtid(0, 1, number)
            rows = [(number * ROWS_A_GROUP + row, "something to write") for row in range(ROWS_A_GROUP)]
            events = [encoder.table_map(origin), *encoder.insert(rows, origin), encode_xid(number, origin)]
            writer.write_group(gtid, encode_gtid(gtid, now), events)
        writer.checkpoint()
        yield
