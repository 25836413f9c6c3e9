"""All that can happen, to all of it, for so many minutes: `LakeSoak`; `python -m tests.soak.lake --help`."""

from __future__ import annotations

import argparse
import contextlib
import random
import re
import sys
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from binlog_format.errors import BinlogError
from binlog_lab.demo.proof.topics import read_topic
from binlog_lab.demo.servers.kafka_broker import KafkaBroker
from binlog_lab.demo.servers.lake_servers import BUCKET, ObjectStore, RestCatalog
from tests.faults.small_disk import fill, small_disk
from tests.faults.tcp_proxy import TcpProxy
from tests.servers import ServerKind
from tests.soak.heavy import BULKY, BULKY_TABLES, COLUMNS, heavy
from tests.soak.observed import SoakJob, Watch
from tests.soak.parts import ServerPair, SoakError
from tests.soak.rebuilt import Rebuilt
from tests.streaming.snapshot.live import run_sql, url_of
from tests.streaming.snapshot.storm import TABLES, WRITERS, storm

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

PAUSE_S = 0.5
"""Between the transactions of a writer: all that is measured shares the machine with what measures it."""
HEAVY_PAUSE_S = 1.5
"""The same, where transactions are large."""
BETWEEN_FAULTS_S = 10.0
"""At most so long nothing happens."""
PATIENCE_S = 1200.0
"""For a job to go on; only one that hangs takes that long."""
DISK_MB = 512
"""Room for what the jobs keep, and for Spark's files."""
FULL_S = 12.0
PROOF_AFTER = 6
"""Faults between a sampled proof and the next one."""
SAMPLE = 20
"""Per cent of the rows."""
MEMORY_MAX = 2 << 30
GROWTH_MAX = 1.3
"""Of the memory: the last third of the time to the second one, in runs of `FLAT_MINUTES` and more."""
FLAT_MINUTES = 10.0
PREFIX = "soak"

JOB = """checkpoint = "{state}/{name}"
[source]
path = "{log}"
[[tables]]
select = 'shop\\..*'
[sink]
"""

HELP = """\
Keep eight tables of a real server in Delta and in Iceberg on S3, and publish them to Kafka, while writers write rows,
huge transactions and ALTER TABLE, and while everything fails in turn: jobs, servers, broker, store and catalog are
killed (SIGKILL), the disk of the jobs gets full, logs are rotated and purged, and the replica takes the place of the
primary (`binlog-stream switch`). After each fault all three jobs must take a change that was committed after it. Now
and then a sample is proved; in the end `binlog-stream prove` compares all rows of all tables with the server's, and
the tables that the topics give are compared with them, too."""
EPILOG = """\
Prints each fault and how long each job took to go on after it; at the end the rows proved, percentiles of the lag, and
the memory. In the work folder memory.png shows memory and lag over time, and NAME.log has what a job said.

Exit status 1, with a reason: NOT_EQUAL (a table or a topic is not what the server has), MEMORY (a job took more than
2 GB, or more and more), FAILED (a job ended that should not have, or did not go on).

For example: python -m tests.soak.lake --minutes 5 --seed 7 --work /tmp/soak
The same seed gives the same faults in the same order; their moments depend on the machine."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came out.

    Attributes:
        faults: How often each has happened.
        written: Transactions and statements, by kind.
        proved: Rows that `prove` has compared in the end.
        differences: What is not as it must be, each with its reason first.
    """

    faults: Counter[str]
    written: Counter[str]
    proved: int
    messages: int
    differences: tuple[str, ...]


class LakeSoak:
    """Servers, jobs, and a lake that have no peace.

    Args:
        seed: Of the faults and their order.
    """

    def __init__(self, work: Path, *, kind: ServerKind, seed: int, tell: Callable[[str], None]) -> None:
        self._work, self._tell, self._seed = work, tell, seed
        self._numbers = random.Random(seed)
        self._servers = ServerPair(kind, work)
        self._store, self._broker = ObjectStore(work / "s3"), KafkaBroker(work / "kafka")
        self._catalog = RestCatalog(work / "catalog", self._store)
        self._way = TcpProxy()  # to the catalog, which has another port each time
        self._turns = threading.Semaphore(WRITERS)
        self._state = work / "state"
        self._happened: list[tuple[float, str]] = []
        self._faults: dict[str, Callable[[], None]] = {
            "delta killed": lambda: self._job_is_killed(0),
            "iceberg killed": lambda: self._job_is_killed(1),
            "topics killed": lambda: self._job_is_killed(2),
            "server killed": lambda: self._servers.crash(self._numbers),
            "broker killed": self._broker_is_killed,
            "store killed": self._store.restart,
            "catalog killed": self._catalog_is_killed,
            "log rotated": lambda: run_sql(self._servers.primary, ["FLUSH BINARY LOGS"] * 3),
            "log purged": self._log_is_purged,
            "servers switched": self._servers_switch,
        }

    def run(self, minutes: float) -> Outcome:
        """Let things happen for so long, and compare.

        Raises:
            SoakError: Something came otherwise than it must.
            DemoError: A job has failed.
        """
        written: Counter[str] = Counter()
        with contextlib.ExitStack() as stack:
            if stack.enter_context(small_disk(self._state, DISK_MB)):
                self._faults["disk full"] = self._disk_is_full
            else:
                self._tell("no disk can be mounted here, so none gets full")
            for server in (self._servers, self._store, self._catalog, self._way, self._broker):
                stack.enter_context(server)
            self._way.server_port = self._catalog.port
            self._jobs = self._new_jobs()
            for job in self._jobs:
                stack.callback(job.kill)
                job.start()
            run_sql(self._servers.primary, [*TABLES, *BULKY_TABLES])
            self._watch = Watch(self._jobs)
            stack.callback(self._watch.draw, self._work / "memory.png", self._happened)
            stack.enter_context(self._watch)
            with (
                storm(self._servers, pause=PAUSE_S, survives_crashes=True, turns=self._turns) as counts,
                heavy(self._servers, pause=HEAVY_PAUSE_S, turns=self._turns, seed=self._seed) as more,
            ):
                self._go_on("started", time.time())
                self._let_happen(time.monotonic() + 60 * minutes)
            written.update(more, storm=sum(counts))
            proved, messages, differences = self._compared()
        faults = Counter(name for _, name in self._happened)
        differences += list(self._memory(minutes))
        return Outcome(faults, written, proved, messages, tuple(differences))

    # --- what happens ------------------------------------------------------------------------------------------------

    def _let_happen(self, end: float) -> None:
        for number, name in enumerate(self._order(), 1):
            time.sleep(self._numbers.uniform(0, BETWEEN_FAULTS_S))
            for job in self._jobs:
                job.check()
            if time.monotonic() > end:
                return
            began = time.time()
            self._happened.append((began, name))
            self._faults[name]()
            self._go_on(name, began)
            if number % PROOF_AFTER == 0:
                self._prove(sample=True)

    def _order(self) -> Iterator[str]:
        """Each as often as the others."""
        while True:
            yield from self._numbers.sample(list(self._faults), len(self._faults))

    def _go_on(self, name: str, began: float) -> None:
        """Until each job has taken something that was committed after the fault is over."""
        over, deadline = time.time(), time.monotonic() + PATIENCE_S
        waiting, took = dict.fromkeys(self._jobs), list[str]()
        while waiting:
            for job in list(waiting):
                if job.has_ended:
                    self._start_again(job, name)
                elif self._watch.seen[job.name].has_taken_since(over):
                    del waiting[job]
                    took.append(f"{job.name} {time.time() - began:.0f} s")
            if time.monotonic() > deadline:
                late = ", ".join(job.name for job in waiting)
                raise SoakError(f"{name}: not gone on within {PATIENCE_S:g} s: {late}; see {self._work}")
            time.sleep(0.1)
        self._tell(f"{name}: gone on after {', '.join(took)}")

    def _start_again(self, job: SoakJob, name: str) -> None:
        """As whoever runs it would: it has ended by itself, by a named error that the fault explains."""
        if name not in ("store killed", "catalog killed", "disk full"):
            job.check()
            raise SoakError(f"{name}: {job.name} has ended by itself")
        said = job.last_error()
        self._tell(f"{name}: {job.name} has ended: {said}")
        if not said.startswith("error: [BINLOG_"):
            raise SoakError(f"{name}: {job.name} has ended without a named error; see {self._work}")
        job.kill()
        job.start()

    def _job_is_killed(self, number: int) -> None:
        self._jobs[number].kill()
        self._jobs[number].start()

    def _broker_is_killed(self) -> None:
        self._broker.kill()
        self._broker.start()

    def _catalog_is_killed(self) -> None:
        self._way.cut()
        self._catalog.restart()
        self._way.server_port = self._catalog.port
        self._way.mend()

    def _log_is_purged(self) -> None:
        primary = self._servers.primary
        run_sql(primary, ["FLUSH BINARY LOGS"])
        self._go_on("log rotated before the purge", time.time())
        needed = min(job.oldest_file() for job in self._jobs)
        before = len(list(primary.binlog_directory.glob("*-bin.0*")))
        run_sql(primary, [f"PURGE BINARY LOGS TO '{needed}'"])
        left = len(list(primary.binlog_directory.glob("*-bin.0*")))
        self._tell(f"purged {before - left} of {before} files, to {needed}")

    def _disk_is_full(self) -> None:
        filler = fill(self._state)
        time.sleep(FULL_S)
        filler.unlink()

    def _servers_switch(self) -> None:
        for job in self._jobs:
            job.kill()
        for _ in range(WRITERS):
            self._turns.acquire()
        try:
            self._servers.fail_over()
        finally:
            self._turns.release(WRITERS)
        for job in self._jobs:
            job.run("switch", "--to", self._servers.primary.binlog_directory)
            job.start()
        self._servers.repair()

    # --- the comparison ----------------------------------------------------------------------------------------------

    def _compared(self) -> tuple[int, int, list[str]]:
        """Rows proved, messages, and what differs."""
        proved = self._prove(sample=False)
        delta, iceberg, topics = self._jobs
        for job in (delta, iceberg, topics):
            job.check()
            job.stop()
        topics.run("publish", "--once")
        differences, messages = list[str](), 0
        for table in ("items", *BULKY, "notes"):
            columns = ("a", "t") if table == "notes" else COLUMNS
            found = Rebuilt(columns, is_keyed=table != "notes")
            found.take(read_topic(self._broker.servers, f"{PREFIX}.shop.{table}"))
            messages += found.changes
            rows = self._rows(table, columns)
            if found.rows != rows:
                missing, more = (rows - found.rows).total(), (found.rows - rows).total()
                differences.append(f"NOT_EQUAL: topic of {table}: {missing} rows are missing, {more} are too many")
            differences += [f"NOT_EQUAL: topic of {table}: {one}" for one in found.broken[:5]]
            self._tell(f"topic of {table}: {found.changes} messages, {found.rows.total()} rows")
        return proved, messages, differences

    def _prove(self, *, sample: bool) -> int:
        """Rows that are equal."""
        server, rows = self._servers.primary, 0
        options = ("--sample", SAMPLE) if sample else ("--rows",)
        for job in self._jobs[:2]:
            try:
                proved = job.run("prove", "--server", url_of(server), *options, password=server.password)
            except SoakError as error:
                raise SoakError(f"NOT_EQUAL: {error}") from error
            summary = proved.strip().splitlines()[-1]
            counted = re.search(r"(\d+) of (\d+) targets equal, ([\d,]+) rows", proved)
            if counted is None or not counted[1] == counted[2] == str(2 + len(BULKY)):
                raise SoakError(f"NOT_EQUAL: {job.name}: {proved}")
            rows += int(counted[3].replace(",", ""))
            self._tell(f"proved{f' by a sample of {SAMPLE} %' if sample else ''}: {job.name}: {summary}")
        return rows

    def _rows(self, table: str, columns: Sequence[str]) -> Counter[tuple[Any, ...]]:
        with self._servers.primary.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT {', '.join(columns)} FROM shop.{table}")
            return Counter(cursor.fetchall())

    def _memory(self, minutes: float) -> Iterator[str]:
        for name, seen in self._watch.seen.items():
            sizes = [size for _, size in seen.memory]
            third = len(sizes) // 3
            peaks = [max(sizes[part * third : (part + 1) * third], default=0) for part in range(3)]
            shown = ", ".join(f"{peak >> 20}" for peak in peaks)
            self._tell(f"{name}: lag {seen.percentiles()}; memory at most {shown} MiB in each third of the time")
            if max(sizes, default=0) > MEMORY_MAX:
                yield f"MEMORY: {name} took {max(sizes) >> 20} MiB"
            if minutes >= FLAT_MINUTES and peaks[2] > GROWTH_MAX * peaks[1]:
                yield f"MEMORY: {name} takes more and more: {shown} MiB"

    # --- how ---------------------------------------------------------------------------------------------------------

    def _new_jobs(self) -> list[SoakJob]:
        sinks = {
            "delta": [f'directory = "s3://{BUCKET}/delta"', *_table("storage", self._store.options())],
            "iceberg": [
                'format = "iceberg"',
                f'directory = "s3://{BUCKET}/iceberg"',
                *_table("catalog", self._catalog.settings(self._way.port)),
            ],
            "topics": [
                'kind = "kafka"',
                f'bootstrap_servers = "{self._broker.servers}"',
                f'topic_prefix = "{PREFIX}"',
                "partitions = 3",
            ],
        }
        jobs = []
        for name, sink in sinks.items():
            file = self._work / f"{name}.toml"
            head = JOB.format(state=self._state, name=name, log=self._servers.primary.binlog_directory)
            file.write_text(head + "\n".join(sink) + "\n")
            jobs.append(SoakJob(file, self._work / f"{name}.log", publishes=name == "topics"))
        return jobs


def _table(name: str, settings: dict[str, str]) -> list[str]:
    return [f"[sink.{name}]", *(f'"{key}" = "{value}"' for key, value in settings.items())]


def main() -> int:
    """Let everything fail; exit status 1, and a reason, when something is not as it must be."""
    parser = argparse.ArgumentParser(
        description=HELP, epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--minutes", type=float, default=60.0, help="time in which faults begin; default: 60")
    parser.add_argument("--server", type=ServerKind, choices=list(ServerKind), default=ServerKind.MARIADB)
    parser.add_argument("--seed", type=int, default=None, help="default: another one each time")
    parser.add_argument("--work", type=Path, default=None, help="kept afterwards; default: a new temporary directory")
    arguments = parser.parse_args()
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(1 << 31)
    work = arguments.work or Path(tempfile.mkdtemp(prefix="binlog-stream-soak-"))
    started = time.monotonic()

    def tell(what: str) -> None:
        sys.stdout.write(f"{time.monotonic() - started:6.0f} s: {what}\n")
        sys.stdout.flush()

    tell(f"seed {seed}, {arguments.server}, in {work}")
    try:
        outcome = LakeSoak(work, kind=arguments.server, seed=seed, tell=tell).run(arguments.minutes)
    except (SoakError, BinlogError) as error:
        text = str(error)
        tell(text if text.startswith("NOT_EQUAL") else f"FAILED: {text}")
        return 1
    tell("faults: " + ", ".join(f"{name} {count}" for name, count in sorted(outcome.faults.items())))
    tell("written: " + ", ".join(f"{name} {count}" for name, count in sorted(outcome.written.items())))
    tell(f"{outcome.proved} rows proved, {outcome.messages} messages; {work}/memory.png")
    for difference in outcome.differences:
        tell(difference)
    if not outcome.differences:
        tell("all tables and all topics are what the server has")
    return 1 if outcome.differences else 0


if __name__ == "__main__":
    sys.exit(main())
