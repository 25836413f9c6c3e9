"""CloudEvents in binary mode, and in Avro, are those of structured mode in JSON, but for place or form of data."""

from __future__ import annotations

import base64
import json
import re

import pytest

from binlog_connector.envelope.options import EnvelopeFormat, EnvelopeOptions, MessageOperation
from binlog_connector.schema.history import SchemaHistory
from binlog_format.formats.opening import open_log
from binlog_format.rows.decoding import Decoding
from tests.connector.envelope.test_avro_messages import avro_messages, rounded
from tests.connector.envelope.test_messages import messages
from tests.corpus import SERVER_CASES
from tests.faults.schema_registry import SchemaRegistryServer


@pytest.mark.parametrize("case", ["mariadb-10.11/ops", "mysql-9/ops_zstd"])
@pytest.mark.parametrize("schemas", [True, False])
@pytest.mark.parametrize("transactions", [True, False])
def test_both_modes_tell_the_same(case: str, *, schemas: bool, transactions: bool) -> None:
    made = []
    for form in (EnvelopeFormat.CLOUDEVENTS, EnvelopeFormat.CLOUDEVENTS_BINARY):
        options = EnvelopeOptions(
            "shop", format=form, schemas=schemas, transaction_metadata=transactions, schema_changes=True, query=True
        )
        definitions = SchemaHistory()
        with open_log(str(SERVER_CASES / case)) as log:
            blocks = definitions.following(log.committed_blocks(), str(SERVER_CASES / case), None)
            made.append(messages(blocks, options, decoding=Decoding(definitions)))
    events = [(one, other) for one, other in zip(*made, strict=True) if one["kind"] == "change" and one["value"]]
    for one, other in events:
        told = json.loads(other.pop("attributes"))
        assert list(one["value"].items()) == [*told.items(), ("data", other.pop("value"))]
        assert {name: part for name, part in one.items() if name not in ("value", "attributes")} == other
        assert one["attributes"] is None
    assert {one["op"] for one, _ in events} == {"c", "u", "d", "t"}
    others = [pair for pair in zip(*made, strict=True) if "value" in pair[1]]
    assert all(one == other and one["attributes"] is None for one, other in others)
    assert len(others) > 10


@pytest.mark.parametrize("case", ["mariadb-10.11/ops", "mysql-9/ops_zstd"])
@pytest.mark.parametrize("transactions", [True, False])
def test_avro_tells_the_same(case: str, *, transactions: bool) -> None:
    skipped = frozenset([MessageOperation.TRUNCATE])
    options = EnvelopeOptions(
        "shop",
        format=EnvelopeFormat.CLOUDEVENTS,
        transaction_metadata=transactions,
        query=True,
        skipped_operations=skipped,
        files_before=3,
    )
    with open_log(str(SERVER_CASES / case)) as log, SchemaRegistryServer() as server:
        blocks = list(log.committed_blocks())
        server.compatibility_default = "NONE"
        expected = messages(blocks, options, decoding=Decoding(SchemaHistory()))
        found = avro_messages(server, blocks, options, decoding=Decoding(SchemaHistory()))
        subjects = server.subjects()
        for message in found:
            if message["kind"] == "change" and message["value"] is not None:
                value = message["value"]
                (number,) = re.findall(rf"^{server.url}/schemas/ids/(\d+)$", value.pop("dataschema"))
                data = base64.b64decode(value["data"])
                assert int(number) == int.from_bytes(data[1:5], "big")
                assert value["datacontenttype"] == "application/avro"
                value |= {"datacontenttype": "application/json", "data": server.decode(data)}
    assert rounded(found) == rounded(expected)
    assert len({message["value"]["id"] for message in found if message["op"]}) > 100
    assert {name.removeprefix("shop.t.a") for name in subjects if name.startswith("shop.t.a-")} == {
        "-key",
        "-value",
        "-data-value",
    }
