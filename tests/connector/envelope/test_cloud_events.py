"""CloudEvents in binary mode are those in structured mode: attributes beside the value, which is the data alone."""

from __future__ import annotations

import json

import pytest

from binlog_connector.envelope.options import EnvelopeFormat, EnvelopeOptions
from binlog_connector.schema.history import SchemaHistory
from binlog_format.formats.opening import open_log
from binlog_format.rows.decoding import Decoding
from tests.connector.envelope.test_messages import messages
from tests.corpus import SERVER_CASES


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
