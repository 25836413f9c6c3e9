"""A real server as the demo's source: `MariaDbSource` puts one under load; another process repacks its log, live."""

from __future__ import annotations

import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from binlog_format import open_log
from binlog_format.gtids.gtid import GtidPosition
from binlog_streaming.demo.alterations import ALTERATIONS, final_tables
from binlog_streaming.demo.failures import DemoError
from binlog_streaming.demo.mariadb.load import ServerLoad
from binlog_streaming.demo.mariadb.server import MariaDbServer
from binlog_streaming.demo.proof.truth import TableTruth, to_arrow
from binlog_streaming.demo.reports import AlterationReport, WriterReport
from binlog_streaming.demo.shop import DATABASE, TABLES
from binlog_streaming.demo.sources import LogSource

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_format.events.encoding.table_encoding import TableSpec
    from binlog_streaming.demo.state import DemoState
    from binlog_streaming.demo.view import DemoView

CONNECTIONS = 4
REPORT_INTERVAL_S = 0.25
CATCH_UP_S = 60.0
"""Patience for the repacked log to have all that the server has."""
STOP_PATIENCE_S = 15.0


class MariaDbSource(LogSource):
    """A server of its own on *directory*, under load for *seconds*.

    Raises:
        MariaDbError: No server is installed.
    """

    title = "MariaDB under load"

    def __init__(self, directory: Path, *, seconds: float) -> None:
        self._directory = directory
        self._seconds = seconds
        self._server = MariaDbServer(directory / "server")
        self._repack: subprocess.Popen[bytes] | None = None
        self._repack_log = directory / "repack.log"
        self._load: ServerLoad | None = None
        self._monitor: threading.Thread | None = None
        self._failure: Exception | None = None
        self._truths: list[TableTruth] = []

    def __exit__(self, *_: object) -> None:
        if self._load is not None:
            self._load.stop()
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
        self._load = ServerLoad(self._server.connect, connections=CONNECTIONS)
        with view.step("Filling its tables", "Its tables have their first rows; its log is repacked live"):
            self._load.fill()
            self._start_repack(log_directory)
        state.writer_said(WriterReport(changes=self._load.changes(), last_gtid=self._server.gtid_position()))
        self._monitor = threading.Thread(
            target=self._watch, args=(self._load, log_directory, state), name="demo-load", daemon=True
        )

    def go_on(self) -> None:
        """Put the server under load."""
        assert self._load is not None
        assert self._monitor is not None
        self._load.start(self._seconds)
        self._monitor.start()

    def check(self) -> None:
        """See that load and repack go on."""
        if self._failure is not None:
            raise self._failure
        if self._repack is not None and self._repack.poll():
            lines = self._repack_log.read_text(errors="replace").strip().splitlines()
            raise DemoError("PROCESS_FAILED", f"repack: {lines[-1] if lines else 'no message'}")

    def truths(self) -> list[TableTruth]:
        """What SELECT gave when the load had ended."""
        return self._truths

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
        started = time.monotonic()
        alterations: list[AlterationReport] = []

        def say(*, is_done: bool = False) -> None:
            position = self._server.gtid_position()
            report = WriterReport(
                changes=load.changes(), last_gtid=position, alterations=tuple(alterations), is_done=is_done
            )
            state.writer_said(report)

        try:
            for alteration in ALTERATIONS:
                while load.is_running() and time.monotonic() < started + alteration.share * self._seconds:
                    say()
                    time.sleep(REPORT_INTERVAL_S)
                load.alter(alteration)
                alterations.append(
                    AlterationReport(at=time.time(), statement=alteration.statement, brief=alteration.brief)
                )
            while load.is_running():
                say()
                time.sleep(REPORT_INTERVAL_S)
            load.join()
            say()
            self._truths = [self._select(spec) for spec in final_tables()]
            last = self._server.gtid_position()
            position = GtidPosition.parse(last)
            _wait(lambda: _holds(log_directory, position), self.check, f"the repacked log does not get to {last}")
            say(is_done=True)
        except Exception as error:  # raised again by check(), on the thread that can show it
            self._failure = error

    def _select(self, spec: TableSpec) -> TableTruth:
        with self._server.connect() as connection, connection.cursor() as cursor:
            names = ", ".join(f"`{column.name}`" for column in spec.columns)
            cursor.execute(f"SELECT {names} FROM `{spec.database}`.`{spec.table}`")
            rows = to_arrow(spec, cursor.fetchall())
        alterations = [alteration for alteration in ALTERATIONS if alteration.after.full_name == spec.full_name]
        added = {name: value for alteration in alterations for name, value in alteration.added.items()}
        renamed = {name: new for alteration in alterations for name, new in alteration.renamed.items()}
        return TableTruth(spec.full_name, spec.primary_key, rows, added=added, renamed=renamed)


def _holds(log_directory: Path, position: GtidPosition) -> bool:
    # Whether everything up to the position can be read from the log.
    with open_log(str(log_directory)) as log:
        there = log.span(log.start_position()).gtids
    return all(there.covers(gtid) for gtid in position.last.values())


def _wait(condition: Callable[[], bool], check: Callable[[], None], what: str) -> None:
    deadline = time.monotonic() + CATCH_UP_S
    while not condition():
        check()
        if time.monotonic() > deadline:
            raise DemoError("STANDS_STILL", f"{what} within {CATCH_UP_S:.0f} s")
        time.sleep(0.05)
