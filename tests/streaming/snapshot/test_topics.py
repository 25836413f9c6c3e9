"""Initial rows of topics: existing rows that the log brings are messages, exactly as those of changes are."""

from __future__ import annotations

import itertools
import json
import random
import time
import uuid
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from deltalake import DeltaTable

from binlog_connector.envelope.messages import MessagesView
from binlog_connector.envelope.options import EnvelopeFormat, EnvelopeOptions
from binlog_connector.following.watched import WatchedLog
from binlog_connector.log_definitions import DefinitionUse, RangeSchemas
from binlog_connector.schema.snapshot_marks import CopiedTables
from binlog_format import open_log
from binlog_format.rows.decoding import Decoding
from binlog_format.views.filters import TableFilter
from binlog_lab.demo.proof.topics import TopicChange, read_topic
from binlog_streaming.settings import load_publish_job
from binlog_streaming.snapshot.sql_text import quoted
from binlog_streaming.status.model import SnapshotStatus
from binlog_streaming.status.view import StatusFile
from tests.connector.envelope.test_avro_messages import avro_encoding
from tests.faults.schema_registry import SchemaRegistryServer
from tests.program import run_program
from tests.streaming.snapshot.live import run_sql, url_of
from tests.streaming.snapshot.storm import TABLES, storm
from tests.streaming.snapshot.test_command import FORK, marks, snapshots, wait_for_marks
from tests.streaming.snapshot.test_every_server import NUMBERS, ROWS, fill, tables_of
from tests.streaming.topic_tables.test_run import back_job, bring_back

if TYPE_CHECKING:
    import multiprocessing
    from pathlib import Path
    from subprocess import CompletedProcess

    from binlog_lab.demo.mariadb.server import DatabaseServer, MariaDbServer
    from binlog_lab.demo.servers.kafka_broker import KafkaBroker

pytestmark = pytest.mark.server

PREFIX = "shop"
JOB = """
checkpoint = "state"
[source]
path = "{log}"
{source}
[sink]
kind = "kafka"
bootstrap_servers = "{brokers}"
topic_prefix = "{prefix}"
partitions = 3
{sink}
[[tables]]
{rule}
"""
KILLS = 5
RATE = 600
"""Rows in a second: so a kill meets a snapshot in its middle."""
MORE_KEYS = {
    "promoted": "a INT NOT NULL, b INT NOT NULL, c INT, UNIQUE KEY wide (b, a), UNIQUE KEY narrow (a), KEY (c)",
    "prefixed": "a VARCHAR(40), b INT, c INT, PRIMARY KEY (a(20), b)",
    "turned": "a INT, b INT, c INT, PRIMARY KEY (c, a)",
    "nullable": "a INT, b INT NOT NULL, c INT NOT NULL, UNIQUE KEY (a), UNIQUE KEY (c, b)",
}
"""Tables whose keys a log may see otherwise than a snapshot that cuts chunks by them."""


def topics_job(
    folder: Path,
    log: Path,
    brokers: str = "127.0.0.1:9",
    *,
    prefix: str = PREFIX,
    source: str = "",
    sink: str = "",
    rule: str = "select = 'shop\\..*'",
) -> Path:
    """A job that publishes tables of `shop`."""
    path = folder / "topics.toml"
    path.write_text(JOB.format(log=log, brokers=brokers, prefix=prefix, source=source, sink=sink, rule=rule))
    return path


def take_rows(server: DatabaseServer, job: Path, *more: str) -> CompletedProcess[str]:
    """Write existing rows into the log."""
    words = ("snapshot", job, "--server", url_of(server), "--yes", *more)
    return run_program(*words, cwd=job.parent, environment={"BINLOG_STREAM_PASSWORD": server.password})


def messages(log: Path, options: EnvelopeOptions, encoding: Any = None) -> list[dict[str, Any]]:
    """All messages of a log with copied rows."""
    copied = CopiedTables(PREFIX)
    with open_log(str(log)) as opened, WatchedLog(str(log)) as watched:
        copied.enter(opened.committed_blocks)
        schemas = RangeSchemas(watched, opened.start_position(), use=DefinitionUse.TYPES)
        view = MessagesView(
            options,
            tables=TableFilter(r"shop\..*"),
            decoding=replace(Decoding(schemas), declared_types=True),
            encoding=encoding,
            clock_ns=lambda: 0,
        )
        view.take_copies(copied.source_of)
        batches = list(view.batches(schemas.observed(opened.committed_blocks())))
    return [row for batch in batches for row in batch.to_pylist()]


@pytest.mark.parametrize("metadata", ["FULL", "MINIMAL"])
def test_copied_rows_are_messages_as_those_of_changes(
    any_server: DatabaseServer, tmp_path: Path, metadata: str
) -> None:
    is_new_mariadb = any_server.installed.root is not None and not any_server.installed.is_mysql
    unlike = {"keyless", "computed"} if is_new_mariadb else {"keyless"}  # it logs no generated columns of changes
    names = [name for name in tables_of(any_server) if name not in unlike] + list(MORE_KEYS)
    fill(any_server)
    create = [f"CREATE TABLE shop.{name} ({columns})" for name, columns in MORE_KEYS.items()]
    rows = [f"INSERT INTO shop.{name} SELECT seq, seq + 1, seq + 2 FROM {NUMBERS}" for name in MORE_KEYS]
    run_sql(any_server, [*create, *rows, f"SET GLOBAL binlog_row_metadata = {metadata}", "RESET MASTER"])
    job = topics_job(tmp_path, any_server.binlog_directory)
    done = take_rows(any_server, job)
    assert "left out shop.keyless: it has no key" in done.stdout
    assert done.returncode == 1
    run_sql(any_server, [f"DELETE FROM shop.{quoted(name)}" for name in names])
    log, plain = any_server.binlog_directory, EnvelopeOptions(PREFIX, transaction_metadata=True, query=True)
    for options in (plain, replace(plain, schemas=True), replace(plain, format=EnvelopeFormat.FLAT)):
        _assert_same(messages(log, options), names, is_flat=options.format is EnvelopeFormat.FLAT)
    with SchemaRegistryServer() as registry:
        found = messages(log, plain, avro_encoding(registry, plain))
    assert sum(row["op"] == "r" for row in found if row["table"] in names) == ROWS * len(names)


def _assert_same(found: list[dict[str, Any]], names: list[str], *, is_flat: bool) -> None:
    """Each row comes once as a copy, then once as it is deleted: its key has the same bytes, its image is the same."""
    for name in names:
        read, deleted = (
            {row["key"]: json.loads(row["value"]) for row in found if (row["table"], row["op"]) == (name, op)}
            for op in ("r", "d")
        )
        assert len(read) == ROWS, name
        assert read.keys() == deleted.keys(), name
        for key, copy in read.items():
            change = deleted[key]
            if is_flat:
                assert _row(copy) == _row(change)
                assert copy["__op"] == "r"
                continue
            if "schema" in copy:
                assert copy["schema"] == change["schema"]
                copy, change = copy["payload"], change["payload"]
            assert copy["after"] == change["before"]
            assert copy["before"] is None
            assert copy["transaction"] is None
            assert (copy["op"], copy["source"]["snapshot"]) == ("r", "incremental")
            unlike = {
                "sequence",
                "ts_ms",
                "ts_us",
                "ts_ns",
                "gtid",
                "file",
                "pos",
                "row",
                "snapshot",
                "query",
                "thread",
            }
            same = copy["source"].keys() - unlike
            assert {field: copy["source"][field] for field in same} == {
                field: change["source"][field] for field in same
            }
            assert copy["source"]["query"] is None


def _row(flat: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in flat.items() if not name.startswith("__")}


@pytest.mark.parametrize("metadata", ["FULL", pytest.param("MINIMAL", marks=pytest.mark.thorough)])
def test_topics_have_the_rows_of_the_server_after_kills(
    any_server: DatabaseServer, kafka_broker: KafkaBroker, tmp_path: Path, metadata: str
) -> None:
    before = ["DROP DATABASE IF EXISTS binlog_stream", "CREATE OR REPLACE DATABASE shop", *TABLES[1:]]
    run_sql(any_server, [f"SET GLOBAL binlog_row_metadata = {metadata}", *before, "RESET MASTER"])
    prefix, numbers = f"t{uuid.uuid4().hex[:12]}", random.Random(7)
    rule = "select = 'shop\\.items'"
    schemas = "schemas_enable = true"
    job = topics_job(
        tmp_path, any_server.binlog_directory, kafka_broker.servers, prefix=prefix, sink=schemas, rule=rule
    )
    command = ("snapshot", job, "--server", url_of(any_server), "--yes", "--rate", RATE)
    with storm(any_server, pause=0.01) as counts:
        for number in range(KILLS):
            publisher, snapshot = _forked("publish", job), _forked(*command, password=any_server.password)
            wait_for_marks(any_server, len(marks(any_server)) + numbers.randrange(1, 5), snapshot.is_alive)
            for process in (publisher, snapshot) if number % 2 else (snapshot, publisher):
                process.kill()
                process.join()
        publisher = _forked("publish", job)
        assert take_rows(any_server, job).returncode == 0
        written = sum(counts)
        while sum(counts) < written + 20:
            time.sleep(0.05)
        publisher.kill()
        publisher.join()
    assert run_program("publish", job, "--once", cwd=tmp_path).returncode == 0
    with any_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SELECT id, v, t FROM shop.items")
        expected = {row[0]: row for row in cursor.fetchall()}
    changes = list(read_topic(kafka_broker.servers, f"{prefix}.shop.items", lambda text: json.loads(text)["payload"]))
    assert rows_of(changes) == expected
    back = back_job(tmp_path, kafka_broker.servers, prefix, rules='[[tables]]\nmode = "mirror"\n')
    bring_back(back)
    rows = DeltaTable(f"{back.sink.directory}/shop/items").to_pyarrow_table().select(["id", "v", "t"]).to_pylist()
    assert {row["id"]: tuple(row.values()) for row in rows} == expected
    read = [change.after["id"] for change in changes if change.op == "r" and change.after is not None]
    assert len(read) > ROWS
    places = [(change.sequence, change.op) for change in changes]
    assert len(set(places)) == len(places), "a message came twice"
    assert sum(count for kind, _, _, count in marks(any_server) if kind == "chunk") == len(read)
    if metadata != "FULL":
        return  # the log does not name columns
    logged = [
        [after["id"] for group in groups for _, _, _, after in group.changes if after is not None]
        for groups in snapshots(any_server).values()
    ]
    assert sorted(itertools.chain(*logged)) == sorted(read)
    assert all(len(set(keys)) == len(keys) for keys in logged), "a snapshot has a key twice"


def _forked(*arguments: object, password: str = "") -> multiprocessing.process.BaseProcess:
    options = {"environment": {"BINLOG_STREAM_PASSWORD": password}}
    process = FORK.Process(target=run_program, args=arguments, kwargs=options)
    process.start()
    return process


def rows_of(changes: list[TopicChange]) -> dict[int, tuple[Any, ...]]:
    """Rows that a consumer has that applies all messages of a topic, partition by partition."""
    rows: dict[int, tuple[Any, ...]] = {}
    for change in changes:
        if change.after is None:
            assert change.before is not None
            rows.pop(change.before["id"], None)
        else:
            rows[change.after["id"]] = tuple(change.after.values())
    return rows


def test_a_job_that_would_begin_after_the_chunks_is_refused(
    shared_server: MariaDbServer, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    run_sql(shared_server, ["CREATE OR REPLACE DATABASE shop", "CREATE TABLE shop.a (id INT PRIMARY KEY)"])
    run_sql(shared_server, ["INSERT INTO shop.a VALUES (1), (2)"])
    log, source = shared_server.binlog_directory, 'startingOffsets = "latest"'
    job = topics_job(tmp_path, log, kafka_broker.servers, prefix=f"t{uuid.uuid4().hex[:12]}", source=source)
    done = take_rows(shared_server, job)
    assert (done.returncode, "would leave out what is written now" in done.stderr) == (2, True)
    run_sql(shared_server, ["FLUSH BINARY LOGS", "RESET MASTER", "INSERT INTO shop.a VALUES (3)"])
    told = run_program("check", job, cwd=tmp_path).stdout
    assert "no CREATE TABLE or TRUNCATE there is about shop.a" in " ".join(told.split())
    assert "--method read is for jobs with tables" in take_rows(shared_server, job, "--method", "read").stderr
    for words in (("publish", job, "--once"), None, ("publish", job, "--once")):  # as the guide has it
        done = take_rows(shared_server, job) if words is None else run_program(*words, cwd=tmp_path)
        assert done.returncode == 0, done.stderr
    settings = load_publish_job(job)
    topic = f"{settings.sink.topic_prefix}.shop.a"
    assert [change.op for change in read_topic(kafka_broker.servers, topic)] == ["r", "r", "r"]
    status = StatusFile(settings).read()
    assert status is not None
    shown = next(table.snapshot for table in status.tables if table.name == topic)
    assert shown is not None
    assert replace(shown, begun_gtid="") == SnapshotStatus(3, 1, "", is_ended=True, problem=None)
