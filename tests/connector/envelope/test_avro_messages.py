"""Messages in Avro, read by another implementation, contain what the same messages contain in JSON."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from decimal import Context, Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import fastavro
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_connector.envelope.avro.avro_encoding import AvroEncoding
from binlog_connector.envelope.message_batch import MessageKind
from binlog_connector.envelope.messages import MessagesView
from binlog_connector.envelope.options import EnvelopeFormat, EnvelopeOptions, UnsignedBigintHandling
from binlog_connector.kafka.registry import RegistryConnection, SchemaRegistry
from binlog_connector.schema.history import SchemaHistory
from binlog_format import open_log
from binlog_format.errors import OptionError, RegistryError
from binlog_format.rows.decoding import Decoding
from binlog_lab.event_encoding.event_encoding import Origin, QueryContext, encode_query
from tests.chance import examples
from tests.connector.envelope.test_messages import COLUMNS, GROUPS, NOW, group_events, messages
from tests.corpus import SERVER_CASES
from tests.faults.schema_registry import SchemaRegistryServer
from tests.format.rows.plain_blocks import plain_block
from tests.format.rows.plain_rows import WRITE, gtid_event, rows_event, sized, table_map

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlog_format.block import Block

KEY = "shop.shop.orders-key"
VALUE = "shop.shop.orders-value"
OPTIONS = EnvelopeOptions("shop", transaction_metadata=True, schema_changes=True, query=True, files_before=3)
PARTS = ("key", "value", "old_key", "new_key")


@pytest.fixture
def server() -> Iterator[SchemaRegistryServer]:
    with SchemaRegistryServer() as running:
        yield running


def topic_of(kind: MessageKind, database: str | None, table: str | None) -> str:
    if kind is MessageKind.CHANGE:
        return f"shop.{database}.{table}"
    return "shop.transaction" if kind is MessageKind.TRANSACTION else "shop"


def avro_encoding(server: SchemaRegistryServer, options: EnvelopeOptions = OPTIONS) -> AvroEncoding:
    return AvroEncoding(options, SchemaRegistry(RegistryConnection(server.url)), topic_of, "beat")


def avro_messages(
    server: SchemaRegistryServer, blocks: Iterable[Block], options: EnvelopeOptions = OPTIONS, **wanted: Any
) -> list[dict[str, Any]]:
    """All messages, decoded with the registry's schemas."""
    view = MessagesView(options, clock_ns=lambda: NOW, encoding=avro_encoding(server, options), **wanted)
    found = [message for batch in view.batches(blocks) for message in batch.to_pylist()]
    return [decoded(server, message) for message in found]


def decoded(server: SchemaRegistryServer, message: dict[str, Any]) -> dict[str, Any]:
    return message | {name: message[name] and server.decode(message[name]) for name in PARTS}


def _ddl(seqno: int, text: str) -> list[bytes]:
    return [gtid_event(seqno), encode_query(text, Origin(1_700_000_000, 7), QueryContext(database="shop"))]


@given(GROUPS, st.sampled_from([(), (0,), (1, 0)]), st.booleans())
@settings(max_examples=examples(40))
def test_messages_are_those_of_json(groups: list[Any], key: tuple[int, ...], metadata: bool) -> None:
    options = EnvelopeOptions("shop", transaction_metadata=metadata)
    if 1 in key:  # no column of a key can be NULL
        groups = [
            [(table, (kind, *(row and (row[0], row[1] or "") for row in rows))) for table, (kind, *rows) in changes]
            for changes in groups
        ]
    block = plain_block([group_events(changes, number, key=key) for number, changes in enumerate(groups)])
    with SchemaRegistryServer() as server:
        assert avro_messages(server, [block], options) == messages([block], options)


def test_statements_and_transactions_are_those_of_json(server: SchemaRegistryServer) -> None:
    changes = [("orders", (WRITE, None, (1, "a"))), ("items", (WRITE, None, (2, None)))]
    block = plain_block(
        [
            _ddl(1, "CREATE TABLE orders (c0 INT PRIMARY KEY, c1 VARCHAR(16))"),
            group_events(changes, 2, key=(0,)),
            _ddl(3, "TRUNCATE orders"),
            _ddl(4, "CREATE DATABASE other"),
            group_events(changes, 5, key=(0,)),
        ]
    )
    found = avro_messages(server, [block])
    assert found == messages([block], OPTIONS)
    assert [message["op"] for message in found].count("t") == 1
    assert server.subjects() == sorted(
        f"{topic}-{part}"
        for topic in ("shop", "shop.transaction", "shop.shop.orders", "shop.shop.items")
        for part in ("key", "value")
    )


@pytest.mark.parametrize("case", ["mariadb-10.11/types_full", "mysql-9/types_full", "mysql-9/ops"])
def test_messages_of_real_logs_are_those_of_json(server: SchemaRegistryServer, case: str) -> None:
    options = EnvelopeOptions("shop", unsigned_bigint_handling=UnsignedBigintHandling.PRECISE)
    with open_log(str(SERVER_CASES / case)) as log:
        blocks = list(log.committed_blocks())
    server.compatibility_default = "NONE"  # columns come that are NOT NULL, and have no default
    found, expected = (
        read(blocks, options, decoding=Decoding(SchemaHistory())) for read in (partial(avro_messages, server), messages)
    )
    assert len(found) == len(expected) > 10
    for one, other in zip(found, expected, strict=True):
        assert rounded(one) == rounded(other)


def rounded(value: Any) -> Any:
    """As in both: JSON has the shortest text that tells a float32 from others, and columns with their own names."""
    if isinstance(value, dict):
        return {re.sub(r"[^A-Za-z0-9_]", "_", name): rounded(one) for name, one in value.items()}
    if isinstance(value, list):
        return [rounded(one) for one in value]
    with np.errstate(over="ignore"):
        return float(np.float32(value)) if isinstance(value, float) else value


@pytest.mark.parametrize("case", ["mariadb-10.11/types_full", "mysql-9/types_full", "mysql-9/ops"])
def test_confluents_deserializer_reads_them(server: SchemaRegistryServer, case: str) -> None:
    """What consumers have that use Confluent's own client."""
    registry = pytest.importorskip("confluent_kafka.schema_registry")  # with its extras, as the group test has it
    avro = pytest.importorskip("confluent_kafka.schema_registry.avro")
    serialization = pytest.importorskip("confluent_kafka.serialization")
    deserializer = avro.AvroDeserializer(registry.SchemaRegistryClient({"url": server.url}))
    precise = UnsignedBigintHandling.PRECISE
    options = EnvelopeOptions("shop", unsigned_bigint_handling=precise, transaction_metadata=True)
    server.compatibility_default = "NONE"
    with open_log(str(SERVER_CASES / case)) as log:
        view = MessagesView(options, encoding=avro_encoding(server, options), decoding=Decoding(SchemaHistory()))
        made = [message for batch in view.batches(log.committed_blocks()) for message in batch.to_pylist()]
    assert len(made) > 10
    for message in made:
        topic = topic_of(message["kind"], message["database"], message["table"])
        for part in ("key", "value"):
            context = serialization.SerializationContext(topic, part)
            found = _as_json(deserializer(message[part], context))
            assert found == (None if message[part] is None else server.decode(message[part]))


def _as_json(value: Any) -> Any:
    # A DECIMAL is its unscaled number, in as few bytes as hold it.
    if isinstance(value, Decimal):
        exponent = value.as_tuple().exponent
        assert isinstance(exponent, int)
        number = int(value.scaleb(-exponent, DECIMALS))
        value = number.to_bytes(((number if number >= 0 else ~number).bit_length() // 8) + 1, "big", signed=True)
    if isinstance(value, dict):
        return {name: _as_json(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_as_json(one) for one in value]
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


DECIMALS = Context(prec=100)


def test_the_heartbeat(server: SchemaRegistryServer) -> None:
    key, value = avro_encoding(server).heartbeat(NOW)
    assert (server.decode(key), server.decode(value)) == ({"serverName": "shop"}, {"ts_ms": NOW // 1_000_000})
    assert server.subjects() == ["beat-key", "beat-value"]


# --- TRUNCATE --------------------------------------------------------------------------------------------------------


def test_a_truncate_of_a_table_with_nothing_published_has_no_message(server: SchemaRegistryServer) -> None:
    options = EnvelopeOptions("shop")
    assert avro_messages(server, [plain_block([_ddl(1, "TRUNCATE orders")])], options) == []
    assert server.subjects() == []


def test_a_truncate_has_the_newest_schema_of_its_table(server: SchemaRegistryServer) -> None:
    """Another process has published the rows; the statement tells nothing of columns."""
    options = EnvelopeOptions("shop")
    avro_messages(server, [plain_block([group_events([("orders", (WRITE, None, (1, "a")))], 1, key=(0,))])], options)
    before = server.versions(VALUE)
    block = plain_block([_ddl(2, "TRUNCATE orders")])
    (found,) = avro_messages(server, [block], options)
    assert found == messages([block], options)[0]
    assert server.versions(VALUE) == before


def test_a_truncate_among_schemas_of_others_is_refused(server: SchemaRegistryServer) -> None:
    SchemaRegistry(RegistryConnection(server.url)).id_of(VALUE, '{"type":"record","name":"Other","fields":[]}')
    with pytest.raises(RegistryError, match="INCOMPATIBLE"):
        avro_messages(server, [plain_block([_ddl(2, "TRUNCATE orders")])], EnvelopeOptions("shop"))


# --- schemas ---------------------------------------------------------------------------------------------------------


def _wider(seqno: int, row: tuple[int, str, int | None], *, nullable: bool) -> list[bytes]:
    columns = [*COLUMNS, replace(COLUMNS[0], nullable=nullable)]
    image: list[bytes | None] = [row[0].to_bytes(4, "little"), sized(row[1].encode(), 1)]
    image.append(None if row[2] is None else row[2].to_bytes(4, "little"))
    maps = table_map(columns, table="orders", table_id=44, key=(0,))
    return [gtid_event(seqno), maps, rows_event(WRITE, [image], len(columns), table_id=44)]


def test_an_altered_table_has_a_new_version_of_its_schema(server: SchemaRegistryServer) -> None:
    """Messages before the change keep the id of the old one, those after it have that of the new one."""
    options = EnvelopeOptions("shop")
    narrow = group_events([("orders", (WRITE, None, (1, "a")))], 1, key=(0,))
    blocks = [plain_block([narrow, _wider(2, (2, "b", 7), nullable=True), narrow])]
    view = MessagesView(options, clock_ns=lambda: NOW, encoding=avro_encoding(server, options))
    found = [message for batch in view.batches(blocks) for message in batch.to_pylist()]
    ids = [int.from_bytes(message["value"][1:5], "big") for message in found]
    assert ids[0] == ids[2] != ids[1]
    rows = [decoded(server, message)["value"]["after"] for message in found]
    assert rows == [{"c0": 1, "c1": "a"}, {"c0": 2, "c1": "b", "c2": 7}, {"c0": 1, "c1": "a"}]
    assert len(server.versions(VALUE)) == 2
    assert len(server.versions(KEY)) == 1
    assert len({message["key"][:5] for message in found}) == 1


def test_a_change_that_the_subject_forbids_ends_it(server: SchemaRegistryServer) -> None:
    options = EnvelopeOptions("shop")
    narrow = group_events([("orders", (WRITE, None, (1, "a")))], 1, key=(0,))
    block = plain_block([narrow, _wider(2, (2, "b", 7), nullable=False)])
    with pytest.raises(RegistryError, match=rf"INCOMPATIBLE.*{VALUE}.*c2: a new field without a default"):
        avro_messages(server, [block], options)
    server.compatibility[VALUE] = "NONE"
    assert len(avro_messages(server, [block], options)) == 2


def test_schemas_are_valid_and_ask_the_registry_once(server: SchemaRegistryServer) -> None:
    block = plain_block([group_events([("orders", (WRITE, None, (1, "a")))], 1, key=(0,))])
    avro_messages(server, [block, block, block])
    assert len(server.requests) == 4
    for subject in server.subjects():
        fastavro.parse_schema(server.versions(subject)[0])
        assert json.dumps(server.versions(subject)[0]).count('"connect.name"') >= 1


def test_flat_rows_are_refused(server: SchemaRegistryServer) -> None:
    with pytest.raises(OptionError, match="envelope flat is not written in Avro"):
        avro_encoding(server, EnvelopeOptions("shop", format=EnvelopeFormat.FLAT))
