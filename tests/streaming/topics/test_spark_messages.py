"""Messages that Spark's Kafka sink writes are those that `publish` writes, byte by byte."""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from collections import defaultdict
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest

from binlog_connector.following.starts import Edge
from binlog_connector.following.tailer import FollowOptions, Tailer
from binlog_connector.kafka.connection import Connection
from binlog_connector.kafka.topics import Topics
from binlog_connector.options.query_views import make_view
from binlog_connector.options.source_options import SourceOptions
from binlog_connector.spark.partitions import RangePartition
from binlog_connector.spark.reading import RangeReader
from binlog_connector.spark.schema import spark_json
from binlog_format import open_log
from binlog_format.errors import OptionError
from binlog_lab.demo.failures import DemoError
from binlog_lab.demo.servers.fetch import SPARK_KAFKA, require_fetched
from binlog_streaming.settings import PublishJob, parse_any_job
from binlog_streaming.topics.connecting import names_of
from binlog_streaming.topics.job import TopicsJob
from binlog_streaming.topics.record import Records
from binlog_streaming.topics.step_messages import StepMessages
from tests.connector.kafka.topics import consumed
from tests.connector.shop import Shop
from tests.corpus import SERVER_CASES
from tests.docs.markdown import code_blocks

if TYPE_CHECKING:
    from pathlib import Path

    from tests.faults.kafka_broker import KafkaBroker

Message = tuple[bytes | None, bytes | None, tuple[tuple[str, bytes], ...]]

OPTIONS = {
    "debezium": {"unsignedBigintHandling": "precise"},
    "flat": {"unsignedBigintHandling": "precise"},
    "other than default": {
        "schemasEnable": "true",
        "tombstones": "false",
        "decimalHandling": "string",
        "unsignedBigintHandling": "precise",
        "binaryHandling": "hex",
        "timePrecision": "microseconds",
        "includeDdl": "true",
        "includeQuery": "true",
        "topic": "{prefix}.{database}",
    },
}
NAMES = {"includeDdl": "schema_changes", "includeQuery": "query"}
"""In job files, where that is not the same in snake case."""

_MADE = re.compile(rb'"ts_ms":\d+,"ts_us":\d+,"ts_ns":\d+\}|(?<=\},)"ts_ms":\d+')


def without_clock(value: bytes | None) -> bytes | None:
    """*value* without the time at which it was made."""
    return value and _MADE.sub(b"", value)


def in_job_file(options: dict[str, str]) -> str:
    """Those options as settings."""
    named = {NAMES.get(name, re.sub("[A-Z]", r"_\g<0>", name).lower()): value for name, value in options.items()}
    return "".join(
        f"{name} = {value}\n" if value in ("true", "false") else f'{name} = "{value}"\n'
        for name, value in named.items()
    )


def published(path: Path, options: dict[str, str], envelope: str) -> dict[str, list[Message]]:
    """What `publish` would send to topics of one partition."""
    with TemporaryDirectory() as folder:  # the log is in the checkout
        job = parse_any_job(
            f'checkpoint = "{folder}"\n[source]\npath = "{path}"\nfailOnStatement = false\nreplaceInvalidText = true\n'
            '[sink]\nkind = "kafka"\nskipped_operations = []\nbootstrap_servers = "a:1"\ntopic_prefix = "shop"\n'
            f'envelope = "{envelope}"\n{in_job_file(options)}',
            file=path / "job.toml",
        )
        assert isinstance(job, PublishJob)
        made = StepMessages(job, names_of(job.sink), None, lambda _: 1)
        topics: dict[str, list[Message]] = defaultdict(list)
        with Tailer(str(path), Edge.EARLIEST, how=FollowOptions(ends=True)) as tailer:
            while (step := tailer.step(1.0)) is not None:
                for some in made.of(step, Records()):
                    headers = some.headers or [[]] * len(some)
                    for key, value, header in zip(some.keys.to_pylist(), some.values.to_pylist(), headers, strict=True):
                        topics[some.topic].append((key, without_clock(value), tuple(header)))
    return topics


def rows_of(path: Path, parts: int = 1, **given: str) -> list[dict[str, Any]]:
    """The rows of the view, read in so many partitions."""
    options = SourceOptions.parse(
        {"path": str(path), "failOnStatement": "false", "replaceInvalidText": "true", **given}
    )
    reader = RangeReader(options, spark_json(make_view(options).schema(None)))
    with open_log(str(path)) as log:
        start = log.start_position()
        end = log.span(start).end
        edges = [start, *log.split(start, end, parts), end] if parts > 1 else [start, end]
    ranges = [RangePartition(*pair) for pair in itertools.pairwise(edges) if pair[0] < pair[1]]
    return [row for one in ranges for batch in reader.read(one) for row in batch.to_pylist()]


def by_topic(rows: list[dict[str, Any]]) -> dict[str, list[Message]]:
    """Those rows as messages."""
    topics: dict[str, list[Message]] = defaultdict(list)
    for row in rows:
        headers = tuple((one["key"], one["value"]) for one in row["headers"] or ())
        topics[row["topic"]].append((row["key"], without_clock(row["value"]), headers))
    return topics


@pytest.mark.thorough_where("mysql|ops-flat|types_full-other")
@pytest.mark.parametrize("how", OPTIONS)
@pytest.mark.parametrize("case", ["mariadb-10.11/ops", "mariadb-10.11/types_full", "mysql-9/types_full"])
def test_rows_are_the_messages_that_are_published(case: str, how: str) -> None:
    path = SERVER_CASES / case
    options = OPTIONS[how]
    envelope = "flat" if how == "flat" else "debezium"
    rows = rows_of(path, 3, kafkaValue=envelope, topicPrefix="shop", **options)
    expected = published(path, options, envelope)
    assert by_topic(rows) == expected
    assert sum(map(len, expected.values())) > 50
    places = [(*row["position"].values(), row["event_no"], row["row_no"], row["message_no"]) for row in rows]
    assert places == sorted(set(places))
    assert all((row["partition"] == 0) == (row["key"] is None) for row in rows)


def test_the_corpus_has_all_kinds_of_messages() -> None:
    rows = rows_of(SERVER_CASES / "mariadb-10.11" / "ops", kafkaValue="debezium", topicPrefix="shop", includeDdl="true")
    assert {row["op"] for row in rows} == {"c", "u", "d", "t", None}
    assert {row["headers"][0]["key"] for row in rows if row["headers"]} == {"__debezium.newkey", "__debezium.oldkey"}
    assert any(row["value"] is None for row in rows)
    assert any(row["topic"] == "shop" for row in rows)


def test_a_topic_that_two_tables_would_share_is_refused(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.sell(1)
    rows = rows_of(tmp_path, kafkaValue="flat", topicPrefix="shop", topic="{prefix}.all")
    assert {row["topic"] for row in rows} == {"shop.all"}
    with pytest.raises(OptionError, match=r"option topic: shop\.items would go to the topic shop, which is that of"):
        rows_of(tmp_path, kafkaValue="flat", topicPrefix="shop", topic="{prefix}")


# --- Spark's own sink ------------------------------------------------------------------------------------------------

PROGRAM = """
import sys
from binlog_streaming.spark_session import local_session
spark = local_session("messages", settings={"spark.jars": sys.argv[1]})
exec(compile(sys.stdin.read(), "docs/kafka.md", "exec"))
[query] = spark.streams.active
query.processAllAvailable()
query.stop()
spark.stop()
"""


@pytest.mark.thorough
@pytest.mark.server
@pytest.mark.slow
def test_example_writes_topics_as_publish_does(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    """A process of its own: a session needs its jars from the start."""
    try:
        folder = require_fetched(SPARK_KAFKA).parent
    except DemoError as error:
        pytest.skip(f"{error.reason}: {error.hint}")
    with Shop(tmp_path / "log", files_of=8 * 16384) as shop:
        shop.sell(300)
    job = publish_to(kafka_broker, tmp_path)
    topics = [f"shop.shop.{table}" for table in ("orders", "items")]
    expected = {topic: found_in(kafka_broker, topic) for topic in topics}
    assert [len(messages) for messages in expected.values()] == [600, 300]
    [example] = [block for block in code_blocks("docs/kafka.md", "python") if "kafkaValue" in block.text]
    text = example.text.replace("/var/lib/mysql", str(tmp_path / "log")).replace("/data/", f"{tmp_path}/")
    text = text.replace("broker-1:9092,broker-2:9092", job.sink.bootstrap_servers)
    text = text.replace('"topicPrefix", "shop"', '"topicPrefix", "spark"')
    with Topics(Connection(kafka_broker.servers)) as created:
        for topic in topics:
            created.create(topic.replace("shop", "spark", 1), partitions=3, settings={})
    jars = ",".join(map(str, sorted(folder.glob("*.jar"))))
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, jars],
        input=text,
        text=True,
        capture_output=True,
        env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    for topic, messages in expected.items():
        assert found_in(kafka_broker, topic.replace("shop", "spark", 1)) == messages


def publish_to(broker: KafkaBroker, folder: Path) -> PublishJob:
    """The same log, published under the prefix `shop`."""
    job = parse_any_job(
        f'checkpoint = "state"\n[source]\npath = "{folder}/log"\n[sink]\nkind = "kafka"\npartitions = 3\n'
        f'bootstrap_servers = "{broker.servers}"\ntopic_prefix = "shop"\n',
        file=folder / "job.toml",
    )
    assert isinstance(job, PublishJob)
    TopicsJob(job, once=True).run()
    return job


def found_in(broker: KafkaBroker, topic: str) -> list[tuple[int, Message]]:
    """What a consumer finds, by partition in its order."""
    return [
        (
            number,
            (
                record.key,
                without_clock(record.value and record.value.replace(b'"name":"spark"', b'"name":"shop"')),
                tuple(record.headers),
            ),
        )
        for number, records in sorted(consumed(broker, topic).items())
        for record in records
    ]
