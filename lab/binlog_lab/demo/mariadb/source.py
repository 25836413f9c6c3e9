"""A real server as the demo's source: `MariaDbSource` puts one under load; another process repacks its log, live.

Commands that need a job and its server run as processes of their own: `ServerCommand`.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rich.markup import escape

from binlog_format import open_log
from binlog_format.gtids.gtid import GtidPosition
from binlog_lab.demo.failures import DemoError
from binlog_lab.demo.mariadb.load import ServerLoad
from binlog_lab.demo.mariadb.server import MariaDbServer
from binlog_lab.demo.proof.expected_rows import ExpectedTable, to_arrow
from binlog_lab.demo.reports import AlterationReport, WriterReport
from binlog_lab.demo.shop import ALTERATIONS, DATABASE, TABLES, final_tables
from binlog_lab.demo.sources import DemoLogSource
from binlog_streaming.server.address import PASSWORD_VARIABLE
from binlog_streaming.settings import Begin, Mode

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_lab.demo.state import DemoState
    from binlog_lab.demo.view import DemoView
    from binlog_lab.event_encoding.table_encoding import TableSpec


CONNECTIONS = 4
REPORT_INTERVAL_S = 0.25
CATCH_UP_S = 300.0
"""Seconds to wait for the repacked log to have all that the server has, and for the server to remove older files."""
OLDER_FILLS = 5
"""Number of times that tables are filled before their log is begun anew."""
SNAPSHOT_SHARE = 0.3
"""Part of the load that may come while a snapshot is taken."""
_SHARES = (*(alteration.share for alteration in ALTERATIONS), 1.0)
_EQUAL = re.compile(r"(\S+) \((\w+)\): equal through ")
"""A line of `binlog-stream prove`."""
STOP_PATIENCE_S = 15.0
_SNAPSHOT_ROWS = """
    SELECT CONCAT(source_schema, '.', source_table), SUM(row_count) FROM binlog_stream.snapshot_marks
    WHERE kind = 'chunk' GROUP BY source_schema, source_table"""


class MariaDbSource(DemoLogSource):
    """A server of its own, under load.

    Args:
        directory: For the server, and for what processes print.
        rows: Row changes of the load, about: as many on a fast machine as on a slow one.
        seconds: Time that they take at least.
        job_file: The job that reads the log. The server's tables are older than its log, and a snapshot completes those
            of the job. None: the log has all.

    Raises:
        DatabaseServerError: No server is installed.
    """

    title = "MariaDB under load"

    def __init__(self, directory: Path, *, rows: int, seconds: float, job_file: Path | None = None) -> None:
        self.begin = Begin.CREATED if job_file is None else Begin.SNAPSHOT
        self._directory = directory
        self._job_file = job_file
        self._snapshot: ServerCommand | None = None
        self._not_in_log: dict[str, int] = {}
        self._snapshot_rows: dict[str, int] = {}
        self._rows = rows
        self._seconds = seconds
        self._filled = 0
        self._server = MariaDbServer(directory / "server")
        self._repack: subprocess.Popen[bytes] | None = None
        self._repack_log = directory / "repack.log"
        self._load: ServerLoad | None = None
        self._monitor: threading.Thread | None = None
        self._failure: Exception | None = None
        self._expected_tables: list[ExpectedTable] = []

    def __exit__(self, *_: object) -> None:
        if self._load is not None:
            self._load.stop()
        if self._snapshot is not None:
            self._snapshot.stop()
        if self._monitor is not None and self._monitor.is_alive():
            self._monitor.join()
        if self._repack is not None and self._repack.poll() is None:
            self._repack.terminate()
            try:
                self._repack.wait(STOP_PATIENCE_S)
            except subprocess.TimeoutExpired:
                self._repack.kill()
                self._repack.wait()
        self._server.stop()

    def start(self, log_directory: Path, state: DemoState, view: DemoView) -> None:
        """Start the server, the load and the repacking."""
        with view.step("Starting a MariaDB server", "A MariaDB server runs in a private directory"):
            self._server.start()
        view.note(f"  [dim]{self._server.version}, 127.0.0.1:{self._server.port}[/]")
        with self._server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
            for spec in TABLES:
                cursor.execute(spec.create_statement())
        self._load = ServerLoad(self._server.connect, connections=CONNECTIONS, rate=self._rows / self._seconds)
        if self._job_file is not None:
            self._grow_older_than_the_log(self._load, view)
        with view.step("Filling its tables", "Its tables have rows that are in its log, which is repacked live"):
            self._load.fill()
            self._start_repack(log_directory)
        state.writer_reported(WriterReport(changes=self._in_log(self._load), last_gtid=self._server.gtid_position()))
        self._monitor = threading.Thread(
            target=self._watch, args=(self._load, log_directory, state), name="demo-load", daemon=True
        )

    def go_on(self) -> None:
        """Put the server under load."""
        assert self._load is not None
        assert self._monitor is not None
        self._filled = self._load.total()
        self._load.limit = self._changes_at(0.0 if self._job_file is not None else _SHARES[0])
        self._load.start()
        self._monitor.start()

    def check(self) -> None:
        """See that load and repack go on."""
        if self._failure is not None:
            raise self._failure
        if self._repack is not None and self._repack.poll():
            lines = self._repack_log.read_text(errors="replace").strip().splitlines()
            raise DemoError("PROCESS_FAILED", f"repack: {lines[-1] if lines else 'no message'}")

    def expected_tables(self) -> list[ExpectedTable]:
        """Rows that SELECT returned when the load had ended."""
        return self._expected_tables

    def prove(self, view: DemoView) -> bool:
        """Run `binlog-stream prove`, and show what it prints."""
        if self._job_file is None:
            return True
        log_file = self._directory / "prove.log"
        with (
            view.step("Proving every table", "binlog-stream prove has compared every table with the server"),
            ServerCommand("prove", self._job_file, self._server, log_file=log_file) as command,
        ):
            lines = command.result(1)
        for line in lines:
            view.note(f"  [dim]{escape(line)}[/]")
        proved = {match.groups() for line in lines if (match := _EQUAL.match(line))}
        # A changelog holds changes, not rows: it cannot be compared.
        is_proved = proved == {(spec.full_name, mode) for spec in TABLES for mode in (Mode.MIRROR, Mode.SCD2)}
        if not is_proved:
            view.note("[bold red]✗ It does not call every table equal.[/]")
        return is_proved

    def _grow_older_than_the_log(self, load: ServerLoad, view: DemoView) -> None:
        """Fill the tables, and let the server forget the log that has their rows."""
        with view.step("Filling its tables, and purging its log", "Its tables are older than its log") as say:
            for number in range(OLDER_FILLS):
                say(f"{number} of {OLDER_FILLS}")
                load.fill()
            filled = GtidPosition.parse(self._server.gtid_position())
            with self._server.connect() as connection, connection.cursor() as cursor:
                cursor.execute("FLUSH BINARY LOGS")
                cursor.execute("SHOW MASTER STATUS")
                (newest, *_) = cursor.fetchone()

                def is_purged() -> bool:
                    # The server keeps a file for a moment that crash recovery may still need.
                    cursor.execute("PURGE BINARY LOGS TO %s", (newest,))
                    return _begins_after(self._server.binlog_directory, filled)

                _wait(is_purged, self.check, f"the server's log does not begin after {filled}")
        self._not_in_log = load.changes()
        view.note(f"  [dim]{sum(self._not_in_log.values()):,} rows; the log begins after GTID {filled}[/]")

    def _in_log(self, load: ServerLoad) -> dict[str, int]:
        """Row changes in the log by `database.table`, those of the snapshot once it has ended."""
        return {
            name: count - self._not_in_log.get(name, 0) + self._snapshot_rows.get(name, 0)
            for name, count in load.changes().items()
        }

    def _take_snapshot(self, job_file: Path, state: DemoState, say: Callable[[], None]) -> None:
        """Run `binlog-stream snapshot` while the load goes on."""
        state.snapshot_reported("binlog-stream snapshot: the server writes existing rows into its log, under load")
        log_file = self._directory / "snapshot.log"
        self._snapshot = ServerCommand("snapshot", job_file, self._server, log_file=log_file, options=("--yes",))
        while self._snapshot.is_running():
            say()
            time.sleep(REPORT_INTERVAL_S)
        *_, told = self._snapshot.result()
        with self._server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(_SNAPSHOT_ROWS)
            self._snapshot_rows = {name: int(rows) for name, rows in cursor.fetchall()}
        state.snapshot_reported(f"binlog-stream snapshot: {told}", "snapshot")

    def _start_repack(self, log_directory: Path) -> None:
        program = Path(sys.executable).with_name("binlog-stream")
        command = [str(program) if program.exists() else str(shutil.which("binlog-stream"))]
        command += ["repack", str(self._server.binlog_directory), "--to", str(log_directory), "--follow"]
        with self._repack_log.open("wb") as log:
            self._repack = subprocess.Popen(
                [*command, "--max-binlog-size", "16M"], stdout=log, stderr=log, start_new_session=True
            )
        _wait(lambda: any(log_directory.glob("*.ibb")), self.check, "the repacked log has no file")

    def _watch(self, load: ServerLoad, log_directory: Path, state: DemoState) -> None:
        alterations: list[AlterationReport] = []

        def say(*, is_done: bool = False) -> None:
            position = self._server.gtid_position()
            report = WriterReport(
                changes=self._in_log(load), last_gtid=position, alterations=tuple(alterations), is_done=is_done
            )
            state.writer_reported(report)

        def say_until(share: float) -> None:
            while load.is_running() and load.total() < self._changes_at(share):
                say()
                time.sleep(REPORT_INTERVAL_S)

        try:
            if self._job_file is not None:
                self._take_snapshot(self._job_file, state, say)
            for alteration, next_share in zip(ALTERATIONS, _SHARES[1:], strict=True):
                # The load goes on under the alteration, and not so far that nothing is left for after it.
                load.limit = self._changes_at(next_share)
                say_until(alteration.share)
                load.alter(alteration)
                alterations.append(
                    AlterationReport(at=time.time(), statement=alteration.statement, brief=alteration.brief)
                )
            say_until(1.0)
            load.stop()
            load.join()
            say()
            self._expected_tables = [self._select(spec) for spec in final_tables()]
            last = self._server.gtid_position()
            position = GtidPosition.parse(last)
            _wait(lambda: _holds(log_directory, position), self.check, f"the repacked log does not get to {last}")
            say(is_done=True)
        except Exception as error:  # raised again by check(), on the thread that can show it
            self._failure = error

    def _changes_at(self, share: float) -> float:
        """Row changes of the load, those from before it included, at a share of what follows the snapshot."""
        under_snapshot = 0 if self._job_file is None else self._rows * SNAPSHOT_SHARE
        return self._filled + under_snapshot + share * (self._rows - under_snapshot)

    def _select(self, spec: TableSpec) -> ExpectedTable:
        with self._server.connect() as connection, connection.cursor() as cursor:
            names = ", ".join(f"`{column.name}`" for column in spec.columns)
            cursor.execute(f"SELECT {names} FROM `{spec.database}`.`{spec.table}`")
            rows = to_arrow(spec, cursor.fetchall())
        alterations = [alteration for alteration in ALTERATIONS if alteration.after.full_name == spec.full_name]
        added = {name: value for alteration in alterations for name, value in alteration.added.items()}
        renamed = {name: new for alteration in alterations for name, new in alteration.renamed.items()}
        return ExpectedTable(spec.full_name, spec.primary_key, rows, added=added, renamed=renamed)


def _holds(log_directory: Path, position: GtidPosition) -> bool:
    # Whether everything up to the position can be read from the log.
    with open_log(str(log_directory)) as log:
        there = log.span(log.start_position()).gtids
    return all(there.covers(gtid) for gtid in position.last.values())


def _begins_after(log_directory: Path, position: GtidPosition) -> bool:
    # Whether the log lacks everything up to the position.
    with open_log(str(log_directory)) as log:
        before = log.gtid_position_at(log.start_position())
    return isinstance(before, GtidPosition) and all(before.covers(gtid) for gtid in position.last.values())


def _wait(condition: Callable[[], bool], check: Callable[[], None], what: str) -> None:
    deadline = time.monotonic() + CATCH_UP_S
    while not condition():
        check()
        if time.monotonic() > deadline:
            raise DemoError("STANDS_STILL", f"{what} within {CATCH_UP_S:.0f} s")
        time.sleep(0.05)


class ServerCommand:
    """`binlog-stream NAME JOB.toml --server URL`; a context manager that ends it.

    Args:
        server: The server, which runs.
        log_file: Where its standard error goes.
        options: More options of the command.
    """

    def __init__(
        self, name: str, job_file: Path, server: MariaDbServer, *, log_file: Path, options: tuple[str, ...] = ()
    ) -> None:
        self._name = f"binlog-stream {name} {job_file.name}"
        self._log_file = log_file
        url = f"mysql://root@127.0.0.1:{server.port}/"
        program = "from binlog_streaming.cli import main; main()"
        with log_file.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-c", program, name, str(job_file), "--server", url, *options],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env=os.environ | {PASSWORD_VARIABLE: server.password},
                start_new_session=True,  # Ctrl-C is for the demo, which then ends it
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def is_running(self) -> bool:
        """True if the server has not ended yet."""
        return self._process.poll() is None

    def result(self, *accepted: int) -> list[str]:
        """Wait for its end; the lines of its standard output.

        Args:
            accepted: Exit statuses besides 0 that are no failure.
        """
        output, _ = self._process.communicate()
        status = self._process.returncode
        if status and status not in accepted:
            lines = self._log_file.read_text(errors="replace").strip().splitlines()
            raise DemoError(
                "PROCESS_FAILED",
                f"{self._name}: exit status {status}: {lines[-1] if lines else 'no message'}",
                hint=f"All that it printed is in {self._log_file}",
            )
        return output.splitlines()

    def stop(self) -> None:
        """End it, if it has not ended by itself."""
        if not self.is_running():
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_PATIENCE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
