"""Topics get changes and copied rows while nothing lives long: `TopicSnapshotsSoak`.

`python -m tests.soak.topic_snapshots`. Four writers change hot rows of a live server; a snapshot, the publisher, the
server and the broker are killed -9 at random moments. In the end each message that the log gives is in its partition
once and in order, the rows that messages leave are the server's, and planted secrets are nowhere.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import subprocess
import sys
import threading
import time
from collections import Counter, defaultdict
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pymysql
from kafka import KafkaConsumer, TopicPartition

from binlog_connector.kafka.record_batches import key_partitions
from binlog_lab.demo.processes import PublishProcess
from binlog_lab.demo.servers.kafka_broker import KafkaBroker
from binlog_streaming.settings.source_texts import publish_job_text
from tests.connector.kafka.topics import CLIENTS
from tests.program import PROGRAM
from tests.servers import ServerKind, server_in
from tests.soak.parts import SoakError, decide_prepared, each_soak, soak_arguments
from tests.streaming.snapshot.live import BLACKHOLE, run_sql, url_of
from tests.streaming.snapshot.storm import TABLES, storm
from tests.streaming.topics.publishing import messages_made, publish_job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pymysql.connections import Connection

    from binlog_lab.demo.mariadb.server import DatabaseServer
    from binlog_streaming.settings import PublishJob

RATE = 800
"""Rows in a second through the log: a kill meets a snapshot in its middle."""
PAUSE_S = 0.3
"""Between the transactions of a writer: the comparison reads all of the log."""
LIVES_S = 3.0
"""Something is killed at a random moment of so many seconds."""
PATIENCE_S = 300.0
LOOK_S = 0.3
"""Between looks for a chunk of a snapshot."""
LAST_ATTEMPTS = 5
PARTITIONS = 3
SECRET = "planted-secret"
SETTINGS = """schema_changes = true
transaction_metadata = true
notification_topic = "{prefix}.told"
skipped_operations = ["t"]
[[tables]]
select = 'shop\\.items'
mask = { t = "null" }
"""
_MADE = ("ts_ms", "ts_us", "ts_ns")

Message = tuple[str | None, Any]


class Victim(StrEnum):
    """What is killed."""

    PUBLISHER = "publisher"
    SNAPSHOT = "snapshot"
    SERVER = "server"
    BROKER = "broker"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came out.

    Attributes:
        kills: By victim.
        snapshots: Snapshots that ended by themselves, with all rows.
        copied: Of these, about copied rows.
        rows: That the server has in the end.
        differences: What is not as it must be.
    """

    kills: Counter[Victim]
    snapshots: int
    transactions: int
    messages: int
    copied: int
    rows: int
    differences: tuple[str, ...]


class _Writable:
    # The server for writers: while it is down, or its prepared transactions are decided, there is none.
    def __init__(self, server: DatabaseServer) -> None:
        self._server, self._is_up = server, threading.Event()
        self._is_up.set()

    def connect(self) -> Connection:
        if not self._is_up.is_set():
            raise pymysql.OperationalError(2003, "no server takes writes now")
        return self._server.connect()

    def crash(self, chance: random.Random) -> None:
        self._is_up.clear()
        self._server.kill()
        self._server.start()
        decide_prepared(self._server, chance)
        self._is_up.set()


class TopicSnapshotsSoak:
    """A server under a storm, and a publisher and a snapshot that have no peace.

    Args:
        client: By which messages go to the broker.
        seed: Of the moments of death.
    """

    def __init__(self, work: Path, *, kind: ServerKind, client: str, seed: int, tell: Callable[[str], None]) -> None:
        self._work, self._kind, self._client, self._tell = work, kind, client, tell
        self._numbers = random.Random(seed)
        self._kills, self._snapshots, self._secrets = Counter[Victim](), 0, 0
        self._newest_chunk = 0

    def run(self, kills: int) -> Outcome:
        """Kill something *kills* times, take all rows once more, and compare.

        Raises:
            SoakError: A command said something that nobody would expect.
            DemoError: The publisher has failed.
        """
        with (
            server_in(self._kind, self._work / "server") as self._server,
            KafkaBroker(self._work / "kafka") as self._broker,
        ):
            installed = self._server.installed
            plugin = [] if installed.is_mysql or installed.root is not None else [BLACKHOLE]
            run_sql(self._server, [*plugin, "SET SESSION sql_log_bin = 0", *TABLES])
            run_sql(self._server, ["CREATE TABLE shop.secret (id INT PRIMARY KEY, s VARCHAR(40))"])
            self._job = self._new_job()
            writable = _Writable(self._server)
            with storm(writable, pause=PAUSE_S, survives_crashes=True) as counts:
                publisher = self._publisher()
                for number in range(1, kills + 1):
                    victim = self._numbers.choice((Victim.PUBLISHER, *Victim))
                    publisher = self._reach(victim, publisher, writable)
                    self._kills[victim] += 1
                    self._tell(f"{number} of {kills}: {victim} killed; {sum(counts)} transactions")
                self._complete()
            publisher.kill()
            subprocess.run([PROGRAM, "publish", str(self._work / "job.toml"), "--once"], check=True)
            return self._outcome(sum(counts))

    # --- what happens ------------------------------------------------------------------------------------------------

    def _reach(self, victim: Victim, publisher: PublishProcess, writable: _Writable) -> PublishProcess:
        with self._snapshot("--rate", str(RATE)) as snapshot:
            self._plant()
            self._wait_for_chunk(snapshot)
            time.sleep(self._numbers.uniform(0, LIVES_S))
            publisher.check()
            match victim:
                case Victim.PUBLISHER:
                    publisher.kill()
                    publisher = self._publisher()
                case Victim.SNAPSHOT:
                    snapshot.kill()
                case Victim.SERVER:
                    writable.crash(self._numbers)
                case Victim.BROKER:
                    self._broker.kill()
                    self._broker.start()
        return publisher

    def _wait_for_chunk(self, snapshot: subprocess.Popen[bytes]) -> None:
        """Until rows of a snapshot are in the log, or it has ended."""
        chunks = "SELECT COALESCE(MAX(id), 0) FROM binlog_stream.snapshot_marks WHERE kind = 'chunk'"
        deadline = time.monotonic() + PATIENCE_S
        while snapshot.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(pymysql.MySQLError), self._server.connect() as connection:
                with connection.cursor() as cursor:
                    cursor.execute(chunks)  # there is no such table before the first one
                    newest = int(cursor.fetchall()[0][0])
                if newest > self._newest_chunk:
                    self._newest_chunk = newest
                    return
            time.sleep(LOOK_S)

    def _plant(self) -> None:
        self._secrets += 1
        number = self._secrets
        run_sql(
            self._server,
            [
                f"INSERT INTO shop.secret VALUES ({number}, '{SECRET}')",
                f"INSERT INTO shop.items (id, v, t) VALUES ({10_000_000 + number}, 0, '{SECRET}')",
                f"CREATE USER IF NOT EXISTS u{number}@localhost IDENTIFIED BY '{SECRET}-1'",
                f"ALTER TABLE shop.items ADD COLUMN c{number} VARCHAR(40)"
                if number % 4 == 1
                else f"UPDATE shop.items SET t = '{SECRET}' WHERE id = 10",
            ],
        )

    def _complete(self) -> None:
        for _ in range(LAST_ATTEMPTS):
            with self._snapshot("--restart") as snapshot:
                if snapshot.wait(PATIENCE_S) == 0:
                    return
        raise SoakError(f"no snapshot came to its end; see {self._work}/snapshot.log")

    # --- how ---------------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _snapshot(self, *more: str) -> Iterator[subprocess.Popen[bytes]]:
        """One that is under way; in the end it is killed, if it has not ended."""
        command = [PROGRAM, "snapshot", str(self._work / "job.toml"), "--server", url_of(self._server), "--yes", *more]
        log_file = self._work / "snapshot.log"
        environment = os.environ | {"BINLOG_STREAM_PASSWORD": self._server.password}
        with log_file.open("wb") as log, subprocess.Popen(command, env=environment, stdout=log, stderr=log) as process:
            yield process
            process.kill()
        output = log_file.read_text()
        if process.returncode > 0 and "[BINLOG_" not in output:
            raise SoakError(f"a snapshot ended without a named error:\n{output}")
        self._snapshots += process.returncode == 0

    def _publisher(self) -> PublishProcess:
        errors = self._work / "publish.log"
        errors.touch()
        publisher = PublishProcess(self._work / "job.toml", log_file=errors, listener=lambda _: None)
        publisher.wait_for_first_report()
        return publisher

    def _new_job(self) -> PublishJob:
        log = self._server.binlog_directory
        job = publish_job(self._work, log, self._broker, client=self._client, more=SETTINGS)
        (self._work / "job.toml").write_text(publish_job_text(job))
        return job

    def _outcome(self, transactions: int) -> Outcome:
        found, differences = self._consumed(), []
        expected: dict[tuple[str, int], list[Message]] = defaultdict(list)
        for message in messages_made(self._job):
            key = None if message["key"] is None else message["key"].encode()
            (partition,) = key_partitions(pa.array([key], pa.binary()), PARTITIONS).tolist()
            expected[message["topic"], partition].append((message["key"], _without_time(message["value"])))
        for place in sorted({*expected, *found}):
            wanted, there = expected[place], [one for one in found[place] if not _is_of_job(one)]
            if wanted != there:
                at = next((n for n, pair in enumerate(zip(wanted, there, strict=False)) if pair[0] != pair[1]), None)
                differences.append(f"{place}: {len(wanted)} messages expected, {len(there)} found, other from {at}")
        rows, copied = self._rebuilt(found)
        with self._server.connect() as connection, connection.cursor() as cursor:
            cursor.execute("SELECT id, v FROM shop.items")
            of_server = dict(cursor.fetchall())
        if rows != of_server:
            differences.append(f"{len(of_server)} rows on the server, {len(rows)} of messages; they differ")
        differences += self._places_of_secrets(found)
        count = sum(map(len, found.values()))
        return Outcome(self._kills, self._snapshots, transactions, count, copied, len(of_server), tuple(differences))

    def _consumed(self) -> dict[tuple[str, int], list[Message]]:
        """All committed messages of the job, by topic and partition, in their order."""
        settings: dict[str, Any] = {"bootstrap_servers": self._broker.servers.split(","), "group_id": None}
        found: dict[tuple[str, int], list[Message]] = defaultdict(list)
        prefix = self._job.sink.topic_prefix
        with (
            contextlib.closing(KafkaConsumer(**settings, isolation_level="read_committed")) as reader,
            contextlib.closing(KafkaConsumer(**settings)) as to_the_end,
        ):
            topics = [topic for topic in reader.topics() if topic.startswith(prefix) and topic != f"{prefix}.offsets"]
            for topic in topics:
                for number in sorted(reader.partitions_for_topic(topic) or ()):
                    partition = TopicPartition(topic, number)
                    (end,) = to_the_end.end_offsets([partition]).values()
                    reader.assign([partition])
                    reader.seek_to_beginning(partition)
                    deadline = time.monotonic() + PATIENCE_S
                    while reader.position(partition) < end:
                        for record in reader.poll(timeout_ms=200).get(partition, ()):
                            key = None if record.key is None else record.key.decode()
                            value = None if record.value is None else record.value.decode()
                            found[topic, number].append((key, _without_time(value)))
                        if time.monotonic() > deadline:
                            raise SoakError(f"{topic}: a transaction stays open")
        return found

    def _rebuilt(self, found: dict[tuple[str, int], list[Message]]) -> tuple[dict[int, int], int]:
        """The rows that the messages leave, and how many of these are about copied rows."""
        rows: dict[int, int] = {}
        copied = 0
        for number in range(PARTITIONS):
            for _, value in found[f"{self._job.sink.topic_prefix}.shop.items", number]:
                if value is None:
                    continue
                copied += value["op"] == "r"
                if value["after"] is None:
                    rows.pop(value["before"]["id"], None)
                else:
                    rows[value["after"]["id"]] = value["after"]["v"]
        return rows, copied

    def _places_of_secrets(self, found: dict[tuple[str, int], list[Message]]) -> Iterator[str]:
        for place, messages in found.items():
            if SECRET in json.dumps(messages):
                yield f"{place}: a secret is there"
        files = [self._work / name for name in ("publish.log", "snapshot.log")]
        for file in (*files, *Path(self._job.checkpoint).rglob("*")):
            if file.is_file() and SECRET.encode() in file.read_bytes():
                yield f"{file}: a secret is there"


def _without_time(value: str | None) -> Any:
    message = None if value is None else json.loads(value)
    return {name: part for name, part in message.items() if name not in _MADE} if isinstance(message, dict) else message


def _is_of_job(message: Message) -> bool:
    # Its starts are nothing of the log.
    return isinstance(message[1], dict) and message[1].get("aggregate_type") == "Job"


def main() -> int:
    """Publish while nothing lives long; exit status 1 when a topic does not have exactly what it must."""
    parser = soak_arguments(main.__doc__)
    parser.add_argument("--client", choices=CLIENTS, action="append", help="default: one after the other")
    parser.add_argument("--server", type=ServerKind, choices=list(ServerKind), default=ServerKind.MARIADB)
    arguments = parser.parse_args()
    status = 0
    for client, work, seed, tell in each_soak(arguments, arguments.client or CLIENTS):
        soak = TopicSnapshotsSoak(work, kind=arguments.server, client=client, seed=seed, tell=tell)
        outcome = soak.run(arguments.kills)
        killed = ", ".join(f"{count} of the {victim}" for victim, count in sorted(outcome.kills.items()))
        tell(f"killed: {killed}; {outcome.snapshots} whole snapshots, {outcome.transactions} transactions")
        tell(f"{outcome.messages} messages, {outcome.copied} of copied rows; {outcome.rows} rows on the server")
        for difference in outcome.differences:
            tell(f"NOT EQUAL: {difference}")
            status = 1
        if not outcome.differences:
            tell("each message is there once and in order, the rows are the server's, and no secret is anywhere")
    return status


if __name__ == "__main__":
    sys.exit(main())
