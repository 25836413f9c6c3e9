"""Debezium's engine and `publish` on one log: messages are equal, but for the differences that docs/kafka.md lists."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from binlog_connector.envelope.avro.avro_schema import avro_schema
from binlog_connector.kafka.registry import RegistryConnection, SchemaRegistry
from binlog_lab.demo.failures import DemoError
from binlog_lab.demo.servers.fetch import DEBEZIUM, DEBEZIUM_MYSQL, require_fetched
from binlog_lab.demo.servers.java_server import find_java
from binlog_streaming.settings import PublishJob, parse_any_job
from tests.docs.markdown import REPO
from tests.faults.schema_registry import SchemaRegistryServer
from tests.servers import ServerKind, server_in
from tests.streaming.topics.publishing import messages_made

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlog_lab.demo.mariadb.server import DatabaseServer
    from binlog_lab.demo.servers.fetch import Fetched

    Messages = dict[str, list[dict[str, Any]]]

pytestmark = [pytest.mark.server, pytest.mark.thorough]

STATEMENTS = Path(__file__).parents[2] / "data/debezium/statements.sql"
OF_MARIADB = (
    "CREATE TABLE shop.ids (id UUID PRIMARY KEY, b UUID)",
    "INSERT INTO shop.ids VALUES ('123e4567-e89b-12d3-a456-426655440001', NULL)",
)
LAST_TOPIC = "t.zz.stop"
MODES = {
    "default": {"include.schema.changes": "true", "provide.transaction.metadata": "true"},
    "connect": {"time.precision.mode": "connect", "decimal.handling.mode": "string", "binary.handling.mode": "hex"},
    "microseconds": {
        "time.precision.mode": "microseconds",
        "decimal.handling.mode": "double",
        "binary.handling.mode": "base64",
        "bigint.unsigned.handling.mode": "precise",
    },
    "nanoseconds": {"time.precision.mode": "nanoseconds", "binary.handling.mode": "base64-url-safe"},
    "isostring": {"time.precision.mode": "isostring", "skipped.operations": "none", "tombstones.on.delete": "false"},
}
_SOURCE = r"value\.payload\.source\."
_COLUMN = r"value\.schema\.fields\[(before|after)\]\.fields"
_ROW = r"value\.payload\.(before|after)"
DIFFERENCES = {
    "`source.version`, `source.sequence`": rf"{_SOURCE}(version|sequence)",
    "`source.pos`": rf"{_SOURCE}pos",
    "`source.thread` of statements": rf"{_SOURCE}thread",
    "`source.ts_ms` on MySQL": rf"{_SOURCE}ts_[mun]s",
    "headers `__debezium.context...`": r"headers\.__debezium\.context\.\w+",
    "BOOLEAN": rf"{_COLUMN}\[b1n?\]\.type|{_ROW}\.b1n?",
    "default of BOOLEAN in schemas": rf"{_COLUMN}\[b1n\]\.default",
    "REAL": rf"{_COLUMN}\[r\]\.type",
    "NOT NULL dates and times": rf"{_COLUMN}\[(dtd|tsd|dad|day|moment)\]\.optional",
    "YEAR 0000": rf"{_ROW}\.zero",
    "label of ENUM or SET with a comma": rf"{_ROW}\.en",
    "JSON on MySQL": rf"{_ROW}\.js",
    "default of BINARY(n) in schemas": rf"{_COLUMN}\[bnd\]\.default",
    "comments of columns in schemas (`doc`)": rf"({_COLUMN}|value\.schema\.fields)\[[^]]+\]\.doc",
    "comment and default of a column in the schema of a key": r"key\.schema\.fields\[[^]]+\]\.(doc|default)",
    "TRUNCATE, not skipped": rf"{_COLUMN}|value\.payload\.transaction",
    "schema changes": r"value\.(schema\.fields\[tableChanges\]\.items\.fields|payload\.tableChanges\[0\]\.table)",
}
"""First cell of a row in docs/kafka.md, and the paths in messages that it is about."""
CLOUD_EVENTS_ID = r"value\.id"
_MADE = re.compile(r"value\.payload\.ts_[mun]s")


@dataclass(frozen=True)
class ServerLog:
    """A stopped or running server with the statements in its log, and a folder."""

    kind: ServerKind
    server: DatabaseServer
    folder: Path

    @property
    def debezium(self) -> Fetched:
        """The newest version that there is for the server."""
        return DEBEZIUM_MYSQL if self.kind is ServerKind.MYSQL else DEBEZIUM

    def java(self, command: str, given: Path, made: Path, topic: str) -> Path:
        """See `java`."""
        return java(self.debezium, command, given, made, topic)

    def streamed(self, name: str, options: dict[str, str]) -> Path:
        """Messages of Debezium's engine."""
        is_mysql = self.kind is ServerKind.MYSQL
        vendor = "MySql" if is_mysql else "MariaDb"
        settings = {
            "name": name,
            "connector.class": f"io.debezium.connector.{vendor.lower()}.{vendor}Connector",
            "offset.storage": "org.apache.kafka.connect.storage.FileOffsetBackingStore",
            "offset.storage.file.filename": self.folder / f"{name}.offsets",
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
            "schema.history.internal.file.filename": self.folder / f"{name}.history",
            "database.hostname": "127.0.0.1",
            "database.port": self.server.port,
            "database.user": "root",
            "database.password": self.server.password,
            "database.server.id": 9000 + len(name),
            "database.ssl.mode": "preferred" if is_mysql else "disable",
            "topic.prefix": "t",
            "snapshot.mode": "configuration_based",
            "snapshot.mode.configuration.based.start.stream": "true",
            "poll.interval.ms": 10,
            "include.schema.changes": "false",
            **options,
        }
        path = self.folder / f"{name}.properties"
        path.write_text("".join(f"{key}={value}\n" for key, value in settings.items()))
        return self.java("stream", path, self.folder / f"{name}.debezium", LAST_TOPIC)

    def published(
        self,
        name: str,
        options: dict[str, str],
        *,
        path: Path | None = None,
        schemas: bool = True,
        registry: str | None = None,
    ) -> Path:
        """Messages of a job whose settings have Debezium's names and quoted values; *registry*: in Avro."""
        avro = None if registry is None else SchemaRegistry(RegistryConnection(registry))
        settings = "".join(f'"{key}" = "{value}"\n' for key, value in options.items())
        job = parse_any_job(
            f'checkpoint = "{name}-state"\n[source]\npath = "{path or self.server.binlog_directory}"\n'
            'declaredTypes = true\n[sink]\nkind = "kafka"\nbootstrap_servers = "127.0.0.1:1"\ntopic_prefix = "t"\n'
            f"schemas_enable = {str(schemas and avro is None).lower()}\n{settings}"
            + ("" if avro is None else f'format = "avro"\n[sink.registry]\nurl = "{registry}"\n'),
            file=self.folder / "job.toml",
        )
        assert isinstance(job, PublishJob)
        written = self.folder / f"{name}.published"
        written.write_text("".join(json.dumps(message) + "\n" for message in messages_made(job, avro)))
        return written


def java(debezium: Fetched, command: str, given: Path, made: Path, topic: str) -> Path:
    """Run our program with Debezium's classes."""
    classes, program = require_fetched(debezium).parent, find_java("Debezium")
    options = ["-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    arguments = [program, *options, "-cp", f"{classes}:{classes}/*", debezium.program]
    arguments += [command, str(given), str(made), topic]
    ended = subprocess.run(arguments, capture_output=True, text=True, timeout=240, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return made


@pytest.fixture(scope="module", params=[ServerKind.MARIADB, ServerKind.MYSQL])
def log(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerLog]:
    folder = tmp_path_factory.mktemp(request.param.value)
    statements = [statement.strip() for statement in STATEMENTS.read_text().split(";\n")]
    if request.param is ServerKind.MARIADB:
        statements[2:2] = OF_MARIADB
    with server_in(request.param, folder / "server") as server:
        made = ServerLog(request.param, server, folder)
        try:
            require_fetched(made.debezium)
            find_java("Debezium")
        except DemoError as error:
            pytest.skip(f"{error.reason}: {error.hint}")
        with server.connect() as connection, connection.cursor() as cursor:
            for statement in filter(None, statements):
                cursor.execute(statement)
        yield made


def messages_in(path: Path) -> Messages:
    """Messages by topic: keys, values and headers parsed."""
    found: Messages = {}
    for line in path.read_text().splitlines():
        message = json.loads(line)
        headers = {header["name"]: header["value"] for header in message["headers"]}
        parsed = {name: None if message[name] is None else json.loads(message[name]) for name in ("key", "value")}
        found.setdefault(message["topic"], []).append({**parsed, "headers": headers})
    return found


_ONLY_HERE = re.compile(
    "TRUNCATE|CREATE INDEX|CREATE ALGORITHM|CREATE .*VIEW|DROP VIEW|DROP TABLE|CREATE TABLE `shop`.`filled`"
)


def comparable(messages: Messages) -> Messages:
    """Messages without those that only one of the two has, or that differ as a whole."""
    kept = dict(messages)
    if "t" in kept:
        kept["t"] = [one for one in kept["t"] if not _ONLY_HERE.match(one["value"]["payload"]["ddl"])]
        for message in kept["t"]:
            del message["value"]["payload"]["source"]["row"]
    if "t.transaction" in kept:
        for message in kept["t.transaction"]:
            (message["value"]["payload"]["data_collections"] or []).sort(key=itemgetter("data_collection"))
        ended = {one["key"]["payload"]["id"] for one in kept["t.transaction"] if _is_end(one["value"]["payload"])}
        kept["t.transaction"] = [one for one in kept["t.transaction"] if one["key"]["payload"]["id"] in ended]
    return {
        topic: [one for one in those if one["key"] is not None or one["value"] is not None]
        for topic, those in kept.items()
    }


def _is_end(payload: dict[str, Any]) -> bool:
    # The end of the last transaction is not waited for.
    names = [one["data_collection"] for one in payload["data_collections"] or []]
    return payload["status"] == "END" and f"t.{names[0]}" != LAST_TOPIC


def differences(path: str, theirs: Any, ours: Any) -> Iterator[tuple[str, Any, Any]]:
    """Paths at which two values differ; the order of fields, and 1 beside 1.0, count."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        if set(theirs) == set(ours) and list(theirs) != list(ours):
            yield f"{path} (order)", list(theirs), list(ours)
        for name in {**theirs, **ours}:
            yield from differences(f"{path}.{name}" if path else name, theirs.get(name), ours.get(name))
    elif isinstance(theirs, list) and isinstance(ours, list) and len(theirs) == len(ours):
        for number, (one, other) in enumerate(zip(theirs, ours, strict=True)):
            name = one.get("field", number) if isinstance(one, dict) else number
            yield from differences(f"{path}[{name}]", one, other)
    elif theirs != ours or type(theirs) is not type(ours):
        yield path, theirs, ours


def assert_equal(theirs: Messages, ours: Messages, *, allowed: Iterable[re.Pattern[str]]) -> None:
    assert {topic: len(those) for topic, those in theirs.items()} == {
        topic: len(those) for topic, those in ours.items()
    }
    unknown = [
        (topic, number, *found)
        for topic in theirs
        for number, (one, other) in enumerate(zip(theirs[topic], ours[topic], strict=True))
        for found in differences("", one, other)
        if not any(pattern.fullmatch(found[0]) for pattern in allowed)
    ]
    assert unknown == []


ALLOWED = [_MADE, *map(re.compile, DIFFERENCES.values())]


@pytest.mark.parametrize("mode", MODES)
def test_messages_are_those_of_debezium(log: ServerLog, mode: str) -> None:
    options = MODES[mode]
    theirs, ours = (messages_in(made(mode, options)) for made in (log.streamed, log.published))
    assert_equal(comparable(theirs), comparable(ours), allowed=ALLOWED)
    assert len(theirs) > 8


def test_consumers_make_the_same_of_both(log: ServerLog) -> None:
    """Kafka Connect's converter reads and writes them again without a loss; Debezium's transformations take them."""
    outbox = "t.shop.outbox"
    made = []
    for given in (log.streamed("consumed", {}), log.published("consumed", {})):
        made.append(messages_in(log.java("transform", given, given.with_suffix(f"{given.suffix}.made"), outbox)))
        again, before = made[-1], messages_in(given)
        for topic in set(before) - {outbox}:
            first = [message for message in again[topic] if "op" in (message["value"] or {}).get("payload", {})]
            assert [one["value"] for one in first] == [
                one["value"] for one in before[topic] if one["value"] is not None
            ]
    theirs, ours = made
    flat = [
        re.compile(
            r"value\.(schema\.fields\[(b1n?|r|dtd|tsd|dad|day|moment|bnd|en)\]\..*|payload\.(b1n?|en|js|zero|__source_ts_ms))"
        )
    ]
    assert_equal(comparable(theirs), comparable(ours), allowed=[*ALLOWED, *flat])
    assert len(ours["outbox.event.order"]) == len(theirs["outbox.event.order"]) > 0


@pytest.mark.parametrize("schemas", [True, False])
def test_cloud_events_are_those_of_debeziums_converter(log: ServerLog, *, schemas: bool) -> None:
    name, options = f"events-{schemas}", {"provide.transaction.metadata": "true", "skipped.operations": "none"}
    plain = log.published(name, options)
    theirs = lines_of(log.java("cloudevents", plain, plain.with_suffix(".events"), str(schemas).lower()))
    ours = lines_of(log.published(f"{name}-ours", {**options, "envelope": "cloudevents"}, schemas=schemas))
    assert [one["topic"] for one in ours] == [one["topic"] for one in theirs]
    pairs = [pair for pair in zip(theirs, ours, strict=True) if pair[0]["topic"] != "t.transaction"]
    found = [
        difference
        for one, other in pairs
        for difference in differences("value", *(json.loads(each["value"] or "null") for each in (one, other)))
    ]
    allowed = [re.compile(r"value\.data(\.payload)?\.ts_[mun]s"), re.compile(CLOUD_EVENTS_ID)]
    assert [one for one in found if not any(pattern.fullmatch(one[0]) for pattern in allowed)] == []
    ids = [json.loads(other["value"])["id"] for _, other in pairs if other["value"]]
    assert len(set(ids)) == len(ids) > 30
    values = [json.loads(each["value"]) for each in ours if each["topic"] == "t.transaction"]
    assert {(one["payload"] if schemas else one)["status"] for one in values} == {"BEGIN", "END"}


def test_cloud_events_in_avro_are_those_of_debeziums_converter(log: ServerLog) -> None:
    """What it gives to Confluent's converter: of the event, and of its data before."""
    name, options = "events-avro", {"provide.transaction.metadata": "true"}
    plain = log.published(name, options)
    theirs = lines_of(log.java("cloudevents", plain, plain.with_suffix(".events"), "avro"))
    with SchemaRegistryServer() as server:
        server.compatibility_default = "NONE"
        ours = lines_of(log.published(f"{name}-ours", {**options, "envelope": "cloudevents"}, registry=server.url))
        pairs = [(one, other) for one, other in zip(theirs, ours, strict=True) if one["value"]]
        for one, other in pairs:
            topic, event = _told(one["value"].encode())
            data_topic, data = _told(base64.b64decode(event["payload"]["data"]))
            assert (topic, data_topic) == (one["topic"], f"{topic}-data") == (other["topic"], f"{topic}-data")
            value = other["value"].encode(errors="surrogateescape")
            made, schema = server.decode(value), avro_schema(event["schema"])
            assert server.schema(int.from_bytes(value[1:5], "big")) == json.loads(schema)
            inner = base64.b64decode(made["data"])
            number = int.from_bytes(inner[1:5], "big")
            assert server.schema(number)["connect.name"] == data["schema"]["name"]
            assert list(server.decode(inner)) == [field["field"] for field in data["schema"]["fields"]]
            assert {*event["payload"]} == {*made}
            assert {field for field in made if made[field] != event["payload"][field]} <= {"id", "data", "dataschema"}
            assert (event["payload"]["dataschema"], made["dataschema"]) == (
                "http://registry:8081/schemas/ids/7",
                f"{server.url}/schemas/ids/{number}",
            )
        assert len(pairs) > 30
        assert {f"{one['topic']}-data-value" for one, _ in pairs} < {*server.subjects()}


def _told(content: bytes) -> tuple[str, Any]:
    # By `ToldAvro`, after the bytes of an id.
    topic, _, made = content[5:].decode().partition("\n")
    return topic, json.loads(made)


def lines_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_differences_are_in_the_guide() -> None:
    page = (REPO / "docs/kafka.md").read_text()
    for name in (*DIFFERENCES, "`id` of CloudEvents"):
        assert f"\n| {name} | " in page, name
