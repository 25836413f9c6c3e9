"""The process that writes the demo's live log: `python -m binlog_lab.demo.live_writer` (started by `LiveWriter`).

First it repacks the real server's log that comes with the project, then it goes on after it with the workload, at a
given rate. A few times a second the partial last page reaches the file, as when a server makes a checkpoint. Progress
goes to standard output as lines of JSON; the expected rows go into files at the end.
"""

from __future__ import annotations

import argparse
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from binlog_format import open_log
from binlog_format.classic.reader import ClassicLog
from binlog_format.formats.directories import open_directory
from binlog_format.gtids.gtid import Gtid
from binlog_format.views.tables import TablesView
from binlog_lab.demo.actions import CommitAction, Ddl, StatementAction
from binlog_lab.demo.alterations import ALTERATIONS
from binlog_lab.demo.proof import expected_rows
from binlog_lab.demo.real_log import RealLog
from binlog_lab.demo.recorder import Recorder
from binlog_lab.demo.reports import AlterationReport, WriterReport
from binlog_lab.demo.workload import Workload
from binlog_lab.event_encoding.event_encoding import Origin, encode_format_description
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter
from binlog_lab.repack.repacker import Repacker

if TYPE_CHECKING:
    from collections.abc import Mapping

    from binlog_lab.demo.actions import Action

SERVER_ID = 1
SERVER_VERSION = "12.3.1-MariaDB-log"
WRITER_OPTIONS = WriterOptions(max_binlog_size=16 << 20, sync=False)
"""Small files, so that the demo's log has several; fsync would only guard against a crash of this machine."""
CHECKPOINT_INTERVAL_S = 0.25


class LiveLog:
    """Writes the workload at a rate.

    Args:
        directory: Of the `.ibb` files; a log in it is continued.
        rows_per_s: Row changes per second, rolled back ones too.
    """

    def __init__(self, directory: Path, rows_per_s: float) -> None:
        created = int(time.time())
        start = encode_format_description(SERVER_VERSION, created, Origin(created, SERVER_ID))
        self.writer = BinlogWriter(directory, WRITER_OPTIONS, format_description=start)
        self._recorder = Recorder(self.writer, server_id=SERVER_ID)
        self._rows_per_s = rows_per_s
        self._rows = 0
        self._started = time.monotonic()
        self._next_checkpoint = self._started
        self.last_gtid = ""
        self.alterations: list[AlterationReport] = []

    @property
    def committed_at(self) -> Mapping[str, int]:
        """Commit time of each transaction, by GTID, in seconds since 1970 UTC."""
        return self._recorder.committed_at

    def next_gtid(self) -> Gtid:
        """The one after the last GTID of domain 0."""
        seqno = max((gtid.seqno for gtid in self.writer.gtids() if gtid.domain == 0), default=0)
        return Gtid(0, SERVER_ID, seqno + 1)

    def write(self, action: Action) -> bool:
        """Do one step when its time has come; True if a checkpoint was made after it."""
        self._recorder.record(action)
        if isinstance(action, StatementAction):
            self._rows += len(action.changes)
        elif isinstance(action, CommitAction | Ddl):
            self.last_gtid = str(action.gtid)
        if isinstance(action, Ddl) and action.brief is not None:
            self.alterations.append(AlterationReport(at=time.time(), statement=action.sql, brief=action.brief))
        due = self._started + self._rows / self._rows_per_s
        made = False
        while True:
            now = time.monotonic()
            if now >= self._next_checkpoint:
                self.writer.checkpoint()
                self._next_checkpoint = now + CHECKPOINT_INTERVAL_S
                made = True
            if now >= due:
                return made
            time.sleep(min(due, self._next_checkpoint) - now)


def write_log(
    directory: Path, expected_directory: Path, before: dict[str, int], *, options: argparse.Namespace
) -> None:
    """Write the workload, and report how far it is; *before* are the row changes that the log has already."""
    log = LiveLog(directory, options.rows / options.seconds)
    workload = Workload(
        options.rows,
        seed=options.seed,
        first_gtid=log.next_gtid(),
        alterations=ALTERATIONS if options.alter else (),
    )

    def say(*, is_done: bool = False) -> None:
        changes = before | workload.changes_by_table()
        alterations = tuple(log.alterations)
        _say(WriterReport(changes=changes, last_gtid=log.last_gtid, alterations=alterations, is_done=is_done))

    with log.writer:
        for action in workload.actions():
            if log.write(action):
                say()
    expected_rows.save(workload.expected_tables(log.committed_at), expected_directory)
    say(is_done=True)


def repack_real_log(real: RealLog, directory: Path, expected_directory: Path) -> None:
    """Put the real server's event groups into a new `.ibb` log."""
    expected_rows.save(real.expected_tables(), expected_directory)
    source = ClassicLog(*open_directory(str(real.directory)))
    with source, Repacker(source, directory, WRITER_OPTIONS) as repacker:
        repacker.run(threading.Event(), follow=False)


def changes_in(directory: Path) -> dict[str, int]:
    """Row changes by `database.table` in a log that nobody is writing."""
    counts: dict[str, int] = {}
    with open_log(str(directory)) as log:
        for batch in TablesView().batches(log.committed_blocks()):
            for row in batch.to_pylist():
                name = f"{row['database']}.{row['table']}"
                counts[name] = counts.get(name, 0) + row["inserts"] + row["updates"] + row["deletes"]
    return counts


def _say(report: WriterReport) -> None:
    sys.stdout.buffer.write(msgspec.json.encode(report) + b"\n")
    sys.stdout.flush()


def main() -> int:
    """Write the log that the arguments ask for."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("--directory", type=Path, required=True, help="of the .ibb files")
    parser.add_argument("--expected", type=Path, required=True, help="where to put what the tables must hold")
    parser.add_argument("--real", type=Path, help="directory of a classic log to repack first")
    parser.add_argument("--rows", type=int, default=100_000, help="row changes, about")
    parser.add_argument("--seconds", type=float, default=10.0, help="time to take for them")
    parser.add_argument("--alter", action="store_true", help="tables in the middle of it")
    parser.add_argument("--wait", action="store_true", help="for a line of input, before the workload begins")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    before = {}
    if options.real is not None:
        repack_real_log(RealLog(options.real), options.directory, options.expected)
        before = changes_in(options.directory)
    if options.wait:
        _say(WriterReport(changes=before, last_gtid=""))
        sys.stdin.readline()
    write_log(options.directory, options.expected, before, options=options)
    return 0


if __name__ == "__main__":
    sys.exit(main())
