"""`docs/kafka.md`: the messages that it shows are those that the program makes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import msgspec

from binlog_connector.envelope.avro.avro_encoding import AvroEncoding
from binlog_connector.envelope.json.json_encoding import heartbeat
from binlog_connector.envelope.messages import MessagesView
from binlog_connector.envelope.options import EnvelopeFormat, EnvelopeOptions
from binlog_format.events.table_map_layout import ColumnType
from binlog_lab.event_encoding.event_encoding import Origin, QueryContext, encode_query
from binlog_streaming.settings import PublishJob, parse_any_job
from binlog_streaming.settings.debezium import OWN_NAMES
from binlog_streaming.settings.publish_model import (
    FollowedSource,
    KafkaSink,
    Oversized,
    Registry,
    Security,
    TopicRule,
)
from binlog_streaming.settings.source_models import TopicSource, TopicTablesJob
from tests.docs.markdown import REPO, code_blocks
from tests.format.rows.plain_blocks import plain_block
from tests.format.rows.plain_rows import (
    DELETE,
    UPDATE,
    WRITE,
    PlainColumn,
    event,
    gtid_event,
    rows_event,
    sized,
    table_map,
)

if TYPE_CHECKING:
    from binlog_connector.envelope.encoding import MessageEncoding

GUIDE = "docs/kafka.md"
NOW = 1_700_000_001_123_456_789
OPTIONS = EnvelopeOptions("shop", transaction_metadata=True, schema_changes=True)
_COLUMNS = [PlainColumn(ColumnType.LONG, unsigned=False), PlainColumn(ColumnType.VARCHAR, b"\x40\x00", collation=45)]
_FIRST, _OTHER, _MOVED = (
    [number.to_bytes(4, "little"), sized(text, 1)] for number, text in ((1, b"a"), (1, b"b"), (2, b"b"))
)


def _groups() -> list[list[bytes]]:
    maps = table_map(_COLUMNS, table="orders", key=(0,))
    ddl = "CREATE TABLE orders (c0 INT PRIMARY KEY, c1 VARCHAR(16))"
    changes = [
        rows_event(WRITE, [_FIRST], 2),
        rows_event(UPDATE, [_FIRST, _OTHER], 2),
        rows_event(UPDATE, [_OTHER, _MOVED], 2),
        rows_event(DELETE, [_MOVED], 2),
    ]
    return [
        [gtid_event(1), encode_query(ddl, Origin(1_700_000_000, 7), QueryContext(database="shop"))],
        [gtid_event(2), *(part for change in changes for part in (maps, change)), event(16, bytes(8))],
        [gtid_event(3), encode_query("TRUNCATE orders", Origin(1_700_000_000, 7), QueryContext(database="shop"))],
    ]


def _messages(options: EnvelopeOptions, encoding: MessageEncoding | None = None) -> list[dict[str, Any]]:
    block = plain_block(_groups())
    block.groups["has_gtid"], block.groups["server_id"], block.groups["seqno"] = True, 7, [1, 2, 3]
    block.groups["file_no"], block.groups["file_offset"], block.groups["chunk"] = 1, [330, 512, 990], [330, 512, 990]
    block = replace(block, path_of="/var/lib/mysql/mariadb-bin.{:06}".format)
    found: list[dict[str, Any]] = []
    for batch in MessagesView(options, clock_ns=lambda: NOW, encoding=encoding).batches([block]):
        found += batch.to_pylist()
    return found


def _shown(message: dict[str, Any]) -> str:
    names = {
        "key": "key",
        "value": "value",
        "new_key": "header __debezium.newkey",
        "old_key": "header __debezium.oldkey",
    }
    parts = [
        (label, message[name]) for name, label in names.items() if message[name] is not None or name in ("key", "value")
    ]
    return "".join(f"{label}: {'null' if part is None else part.decode()}\n" for label, part in parts)


def expected() -> str:
    """The part of the document that is made."""
    found = _messages(OPTIONS)
    titles = [
        "`CREATE TABLE`",
        "Begin of a transaction",
        "INSERT",
        "UPDATE",
        "UPDATE of the key: delete",
        "its tombstone",
        "and create",
        "DELETE",
        "its tombstone",
        "End of the transaction",
        "TRUNCATE, among the schema changes",
        "and in the topic of the table",
    ]
    flat = _messages(EnvelopeOptions("shop", format=EnvelopeFormat.FLAT))
    key, value = heartbeat(OPTIONS, NOW)
    shown = [(title, _shown(message)) for title, message in zip(titles, found, strict=True)]
    shown.append(("Heartbeat", f"key: {key.decode()}\nvalue: {value.decode()}\n"))
    shown.append(("INSERT, flat", _shown(flat[0])))
    schemas = _messages(replace(OPTIONS, transaction_metadata=False, schema_changes=False, schemas=True))
    shown.append(("The key of all of these, with its schema", f"key: {schemas[0]['key'].decode()}\n"))
    return "\n".join(f"{title}:\n\n```json\n{text}```\n" for title, text in shown)


def expected_cloud_event() -> str:
    """The INSERT as a CloudEvent."""
    (insert, *_) = _messages(EnvelopeOptions("shop", format=EnvelopeFormat.CLOUDEVENTS))
    return f"```json\n{_shown(insert)}```\n"


class _Schemas:
    # A registry, as far as the guide needs one.
    url = "http://registry:8081"

    def __init__(self) -> None:
        self.known: dict[str, str] = {}

    def id_of(self, subject: str, schema: str) -> int:
        self.known.setdefault(subject, schema)
        return [*self.known].index(subject) + 1

    def latest(self, subject: str) -> tuple[int, str] | None:
        return (self.id_of(subject, ""), self.known[subject]) if subject in self.known else None


def expected_avro() -> str:
    """The part about Avro: the schemas of a table, and the bytes of the INSERT above."""
    schemas = _Schemas()
    options = EnvelopeOptions("shop")
    encoding = AvroEncoding(options, schemas, lambda _kind, database, table: f"shop.{database}.{table}", "")
    insert = _messages(options, encoding)[0]
    shown = [f"{subject}: {schema}\n" for subject, schema in schemas.known.items()]
    bytes_of = "".join(f"{part}: {insert[part].hex()}\n" for part in ("key", "value"))
    return f"```json\n{''.join(shown)}```\n\nand the INSERT above has these bytes:\n\n```text\n{bytes_of}```\n"


def all_expected() -> str:
    return expected() + expected_avro() + expected_cloud_event()


def test_messages_are_those_of_the_guide() -> None:
    text = (REPO / GUIDE).read_text()
    assert expected() in text
    assert expected_avro() in text
    assert expected_cloud_event() in text
    assert len(code_blocks(GUIDE, "json")) == 18


def test_every_setting_is_in_the_guide() -> None:
    text = (REPO / GUIDE).read_text()
    for section in (FollowedSource, TopicRule, KafkaSink, Security, Registry, Oversized):
        for field in msgspec.structs.fields(section):
            assert f"`{field.encode_name}`" in text or f"[sink.{field.name}]" in text, field.name
    blocks = code_blocks(GUIDE, "toml")
    (back,) = [block for block in blocks if "[source]" in block.text]
    sinks = [block for block in blocks if block is not back]
    for field in msgspec.structs.fields(TopicSource):
        assert f"\n{field.encode_name} = " in back.text or f"[source.{field.name}]" in text, field.name
    assert isinstance(parse_any_job(back.text, file=REPO / "back.toml"), TopicTablesJob)
    rows = dict(re.findall(r"^\| `([a-z.]+)` \| `(\w+)", text, re.MULTILINE))
    assert {name: own for name, own in rows.items() if name in OWN_NAMES} == OWN_NAMES
    for sink in sinks:
        text = f'checkpoint = "state"\n[source]\npath = "log"\n{sink.text}'
        assert isinstance(parse_any_job(text, file=REPO / "job.toml"), PublishJob)


def test_messages_are_the_same_without_the_compiler() -> None:
    """The kernels are Python too, and then check every bound."""
    program = "from tests.docs.test_kafka_guide import *; print(all_expected(), end='')"
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": str(REPO)}
    command = [sys.executable, "-W", "error", "-c", program]
    run = subprocess.run(command, env=environment, cwd=REPO, capture_output=True, text=True, check=False)
    assert (run.stdout, run.returncode) == (all_expected(), 0), run.stderr


def test_lines_of_the_guide_are_json() -> None:
    for block in code_blocks(GUIDE, "json"):
        for line in block.text.splitlines():
            json.loads(re.sub(r"^[^:]*: ", "", line))
