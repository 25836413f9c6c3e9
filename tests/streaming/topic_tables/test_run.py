"""Tables from topics are exactly the workload's, whatever happens to the publisher and to the job that reads them."""

from __future__ import annotations

import dataclasses
import json
import uuid
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pyarrow as pa
import pytest
from kafka import TopicPartition
from kafka.admin import KafkaAdminClient

from binlog_connector.crash_points import watched
from binlog_connector.kafka.connection import Connection
from binlog_connector.kafka.fetching import FetchedPartition
from binlog_connector.kafka.producer import Messages
from binlog_connector.kafka.publisher import Publisher, PublisherOptions
from binlog_connector.kafka.topic_reader import TopicReader
from binlog_connector.kafka.topics import Topics
from binlog_format.errors import BrokerError, DataLossError, OptionError, SchemaError, TableError, UnsupportedError
from binlog_lab.demo.proof.comparison import compare_mirror
from binlog_lab.demo.proof.targets import read_target
from binlog_streaming.settings import TopicTablesJob, parse_any_job
from binlog_streaming.topic_tables.run import TopicTablesRun
from binlog_streaming.topics.oversized import ClaimedValues
from tests.connector.kafka.topics import CLIENTS, consumed
from tests.faults.joint_catalog import JointCatalog
from tests.faults.processes import Kill, in_a_process
from tests.program import run_program
from tests.streaming.topics.publishing import Recording, publish, publish_job, recorded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from binlog_lab.demo.proof.expected_rows import ExpectedTable
    from binlog_streaming.settings import PublishJob
    from tests.faults.kafka_broker import KafkaBroker

pytestmark = pytest.mark.server

CHANGES = 1500
RULES = '[[tables]]\nmode = ["mirror", "changelog"]\ntarget = "{mode}/{database}/{table}"\n'


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return recorded(tmp_path_factory.mktemp("recorded") / "log", CHANGES, alterations=())


@pytest.fixture(scope="module")
def published(kafka_broker: KafkaBroker, recording: Recording, tmp_path_factory: pytest.TempPathFactory) -> PublishJob:
    folder = tmp_path_factory.mktemp("published")
    job = publish_job(folder, recording.directory, kafka_broker, more="schemas_enable = true")
    job = msgspec.structs.replace(job, sink=msgspec.structs.replace(job.sink, decimal_handling="precise"))
    publish(job)
    return job


def back_job(folder: Path, servers: str, prefix: str, *, rules: str = RULES, sink: str = "") -> TopicTablesJob:
    job = parse_any_job(
        f'checkpoint = "back"\n[source]\nkind = "kafka"\nbootstrap_servers = "{servers}"\n'
        f'topics = "{prefix}[.]shop[.].*"\n[sink]\ndirectory = "tables"\n{sink}\n{rules}',
        file=folder / "back.toml",
    )
    assert isinstance(job, TopicTablesJob)
    return job


def bring_back(job: TopicTablesJob, **how: Any) -> TopicTablesRun:
    running = TopicTablesRun(job, once=True, **{"batch_messages_max": 300} | how)
    running.run()
    return running


def target(job: TopicTablesJob, mode: str, table: str) -> pa.Table:
    found = read_target(job.sink, f"{job.sink.directory}/{mode}/{table.replace('.', '/')}")
    assert found is not None
    return found


def assert_tables_hold(job: TopicTablesJob, recording: Recording) -> None:
    """The mirrors are the workload's tables, and each change is in the changelogs once."""
    for truth in recording.expected_tables:
        comparison = compare_mirror(with_micros(truth), target(job, "mirror", truth.name))
        assert comparison.is_equal, comparison
        assert comparison.expected > 0
        assert truth.changes is not None
        changes = target(job, "changelog", truth.name)
        assert len(changes) == len(truth.changes)
        places = changes.select(["_commit_version", "_event_no", "_row_no", "_change_type"])
        assert len(places.group_by(places.column_names).aggregate([])) == len(places)


def with_micros(truth: ExpectedTable) -> ExpectedTable:
    """A TIME is a number of microseconds: a message does not tell how many digits the column has."""
    rows = truth.rows
    for index, name in enumerate(rows.column_names):
        if name == "duration":
            micros = [None if text is None else _micros(text) for text in rows.column(name).to_pylist()]
            rows = rows.set_column(index, name, pa.array(micros, pa.int64()))
    return dataclasses.replace(truth, rows=rows)


def _micros(text: str) -> int:
    sign = -1 if text.startswith("-") else 1
    hours, minutes, seconds = text.removeprefix("-").split(":")
    whole, _, fraction = seconds.partition(".")
    return sign * ((int(hours) * 60 + int(minutes)) * 60_000_000 + int(whole) * 1_000_000 + int(f"{fraction:0<6}"))


@pytest.mark.parametrize(
    ("table_format", "client"),
    [
        ("delta", "confluent-kafka"),
        pytest.param("delta", "kafka-python", marks=pytest.mark.thorough),
        pytest.param("iceberg", "confluent-kafka", marks=pytest.mark.thorough),
        ("iceberg in a catalog", "confluent-kafka"),
    ],
)
def test_killed_again_and_again(
    published: PublishJob, recording: Recording, tmp_path: Path, table_format: str, client: str
) -> None:
    """Each process is killed one step later than the one before; after a while each gets a batch done.

    A catalog that commits several tables at once gets a batch as one commit.
    """
    with JointCatalog() as catalog:
        sink = f'format = "{table_format.partition(" ")[0]}"'
        if table_format == "iceberg in a catalog":
            sink += f'\n[sink.catalog]\ntype = "rest"\nuri = "{catalog.settings()["uri"]}"'
        check_kills(published, recording, tmp_path, sink, client)
        assert (max(catalog.transactions, default=0) > 1) == ("catalog" in table_format)


def check_kills(published: PublishJob, recording: Recording, tmp_path: Path, sink: str, client: str) -> None:
    job = back_job(tmp_path, published.sink.bootstrap_servers, published.sink.topic_prefix, sink=sink)

    def until_killed(kill: Kill) -> None:
        with watched(kill):
            bring_back(job, client=client)

    ends = [in_a_process(partial(until_killed, Kill(left))) for left in range(1, 20, 2)]
    assert set(ends) <= {-9, 0}
    assert ends[:5] == [-9] * 5
    bring_back(job, client=client)
    assert_tables_hold(job, recording)
    assert bring_back(job, client=client).progress.changes == 0


def test_a_publisher_that_sends_again_doubles_nothing(
    kafka_broker: KafkaBroker, recording: Recording, tmp_path: Path
) -> None:
    """As an at-least-once publisher does that has lost its offset: all comes again, behind what was there."""
    settings = 'schemas_enable = true\ndelivery = "at-least-once"'
    job = publish_job(tmp_path, recording.directory, kafka_broker, more=settings)
    job = msgspec.structs.replace(job, sink=msgspec.structs.replace(job.sink, decimal_handling="precise"))
    publish(job)
    back = back_job(tmp_path, kafka_broker.servers, job.sink.topic_prefix)
    bring_back(back)
    again = msgspec.structs.replace(
        job,
        checkpoint=f"{tmp_path}/again",
        sink=msgspec.structs.replace(job.sink, offsets_topic="{prefix}.again"),
    )
    publish(again)
    topic = f"{job.sink.topic_prefix}.{recording.expected_tables[0].name}"
    assert sum(map(len, consumed(kafka_broker, topic).values())) > len(recording.expected_tables[0].rows)
    bring_back(back)
    assert_tables_hold(back, recording)
    whole = back_job(tmp_path / "whole", kafka_broker.servers, job.sink.topic_prefix)
    bring_back(whole)
    assert_tables_hold(whole, recording)


# --- made messages --------------------------------------------------------------------------------------------------

_FIELDS = [{"type": "int32", "optional": False, "field": "id"}, {"type": "string", "optional": True, "field": "name"}]


class Source:
    """A topic of a table with two columns, and what is sent to it."""

    def __init__(self, broker: KafkaBroker, prefix: str, partitions: int = 2) -> None:
        self.prefix = prefix
        self.topic = f"{prefix}.shop.items"
        self.broker = broker
        self.fields = list(_FIELDS)
        with Topics(Connection(broker.servers)) as topics:
            topics.create(self.topic, partitions=partitions, settings={})
        self._publisher = Publisher(
            Connection(broker.servers), PublisherOptions(prefix, f"{prefix}.offsets", is_first_start=True)
        )

    def __enter__(self) -> Source:
        self._publisher.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._publisher.__exit__(*error)

    def send(self, partition: int, *values: str | None, key: str | None = None) -> None:
        """Messages to one partition, in a transaction."""
        keys = pa.array([None if key is None else key.encode()] * len(values), pa.binary())
        texts = pa.array([None if value is None else value.encode() for value in values], pa.binary())
        self._publisher.publish(lambda: [Messages(self.topic, keys, texts, partition=partition)], "x")

    def change(
        self, place: int, op: str, before: Any = None, after: Any = None, *, seconds: int = 0, gtid: str | None = ""
    ) -> str:
        """A change at that byte of the log; *gtid*: None for none, empty for one that grows with it."""
        row = {"type": "struct", "fields": [] if op == "t" else self.fields, "optional": True}
        source = ("db", "table", "sequence", "gtid")
        texts = [{"type": "string", "optional": True, "field": name} for name in source]
        time = {"type": "int64", "optional": False, "field": "ts_ms"}
        schema = {
            "type": "struct",
            "fields": [
                {**row, "field": "before"},
                {**row, "field": "after"},
                {"type": "struct", "fields": [*texts, time], "optional": False, "field": "source"},
                {"type": "string", "optional": False, "field": "op"},
            ],
            "name": f"{self.prefix}.shop.items.Envelope",
        }
        origin = {
            "db": "shop",
            "table": "items",
            "sequence": f"{1:010}.{0:010}.{place:05}.{2:010}.{0:010}",
            "gtid": f"0-1-{place}" if gtid == "" else gtid,
            "ts_ms": (1_700_000_000 + (seconds or place)) * 1000,
        }
        payload = {"before": before, "after": after, "source": origin, "op": op}
        return json.dumps({"schema": schema, "payload": payload}, separators=(",", ":"))

    def key(self, number: int) -> str:
        """The key of a row."""
        schema = {"type": "struct", "fields": self.fields[:1], "optional": False, "name": "Key"}
        return json.dumps({"schema": schema, "payload": {"id": number}}, separators=(",", ":"))

    def insert(self, partition: int, place: int, number: int, **more: Any) -> None:
        row = {"id": number, "name": f"{number}", **more}
        self.send(partition, self.change(place, "c", after=row), key=self.key(number))

    def job(self, folder: Path, **how: Any) -> TopicTablesJob:
        return back_job(folder, self.broker.servers, self.prefix, **how)


@pytest.fixture
def source(kafka_broker: KafkaBroker) -> Iterator[Source]:
    with Source(kafka_broker, f"m{uuid.uuid4().hex[:12]}") as made:
        yield made


def ids(job: TopicTablesJob) -> list[int]:
    return sorted(target(job, "mirror", "shop.items").column("id").to_pylist())


@pytest.mark.parametrize("client", CLIENTS)
def test_a_truncate_waits_for_the_rows_before_it_in_other_partitions(
    source: Source, tmp_path: Path, client: str
) -> None:
    job = source.job(tmp_path)
    source.insert(0, 1, 1)
    source.send(0, source.change(5, "t"))
    source.insert(0, 6, 8)
    with pytest.raises(BrokerError, match=r"a TRUNCATE of shop\.items has not come in all partitions"):
        bring_back(job, truncate_seconds=0.5, client=client)
    assert ids(job) == [1]
    source.insert(1, 2, 2)
    source.send(1, source.change(5, "t"))
    source.insert(1, 7, 7)
    bring_back(job, client=client)
    assert ids(job) == [7, 8]
    kinds = target(job, "changelog", "shop.items").sort_by("_commit_version").column("_change_type").to_pylist()
    assert kinds == ["insert", "insert", "truncate", "insert", "insert"]
    assert bring_back(job, client=client).progress.batches == 0


def test_a_truncate_is_done_once_whenever_the_job_is_killed(source: Source, tmp_path: Path) -> None:
    job = source.job(tmp_path)
    for partition in (0, 1):
        source.insert(partition, 1 + partition, 1 + partition)
        source.send(partition, source.change(5, "t"))
        source.insert(partition, 6 + partition, 8 - partition)

    def until_killed(kill: Kill) -> None:
        with watched(kill):
            bring_back(job)

    ends = [in_a_process(partial(until_killed, Kill(left))) for left in (8, 9, 10, 11, 12)]
    assert set(ends) <= {-9, 0}
    assert -9 in ends
    bring_back(job)
    assert ids(job) == [7, 8]
    kinds = target(job, "changelog", "shop.items").column("_change_type").to_pylist()
    assert sorted(kinds) == ["insert"] * 4 + ["truncate"]


def test_a_new_column_is_not_guessed(source: Source, tmp_path: Path) -> None:
    source.insert(0, 1, 1)
    job = source.job(tmp_path)
    bring_back(job)
    source.fields.append({"type": "int32", "optional": False, "field": "points"})
    source.insert(0, 2, 3, points=100)
    with pytest.raises(SchemaError, match=r"shop\.items: messages have the columns id, name, points"):
        bring_back(job)
    assert ids(job) == [1]
    known = source.job(tmp_path / "other", rules=f'{RULES}unknown_values = "null"\n')
    bring_back(known)
    rows = target(known, "mirror", "shop.items").sort_by("id").to_pylist()
    assert rows == [{"id": 1, "name": "1", "points": None}, {"id": 3, "name": "3", "points": 100}]


def test_a_message_of_somebody_else_is_named(source: Source, tmp_path: Path) -> None:
    source.insert(0, 1, 1)
    source.send(0, "hello")
    with pytest.raises(UnsupportedError, match=rf"MESSAGE\] topic {source.topic}, partition 0, offset \d+: expected"):
        bring_back(source.job(tmp_path))


def test_a_key_in_another_partition_is_named(source: Source, tmp_path: Path) -> None:
    """As after a topic got more partitions: changes of one row would be in no order."""
    source.insert(0, 1, 1)
    source.insert(1, 2, 1)
    with pytest.raises(UnsupportedError, match=r"partition 1, offset 0: .* belongs to partition 0 of 2"):
        bring_back(source.job(tmp_path))


def test_changes_of_another_log_are_not_taken_for_old_ones(source: Source, tmp_path: Path) -> None:
    source.insert(0, 9, 1)
    source.send(0, source.change(3, "c", after={"id": 3, "name": "new"}, seconds=99), key=source.key(3))
    with pytest.raises(DataLossError, match=rf"LOG_RESET\] topic {source.topic}, partition 0"):
        bring_back(source.job(tmp_path))


@pytest.mark.parametrize("is_read_before", [False, True])
@pytest.mark.parametrize("gtid", ["0-2-10", "0-1-10", "1-1-1", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1"])
def test_changes_of_another_log_in_the_same_second_are_not_taken_for_old_ones(
    source: Source, tmp_path: Path, gtid: str, is_read_before: bool
) -> None:
    """As an earlier version published them after a switch to a log with smaller numbers."""
    job = source.job(tmp_path)
    source.insert(0, 9, 1)
    if is_read_before:
        bring_back(job)
    source.send(0, source.change(3, "c", after={"id": 3, "name": "new"}, seconds=9, gtid=gtid), key=source.key(3))
    with pytest.raises(DataLossError, match=rf"LOG_RESET\] topic {source.topic}, partition 0"):
        bring_back(job)


@pytest.mark.parametrize("is_old_state", [False, True])
def test_what_no_gtid_shows_to_be_repeated_is_named(
    source: Source, tmp_path: Path, caplog: pytest.LogCaptureFixture, is_old_state: bool
) -> None:
    job = source.job(tmp_path)
    gtid = "" if is_old_state else None
    row = {"id": 1, "name": "a"}
    first, second = source.change(8, "c", None, row, gtid=gtid), source.change(9, "u", row, row, gtid=gtid)
    source.send(0, first, second, key=source.key(1))
    bring_back(job)
    state = tmp_path / "back" / "topics.json"
    if is_old_state:  # of a version that kept no GTIDs
        content = json.loads(state.read_text())
        for partition in content["partitions"]:
            del partition["gtids"]
        state.write_text(json.dumps(content))
    source.send(0, first, key=source.key(1))
    source.insert(0, 10, 3)
    bring_back(job)
    assert ids(job) == [1, 3]
    assert len(target(job, "changelog", "shop.items")) == 4
    assert f"topic {source.topic}, partition 0: 1 changes at places that were read already" in caplog.text


@pytest.mark.parametrize("client", CLIENTS)
def test_messages_that_are_gone_are_missed(source: Source, tmp_path: Path, client: str) -> None:
    source.insert(0, 1, 1)
    job = source.job(tmp_path)
    bring_back(job, client=client)
    source.insert(0, 2, 3)
    delete_records(source, 4)
    with pytest.raises(DataLossError, match=r"MESSAGES_GONE.*and reading goes on at 1"):
        bring_back(job, client=client)
    with pytest.raises(DataLossError, match=r"MESSAGES_GONE.*it begins at offset 4"):
        bring_back(source.job(tmp_path / "new"))
    source.insert(0, 3, 5)
    empty = source.job(tmp_path / "empty", rules=f'{RULES}begin = "empty"\n')
    bring_back(empty, client=client)
    assert ids(empty) == [5]


@pytest.mark.parametrize("client", CLIENTS)
def test_messages_that_go_while_they_are_read_are_missed(source: Source, client: str) -> None:
    source.insert(0, 1, 1)
    source.insert(0, 2, 3)
    delete_records(source, 2)
    with TopicReader(Connection(source.broker.servers), ClaimedValues(None).file_of, client) as reader:
        reader.go_on_at({FetchedPartition(source.topic, 0): 1})
        with pytest.raises(DataLossError, match="MESSAGES_GONE"):
            reader.read(10, 1 << 20, 30)


def delete_records(source: Source, offset: int) -> None:
    admin = KafkaAdminClient(bootstrap_servers=source.broker.servers)
    admin.delete_records({TopicPartition(source.topic, 0): offset})
    admin.close()


def test_other_settings_are_another_job(source: Source, tmp_path: Path) -> None:
    source.insert(0, 1, 1)
    job = source.job(tmp_path)
    bring_back(job)
    with pytest.raises(OptionError, match=r"sink\.directory: this checkpoint was begun with other settings"):
        bring_back(msgspec.structs.replace(job, sink=msgspec.structs.replace(job.sink, directory=f"{tmp_path}/other")))
    with pytest.raises(OptionError, match="tables: this checkpoint"):
        bring_back(source.job(tmp_path, rules='[[tables]]\nmode = "changelog"\n'))
    with pytest.raises(TableError, match="OTHER_WRITER"):
        bring_back(msgspec.structs.replace(job, checkpoint=f"{tmp_path}/lost"))


def test_keys_that_messages_do_not_keep_in_order_are_refused(source: Source, tmp_path: Path) -> None:
    source.insert(0, 1, 1)
    with pytest.raises(SchemaError, match=r"tables\.keys names name, and messages have the key id"):
        bring_back(source.job(tmp_path, rules='[[tables]]\nmode = "mirror"\nkeys = ["name"]\n'))


def test_topics_that_are_not_there_are_named(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    with pytest.raises(BrokerError, match=r"TOPIC_NOT_FOUND\] topics nobody\[\.\]shop"):
        bring_back(back_job(tmp_path, kafka_broker.servers, "nobody"))


def test_commands_run_and_check_such_a_job(source: Source, tmp_path: Path) -> None:
    source.insert(0, 1, 1)
    source.insert(1, 2, 2)
    file = tmp_path / "job.toml"
    file.write_text(
        f'checkpoint = "back"\n[source]\nkind = "kafka"\nbootstrap_servers = "{source.broker.servers}"\n'
        f'topics = "{source.topic}"\n[sink]\ndirectory = "tables"\n'
    )
    checked = run_program("check", str(file), "-o", "jsonl")
    assert [json.loads(line).get("end") for line in checked.stdout.splitlines()] == [2, 2, None], checked.stderr
    assert not (tmp_path / "back").exists()
    ran = run_program("run", str(file), "--once", "-o", "jsonl")
    assert (ran.returncode, ran.stderr) == (0, "")
    started, *batches, ended = (json.loads(line) for line in ran.stdout.splitlines())
    assert (started["event"], ended) == ("started", {"event": "ended", "batches": len(batches), "changes": 2})
    assert "It can run." in run_program("check", str(file)).stdout
    assert "ended: 0 changes in 0 batches" in run_program("run", str(file), "--once").stdout
    (tmp_path / "log.toml").write_text(file.read_text().replace("kafka", "klog", 1))
    wrong = run_program("run", str(tmp_path / "log.toml"))
    assert (wrong.returncode, "source.kind: expected log or kafka, got 'klog'. Did you mean" in wrong.stderr) == (
        2,
        True,
    )
