"""CloudEvents in binary mode: a consumer has the attributes as headers, as the specification has them for Kafka."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from kafka import KafkaConsumer, TopicPartition

from binlog_connector.envelope.options import EnvelopeFormat
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_streaming.topics.job import TopicsJob
from tests.connector.kafka.topics import CLIENTS
from tests.streaming.tables.shop import ShopLog
from tests.streaming.topics.publishing import messages_made, publish_job

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_streaming.settings import PublishJob
    from tests.faults.kafka_broker import KafkaBroker

ITEMS = TableSpec("shop", "items", (ColumnSpec("id", "int"), ColumnSpec("name", "varchar(40)")), ("id",))
PARTITIONS = 3


def read(job: PublishJob) -> list[Any]:
    """All messages of the table, as a consumer of committed ones has them."""
    consumer = KafkaConsumer(bootstrap_servers=job.sink.bootstrap_servers, isolation_level="read_committed")
    try:
        partitions = [TopicPartition(f"{job.sink.topic_prefix}.shop.items", number) for number in range(PARTITIONS)]
        consumer.assign(partitions)
        consumer.seek_to_beginning()
        ends, found = consumer.end_offsets(partitions), list[Any]()
        while any(consumer.position(one) < ends[one] for one in partitions):
            for records in consumer.poll(timeout_ms=200).values():
                found += records
    finally:
        consumer.close()
    return found


@pytest.mark.server
@pytest.mark.parametrize("client", CLIENTS)
def test_headers_are_the_attributes_that_are_known(tmp_path: Path, kafka_broker: KafkaBroker, client: str) -> None:
    with ShopLog(tmp_path / "log") as shop:
        shop.insert(ITEMS, (1, "größe"), (2, "b"))
        shop.update(ITEMS, ((1, "größe"), (3, "größe")))
        shop.statement("TRUNCATE items")
    more = 'envelope = "cloudevents-binary"\ntransaction_metadata = true\n'
    job = publish_job(tmp_path, tmp_path / "log", kafka_broker, client=client, more=more)
    TopicsJob(job, once=True).run()
    events = {}
    truncates = 0
    for record in read(job):
        headers = dict(record.headers)
        assert len(headers) == len(record.headers)
        own = {name: headers.pop(name) for name in list(headers) if name.startswith("__debezium.")}
        if record.value is None:
            assert (headers, list(own)) == ({}, ["__debezium.newkey"])
            continue
        assert headers.pop("content-type") == b"application/json"
        assert all(name.startswith("ce_") for name in headers)
        op, data = headers["ce_iodebeziumop"].decode(), json.loads(record.value)
        assert (headers["ce_specversion"], data["op"]) == (b"1.0", op)
        truncates += op == "t"
        events[headers["ce_id"].decode()] = op, sorted(own), headers
    kinds = sorted((op, own) for op, own, _ in events.values())
    moved = [("c", ["__debezium.oldkey"]), ("d", ["__debezium.newkey"])]
    assert (kinds, truncates) == (sorted([("c", []), ("c", []), *moved, ("t", [])]), PARTITIONS)
    structured = msgspec.structs.replace(
        job, sink=msgspec.structs.replace(job.sink, envelope=EnvelopeFormat.CLOUDEVENTS)
    )
    told = [json.loads(made["value"]) for made in messages_made(structured) if made["value"] is not None]
    expected = {
        event["id"]: {
            f"ce_{name}": str(value).encode()
            for name, value in event.items()
            if value is not None and name not in ("data", "datacontenttype")
        }
        for event in told
        if "specversion" in event
    }
    assert {number: headers for number, (_, _, headers) in events.items()} == expected
