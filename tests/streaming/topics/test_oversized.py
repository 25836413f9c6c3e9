"""Values that are too large for a message are files, and their messages have claims: nothing is lost or told."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pytest
from kafka import KafkaConsumer, TopicPartition

from binlog_connector.crash_points import watched
from binlog_connector.kafka.connection import Connection
from binlog_connector.kafka.producer import CLAIM_HEADER, Messages
from binlog_connector.kafka.topics import Topics
from binlog_format.errors import BinlogError, BrokerError, StorageError
from binlog_format.position import Position
from binlog_lab.demo.servers.lake_servers import BUCKET
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_streaming.jobs.publish_check import check_publish_job
from binlog_streaming.lake.folder_store import FolderStore
from binlog_streaming.lake.table_places import store_at
from binlog_streaming.topics.job import TopicsJob
from binlog_streaming.topics.oversized import OversizedValues
from tests.faults.processes import Cut, CutOff
from tests.streaming.tables.shop import ShopLog
from tests.streaming.topics.publishing import publish_job

if TYPE_CHECKING:
    from binlog_streaming.settings import PublishJob
    from tests.faults.kafka_broker import KafkaBroker
    from tests.faults.object_store import ObjectStore

LIMIT = 8192
FILES = TableSpec(
    "shop", "files", (ColumnSpec("id", "int"), ColumnSpec("note", "varchar(40)"), ColumnSpec("text", "text")), ("id",)
)
SECRET = "planted-secret"
ROWS = [(number, SECRET, f"{number}{'x' * (LIMIT if number % 3 == 0 else 10)}") for number in range(1, 13)]
CLIENTS = ("kafka-python", "confluent-kafka")


def stored(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def test_only_what_is_too_large_is_in_files(tmp_path: Path) -> None:
    values = [b"a" * 100, b"b" * 101, None, b"c" * 97, b"d" * 98]
    messages = Messages(
        "t.a",
        pa.array([None, None, b"key", b"key", b"key"], pa.large_binary()),
        pa.array(values, pa.large_binary()),
        [[("old", b"1")], [("old", b"2")], [], [], []],
    )
    store = FolderStore(str(tmp_path / "claims"))
    made = OversizedValues(store, 100).claimed(messages, Position(1, 2, 3))
    assert [made.values[row].as_py() for row in (0, 2, 3)] == [values[0], None, values[3]]
    assert made.headers == [
        [("old", b"1")],
        [("old", b"2"), (CLAIM_HEADER, b"1")],
        [],
        [],
        [(CLAIM_HEADER, b"1")],
    ]
    for row in (1, 4):
        claim = json.loads(made.values[row].as_py())
        digest = hashlib.sha256(values[row] or b"").hexdigest()
        assert claim == {
            "claim": f"{tmp_path}/claims/t.a/0000000001.0000000002.00003-{digest}",
            "bytes": len(values[row] or b""),
            "sha256": digest,
        }
        assert Path(claim["claim"]).read_bytes() == values[row]
    again = OversizedValues(store, 100).claimed(messages, Position(1, 2, 3))
    assert again.values.equals(made.values)
    assert len(stored(tmp_path / "claims")) == 2
    assert OversizedValues(store, 101 + 3).claimed(messages, Position(1, 2, 3)) is messages


def test_a_place_that_takes_no_file_is_named(tmp_path: Path) -> None:
    (tmp_path / "claims").touch()
    messages = Messages("t", pa.array([None], pa.binary()), pa.array([b"a" * 101], pa.binary()))
    with pytest.raises(StorageError, match=r"claims/t/.*cannot write it"):
        OversizedValues(FolderStore(str(tmp_path / "claims")), 100).claimed(messages, Position(1, 2, 3))


def job_with(tmp_path: Path, broker: KafkaBroker, store: str | None, client: str = "kafka-python") -> PublishJob:
    section = "" if store is None else f'[sink.oversized]\nstore = "{store}"\nmax_bytes = {LIMIT}\n'
    settings = 'topic_settings = { "max.message.bytes" = 12288 }\nskipped_operations = ["t"]\n'
    rules = f'[[tables]]\nmask = {{ note = "null" }}\n{section}'
    return publish_job(tmp_path, tmp_path / "log", broker, client=client, more=f"{settings}{rules}")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    with ShopLog(tmp_path / "log") as shop:
        for row in ROWS:
            shop.insert(FILES, row)
        shop.delete(FILES, ROWS[2])
    return tmp_path / "log"


def consumed(job: PublishJob, read: Any) -> list[Any]:
    """What a consumer of committed messages has, in the order of the log, with claims in their files."""
    topic, found = f"{job.sink.topic_prefix}.shop.files", []
    with_claims = KafkaConsumer(
        bootstrap_servers=job.sink.bootstrap_servers.split(","),
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    try:
        partitions = [TopicPartition(topic, number) for number in range(3)]
        with_claims.assign(partitions)
        ends = with_claims.end_offsets(partitions)
        while any(with_claims.position(one) < ends[one] for one in partitions):
            for records in with_claims.poll(timeout_ms=200).values():
                for record in records:
                    value = record.value
                    if CLAIM_HEADER in dict(record.headers):
                        claim = json.loads(value)
                        value = read(claim["claim"])
                        assert (len(value), hashlib.sha256(value).hexdigest()) == (claim["bytes"], claim["sha256"])
                    assert value is None or SECRET not in value.decode()
                    found.append(None if value is None else msgspec.json.decode(value))
    finally:
        with_claims.close()
    tombstones = [one for one in found if one is None]
    return sorted((one for one in found if one is not None), key=lambda one: one["source"]["sequence"]) + tombstones


def assert_has_all(messages: list[Any]) -> None:
    texts = [((one["after"] or one["before"])["id"], (one["after"] or one["before"])["text"]) for one in messages[:-1]]
    assert texts == [(number, text) for number, _, text in [*ROWS, ROWS[2]]]
    assert messages[-1] is None


@pytest.mark.server
@pytest.mark.parametrize("client", CLIENTS)
def test_each_claim_is_there_once_whatever_ends_the_publisher(
    log: Path, tmp_path: Path, kafka_broker: KafkaBroker, client: str
) -> None:
    job = job_with(tmp_path, kafka_broker, str(tmp_path / "claims"), client)
    assert check_publish_job(job).problems == ()
    for cut in (2, 4, 6, 9):  # within the first transactions, and between them
        with watched(CutOff(cut)), pytest.raises((Cut, BinlogError)):
            TopicsJob(job, once=True, step_size_max=1).run()
    TopicsJob(job, once=True, step_size_max=1).run()
    assert_has_all(consumed(job, lambda path: Path(path).read_bytes()))
    assert stored(tmp_path / "claims")
    assert all(SECRET.encode() not in path.read_bytes() for path in stored(tmp_path / "claims"))


@pytest.mark.server
def test_claims_are_in_an_object_store(
    log: Path, tmp_path: Path, kafka_broker: KafkaBroker, object_store: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in object_store.options().items():
        monkeypatch.setenv(name, value)
    url = f"s3://{BUCKET}/claims"
    job = job_with(tmp_path, kafka_broker, url)
    assert check_publish_job(job).problems == ()
    TopicsJob(job, once=True).run()
    store = store_at(url, {})
    assert_has_all(consumed(job, lambda path: store.read(path.removeprefix(f"{url}/"))))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:9")
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    (problem,) = check_publish_job(job).problems
    assert re.match(r"sink\.oversized\.store: \[BINLOG_STORAGE\.", problem)


@pytest.mark.server
@pytest.mark.parametrize("client", CLIENTS)
def test_without_a_place_the_message_is_named(
    log: Path, tmp_path: Path, kafka_broker: KafkaBroker, client: str
) -> None:
    sink = job_with(tmp_path, kafka_broker, None, client)
    job = msgspec.structs.replace(
        sink, sink=msgspec.structs.replace(sink.sink, topic_settings={"max.message.bytes": 4096})
    )
    with pytest.raises(BrokerError, match=r"MESSAGE_TOO_LARGE.*\[sink\.oversized\]"):
        TopicsJob(job, once=True).run()


@pytest.mark.server
def test_check_names_topics_whose_limit_is_too_small(log: Path, tmp_path: Path, kafka_broker: KafkaBroker) -> None:
    job = job_with(tmp_path, kafka_broker, str(tmp_path / "claims"))
    topic = f"{job.sink.topic_prefix}.shop.files"
    with Topics(Connection(kafka_broker.servers)) as topics:
        topics.create(topic, partitions=3, replication=1, settings={"max.message.bytes": "12000"})
    (problem,) = check_publish_job(job).problems
    assert problem.startswith(f"{topic}: its max.message.bytes is 12000, too few for the 8192 bytes")
    assert problem.endswith("set this to 7904 or less")
