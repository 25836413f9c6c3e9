"""Job files whose sink is Kafka: one model with the tables' job files, and Debezium's names beside our own."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from msgspec.structs import replace

from binlog_connector.envelope.options import DecimalHandling, MessageOperation
from binlog_connector.following.debezium_offset import DEBEZIUM_OFFSET
from binlog_connector.options.option_values import OPTION_NAMES
from binlog_format.errors import OptionError
from binlog_streaming.settings import Job, PublishJob, load_job, load_publish_job, parse_any_job
from binlog_streaming.settings.debezium import OWN_NAMES, hint_for
from binlog_streaming.settings.publish_model import FollowedSource, KafkaSink, Registry, Security, TopicRule
from binlog_streaming.settings.source_texts import PUBLISH_SECTIONS, publish_job_text

MINIMAL = """checkpoint = "state"
[source]
path = "log"
[sink]
kind = "kafka"
bootstrap_servers = "a:9092,b:9093"
topic_prefix = "shop"
"""
TABLES = 'checkpoint = "check"\n[source]\npath = "log"\n[sink]\ndirectory = "tables"\n'


def parsed(text: str, folder: Path = Path("/work")) -> PublishJob:
    job = parse_any_job(text, file=folder / "job.toml")
    assert isinstance(job, PublishJob)
    return job


def test_minimal_job_has_defaults_and_paths_start_at_its_folder(tmp_path: Path) -> None:
    (tmp_path / "job.toml").write_text(MINIMAL)
    job = load_publish_job(tmp_path / "job.toml")
    assert (job.name, job.checkpoint, job.source.path) == ("job", str(tmp_path / "state"), str(tmp_path / "log"))
    assert (job.sink.topic, job.sink.partitions, job.sink.heartbeat_seconds) == (
        "{prefix}.{database}.{table}",
        None,
        None,
    )
    assert [rule.select for rule in job.tables] == [".*"]


def test_a_file_without_a_kind_is_one_of_tables_as_ever(tmp_path: Path) -> None:
    assert isinstance(parse_any_job(TABLES, file=tmp_path / "job.toml"), Job)
    assert isinstance(parse_any_job(f'{TABLES}kind = "tables"\n', file=tmp_path / "job.toml"), Job)


def test_a_command_for_another_sink_is_named(tmp_path: Path) -> None:
    file = tmp_path / "job.toml"
    file.write_text(MINIMAL)
    with pytest.raises(OptionError, match=r"sink\.kind: expected tables, got kafka.*binlog-stream publish"):
        load_job(file)
    file.write_text(TABLES)
    with pytest.raises(OptionError, match=r"sink\.kind: expected kafka, got tables.*binlog-stream run"):
        load_publish_job(file)


DEBEZIUM = """checkpoint = "state"
[source]
path = "log"
[sink]
kind = "kafka"
bootstrap.servers = "a:9092"
topic.prefix = "shop"
"decimal.handling.mode" = "string"
bigint.unsigned.handling.mode = "precise"
binary.handling.mode = "hex"
time.precision.mode = "connect"
tombstones.on.delete = false
skipped.operations = "c, t"
signal.data.collection = "shop.debezium_signal"
include.query = true
include.schema.changes = true
provide.transaction.metadata = true
heartbeat.interval.ms = 500
"""


def test_names_of_debezium_are_understood() -> None:
    sink = parsed(DEBEZIUM).sink
    assert (sink.bootstrap_servers, sink.topic_prefix) == ("a:9092", "shop")
    assert sink.decimal_handling is DecimalHandling.STRING
    assert (sink.unsigned_bigint_handling, sink.binary_handling, sink.time_precision) == ("precise", "hex", "connect")
    assert (sink.tombstones, sink.query, sink.schema_changes, sink.transaction_metadata) == (False, True, True, True)
    assert sink.skipped_operations == (MessageOperation.CREATE, MessageOperation.TRUNCATE)
    assert sink.heartbeat_seconds == 0.5
    assert sink.signal_table == "shop.debezium_signal"
    assert all(name in DEBEZIUM for name in OWN_NAMES)
    assert set(OWN_NAMES.values()) <= {field.name for field in msgspec.structs.fields(KafkaSink)}


def test_a_table_of_signals_has_a_database(tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=r"sink\.signal_table: expected database\.table"):
        parsed(f'{MINIMAL}signal_table = "signals"\n', tmp_path)


def test_values_may_be_quoted_as_in_files_of_debezium() -> None:
    quoted = re.sub(r"= (true|false|\d+)$", r'= "\1"', DEBEZIUM, flags=re.MULTILINE)
    assert quoted != DEBEZIUM
    assert parsed(quoted).sink == parsed(DEBEZIUM).sink


def test_truncate_is_skipped_by_default_but_not_in_messages_of_the_first_version() -> None:
    assert parsed(MINIMAL).sink.skipped == {MessageOperation.TRUNCATE}
    assert parsed(f"{MINIMAL}message_version = 1\n").sink.skipped == frozenset()


def test_nothing_is_skipped_and_no_heartbeat_comes_where_debezium_says_so() -> None:
    text = DEBEZIUM.replace('"c, t"', '"none"').replace("= 500", "= 0")
    assert (parsed(text).sink.skipped_operations, parsed(text).sink.heartbeat) == ((), None)


MISTAKES = {
    "no kind": (MINIMAL.replace('"kafka"', '"kafak"'), r":5: sink\.kind: .*mean `kafka`"),
    "a kind of another type": (MINIMAL.replace('"kafka"', "7"), r"sink\.kind: expected tables or kafka, got 7"),
    "a mode": (f"{MINIMAL}[[tables]]\nmode = 'mirror'\n", r"tables\[0\]\.mode: .*Leave it out: .*\"tables\""),
    "a target": (f"{MINIMAL}[[tables]]\ntarget = 'x'\n", r"tables\[0\]\.target: .*Leave it out"),
    "a trigger": (f"{MINIMAL}[trigger]\ninterval = '1s'\n", r"trigger: .*Leave it out"),
    "a merge": (f"{MINIMAL}merge = 'mark'\n", r"sink\.merge: .*Leave it out"),
    "partitions of Spark": (
        MINIMAL.replace('path = "log"', 'path = "log"\nminPartitions = 2'),
        r"source\.minPartitions: .*Leave it out",
    ),
    "topics among tables": (f"{TABLES}topic_prefix = 'x'\n", r"sink\.topic_prefix: .*Leave it out: .*\"kafka\""),
    "both names": (f"{MINIMAL}topic.prefix = 'x'\n", r":8: sink\.topic\.prefix: it is the same as topic_prefix"),
    "snapshots": (f"{MINIMAL}snapshot.mode = 'initial'\n", r":8: sink\.snapshot\.mode: .*binlog-stream snapshot JOB"),
    "a server": (f"{MINIMAL}database.hostname = 'x'\n", r"sink\.database\.hostname: .*read from its files"),
    "lists of tables": (f"{MINIMAL}table.include.list = 'x'\n", r"sink\.table\.include\.list: .*\[\[tables\]\]"),
    "keys": (f"{MINIMAL}message.key.columns = 'a.b:c'\n", r"sink\.message\.key\.columns: .*keys = "),
    "a typing mistake": (f"{MINIMAL}tombstone = false\n", r"sink\.tombstone: .*mean `tombstones`"),
    "a word that is none": (f"{MINIMAL}decimal.handling.mode = 'strng'\n", r"sink\.decimal_handling: .*mean `string`"),
    "no port": (MINIMAL.replace("b:9093", "b"), r"sink\.bootstrap_servers: expected host:port,host:port"),
    "a prefix that is no name": (MINIMAL.replace('"shop"', '"a b"'), r"sink\.topic_prefix: expected a name of letters"),
    "braces": (f"{MINIMAL}topic = '{{schema}}'\n", r"sink\.topic: expected only \{prefix\} and \{database\}"),
    "a topic that is no name": (
        f"{MINIMAL}topic = '{{prefix}}/{{table}}'\n",
        r"sink\.topic: expected a name of letters",
    ),
    "expression of a topic": (
        f'{MINIMAL}topics = [{{ select = "(" }}]\n',
        r"sink\.topics\[0\]\.select: .*regular expr",
    ),
    "partitions of a topic": (
        f'{MINIMAL}topics = [{{ select = ".", partitions = 0 }}]\n',
        r"sink\.topics\[0\]\.partitions: expected at least 1, got 0",
    ),
    "settings without partitions": (f"{MINIMAL}topic_settings = {{ a = 1 }}\n", r"sink\.topic_settings: .*partitions"),
    "no partitions": (f"{MINIMAL}partitions = 0\n", r"sink\.partitions: expected at least 1"),
    "no duration": (f"{MINIMAL}heartbeat = 'often'\n", r"sink\.heartbeat: duration"),
    "a password": (f"{MINIMAL}[sink.security]\npassword = 'x'\n", r"sink\.security\.password: .*password_variable"),
    "a user alone": (f"{MINIMAL}[sink.security]\nuser = 'x'\n", r"sink\.security\.user: expected a user with"),
    "two passwords": (
        f"{MINIMAL}[sink.security]\nuser = 'x'\npassword_variable = 'A'\npassword_file = 'b'\n",
        r"sink\.security\.user: .*one of them",
    ),
    "a certificate without TLS": (f"{MINIMAL}[sink.security]\nca_file = 'x'\n", r"ca_file: expected tls = true"),
    "a start": (
        MINIMAL.replace('path = "log"', 'path = "log"\nstartingOffsets = "now"'),
        r":4: source\.startingOffsets: ",
    ),
    "an expression": (f"{MINIMAL}[[tables]]\nselect = '('\n", r"tables\[0\]\.select: "),
}


@pytest.mark.parametrize(("text", "message"), MISTAKES.values(), ids=MISTAKES)
def test_mistakes_are_named_with_their_line(text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=rf"job\.toml:.*{message}|{message}"):
        parse_any_job(text, file=tmp_path / "job.toml")


def test_a_password_stands_nowhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_PASSWORD", "correct horse")
    text = f"{MINIMAL}[sink.security]\nuser = 'x'\npassword_variable = 'KAFKA_PASSWORD'\n"
    job = parsed(text, tmp_path)
    assert "correct horse" not in repr(job) + publish_job_text(job)


def test_files_of_security_start_at_the_folder_of_the_job(tmp_path: Path) -> None:
    text = f"{MINIMAL}[sink.security]\ntls = true\nca_file = 'ca.pem'\nuser = 'x'\npassword_file = '/run/x'\n"
    security = parsed(text, tmp_path).sink.security
    assert (security.ca_file, security.password_file) == (str(tmp_path / "ca.pem"), "/run/x")


@pytest.mark.parametrize("section", PUBLISH_SECTIONS, ids=lambda section: section.__name__)
def test_every_setting_is_explained(section: type[msgspec.Struct]) -> None:
    fields = {field.encode_name for field in msgspec.structs.fields(section)}
    explained = {setting.name for setting in PUBLISH_SECTIONS[section]}
    sections = {"source", "sink", "tables", "metrics", "status", "security", "registry", "outbox", "oversized"}
    assert explained == fields - sections


def test_options_of_the_source_are_those_of_spark() -> None:
    settings = {field.encode_name for field in msgspec.structs.fields(FollowedSource)}
    assert settings - {DEBEZIUM_OFFSET} < set(OPTION_NAMES)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (
            "debeziumOffset = { lsn = 5 }",
            "source.debeziumOffset: expected the offset of a connector: expected file and",
        ),
        (
            'debeziumOffset = { file = "b.000001", pos = 4 }\nstartingOffsets = "latest"',
            "no other start, got startingOffs",
        ),
    ],
)
def test_an_offset_of_debezium_is_one_and_the_only_start(settings: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(OptionError, match=reason):
        parsed(MINIMAL.replace("[sink]", f"{settings}\n[sink]"), tmp_path)


def test_job_written_down_is_read_back(tmp_path: Path) -> None:
    job = PublishJob(
        name="shop",
        checkpoint=str(tmp_path / "state"),
        source=FollowedSource(path=str(tmp_path / "log"), fail_on_statement=False),
        sink=KafkaSink(
            kind="kafka",
            bootstrap_servers="a:1",
            topic_prefix="p",
            partitions=3,
            topic_settings={"cleanup.policy": "compact"},
            skipped_operations=(MessageOperation.DELETE,),
            security=Security(tls=True, user="x", password_variable="P"),
        ),
        tables=(TopicRule(select="a.b", keys=("x", "y")), TopicRule()),
    )
    text = publish_job_text(job, rule_comments={1: ["why " * 40]})
    assert parsed(text, tmp_path) == job
    assert max(len(line) for line in text.splitlines()) <= 120


def test_defaults_in_a_written_job_are_the_true_ones(tmp_path: Path) -> None:
    job = parsed(MINIMAL, tmp_path)
    shown = re.sub(r"^# (?=[a-zA-Z_]+ = )", "", publish_job_text(job), flags=re.MULTILINE)
    # These exclude others, or name files.
    others = ("startingGtid", "startingTimestamp", "debeziumOffset", "schemaFile", "password_file", "name", "columns")
    for name in others:
        shown = re.sub(rf"^{name} = ", f"# {name} = ", shown, flags=re.MULTILINE)
    shown = shown.replace("tls = false", "tls = true")  # which the examples of certificates need
    shown = shown.replace('format = "json"', 'format = "avro"')  # and those of a registry
    examples = {
        "source_name",
        "message_version",
        "partitions",
        "replication",
        "topic_settings",
        "topics",
        "skipped_operations",
        "heartbeat",
        "signal_table",
        "security",
    }
    examples |= {"format", "registry", "notification_topic", "oversized"}
    found = parsed(shown, tmp_path).sink
    given = {field.name for field in msgspec.structs.fields(KafkaSink)} - examples
    assert {name: getattr(found, name) for name in given} == {name: getattr(job.sink, name) for name in given}


def test_topics_are_made_as_the_first_entry_says_that_matches_them(tmp_path: Path) -> None:
    text = f"""{MINIMAL}partitions = 3
topic_settings = {{ "min.insync.replicas" = 2, "retention.ms" = 1 }}
[[sink.topics]]
select = 'shop[.]big[.].*'
partitions = 12
settings = {{ "retention.ms" = 5 }}
[[sink.topics]]
select = 'shop[.].*'
replication = 2
"""
    sink = parsed(text, tmp_path).sink
    shapes = [sink.shape_of(topic) for topic in ("shop.big.a", "shop.small", "my.shop.big.a")]
    found = [(shape.partitions, shape.replication, shape.settings) for shape in shapes if shape is not None]
    general = {"min.insync.replicas": 2, "retention.ms": 1}
    assert found == [(12, None, {**general, "retention.ms": 5}), (3, 2, general), (3, None, general)]
    assert replace(sink, partitions=None).shape_of("shop.small") is None
    created = replace(sink, partitions=None).shape_of("shop.big.a")
    assert created is not None
    assert created.partitions == 12


@pytest.mark.parametrize(
    "name",
    ["snapshot.mode", "database.port", "schema.history.internal.kafka.topic", "column.mask", "transforms.a.type"],
)
def test_what_debezium_has_and_we_have_not_is_told(name: str) -> None:
    assert hint_for(name)


def test_a_place_for_large_values_starts_at_the_folder_of_the_job(tmp_path: Path) -> None:
    folder = parsed(f"{MINIMAL}[sink.oversized]\nstore = 'claims'\n", tmp_path).sink.oversized
    assert (folder.store, folder.max_bytes) == (str(tmp_path / "claims"), 1_000_000)
    bucket = parsed(f"{MINIMAL}[sink.oversized]\nstore = 's3://bucket/claims'\n", tmp_path).sink.oversized
    assert bucket.store == "s3://bucket/claims"
    with pytest.raises(OptionError, match=r"sink\.oversized\.max_bytes: expected at least 8192, got 5"):
        parsed(f"{MINIMAL}[sink.oversized]\nstore = 'claims'\nmax_bytes = 5\n", tmp_path)


REGISTRY = '[sink.registry]\nurl = "http://registry:8081"\n'


def test_avro_has_a_registry(tmp_path: Path) -> None:
    (tmp_path / "ca.pem").touch()
    job = parsed(f'{MINIMAL}format = "avro"\n{REGISTRY}ca_file = "ca.pem"\n', tmp_path)
    assert job.sink.registry == Registry(url="http://registry:8081", ca_file=str(tmp_path / "ca.pem"))


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ('format = "avro"\n', r"sink.registry.url: sink.format avro needs a schema registry"),
        (
            f'format = "avro"\nenvelope = "flat"\n{REGISTRY}',
            r"sink.envelope: expected debezium or cloudevents beside",
        ),
        (
            f'format = "avro"\nenvelope = "cloudevents-binary"\n{REGISTRY}',
            r"sink.envelope: expected debezium or cloudevents beside",
        ),
        (
            f'format = "avro"\nenvelope = "cloudevents"\nskipped_operations = ["d"]\n{REGISTRY}',
            r"sink.skipped_operations: expected t among them",
        ),
        (f'format = "avro"\nschemas_enable = true\n{REGISTRY}', r"sink.schemas_enable: expected false beside"),
        (f'format = "avro"\n{REGISTRY}user = "app"\n', r"sink.registry.user: expected a user with password_variable"),
        (f'format = "avro"\n{REGISTRY}password = "x"\n', r"A job file holds no password"),
        (
            'format = "avro"\n[sink.registry]\nurl = "http://app:pony@registry"\n',
            r"sink.registry.url: the URL has a password or a key",
        ),
        (REGISTRY, r"sink.registry.url: expected nothing beside sink.format json"),
    ],
)
def test_settings_of_avro_that_cannot_be(tmp_path: Path, more: str, reason: str) -> None:
    with pytest.raises(OptionError, match=reason):
        parsed(MINIMAL + more, tmp_path)
