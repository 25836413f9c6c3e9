"""The process that writes the demo's live log: `python -m binlog_lab.demo.live_writer` (started by `LiveWriter`).

`Recorder` writes what sessions do into a live `.ibb` log, as a server would.

The process repacks the real server's log that comes with the project. Then it appends the workload to it, at a
given rate. A few times a second the partial last page reaches the file, as when a server makes a
checkpoint. Progress goes to standard output as lines of JSON; the expected rows go into files at the end.
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
from binlog_lab.demo.actions import (
    ActionKind,
    BeginAction,
    CommitAction,
    Ddl,
    RollbackAction,
    RollbackToAction,
    SavepointAction,
    StatementAction,
)
from binlog_lab.demo.proof import expected_rows
from binlog_lab.demo.real_log import RealLog
from binlog_lab.demo.reports import AlterationReport, WriterReport
from binlog_lab.demo.shop import ALTERATIONS
from binlog_lab.demo.workload import Workload
from binlog_lab.event_encoding.event_encoding import (
    DDL_FLAGS,
    Origin,
    QueryContext,
    encode_annotate_rows,
    encode_format_description,
    encode_gtid,
    encode_query,
    encode_xid,
)
from binlog_lab.event_encoding.table_encoding import TableEncoder
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter
from binlog_lab.repack.repacker import Repacker

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from binlog_lab.demo.actions import Action
    from binlog_lab.event_encoding.table_encoding import TableSpec
    from binlog_lab.event_encoding.value_encoding import Value

    Row = tuple[Value, ...]


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


_FIRST_TABLE_ID = 18
_SQL = {
    ActionKind.INSERT: "INSERT INTO {} VALUES /* {} */",
    ActionKind.UPDATE: "UPDATE {} SET /* {} */",
    ActionKind.DELETE: "DELETE FROM {} WHERE /* {} */",
}


class Recorder:
    """A server's binlog side.

    Args:
        writer: The log.
        clock: Seconds since 1970 UTC.
    """

    def __init__(self, writer: BinlogWriter, *, server_id: int, clock: Callable[[], float] = time.time) -> None:
        self._writer = writer
        self._server_id = server_id
        self._clock = clock
        self._encoders: dict[str, TableEncoder] = {}
        self._next_table_id = _FIRST_TABLE_ID
        self._next_xid = 1
        self.committed_at: dict[str, int] = {}
        """Commit time of each group, by GTID: seconds since 1970 UTC, as in the log."""

    def record(self, action: Action) -> None:
        """Do one step."""
        writer = self._writer
        if isinstance(action, StatementAction):
            writer.statement_start(action.session)
            for event in self._statement(action):
                writer.event(action.session, event)
        elif isinstance(action, BeginAction):
            writer.begin(action.session)
        elif isinstance(action, CommitAction):
            origin = self._origin()
            self.committed_at[str(action.gtid)] = origin.timestamp
            writer.event(action.session, encode_xid(self._take_xid(), origin))
            writer.commit(action.session, action.gtid, encode_gtid(action.gtid, origin.timestamp))
        elif isinstance(action, RollbackAction):
            writer.rollback(action.session)
        elif isinstance(action, SavepointAction):
            writer.savepoint(action.session, action.number)
        elif isinstance(action, RollbackToAction):
            writer.rollback_to(action.session, action.number)
        else:
            self._ddl(action)

    def _statement(self, action: StatementAction) -> Iterator[bytes]:
        origin = self._origin()
        encoder = self._encoder(action.spec)
        rows = f"{len(action.changes):,} row{'s' if len(action.changes) > 1 else ''}"
        yield encode_annotate_rows(
            _SQL[action.kind].format(f"`{action.spec.database}`.`{action.spec.table}`", rows), origin
        )
        yield encoder.table_map(origin)
        if action.kind is ActionKind.INSERT:
            yield from encoder.insert((_there(after) for _, after in action.changes), origin)
        elif action.kind is ActionKind.DELETE:
            yield from encoder.delete((_there(before) for before, _ in action.changes), origin)
        else:
            yield from encoder.update(((_there(before), _there(after)) for before, after in action.changes), origin)

    def _ddl(self, action: Ddl) -> None:
        origin = self._origin()
        query = encode_query(action.sql, origin, QueryContext(xid=self._take_xid()))
        gtid_event = encode_gtid(action.gtid, origin.timestamp, flags=DDL_FLAGS)
        self._writer.write_group(action.gtid, gtid_event, [query])

    def _encoder(self, spec: TableSpec) -> TableEncoder:
        encoder = self._encoders.get(spec.full_name)
        if encoder is None or encoder.spec is not spec:
            # As the server: a table that was altered gets a new id.
            encoder = TableEncoder(spec, self._next_table_id)
            self._next_table_id += 1
            self._encoders[spec.full_name] = encoder
        return encoder

    def _origin(self) -> Origin:
        return Origin(int(self._clock()), self._server_id)

    def _take_xid(self) -> int:
        self._next_xid += 1
        return self._next_xid


def _there(row: Row | None) -> Row:
    assert row is not None
    return row


if __name__ == "__main__":
    sys.exit(main())
