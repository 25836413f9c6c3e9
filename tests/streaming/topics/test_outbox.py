"""Rows that are events: messages of an outbox have the row's own topic, key and value."""

from __future__ import annotations

import json
from collections import defaultdict
from typing import TYPE_CHECKING

import pytest
from msgspec.structs import replace

from binlog_connector.following.starts import Edge
from binlog_connector.following.tailer import FollowOptions, Tailer
from binlog_format.errors import OptionError, SchemaError, UnsupportedError
from binlog_lab.demo.proof.topics import read_values
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_streaming.jobs.publish_check import check_publish_job
from binlog_streaming.settings import PublishJob, parse_any_job
from binlog_streaming.topics.connecting import names_of
from binlog_streaming.topics.job import TopicsJob
from binlog_streaming.topics.record import Records
from binlog_streaming.topics.step_messages import StepMessages
from tests.streaming.tables.shop import ShopLog

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_connector.kafka.producer import Headers
    from tests.faults.kafka_broker import KafkaBroker

OUTBOX = TableSpec(
    "shop",
    "outbox",
    (
        ColumnSpec("id", "int"),
        ColumnSpec("aggregatetype", "varchar(20)", nullable=True),
        ColumnSpec("aggregateid", "bigint"),
        ColumnSpec("type", "varchar(20)", nullable=True),
        ColumnSpec("payload", "varbinary(200)", nullable=True),
    ),
    ("id",),
)
ORDERS = TableSpec("shop", "orders", (ColumnSpec("id", "int"), ColumnSpec("n", "int")), ("id",))
ROWS = [
    (1, "order", 5, "made", b'{"n": 1}'),
    (2, "order line", 5, None, b"\x00\xff"),
    (3, "order", 6, "made", None),
    (4, "order", 5, "paid", b'{"n": 2}'),
]
Message = tuple[bytes | None, bytes | None, "Headers | None"]


def job_of(
    log: Path, sink: str = "", outbox: str = 'table = "shop.outbox"', rules: str = "", source: str = ""
) -> PublishJob:
    job = parse_any_job(
        f'checkpoint = "c"\n[source]\npath = "{log}"\n{source}\n[[tables]]\n{rules}\n[outbox]\n{outbox}\n[sink]\n'
        f'kind = "kafka"\nbootstrap_servers = "a:1"\ntopic_prefix = "p"\n{sink}',
        file=log / "job.toml",
    )
    assert isinstance(job, PublishJob)
    return job


def published(job: PublishJob) -> dict[str, list[Message]]:
    made, topics = StepMessages(job, names_of(job.sink), None, lambda _: 1), defaultdict[str, list[Message]](list)
    with Tailer(job.source.path, Edge.EARLIEST, how=FollowOptions(ends=True)) as tailer:
        while (step := tailer.step(1.0)) is not None:
            for some in made.of(step, Records()):
                headers: list[Headers | None] = [*some.headers] if some.headers else [None for _ in range(len(some))]
                topics[some.topic] += zip(some.keys.to_pylist(), some.values.to_pylist(), headers, strict=True)
    return topics


@pytest.fixture
def log(tmp_path: Path) -> Path:
    with ShopLog(tmp_path / "log") as shop:
        shop.insert_all((ORDERS, [(5, 1)]), (OUTBOX, ROWS[:2]))
        shop.update(OUTBOX, (ROWS[0], (1, "order", 5, "sent", b"{}")))
        shop.delete(OUTBOX, (1, "order", 5, "sent", b"{}"))
        shop.insert(OUTBOX, *ROWS[2:])
    return tmp_path / "log"


def test_rows_are_messages_with_their_own_topic_key_and_value(log: Path) -> None:
    topics = published(job_of(log, outbox='table = "shop.outbox"\nheaders = { eventType = "type" }'))
    assert set(topics) == {"p.shop.orders", "outbox.event.order", "outbox.event.order_line"}
    assert topics["outbox.event.order"] == [
        (b"5", b'{"n": 1}', [("id", b"1"), ("eventType", b"made")]),
        (b"6", None, [("id", b"3"), ("eventType", b"made")]),
        (b"5", b'{"n": 2}', [("id", b"4"), ("eventType", b"paid")]),
    ]
    assert topics["outbox.event.order_line"] == [(b"5", b"\x00\xff", [("id", b"2")])]


def test_an_outbox_has_the_name_that_the_server_logs(log: Path) -> None:
    """A server with lower_case_table_names=1 logs the rows of `Shop.Outbox` under `shop.outbox`."""
    names = {
        "outbox": 'table = "Shop.Outbox"',
        "sink": "signal_table = 'Shop.Signals'",
        "rules": "select = 'Shop[.].*'",
    }
    job = job_of(log, source="lowerCaseTableNames = 1", **names)
    assert set(published(job)) == {"p.shop.orders", "outbox.event.order", "outbox.event.order_line"}
    assert job.sink.signal_table == "shop.signals"


def test_rules_of_the_table_hold_for_its_events(log: Path) -> None:
    rules = 'select = ".*outbox"\nwhere = "aggregateid = 5 AND id > 1"\nmask = { payload = "null" }'
    topics = published(job_of(log, rules=rules))
    assert topics["outbox.event.order"] == [(b"5", None, [("id", b"4")])]


@pytest.mark.parametrize("select", ["shop.orders", ".*outbox"])
def test_updates_and_deletes_are_no_events_where_rules_choose_rows(log: Path, select: str) -> None:
    """Of this table, or of another one of the job."""
    everything = f'select = "{select}"\nwhere = "id > 0"\n[[tables]]\nselect = ".*"'
    topics = published(job_of(log, rules=everything))
    assert [headers for _, _, headers in topics["outbox.event.order"]] == [[("id", id_)] for id_ in (b"1", b"3", b"4")]


def test_a_row_that_comes_into_where_is_an_event(log: Path) -> None:
    topics = published(job_of(log, rules='select = ".*outbox"\nwhere = "type = \'sent\'"'))
    assert topics["outbox.event.order"] == [(b"5", b"{}", [("id", b"1")])]


@pytest.mark.parametrize(("outbox", "found"), [("payload", "no_such"), ("headers", '{ a = "no_such" }')])
def test_a_table_without_the_columns_is_named(log: Path, outbox: str, found: str) -> None:
    value = found if found.startswith("{") else f'"{found}"'
    with pytest.raises(SchemaError, match=r"OUTBOX_COLUMNS\] .*shop\.outbox: it has no column no_such"):
        published(job_of(log, outbox=f'table = "shop.outbox"\n{outbox} = {value}'))


def test_an_event_without_a_route_is_named(log: Path) -> None:
    with ShopLog(log, 9) as shop:
        shop.insert(OUTBOX, (9, None, 5, "lost", b"{}"))
    with pytest.raises(UnsupportedError, match=r"MESSAGE_VALUE\] .*shop\.outbox: aggregatetype is null"):
        published(job_of(log))


def test_a_topic_that_is_a_tables_is_refused(log: Path) -> None:
    with pytest.raises(OptionError, match=r"the outbox's route order would go to the topic p\.transaction"):
        published(job_of(log, outbox='table = "shop.outbox"\ntopic = "{prefix}.transaction"'))


@pytest.mark.server
def test_events_go_out_with_the_changes(log: Path, kafka_broker: KafkaBroker) -> None:
    job = job_of(log, "partitions = 1")
    prefix = f"outbox-{log.parent.name}".replace("_", "-")
    sink = replace(job.sink, bootstrap_servers=kafka_broker.servers, topic_prefix=prefix)
    sink = replace(sink, notification_topic="{prefix}.told")
    job = replace(job, sink=sink, outbox=replace(job.outbox, topic="{prefix}.event.{route}"))
    report = check_publish_job(job)
    assert not report.problems
    assert [topic.table for topic in report.topics] == ["shop.orders", None]
    broken = replace(job, outbox=replace(job.outbox, key="no_such"))
    assert check_publish_job(broken).problems == ("shop.outbox: it has no column no_such for its events",)
    TopicsJob(job, once=True).run()
    values = list(read_values(kafka_broker.servers, f"{prefix}.event.order"))
    assert values == [(0, b'{"n": 1}'), (0, None), (0, b'{"n": 2}')]
    ((_, told),) = read_values(kafka_broker.servers, f"{prefix}.told")
    assert told is not None
    assert (json.loads(told)["aggregate_type"], json.loads(told)["type"]) == ("Job", "STARTED")
