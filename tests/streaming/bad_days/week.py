"""Lives scenarios on a server, and runs a job on what it logged: `Week`."""

from __future__ import annotations

import logging
import re
import shutil
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pymysql
import pytest

from binlog_streaming.settings import job_from
from binlog_streaming.tables.job import TablesJob
from tests.streaming.bad_days.verdicts import JobEnd, ServerTable, TargetTable, judge, read_targets
from tests.truth.live.tables import column_infos, quoted, true_rows

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from pymysql.connections import Connection
    from pymysql.cursors import Cursor
    from pyspark.sql import SparkSession

    from binlog_lab.demo.mariadb.server import MariaDbServer
    from tests.streaming.bad_days.scenario import Scenario, Settings, Step
    from tests.streaming.bad_days.verdicts import Verdict

_SYSTEM = ("mysql", "information_schema", "performance_schema", "sys")
_LOGGER = "binlog_streaming"


def run_job(job: Settings, folder: Path, spark: SparkSession) -> JobEnd:
    """Run a job once, as `binlog-stream run --once` does; how it ended.

    Args:
        job: What a job file would contain.
        folder: Relative paths in it start here.
    """
    made = job_from(dict(job), file=folder / "bad-day.toml")
    with _warnings() as warnings:
        try:
            running = TablesJob(made, session=spark, once=True)
            running.run()
        except Exception as error:  # judged: one without a name is as bad as a wrong table
            return JobEnd(error, tuple(warnings))
    return JobEnd(None, tuple(warnings))


@contextmanager
def _warnings() -> Iterator[list[str]]:
    # What the job tells its operator while it goes on.
    told: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            told.append(record.getMessage())

    listener = Listener(logging.WARNING)
    logging.getLogger(_LOGGER).addHandler(listener)
    try:
        yield told
    finally:
        logging.getLogger(_LOGGER).removeHandler(listener)


@dataclass
class Result:
    """What a job made of a week.

    Attributes:
        targets: Its targets, by source table.
        server: What the server has in the end, by table.
    """

    end: JobEnd
    targets: dict[str, TargetTable]
    server: dict[str, ServerTable]

    def verdicts(self, scenario: Scenario) -> dict[str, Verdict]:
        """What became of each table of a scenario."""
        databases = tuple(f"{name}." for name in _databases_of(scenario))
        excluded = re.compile(str(scenario.source.get("excludeTables", "(?!)")))

        def is_selected(name: str) -> bool:
            return re.fullmatch(scenario.select, name) is not None and excluded.fullmatch(name) is None

        server = {name: self.server[scenario.truth.get(name, name)] for name in self.server}
        return judge(
            self.end,
            {name: table for name, table in server.items() if name.startswith(databases) and is_selected(name)},
            {name: target for name, target in self.targets.items() if name.startswith(databases)},
        )


def _databases_of(scenario: Scenario) -> set[str]:
    return {"day", *re.findall(r"\b(?:day|other)\d*\b", f"{scenario.sql} {scenario.select}")}


class Week:
    """Scenarios that are lived together, on a server whose log and databases are theirs for that long.

    Args:
        server: It runs; what it has is forgotten.
        spark: For the jobs.
        folder: For logs, tables and checkpoints.
        scenarios: With the same barriers and settings, each in databases of its own.
    """

    def __init__(self, server: MariaDbServer, spark: SparkSession, folder: Path, scenarios: Sequence[Scenario]) -> None:
        self._server = server
        self._spark = spark
        self._folder = folder
        self._scenarios = scenarios
        self._sessions: dict[tuple[str, str], Connection] = {}
        self._places: dict[str, str] = {}
        self._first_file = ""
        self._logs: list[Path] = []
        self._tables: dict[str, ServerTable] = {}

    def live(self) -> None:
        """Do all scripts, part by part; the log is kept wherever the job is to run."""
        forget(self._server)
        first = self._scenarios[0]
        try:
            for number, barrier in enumerate((*first.barriers, None)):
                for scenario in self._scenarios:
                    if number == 0:
                        self._create(scenario)
                    self._do(scenario, scenario.parts[number])
                if barrier is not None:
                    self._pass(barrier)
            if "end" not in first.barriers:
                self._finish()
        finally:
            self._close()

    def run(self, name: str, scenarios: Sequence[Scenario], **settings: object) -> Result:
        """Run one job for *scenarios* over the logs, one after the other, until an error stops it.

        Args:
            scenarios: Some or all.
        """
        folder = self._folder / name
        job: Settings = {
            "source": {"path": str(folder / "log"), **self._source()},
            "sink": {"directory": str(folder / "tables")},
            "checkpoint": str(folder / "checkpoint"),
            "tables": [{**scenario.rule, "select": scenario.select} for scenario in scenarios],
            **settings,
        }
        end = JobEnd(None)
        for log in self._logs:
            shutil.rmtree(folder / "log", ignore_errors=True)
            shutil.copytree(log, folder / "log")
            more = run_job(job, folder, self._spark)
            end = JobEnd(more.error, (*end.warnings, *more.warnings))
            if end.error is not None:
                break
        return Result(end, read_targets(folder / "tables"), self._tables)

    def _source(self) -> Settings:
        source: dict[str, object] = {}
        for scenario in self._scenarios:
            for key, value in scenario.source.items():
                source[key] = value.format(**self._places) if isinstance(value, str) else value
        return source

    def _do(self, scenario: Scenario, steps: Sequence[Step]) -> None:
        session, may_fail = "main", False
        for step in steps:
            word, _, rest = step.text.partition(" ")
            if not step.is_command:
                self._execute(scenario, session, step.text.replace("{folder}", str(self._folder)), may_fail=may_fail)
                may_fail = False
            elif word == "session":
                session = rest
            else:
                assert word == "fails", step.text
                may_fail = True

    def _pass(self, barrier: str) -> None:
        word, _, name = barrier.partition(" ")
        if word == "begin":
            self._admin("RESET MASTER")
        elif word == "purge":
            self._admin("FLUSH BINARY LOGS")
            ((self._first_file, *_),) = self._admin("SHOW MASTER STATUS")
        elif word == "run":
            self._keep_log()
        elif word == "gtid":
            self._places[name] = self._server.gtid_position()
        elif word == "end":
            self._finish()
        else:
            self._server.stop() if word == "restart" else self._server.kill()
            self._close()
            self._server.start()

    def _finish(self) -> None:
        self._keep_log()
        with self._server.connect() as connection, connection.cursor() as cursor:
            self._tables = server_tables(cursor)

    def _keep_log(self) -> None:
        # A purge removes whole files from the front; the server itself waits with that until no checkpoint needs them.
        def purged(_: str, names: list[str]) -> list[str]:
            return [name for name in names if re.search(r"\.\d+$", name) and name < self._first_file]

        log = self._folder / f"log-{len(self._logs)}"
        shutil.copytree(self._server.binlog_directory, log, ignore=purged)
        self._logs.append(log)

    def _create(self, scenario: Scenario) -> None:
        for database in sorted(_databases_of(scenario) | set(re.findall(r"\btruth\d*\b", scenario.sql))):
            is_logged = not database.startswith("truth")
            self._admin(f"SET sql_log_bin = {is_logged:d}", f"CREATE DATABASE IF NOT EXISTS {database}")

    def _execute(self, scenario: Scenario, session: str, text: str, *, may_fail: bool) -> None:
        connection = self._sessions.get((scenario.name, session))
        if connection is None:
            database = re.findall(r"\bday\d*\b", scenario.select + " day")[0]
            connection = self._sessions[scenario.name, session] = self._server.connect(database=database)
        with connection.cursor() as cursor:
            if not may_fail:
                cursor.execute(text)
                return
            with pytest.raises(pymysql.err.MySQLError):
                cursor.execute(text)

    def _admin(self, *texts: str) -> list[tuple[str, ...]]:
        with self._server.connect() as connection, connection.cursor() as cursor:
            for text in texts:
                cursor.execute(text)
            return list(cursor.fetchall())

    def _close(self) -> None:
        for connection in self._sessions.values():
            connection.close()
        self._sessions.clear()


def forget(server: MariaDbServer) -> None:
    """Leave nothing of what was there: the log begins with the server's first transaction."""
    with server.connect() as connection, connection.cursor() as cursor:
        for database in databases(cursor):
            cursor.execute(f"DROP DATABASE {quoted(database)}")
        cursor.execute("SET GLOBAL log_bin_compress = 0, max_connections = 1000")  # a session of each scenario and more
        cursor.execute("RESET MASTER")


def databases(cursor: Cursor) -> list[str]:
    """Those that are not the server's own."""
    cursor.execute("SHOW DATABASES")
    return [name for (name,) in cursor.fetchall() if name not in _SYSTEM]


def server_tables(cursor: Cursor) -> dict[str, ServerTable]:
    """What SELECT gives of every table of the server, by `database.table`."""
    found = {}
    for database in databases(cursor):
        cursor.execute(f"USE {quoted(database)}")
        cursor.execute("SHOW FULL TABLES WHERE Table_type NOT IN ('VIEW', 'SEQUENCE')")
        for table, _ in cursor.fetchall():
            columns = column_infos(cursor, table)
            # The log has the rows of a versioned table that hold no longer, too, as rows.
            cursor.execute(f"SHOW CREATE TABLE {quoted(table)}")
            when = "FOR SYSTEM_TIME ALL" if "SYSTEM VERSIONING" in str(cursor.fetchall()) else ""
            found[f"{database}.{table}"] = ServerTable(columns, true_rows(cursor, table, columns, when))
    return found
