"""Rows that came in messages are those of the log, at their places, whatever table they are of."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from binlog_connector.envelope.messages import MessagesView
from binlog_connector.envelope.options import EnvelopeOptions, TimePrecision, UnsignedBigintHandling
from binlog_connector.kafka_decode.connect_columns import MessageError
from binlog_connector.kafka_decode.row_changes import received_changes
from binlog_connector.schema.history import SchemaHistory
from binlog_format import open_log
from binlog_format.rows.decoding import Decoding, TimeType
from binlog_format.views.changefeed import ChangefeedView, changefeed_batch
from binlog_format.views.filters import ALL_GROUPS, TableFilter
from binlog_format.views.selection import Selection
from binlog_streaming.topic_tables.writing import received_row_batch
from tests.corpus import SERVER_CASES

OPTIONS = EnvelopeOptions(
    "shop",
    schemas=True,
    unsigned_bigint_handling=UnsignedBigintHandling.PRECISE,
    time_precision=TimePrecision.MICROSECONDS,
    transaction_metadata=True,
    schema_changes=True,
)
WIDER = {pa.int8(): pa.int16()}
"""What a schema of Kafka Connect does not tell from a wider type."""

_MOVED = {"update_preimage": "delete", "update_postimage": "insert"}


def messages(case: str) -> tuple[pa.Array, pa.Array]:
    """Keys and values of all messages about a log."""
    with open_log(str(SERVER_CASES / case)) as log:
        view = MessagesView(OPTIONS, decoding=Decoding(SchemaHistory(), replace_invalid_text=True))
        batches = list(view.batches(log.committed_blocks()))
    keys, values = (pa.concat_arrays([batch.column(name) for batch in batches]) for name in ("key", "value"))
    return keys, values


def changefeed(case: str, table: str) -> pa.Table:
    """The same rows from the log itself."""
    decoding = Decoding(SchemaHistory(), time_type=TimeType.MICROS, replace_invalid_text=True)
    with open_log(str(SERVER_CASES / case)) as log:
        return pa.Table.from_batches(ChangefeedView(table=table, decoding=decoding).batches(log.committed_blocks()))


def _same(found: dict[str, Any], expected: dict[str, Any]) -> bool:
    kinds = expected["_change_type"], _MOVED.get(expected["_change_type"])
    return found["_change_type"] in kinds and found | {"_change_type": None} == expected | {"_change_type": None}


@pytest.mark.parametrize("case", ["mariadb-10.11/types_full", "mysql-9/types_full", "mysql-9/json_full"])
def test_rows_of_real_logs_come_back_from_their_messages(case: str) -> None:
    count, keys = 0, _keys(case)
    for changes in received_changes(*messages(case)):
        assert len(changes.layout.columns) > 0
        row_batch = received_row_batch(changes)
        found = changefeed_batch(row_batch.images, row_batch.events, row_batch.groups, row_batch.gtid_sources)
        found.validate(full=True)
        expected = changefeed(case, changes.layout.full_name)
        assert found.schema.types == [WIDER.get(kind, kind) for kind in expected.schema.types]
        assert found.schema.names == expected.schema.names
        pairs = zip(found.to_pylist(), expected.to_pylist(), strict=True)
        assert [pair for pair in pairs if not _same(*pair)] == []
        key = [changes.layout.columns[index].name for index in changes.layout.primary_key]
        assert key == keys[changes.layout.full_name]
        count += found.num_rows
    assert count > 100


def _keys(case: str) -> dict[str, list[str]]:
    found = {}
    with open_log(str(SERVER_CASES / case)) as log:
        selection = Selection(TableFilter(), ALL_GROUPS, decoding=Decoding(SchemaHistory()))
        for block in log.committed_blocks():
            for layout in (touched.layout for touched in selection.of(block)):
                found[layout.full_name] = [str(layout.columns[index].name) for index in layout.primary_key]
    return found


def _binary(*texts: str | None) -> pa.Array:
    return pa.array([None if text is None else text.encode() for text in texts], pa.large_binary())


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (('"op":"c"', '"op":"m"'), "op is none of"),
        (('"op":"c"', '"op":"d"'), "op d with other rows before and after"),
        (('"sequence":"0', '"sequence":"x'), "expected the place of a change in source.sequence, got 'x"),
        (('"after":{', '"after":{"more":1,'), "is not what its schema says"),
        (('"payload":{', '"payload":['), "is not what its schema says"),
        (('"schema":{', '"schemas":{'), r'expected \{"schema"'),
        (('"type":"struct"', '"type":"struct'), r'expected \{"schema"'),
        (('"field":"source"', '"field":"sauce"'), "expected a change in Debezium's envelope"),
    ],
)
def test_what_is_not_published_is_named(change: tuple[str, str], reason: str) -> None:
    keys, values = messages("mariadb-10.11/oltp_small")
    texts = [value.decode() for value in values.to_pylist() if value is not None and b'"op":"c"' in value][:3]
    changed = texts[1].replace(*change, 1)
    assert changed != texts[1]
    key = next(key for key in keys.to_pylist() if key is not None and b".Key" in key)
    with pytest.raises(MessageError, match=reason) as raised:
        list(received_changes(pa.array([key] * 3, pa.large_binary()), _binary(texts[0], changed, texts[2])))
    assert raised.value.row in (0, 1)


def test_a_value_that_may_not_be_null_and_is_is_named() -> None:
    keys, values = messages("mariadb-10.11/oltp_small")
    index, text = next(
        (index, value.decode())
        for index, value in enumerate(values.to_pylist())
        if value is not None and b'"after":{"id":' in value
    )
    start = text.index('"after":{"id":') + len('"after":{"id":')
    changed = f"{text[:start]}null{text[text.index(',', start) :]}"
    with pytest.raises(MessageError, match="column id is null, which it may not be"):
        list(received_changes(keys[index : index + 1], _binary(changed)))


def test_tombstones_and_messages_about_no_row_are_passed_over() -> None:
    keys, values = messages("mariadb-10.11/ops")
    found = list(received_changes(keys, values))
    rows = sorted(row for changes in found for row in changes.rows.tolist())
    expected = [row for row, value in enumerate(values.to_pylist()) if value is not None and b'.Envelope"' in value]
    assert rows == expected
    assert len(expected) < len(values)
