"""Tables older than a live server's log are completed while nothing lives long: `SnapshotSoak`.

`python -m tests.soak.snapshots`. Four writers change hot rows (keys, XA and ALTER TABLE included); the snapshot, the
job, the server, and the switch of the job to the log of its replica are killed -9, at random moments. In the end all
targets are what the server has.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from deltalake import DeltaTable

from binlog_lab.demo.processes import JobProcess, kill_family
from binlog_streaming.settings import Mode
from tests.program import PROGRAM
from tests.servers import ServerKind
from tests.soak.parts import ServerPair, SoakError, each_soak, soak_arguments
from tests.streaming.snapshot.live import run_sql, url_of
from tests.streaming.snapshot.storm import TABLES, WRITERS, storm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import DatabaseServer

RATE = 1000
"""Rows in a second through the log: so a kill meets a snapshot in its middle."""
PAUSE_S = 0.01
"""Between the transactions of a writer: several hundred a second leave the job something of the machine."""
LOG_LIVES_S = 4.0
READ_LIVES_S = 25.0
"""A snapshot is killed at a random moment of so many seconds after its start; one that reads starts Java first."""
JOB_LIVES_S = 4.0
"""The job: of so many seconds after it has begun."""
SWITCH_LIVES_S = (3.0, 20.0)
"""A switch: of so many seconds; the longer time if it first completes a batch of the job, by Spark."""
ALTERS = 0.25
"""Share of the rounds in which the table is altered."""
PATIENCE_S = 600.0
"""For a snapshot, or a job, to end; only one that hangs takes that long."""
LAST_ATTEMPTS = 5
"""Snapshots that may fail in the end, because rows were locked."""

JOB = """
checkpoint = "checkpoint"
[source]
path = "{log}"
[sink]
directory = "tables"
[[tables]]
select = 'shop\\.items'
mode = ["mirror", "scd2", "changelog"]
target = "{{table}}_{{mode}}"
begin = "snapshot"
[[tables]]
select = 'shop\\.notes'
target = "{{table}}"
begin = "snapshot"
"""

Row = tuple[Any, ...]


class Method(StrEnum):
    """How rows get into the targets."""

    LOG = "log"
    READ = "read"


class Victim(StrEnum):
    """What is killed."""

    SNAPSHOT = "snapshot"
    JOB = "job"
    SERVER = "server"
    SWITCH = "switch"
    """The job was killed before it, and the server: its replica has taken its place."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came out.

    Attributes:
        kills: By victim.
        snapshots: Snapshots that ended by themselves, with all rows.
        rows: That the server has in the end.
        proved: What `binlog-stream prove` printed.
        differences: Targets that are not what the server has.
    """

    kills: Counter[Victim]
    alters: int
    snapshots: int
    transactions: int
    rows: int
    proved: str
    differences: tuple[str, ...]


class SnapshotSoak:
    """A server under a storm, and a snapshot and a job that have no peace.

    Args:
        seed: Of the moments of death.
    """

    def __init__(self, work: Path, *, kind: ServerKind, method: Method, seed: int, tell: Callable[[str], None]) -> None:
        self._work, self._method, self._tell = work, method, tell
        self._numbers = random.Random(seed)
        self._servers = ServerPair(kind, work, TABLES)
        self._turns = threading.Semaphore(WRITERS)
        self._job_file = work / "job.toml"
        self._kills, self._alters, self._snapshots = Counter[Victim](), 0, 0

    def run(self, kills: int) -> Outcome:
        """Kill something *kills* times, complete the tables, and compare.

        Raises:
            SoakError: The snapshot, the job or the proof said something that nobody would expect.
            DemoError: The job has failed.
        """
        with self._servers:
            self._job_file.write_text(JOB.format(log=self._server.binlog_directory))
            self._run_job_once()  # a job that has not begun has no place to switch from
            with (
                storm(self._servers, pause=PAUSE_S, survives_crashes=True, turns=self._turns) as counts,
                contextlib.ExitStack() as stack,
            ):
                reach = self._through_log(stack) if self._method is Method.LOG else self._by_reading
                for number, victim in enumerate(itertools.islice(self._victims(), kills), 1):
                    reach(victim)
                    self._kills[victim] += 1
                    self._tell(f"{number} of {kills}: {victim} killed; {sum(counts)} transactions")
                self._complete()
            self._run_job_once()
            proved = self._prove()
            rows = self._rows("shop.items", "id, v, t")
            differences = tuple(self._differences(rows))
        return Outcome(self._kills, self._alters, self._snapshots, sum(counts), len(rows), proved, differences)

    def _victims(self) -> Iterator[Victim]:
        """Each as often as the others."""
        while True:
            yield from self._numbers.sample(list(Victim), len(Victim))

    # --- what happens ------------------------------------------------------------------------------------------------

    def _through_log(self, stack: contextlib.ExitStack) -> Callable[[Victim], None]:
        """The job runs all the time."""
        job = stack.enter_context(contextlib.closing(_Jobs(self._job_file, self._work / "job.log")))

        def reach(victim: Victim) -> None:
            with self._snapshot("--rate", str(RATE)) as snapshot:
                self._alter_perhaps()
                snapshot.wait(self._numbers.uniform(0, LOG_LIVES_S))
                if victim is Victim.SNAPSHOT:
                    snapshot.kill()
                elif victim is Victim.SERVER:
                    self._servers.crash(self._numbers)
                    snapshot.end()
                elif victim is Victim.JOB:
                    job.restart()
            if victim is Victim.SWITCH:
                job.close()
                self._switch()
                job.start()
            job.check()

        return reach

    def _by_reading(self, victim: Victim) -> None:
        """The job runs between snapshots."""
        kills_job = victim in (Victim.JOB, Victim.SWITCH)
        with self._snapshot() as snapshot:
            if kills_job:
                snapshot.end()
            else:
                self._alter_perhaps()
                snapshot.wait(self._numbers.uniform(0, READ_LIVES_S))
                if victim is Victim.SNAPSHOT:
                    snapshot.kill()
                else:
                    self._servers.crash(self._numbers)
                    snapshot.end()
        if kills_job:
            with contextlib.closing(_Jobs(self._job_file, self._work / "job.log")) as job:
                time.sleep(self._numbers.uniform(0, JOB_LIVES_S))
                job.check()
            if victim is Victim.SWITCH:
                self._switch()
        elif self._numbers.random() < 0.5:
            self._run_job_once()

    def _alter_perhaps(self) -> None:
        if self._numbers.random() >= ALTERS:
            return
        self._alters += 1
        number = self._alters
        what = (
            f"ADD COLUMN more{number} INT NOT NULL DEFAULT {number}"
            if number % 2
            else f"MODIFY t VARCHAR({50 + number})"
        )
        run_sql(self._server, [f"ALTER TABLE shop.items {what}"])

    def _switch(self) -> None:
        """The job, which was killed, goes on in the log of the replica; so does whoever completes a switch."""
        for _ in range(WRITERS):
            self._turns.acquire()
        self._servers.fail_over()
        self._turns.release(WRITERS)
        command = ["switch", str(self._job_file), "--to", str(self._server.binlog_directory)]
        with _Command(command, self._environment(), self._work / "switch.log") as switch:
            switch.wait(self._numbers.uniform(0, self._numbers.choice(SWITCH_LIVES_S)))
        self._tell(f"the switch was killed, or had ended: {switch.status}; it had written {switch.output!r}")
        done = self._program(*command)
        if done.returncode != 0:
            raise SoakError(f"a switch was not completed: {done.stdout}\n{done.stderr}")
        self._servers.repair()

    def _complete(self) -> None:
        for _ in range(LAST_ATTEMPTS):
            with self._snapshot() as snapshot:
                snapshot.end()
                if snapshot.status == 0:
                    return
        raise SoakError(f"no snapshot came to its end:\n{snapshot.output}")

    # --- how ---------------------------------------------------------------------------------------------------------

    @property
    def _server(self) -> DatabaseServer:
        return self._servers.primary

    @contextlib.contextmanager
    def _snapshot(self, *more: str) -> Iterator[_Command]:
        command = ["snapshot", str(self._job_file), *self._at_server(), "--tables", r"shop\..*", "--yes"]
        command += ["--method", self._method, *more]
        with _Command(command, self._environment(), self._work / "snapshot.log") as snapshot:
            yield snapshot
        self._snapshots += snapshot.status == 0

    def _run_job_once(self) -> None:
        with JobProcess(self._job_file, log_file=self._work / "job.log", listener=lambda _: None, once=True) as job:
            job.wait()

    def _prove(self) -> str:
        done = self._program("prove", str(self._job_file), *self._at_server())
        if done.returncode != 0:
            raise SoakError(f"prove ended with exit status {done.returncode}:\n{done.stdout}\n{done.stderr}")
        return done.stdout

    def _program(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        environment = self._environment()
        command = [PROGRAM, *arguments]
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=PATIENCE_S, check=False)

    def _at_server(self) -> tuple[str, str]:
        return "--server", url_of(self._server)

    def _environment(self) -> dict[str, str]:
        return os.environ | {"BINLOG_STREAM_PASSWORD": self._server.password}

    def _rows(self, table: str, columns: str) -> list[Row]:
        with self._server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT {columns} FROM {table}")
            return sorted(cursor.fetchall())

    def _differences(self, items: Sequence[Row]) -> Iterator[str]:
        notes = self._rows("shop.notes", "*")
        found = {
            f"items_{Mode.MIRROR}": (self._rows("shop.items", "*"), sorted(map(_values, self._target("items_mirror")))),
            f"items_{Mode.SCD2}": (items, sorted(_current(self._target("items_scd2")))),
            f"items_{Mode.CHANGELOG}": (items, sorted(_replayed(self._target("items_changelog")))),
            "notes": (notes, sorted(map(_values, self._target("notes")))),
        }
        for name, (wanted, held) in found.items():
            if held != wanted:
                missing, more = Counter(wanted) - Counter(held), Counter(held) - Counter(wanted)
                yield f"{name}: {missing.total()} of {len(wanted)} rows are missing, {more.total()} are too many"

    def _target(self, name: str) -> list[dict[str, Any]]:
        rows: list[dict[str, Any]] = DeltaTable(self._work / "tables" / name).to_pyarrow_table().to_pylist()
        return rows


class _Command:
    # A command of `binlog-stream`, in a process of its own, which is killed in the end if it has not ended by itself.
    def __init__(self, arguments: Sequence[str], environment: dict[str, str], log_file: Path) -> None:
        self._log_file = log_file
        with log_file.open("wb") as log:
            self._process = subprocess.Popen(
                [PROGRAM, *arguments], env=environment, stdout=log, stderr=log, start_new_session=True
            )

    def __enter__(self) -> _Command:
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()
        if self.status > 0 and "[BINLOG_" not in self.output:
            raise SoakError(f"it ended without a named error:\n{self.output}")

    @property
    def status(self) -> int:
        """Exit status; below zero it was killed."""
        return self._process.wait()

    @property
    def output(self) -> str:
        """All that it has written."""
        return self._log_file.read_text(errors="replace")

    def wait(self, seconds: float) -> None:
        """So long, or until it has ended."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(seconds)

    def end(self) -> None:
        """Until it has ended by itself: all rows are there, or an error says why not."""
        self.wait(PATIENCE_S)
        if self._process.poll() is None:
            raise SoakError(f"it did not end within {PATIENCE_S:g} s:\n{self.output}")

    def kill(self) -> None:
        """With all that it has started, if it has not ended."""
        if self._process.poll() is None:
            kill_family(self._process.pid)


class _Jobs:
    # `binlog-stream run`: one after the other is killed.
    def __init__(self, job_file: Path, log_file: Path) -> None:
        self._job_file, self._log_file = job_file, log_file
        log_file.touch()
        self._process: JobProcess | None = None
        self.start()

    def start(self) -> None:
        """One more."""
        self._process = JobProcess(self._job_file, log_file=self._log_file, listener=lambda _: None)
        self._process.wait_for_first_report()

    def restart(self) -> None:
        """Kill it; the next one takes its place."""
        self.close()
        self.start()

    def check(self) -> None:
        """See that it has not failed."""
        if self._process is not None:
            self._process.check()

    def close(self) -> None:
        """Kill it, if it has not been killed."""
        process, self._process = self._process, None
        if process is not None:
            process.check()
            process.kill()


def _values(row: dict[str, Any]) -> Row:
    return tuple(row.values())


def _current(versions: Sequence[dict[str, Any]]) -> list[Row]:
    """Rows of the versions that hold; of each key no two versions do at the same time."""
    by_key: dict[int, list[dict[str, Any]]] = {}
    for row in sorted(versions, key=lambda row: row["_position"]):
        by_key.setdefault(row["id"], []).append(row)
    for rows in by_key.values():
        if any(row["_valid_to"] is None for row in rows[:-1]):
            raise SoakError(f"scd2: two versions of {rows[0]['id']} hold at the same time")
    return [(row["id"], row["v"], row["t"]) for row in versions if row["_is_current"]]


def _replayed(changes: Sequence[dict[str, Any]]) -> list[Row]:
    """The rows that a changelog's rows leave, in their order."""
    rows: dict[int, Row] = {}

    def place(row: dict[str, Any]) -> Row:
        # All that a snapshot has come first, after what it takes away.
        return (row["_commit_version"], row["_event_no"], row["_change_type"] != "truncate", row["_row_no"])

    for change in sorted(changes, key=place):
        match change["_change_type"]:
            case "truncate":
                rows.clear()
            case "insert" | "update_postimage":
                rows[change["id"]] = (change["id"], change["v"], change["t"])
            case _:
                rows.pop(change["id"], None)
    return list(rows.values())


def main() -> int:
    """Complete tables while nothing lives long; exit status 1 when a target is not what the server has."""
    parser = soak_arguments(main.__doc__)
    parser.add_argument("--server", type=ServerKind, choices=list(ServerKind), default=ServerKind.MARIADB)
    parser.add_argument("--method", type=Method, choices=list(Method), action="append", help="default: both")
    arguments = parser.parse_args()
    status = 0
    for name, work, seed, tell in each_soak(arguments, arguments.method or list(Method)):
        soak = SnapshotSoak(work, kind=arguments.server, method=Method(name), seed=seed, tell=tell)
        outcome = soak.run(arguments.kills)
        killed = ", ".join(f"{count} of the {victim}" for victim, count in sorted(outcome.kills.items()))
        tell(f"{killed}; {outcome.alters} ALTER TABLE, {outcome.snapshots} whole snapshots, {outcome.rows} rows")
        tell(outcome.proved.strip())
        for difference in outcome.differences:
            tell(f"NOT EQUAL: {difference}")
            status = 1
        if not outcome.differences:
            tell("all four targets are what the server has")
    return status


if __name__ == "__main__":
    sys.exit(main())
