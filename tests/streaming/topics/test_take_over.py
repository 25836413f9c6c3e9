"""A job that follows a connector of Debezium begins only where the connector has stopped."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from kafka import KafkaProducer

from binlog_connector.kafka.topics import Topics
from binlog_format.errors import StartError
from binlog_lab.demo.proof.topics import read_values
from binlog_streaming.jobs.publish_check import check_publish_job
from binlog_streaming.topics.connecting import connection_of
from binlog_streaming.topics.job import TopicsJob
from tests.faults.schema_registry import SchemaRegistryServer
from tests.streaming.topics.publishing import publish_job
from tests.streaming.topics.test_live_server import run

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import MariaDbServer
    from binlog_streaming.settings.publish_model import PublishJob
    from tests.faults.kafka_broker import KafkaBroker

pytestmark = pytest.mark.server

TOMBSTONE, AVRO = None, b"\0\0\0\0\1message"


def _place(server: MariaDbServer) -> dict[str, Any]:
    with server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("SHOW MASTER STATUS")
        file, byte, *_ = cursor.fetchone()
        cursor.execute("SELECT @@gtid_binlog_pos")
        (gtids,) = cursor.fetchone()
    return {"file": file, "pos": byte, "gtids": gtids}


@pytest.fixture
def places(mariadb_server: MariaDbServer) -> list[dict[str, Any]]:
    """The end of the log after each of three transactions."""
    run(mariadb_server, "CREATE DATABASE shop; CREATE TABLE shop.t (id INT PRIMARY KEY)")
    found = []
    for number in range(3):
        run(mariadb_server, f"INSERT INTO shop.t VALUES ({number})")
        found.append(_place(mariadb_server))
    return found


def _after(job: PublishJob, place: dict[str, Any]) -> PublishJob:
    return msgspec.structs.replace(job, source=msgspec.structs.replace(job.source, debezium_offset=place))


def _message(place: dict[str, Any], back: int = 40) -> bytes:
    """A change in the transaction before *place*, as a connector tells of it."""
    return json.dumps({"payload": {"op": "c", "source": {**place, "pos": place["pos"] - back}}}).encode()


def _published(job: PublishJob, *values: bytes | None, topic: str | None = None) -> str:
    """The topic of the table, or *topic*, made with messages of these *values*."""
    topic = topic or f"{job.sink.topic_prefix}.shop.t"
    with Topics(connection_of(job.sink)) as topics:
        topics.create(topic, partitions=3, replication=1, settings={})
    producer = KafkaProducer(bootstrap_servers=job.sink.bootstrap_servers)
    for value in values:
        producer.send(topic, key=b"1", value=value).get(30)
    producer.close()
    return topic


def test_connector_that_published_more_than_its_offset_says_is_named(
    mariadb_server: MariaDbServer, kafka_broker: KafkaBroker, tmp_path: Path, places: list[dict[str, Any]]
) -> None:
    first, second, third = places
    job = publish_job(tmp_path, mariadb_server.binlog_directory, kafka_broker)
    topic = _published(job, _message(first), _message(second), TOMBSTONE, AVRO)
    told = rf"CONFLICTING_OPTIONS\] .*topic {topic} has a change at .*: the connector runs, or was killed"
    for start in (check_publish_job, lambda job: TopicsJob(job, once=True).run()):
        with pytest.raises(StartError, match=told):
            start(_after(job, first))
    TopicsJob(_after(job, second), once=True).run()
    *_, last = [value for _, value in read_values(kafka_broker.servers, topic) if value is not None]
    assert json.loads(last)["after"] == {"id": 2}
    assert third["pos"] > second["pos"]


def test_messages_from_files_of_another_server_count_for_nothing(
    mariadb_server: MariaDbServer, kafka_broker: KafkaBroker, tmp_path: Path, places: list[dict[str, Any]]
) -> None:
    """As after a failover, where the new server counts its files from 1."""
    first, *_ = places
    job = publish_job(tmp_path, mariadb_server.binlog_directory, kafka_broker)
    base, _, number = first["file"].rpartition(".")
    later = {"file": f"{base}.{int(number) + 7:06}", "pos": 400}
    other = {"file": "other.000001", "pos": 500}
    _published(job, _message(later), _message(other))
    TopicsJob(_after(job, first), once=True).run()


@pytest.mark.parametrize(
    "more", ["", 'envelope = "cloudevents"\n', 'envelope = "flat"\n', 'topic = "{table}-{database}"\n']
)
def test_messages_in_every_form_are_compared(
    mariadb_server: MariaDbServer, kafka_broker: KafkaBroker, tmp_path: Path, places: list[dict[str, Any]], more: str
) -> None:
    """By the place, or by GTIDs, which are those of a replica too."""
    first, _, third = places
    with SchemaRegistryServer() as registry:
        if "flat" not in more:  # TRUNCATE is no CloudEvent in Avro
            more += 'skipped_operations = ["t"]\n'
            more += f'format = "avro"\n[sink.registry]\nurl = "{registry.url}"\n'
        connector = publish_job(tmp_path, mariadb_server.binlog_directory, kafka_broker, more=more)
        TopicsJob(connector, once=True).run()
        sink = msgspec.structs.replace(connector.sink, offsets_topic=f"{connector.sink.topic_prefix}-offsets")
        job = msgspec.structs.replace(connector, checkpoint=str(tmp_path / "taking-over"), sink=sink)
        for place in (first, {"gtids": first["gtids"]}):
            if "flat" in more and "pos" in place:
                continue
            with pytest.raises(StartError, match="the connector runs, or was killed"):
                check_publish_job(_after(job, place))
        TopicsJob(_after(job, third), once=True).run()


def test_messages_that_tell_no_place_are_named(
    mariadb_server: MariaDbServer, kafka_broker: KafkaBroker, tmp_path: Path, places: list[dict[str, Any]]
) -> None:
    """As those that a transformation of the connector has made, or that are in Avro."""
    first, *_ = places
    job = publish_job(tmp_path, mariadb_server.binlog_directory, kafka_broker)
    _published(job, b'{"id": 1}', TOMBSTONE, AVRO)
    with pytest.raises(StartError, match="has messages without a place in the log"):
        check_publish_job(_after(job, first))


@pytest.mark.parametrize("topic", ["{prefix}.schema.history", "{prefix}.outbox.event.order"])
def test_topics_that_are_of_no_table_count_for_nothing(
    mariadb_server: MariaDbServer, kafka_broker: KafkaBroker, tmp_path: Path, places: list[dict[str, Any]], topic: str
) -> None:
    """They may begin with the prefix, as those of tables do."""
    first, *_ = places
    outbox = '[outbox]\ntable = "shop.outbox"\ntopic = "{prefix}.outbox.event.{route}"\n'
    job = publish_job(tmp_path, mariadb_server.binlog_directory, kafka_broker, more=outbox)
    history = b'{"source": {"server": "shop"}, "databaseName": "shop", "ddl": "CREATE TABLE t (id INT)"}'
    value = history if topic.endswith("history") else b'{"total": 3}'
    _published(job, value, topic=topic.format(prefix=job.sink.topic_prefix))
    assert check_publish_job(_after(job, first)).start.is_new
