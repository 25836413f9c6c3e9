"""A connector of Debezium in Kafka Connect is replaced by `publish` in the middle of a load: docs/debezium.md."""

from __future__ import annotations

import json
import os
import random
import re
import subprocess
import sys
import threading
import time
import urllib.request
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from kafka import KafkaConsumer, TopicPartition

from binlog_connector.following.debezium_offset import stored_offset
from binlog_lab.demo.failures import DemoError
from binlog_lab.demo.servers.fetch import DEBEZIUM, require_fetched
from binlog_lab.demo.servers.java_server import JavaServer, free_ports
from binlog_streaming.settings import PublishJob, load_any_job
from tests.docs.markdown import REPO
from tests.servers import ServerKind, server_in
from tests.streaming.topics.publishing import messages_made
from tests.streaming.topics.test_debezium import java

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlog_lab.demo.mariadb.server import DatabaseServer
    from tests.faults.kafka_broker import KafkaBroker

    Message = dict[str, Any]

pytestmark = [pytest.mark.server, pytest.mark.thorough]

TABLES = (
    "CREATE DATABASE shop",
    "CREATE TABLE shop.items (id INT PRIMARY KEY AUTO_INCREMENT, name VARCHAR(90), stock INT)",
    "CREATE TABLE shop.orders (id INT PRIMARY KEY AUTO_INCREMENT, item INT, note VARCHAR(40))",
)
PROGRAM = Path(sys.executable).with_name("binlog-stream")
ROUNDS = int(os.environ.get("BINLOG_STREAM_TAKE_OVERS", "3"))
STOPPED_SECONDS = 60


class Load(threading.Thread):
    """Transactions of several statements with several rows, until it is told to end."""

    def __init__(self, server: DatabaseServer, seed: int) -> None:
        super().__init__(daemon=True)
        self._server = server
        self._random = random.Random(seed)
        self.ending = threading.Event()
        self.error: BaseException | None = None

    def run(self) -> None:
        try:
            with self._server.connect(autocommit=False) as connection, connection.cursor() as cursor:
                while not self.ending.wait(0.03):
                    for _ in range(self._random.randint(1, 4)):
                        cursor.execute(self._statement())
                    connection.commit()
        except BaseException as error:
            self.error = error
            raise

    def _statement(self) -> str:
        kind, row = self._random.randint(0, 5), self._random.randint(1, 400)
        if kind < 3:  # 20 rows are more than fit into one event
            count = self._random.choice((2, 20))
            rows = ",".join(f"('{'x' * self._random.randint(1, 90)}', {row})" for _ in range(count))
            return f"INSERT INTO shop.items (name, stock) VALUES {rows}"
        if kind == 3:
            return f"INSERT INTO shop.orders (item, note) VALUES ({row}, 'first'), ({row}, NULL)"
        if kind == 4:
            return f"UPDATE shop.items SET stock = stock + 1 WHERE id BETWEEN {row} AND {row + 12}"
        return f"DELETE FROM shop.orders WHERE id BETWEEN {row} AND {row + 2}"


@dataclass
class Worker:
    """A running worker of Kafka Connect."""

    port: int

    def ask(self, path: str, *, method: str = "GET", body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"}
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}{path}", data, headers, method=method)
        with urllib.request.urlopen(request, timeout=60) as answer:
            return json.loads(answer.read() or b"null")


@pytest.fixture(scope="module")
def worker(kafka_broker: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worker]:
    try:
        classes = require_fetched(DEBEZIUM).parent
    except DemoError as error:
        pytest.skip(f"{error.reason}: {error.hint}")
    folder, (port,) = tmp_path_factory.mktemp("connect"), free_ports(1)
    converter = "org.apache.kafka.connect.json.JsonConverter"
    settings = {
        "bootstrap.servers": kafka_broker.servers,
        "key.converter": converter,
        "value.converter": converter,
        "offset.storage.file.filename": folder / "offsets",
        "offset.flush.interval.ms": 2000,
        "listeners": f"http://127.0.0.1:{port}",
        "plugin.discovery": "service_load",
    }
    path = folder / "worker.properties"
    path.write_text("".join(f"{name}={value}\n" for name, value in settings.items()))
    options = ["-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=info"]
    program = "org.apache.kafka.connect.cli.ConnectStandalone"
    command = [*options, "-cp", f"{classes}/*", program, str(path)]
    with JavaServer("Kafka Connect", command, re.compile("Kafka Connect started")):
        yield Worker(port)


@dataclass
class Takeover:
    """One replacement of a connector.

    Attributes:
        folder: With `offsets.json` and `job.toml`.
    """

    prefix: str
    folder: Path
    broker: KafkaBroker

    def connect(self, worker: Worker, server: DatabaseServer, *, is_mysql: bool) -> None:
        vendor = "MySql" if is_mysql else "MariaDb"
        config = {
            "connector.class": f"io.debezium.connector.{vendor.lower()}.{vendor}Connector",
            "database.hostname": "127.0.0.1",
            "database.port": str(server.port),
            "database.user": "root",
            "database.password": server.password,
            "database.server.id": "9001",
            "database.ssl.mode": "preferred" if is_mysql else "disable",
            "topic.prefix": self.prefix,
            "snapshot.mode": "never",
            "poll.interval.ms": "1",
            "max.batch.size": "7",
            "max.queue.size": "20",
            "table.include.list": "shop.*",
            "include.schema.changes": "false",
            "provide.transaction.metadata": "true",
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": str(self.folder / "history"),
            "topic.creation.default.partitions": "3",
            "topic.creation.default.replication.factor": "1",
            "producer.override.linger.ms": "0",
        }
        worker.ask("/connectors", method="POST", body={"name": self.prefix, "config": config})

    def run_the_page(self, worker: Worker, log: Path) -> None:
        """Run the lines of the page, with `--once` for the last."""
        page = (REPO / "docs/debezium.md").read_text()
        (lines,) = re.findall(r"```bash\n(.*?)```", page, re.DOTALL)
        assert lines.count("\n") <= 10
        own = {
            "http://connect:8083": f"http://127.0.0.1:{worker.port}",
            "connectors/shop": f"connectors/{self.prefix}",
            "/var/lib/mysql": str(log),
            "broker-1:9092": self.broker.servers,
            "publish job.toml": "publish job.toml --once",
        }
        for text, ours in own.items():
            assert text in lines
            lines = lines.replace(text, ours)
        lines = re.sub("(?m)^binlog-stream ", f"{PROGRAM} ", lines)
        command = ["timeout", "300", "bash", "-euo", "pipefail", "-c", lines]
        ended = subprocess.run(command, cwd=self.folder, capture_output=True, text=True, check=False)
        assert ended.returncode == 0, f"{lines}\n{ended.stdout[-3000:]}\n{ended.stderr[-3000:]}"

    def messages(self, topic: str) -> Iterator[tuple[int, Message]]:
        """Messages of a topic with their partitions, in order."""
        consumer = KafkaConsumer(
            bootstrap_servers=self.broker.servers, isolation_level="read_committed", enable_auto_commit=False
        )
        try:
            partitions = [TopicPartition(topic, number) for number in consumer.partitions_for_topic(topic) or ()]
            if not partitions:
                return
            consumer.assign(partitions)
            consumer.seek_to_beginning(*partitions)
            ends = consumer.end_offsets(partitions)
            while any(consumer.position(one) < ends[one] for one in partitions):
                for one, records in consumer.poll(timeout_ms=1000).items():
                    for record in records:
                        texts = [None if part is None else part.decode() for part in (record.key, record.value)]
                        yield one.partition, {"topic": topic, "key": texts[0], "value": texts[1], "headers": []}
        finally:
            consumer.close()


def told(message: Message) -> object:
    """The message without the time at which it was made, and what Debezium and we tell differently."""
    key, value = (None if message[part] is None else json.loads(message[part])["payload"] for part in ("key", "value"))
    if value is None:
        return key, None
    if "status" in value:
        counts = {one["data_collection"]: one["event_count"] for one in value["data_collections"] or ()}
        return key, value["status"], value["id"], value["event_count"], counts
    source = {name: value["source"][name] for name in ("db", "table", "gtid", "file", "row", "server_id", "snapshot")}
    return key, value["op"], value["before"], value["after"], source, value["transaction"]


def told_once(messages: Iterable[Message]) -> list[object]:
    """All of them, without the second tombstone of the row with which the connector was stopped."""
    found: list[object] = []
    for message in messages:
        one = told(message)
        if message["value"] is not None or one not in found[-1:]:
            found.append(one)
    return found


def has_changes(message: Message) -> bool:
    """False of messages about transactions that Debezium makes for statements without rows."""
    value = None if message["value"] is None else json.loads(message["value"])["payload"]
    return value is None or value.get("status") != "END" or value["event_count"] > 0


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        (ServerKind.MARIADB, ()),
        (ServerKind.MYSQL, ("--gtid-mode=ON", "--enforce-gtid-consistency=ON")),
        (ServerKind.MYSQL, ()),
    ],
)
def test_a_connector_is_replaced_in_the_middle_of_a_load(
    worker: Worker, kafka_broker: KafkaBroker, tmp_path: Path, kind: ServerKind, options: tuple[str, ...]
) -> None:
    cut = 0
    with server_in(kind, tmp_path / "server", options=("--binlog-row-event-max-size=512", *options)) as server:
        with server.connect(autocommit=True) as connection, connection.cursor() as cursor:
            for statement in TABLES:
                cursor.execute(statement)
        for number in range(ROUNDS):
            folder = tmp_path / f"round{number}"
            folder.mkdir()
            takeover = Takeover(f"t{os.urandom(5).hex()}", folder, kafka_broker)
            cut += took_over(takeover, worker, server, Load(server, number), is_mysql=kind is ServerKind.MYSQL)
    assert cut > 0, "no connector was stopped within a transaction"


def took_over(takeover: Takeover, worker: Worker, server: DatabaseServer, load: Load, *, is_mysql: bool) -> bool:
    """Replace a connector, and compare; True if it was stopped within a transaction."""
    load.start()
    try:
        takeover.connect(worker, server, is_mysql=is_mysql)
        wait_for_topic(takeover)
        threading.Event().wait(random.uniform(0, 1.5))
        takeover.run_the_page(worker, server.binlog_directory)
    finally:
        load.ending.set()
        load.join()
    assert load.error is None
    publish_rest(takeover)
    worker.ask(f"/connectors/{takeover.prefix}", method="DELETE")
    stored = stored_offset(takeover.folder / "offsets.json")
    assert stored.topic_prefix == takeover.prefix
    assert_exact(takeover)
    assert_rows(takeover, server)
    return "event" in stored.fields


def test_a_connector_that_runs_is_not_replaced(worker: Worker, kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    """Its topics go further than the offset that it has stored, as those of one that was killed."""
    with server_in(ServerKind.MARIADB, tmp_path / "server") as server:
        with server.connect(autocommit=True) as connection, connection.cursor() as cursor:
            for statement in TABLES:
                cursor.execute(statement)
        takeover, load = Takeover(f"t{os.urandom(5).hex()}", tmp_path, kafka_broker), Load(server, 0)
        load.start()
        try:
            takeover.connect(worker, server, is_mysql=False)
            wait_for_topic(takeover)
            offsets = stored_by(takeover, worker)
            wait_for_topic(takeover, 50)
            (tmp_path / "offsets.json").write_text(json.dumps(offsets))
            begin = [str(PROGRAM), "init", str(server.binlog_directory), "--for", "kafka"]
            begin += ["--from-debezium", "offsets.json"]
            text = subprocess.run(begin, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
            text = re.sub("(?m)^bootstrap_servers = .*", f'bootstrap_servers = "{kafka_broker.servers}"', text)
            (tmp_path / "job.toml").write_text(text)
            for command in (["check", "job.toml"], ["publish", "job.toml", "--once"]):
                ended = subprocess.run(
                    [str(PROGRAM), *command], cwd=tmp_path, check=False, capture_output=True, text=True
                )
                assert ended.returncode == 1, ended.stdout
                assert "BINLOG_START.CONFLICTING_OPTIONS" in ended.stderr
                assert "the connector runs, or was killed" in ended.stderr
            takeover.run_the_page(worker, server.binlog_directory)
        finally:
            load.ending.set()
            load.join()
        worker.ask(f"/connectors/{takeover.prefix}", method="DELETE")


def stored_by(takeover: Takeover, worker: Worker) -> object:
    """The offset that a running connector has stored."""
    deadline = time.monotonic() + STOPPED_SECONDS
    while not (answer := worker.ask(f"/connectors/{takeover.prefix}/offsets"))["offsets"]:
        assert time.monotonic() < deadline, "the connector has stored no offset"
        time.sleep(0.1)
    return answer


def wait_for_topic(takeover: Takeover, count: int = 1) -> None:
    """Wait for *count* messages more than there are."""
    topic = f"{takeover.prefix}.shop.items"
    deadline = time.monotonic() + STOPPED_SECONDS
    wanted = count + sum(1 for _ in takeover.messages(topic))
    while sum(1 for _ in takeover.messages(topic)) < wanted:
        assert time.monotonic() < deadline, "the connector has published nothing"
        time.sleep(0.1)


def publish_rest(takeover: Takeover) -> None:
    command = [str(PROGRAM), "publish", "job.toml", "--once"]
    subprocess.run(command, cwd=takeover.folder, check=True, capture_output=True, timeout=120)


def assert_exact(takeover: Takeover) -> None:
    """Each topic has the messages that a job makes of the whole log, each once and in its order."""
    text = re.sub(r"(?m)^debeziumOffset = .*$", "", (takeover.folder / "job.toml").read_text())
    whole = takeover.folder / "whole.toml"
    whole.write_text(text)
    job = load_any_job(whole)
    assert isinstance(job, PublishJob)
    expected: dict[str, list[Message]] = defaultdict(list)
    for message in messages_made(job):
        expected[message["topic"]].append(message)
    assert {"shop.items", "shop.orders", "transaction"} <= {name.partition(".")[2] for name in expected}
    for topic, messages in expected.items():
        partition_of, found = {}, defaultdict(list)
        for partition, message in takeover.messages(topic):
            partition_of[message["key"]] = partition
            found[partition].append(message)
        wanted = defaultdict(list)
        for message in messages:
            wanted[partition_of.get(message["key"], -1)].append(message)
        published = {number: told_once(one for one in those if has_changes(one)) for number, those in found.items()}
        if topic.endswith(".transaction"):
            known = {message["key"] for message in messages}
            published = {n: [told(one) for one in those if one["key"] in known] for n, those in found.items()}
        assert published == {number: told_once(those) for number, those in wanted.items()}, topic


def assert_rows(takeover: Takeover, server: DatabaseServer) -> None:
    """Rows that Debezium's transformation makes of both parts, applied by key, are those of the server."""
    for table in ("items", "orders"):
        topic = f"{takeover.prefix}.shop.{table}"
        given = takeover.folder / f"{table}.messages"
        given.write_text("".join(json.dumps(message) + "\n" for _, message in takeover.messages(topic)))
        made = java(DEBEZIUM, "transform", given, takeover.folder / f"{table}.rows", "none")
        rows: dict[int, tuple[object, ...]] = {}
        for line in made.read_text().splitlines():
            message = json.loads(line)
            row = None if message["value"] is None else json.loads(message["value"])["payload"]
            if row is None or "__deleted" not in row:  # the message as it was read comes too
                continue
            if row["__deleted"] == "true":
                del rows[row["id"]]
            else:
                rows[row["id"]] = tuple(value for name, value in row.items() if not name.startswith("__"))
        with server.connect() as connection, connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM shop.{table} ORDER BY id")
            assert [rows[key] for key in sorted(rows)] == [tuple(row) for row in cursor.fetchall()]
