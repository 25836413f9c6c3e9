"""Messages of made and real logs are those that the log's changes, one by one, give in plain Python."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from binlog_connector.envelope.json.json_encoding import heartbeat
from binlog_connector.envelope.message_batch import MESSAGES_SCHEMA
from binlog_connector.envelope.messages import MessagesView
from binlog_connector.envelope.options import (
    EnvelopeFormat,
    EnvelopeOptions,
    MessageOperation,
    UnsignedBigintHandling,
)
from binlog_connector.options.message_view import MessageLines
from binlog_connector.schema.history import SchemaHistory
from binlog_format import open_log
from binlog_format.errors import OptionError, SchemaError, UnsupportedError
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows.decoding import Decoding, TimeType
from binlog_format.rows.json.json_rows import json_lines
from binlog_format.vendor import Vendor
from binlog_format.views.changes import ChangesView
from binlog_format.views.filters import ALL_GROUPS, TableFilter
from binlog_format.views.selection import Selection
from tests.chance import examples
from tests.connector.envelope.naive_values import message_value, naive_messages
from tests.corpus import SERVER_CASES
from tests.format.rows.plain_blocks import plain_block, plain_groups
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
    from collections.abc import Iterable
    from pathlib import Path

    import pyarrow as pa

    from binlog_format.block import Block
    from binlog_format.events.table_map import TableLayout

NOW = 1_700_000_000_123_456_789
COLUMNS = [PlainColumn(ColumnType.LONG, unsigned=False), PlainColumn(ColumnType.VARCHAR, b"\x40\x00", collation=45)]
XID = 16


def messages(blocks: Iterable[Block], options: EnvelopeOptions, **wanted: Any) -> list[dict[str, Any]]:
    """All messages, with keys and values as JSON gives them."""
    found = []
    for batch in MessagesView(options, clock_ns=lambda: NOW, **wanted).batches(blocks):
        assert batch.schema == MESSAGES_SCHEMA
        batch.validate(full=True)
        found += batch.to_pylist()
    for message in found:
        for name in ("key", "value", "old_key", "new_key"):
            if message[name] is not None:
                message[name] = json.loads(message[name])
    return found


# --- made logs -------------------------------------------------------------------------------------------------------

ROW = st.tuples(st.integers(0, 2), st.none() | st.text('ab"\\\né😀', max_size=3))
CHANGE = st.one_of(
    st.tuples(st.just(WRITE), st.just(None), ROW),
    st.tuples(st.just(UPDATE), ROW, ROW),
    st.tuples(st.just(DELETE), ROW, st.just(None)),
)
GROUPS = st.lists(st.lists(st.tuples(st.sampled_from(["orders", "items"]), CHANGE), max_size=6), max_size=4)


def _image(row: tuple[int, str | None]) -> list[bytes | None]:
    text = None if row[1] is None else sized(row[1].encode(), 1)
    return [row[0].to_bytes(4, "little"), text]


def _named(row: tuple[int, str | None] | None) -> dict[str, Any] | None:
    return None if row is None else {"c0": row[0], "c1": row[1]}


def _without_null(row: tuple[int, str | None] | None) -> tuple[int, str | None] | None:
    return None if row is None else (row[0], row[1] or "")


def group_events(changes: list[Any], seqno: int, *, key: tuple[int, ...]) -> list[bytes]:
    events = [gtid_event(seqno)]
    for table, (kind, before, after) in changes:
        number = {"orders": 42, "items": 43}[table]
        rows = [_image(row) for row in (before, after) if row is not None]
        events.append(table_map(COLUMNS, table=table, table_id=number, key=key))
        events.append(rows_event(kind, rows, len(COLUMNS), table_id=number))
    return [*events, event(XID, bytes(8))]


_OPS = {WRITE: "insert", UPDATE: "update", DELETE: "delete"}


def _expected(groups: list[Any], names: tuple[str, ...], *, tombstones: bool) -> list[tuple[Any, ...]]:
    found = []
    for changes in groups:
        for table, (kind, before, after) in changes:
            naive = naive_messages([(_OPS[kind], names, _named(before), _named(after))], tombstones=tombstones)
            found += [(table, *message) for message in naive]
    return found


@given(GROUPS, st.sampled_from([(), (0,), (1, 0)]), st.booleans())
def test_messages_are_those_of_the_changes_one_by_one(
    groups: list[Any], key: tuple[int, ...], tombstones: bool
) -> None:
    names = tuple(f"c{index}" for index in key)
    if 1 in key:  # no server has NULL in a primary key
        groups = [
            [(table, (kind, *map(_without_null, rows))) for table, (kind, *rows) in changes] for changes in groups
        ]
    block = plain_block([group_events(changes, number, key=key) for number, changes in enumerate(groups)])
    found = messages([block], EnvelopeOptions("p", tombstones=tombstones))
    shown = [
        (
            message["table"],
            message["op"],
            message["key"],
            message["value"] and message["value"]["before"],
            message["value"] and message["value"]["after"],
            message["old_key"],
            message["new_key"],
        )
        for message in found
    ]
    assert shown == _expected(groups, names, tombstones=tombstones)
    assert all(message["value"]["op"] == message["op"] for message in found if message["value"])


@given(GROUPS, st.data())
def test_transactions_are_counted_over_pieces(groups: list[Any], data: st.DataObject) -> None:
    """A large group comes in pieces: the same messages, the same numbers, one begin and one end."""
    options = EnvelopeOptions("p", transaction_metadata=True)
    events = [group_events(changes, number, key=(0,)) for number, changes in enumerate(groups)]
    whole = _without_places(messages([_with_gtids(plain_block(events), 0)], options))
    blocks = []
    for seqno, group in enumerate(events):
        cut = data.draw(st.integers(1, len(group)))
        pieces = [group[:cut], group[cut:]] if cut < len(group) else [group]
        start = 0
        for number, piece in enumerate(pieces):
            is_last = number == len(pieces) - 1
            block = plain_block([piece], begins=number == 0, ends=is_last, event_no=start)
            blocks.append(_with_gtids(block, seqno))
            start += len(piece)
    assert _without_places(messages(blocks, options)) == whole
    _check_transactions(whole, groups)


def _with_gtids(block: Block, first_seqno: int) -> Block:
    block.groups["has_gtid"], block.groups["server_id"] = True, 7
    block.groups["seqno"] = first_seqno + np.arange(len(block.groups))
    return block


def _without_places(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    # Made blocks have no places of their own.
    return [{name: value for name, value in message.items() if name != "position"} for message in found]


def _check_transactions(found: list[dict[str, Any]], groups: list[Any]) -> None:
    open_id, counts = None, Counter[str]()
    ended = []
    for message in found:
        value = message["value"]
        if message["kind"] == "change":
            if value is None:
                continue
            counts[f"shop.{message['table']}"] += 1
            assert value["transaction"] == {
                "id": open_id,
                "total_order": counts.total(),
                "data_collection_order": counts[f"shop.{message['table']}"],
            }
        elif value["status"] == "BEGIN":
            assert open_id is None
            open_id, counts = value["id"], Counter()
            assert value["event_count"] is None
        else:
            assert value["id"] == open_id == message["key"]["id"]
            assert value["event_count"] == counts.total()
            listed = {one["data_collection"]: one["event_count"] for one in value["data_collections"]}
            assert listed == dict(counts)
            ended.append(open_id)
            open_id = None
    assert open_id is None
    assert ended == [f"0-7-{number}" for number, changes in enumerate(groups) if changes]


def test_sequences_sort_as_the_changes_do() -> None:
    changes = [("orders", (WRITE, None, (1, "a")))] * 12
    block = plain_block([group_events(changes, number, key=(0,)) for number in range(3)])
    block.groups["page"], block.groups["chunk"] = [9, 10, 10], [3, 2, 11]
    sequences = [message["value"]["source"]["sequence"] for message in messages([block], EnvelopeOptions("p"))]
    assert sequences == sorted(sequences)
    assert len(set(sequences)) == 36
    assert sequences[-1] == "0000000000.0000000010.00011.0000000024.0000000000"
    later = messages([block], EnvelopeOptions("p", files_before=3))
    assert later[-1]["value"]["source"]["sequence"] == "0000000003.0000000010.00011.0000000024.0000000000"


def test_skipped_operations_give_no_messages() -> None:
    changes = [("orders", (WRITE, None, (1, "a"))), ("orders", (DELETE, (1, "a"), None))]
    block = plain_block([group_events(changes, 1, key=(0,))])
    options = EnvelopeOptions("p", skipped_operations=frozenset({MessageOperation.CREATE}))
    assert [message["op"] for message in messages([block], options)] == ["d", None]


def test_other_columns_can_make_the_key() -> None:
    block = plain_block([group_events([("orders", (UPDATE, (1, "a"), (1, "b")))], 1, key=(0,))])
    options = EnvelopeOptions("p", key_columns={"shop.orders": ("c1",)})
    found = messages([block], options)
    assert [message["key"] for message in found] == [{"c1": "a"}, {"c1": "a"}, {"c1": "b"}]
    with pytest.raises(OptionError, match=r"shop.orders has no column d"):
        messages([block], EnvelopeOptions("p", key_columns={"shop.orders": ("d",)}))


def test_a_row_without_all_columns_is_refused() -> None:
    maps = table_map(COLUMNS, key=(0,))
    rows = rows_event(WRITE, [_image((1, "a"))], 2, present=[True, False])
    block = plain_block([[gtid_event(1), maps, rows]])
    for kind in EnvelopeFormat:
        with pytest.raises(UnsupportedError, match=r"ROW_IMAGE\] shop.orders: row images without c1"):
            messages([block], EnvelopeOptions("p", format=kind))


def test_a_log_without_names_is_refused() -> None:
    block = plain_block([[gtid_event(1), table_map(COLUMNS, names=False), rows_event(WRITE, [_image((1, "a"))], 2)]])
    with pytest.raises(SchemaError, match="NO_COLUMN_METADATA"):
        messages([block], EnvelopeOptions("p"))


def test_a_flat_row_does_not_hide_a_column_of_its_own() -> None:
    columns = [PlainColumn(ColumnType.LONG, unsigned=False)] * 2
    maps = table_map(columns).replace(b"\x02c0\x02c1", b"\x04__op\x00")  # the second column has no name at all
    block = plain_block([[gtid_event(1), maps, rows_event(WRITE, [[bytes(4), bytes(4)]], 2)]])
    assert messages([block], EnvelopeOptions("p"))[0]["value"]["after"] == {"__op": 0, "": 0}
    with pytest.raises(UnsupportedError, match="columns __op have names that flat rows use"):
        messages([block], EnvelopeOptions("p", format=EnvelopeFormat.FLAT))


def test_lines_have_topic_key_value_and_headers() -> None:
    changes = [("orders", (UPDATE, (1, "a"), (2, "a")))]
    block = plain_block([group_events(changes, 1, key=(0,))])
    options = EnvelopeOptions("p", transaction_metadata=True)
    view = MessageLines(MessagesView(options, clock_ns=lambda: NOW), "p")
    lines = [json.loads(line) for batch in view.batches([block]) for line in _lines(batch, view)]
    assert [line["topic"] for line in lines] == ["p.transaction", *["p.shop.orders"] * 3, "p.transaction"]
    assert [line["headers"] for line in lines[1:4]] == [
        {"__debezium.newkey": {"c0": 2}},
        {"__debezium.newkey": {"c0": 2}},
        {"__debezium.oldkey": {"c0": 1}},
    ]
    assert [line["key"] for line in lines[1:4]] == [{"c0": 1}, {"c0": 1}, {"c0": 2}]
    assert lines[2]["value"] is None


def _lines(batch: pa.RecordBatch, view: MessageLines) -> list[bytes]:
    return bytes(json_lines(batch, view.json_styles())).splitlines()


# --- real logs -------------------------------------------------------------------------------------------------------


def _typed_changes(path: Path, options: EnvelopeOptions) -> tuple[dict[str, TableLayout], list[tuple[Any, ...]]]:
    """Every change of a log, as the view `changes` types it: table, and what `naive_messages` takes, in total order."""
    decoding = Decoding(SchemaHistory(), time_type=TimeType.MICROS)
    layouts: dict[str, TableLayout] = {}
    found = []
    with open_log(str(path)) as log:
        blocks = list(log.committed_blocks())
    selection = Selection(TableFilter(), ALL_GROUPS, decoding=decoding)
    for block in blocks:
        for touched in selection.of(block):
            layout = touched.layout
            assert layouts.setdefault(layout.full_name, layout).digest == layout.digest, "one layout a table"
    for name, layout in layouts.items():
        keys = tuple(str(layout.columns[index].name) for index in layout.primary_key)
        for batch in ChangesView(table=name, decoding=decoding).batches(iter(blocks)):
            for row in batch.to_pylist():
                images = [_converted(layout, row[side], options) for side in ("before", "after")]
                place = (*row["position"].values(), row["event_no"], row["row_no"])
                found.append((place, name, (row["op"], keys, *images)))
    found.sort(key=lambda change: change[0])
    return layouts, found


def _converted(layout: TableLayout, row: dict[str, Any] | None, options: EnvelopeOptions) -> dict[str, Any] | None:
    if row is None:
        return None
    values = zip(layout.columns, row.items(), strict=True)
    return {name: message_value(column, value, options) for column, (name, value) in values}


@pytest.mark.thorough_where("False-mysql-9/types|True-mysql-9/json|True-mariadb")
@pytest.mark.parametrize("case", ["mariadb-10.11/types_full", "mysql-9/types_full", "mysql-9/json_full"])
@pytest.mark.parametrize("schemas", [False, True])
def test_messages_of_real_logs_hold_every_value(case: str, schemas: bool) -> None:
    options = EnvelopeOptions("shop", unsigned_bigint_handling=UnsignedBigintHandling.PRECISE, schemas=schemas)
    path = SERVER_CASES / case
    _, changes = _typed_changes(path, options)
    with open_log(str(path)) as log:
        found = messages(log.committed_blocks(), options, decoding=Decoding(SchemaHistory()))
    expected = [(name, *one) for _, name, change in changes for one in naive_messages([change])]
    assert len(found) == len(expected) > 100
    for message, (name, op, key, before, after, old_key, new_key) in zip(found, expected, strict=True):
        value = message["value"]
        key_payload = message["key"]
        if schemas:
            value, key_payload = _payload(value), _payload(key_payload)
        assert f"{message['database']}.{message['table']}" == name
        assert (message["op"], key_payload) == (op, key)
        assert value is None or _same((value["before"], value["after"]), (before, after))
        assert (message["old_key"] is None, message["new_key"] is None) == (old_key is None, new_key is None)


def _payload(message: dict[str, Any] | None) -> Any:
    if message is None:
        return None
    _check_schema(message["schema"], message["payload"])
    return message["payload"]


def _same(found: Any, expected: Any) -> bool:
    return json.dumps(_whole(found)) == json.dumps(_whole(expected))


def _whole(value: Any) -> Any:
    # A float without fraction is read as a whole number where it is written as one.
    if isinstance(value, dict):
        return {key: _whole(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_whole(part) for part in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


_TYPES = {
    "boolean": bool,
    "int16": int,
    "int32": int,
    "int64": int,
    "float": (int, float),
    "double": (int, float),
    "string": str,
    "bytes": str,
    "array": list,
    "struct": dict,
}


def _check_schema(schema: dict[str, Any], payload: Any) -> None:
    """A payload is what its schema describes: what Kafka Connect's JSON converter looks at."""
    if payload is None:
        assert schema["optional"], schema
        return
    expected = _TYPES[schema["type"]]
    assert isinstance(payload, expected), (schema, payload)  # type: ignore[arg-type]
    assert isinstance(payload, bool) == (schema["type"] == "boolean")
    if schema["type"] == "struct":
        assert [field["field"] for field in schema["fields"]] == list(payload) or set(payload) == {
            field["field"] for field in schema["fields"]
        }
        for field in schema["fields"]:
            _check_schema(field, payload[field["field"]])
    elif schema["type"] == "array":
        for item in payload:
            _check_schema(schema["items"], item)


@pytest.mark.parametrize("kind", list(EnvelopeFormat))
def test_all_kinds_of_messages_fit_their_schemas(kind: EnvelopeFormat) -> None:
    options = EnvelopeOptions(
        "shop", format=kind, schemas=True, transaction_metadata=True, schema_changes=True, query=True
    )
    for case in ("mariadb-10.11/ops", "mysql-9/ops_zstd"):
        schemas = SchemaHistory()
        with open_log(str(SERVER_CASES / case)) as log:
            blocks = schemas.following(log.committed_blocks(), str(SERVER_CASES / case), None)
            found = messages(blocks, options, decoding=Decoding(schemas))
        for message in found:
            is_event = kind is EnvelopeFormat.CLOUDEVENTS and message["kind"] == "change"
            value = message["value"]
            _payload(value["data"] if is_event and value is not None else value)
            for part in ("key", "old_key", "new_key"):
                _payload(message[part])
        assert {message["kind"] for message in found} == {"change", "transaction", "schema_change"}


def test_flat_rows_are_the_images_with_what_happened_to_them() -> None:
    path = SERVER_CASES / "mariadb-10.11" / "oltp_small"
    with open_log(str(path)) as log:
        blocks = list(log.committed_blocks())
    envelopes = messages(blocks, EnvelopeOptions("shop"))
    flat = messages(blocks, EnvelopeOptions("shop", format=EnvelopeFormat.FLAT))
    assert len(envelopes) == len(flat) > 1000
    for message, row in zip(envelopes, flat, strict=True):
        assert row["key"] == message["key"]
        value = message["value"]
        if value is None:
            assert row["value"] is None
            continue
        source = value["source"]
        assert row["value"] == (value["after"] or value["before"]) | {
            "__db": source["db"],
            "__table": source["table"],
            "__source_ts_ms": source["ts_ms"],
            "__source_sequence": source["sequence"],
            "__source_gtid": source["gtid"],
            "__op": value["op"],
            "__deleted": "true" if value["op"] == "d" else "false",
        }


@settings(max_examples=examples(40))
@given(st.integers(1, 400))
def test_pieces_of_a_real_log_give_the_same(cut: int) -> None:
    """Statements and sessions are remembered over the pieces of a group as well."""
    options = EnvelopeOptions("shop", transaction_metadata=True, query=True)
    groups = plain_groups(SERVER_CASES / "mariadb-10.11" / "ops" / "mysql-bin.000001")
    group = max(groups, key=len)
    cut = min(cut, len(group) - 1)
    whole = messages([plain_block([group])], options, decoding=Decoding(SchemaHistory()))
    pieces = [
        plain_block([group[:cut]], ends=False),
        plain_block([group[cut:]], begins=False, event_no=cut),
    ]
    cut_up = messages(pieces, options, decoding=Decoding(SchemaHistory()))
    assert _without_places(cut_up) == _without_places(whole)


def test_the_same_bytes_of_another_server_are_messages_of_its_connector() -> None:
    block = plain_block([[gtid_event(), table_map(COLUMNS, key=[0]), rows_event(WRITE, [_image((1, "a"))], 2)]])
    found = messages([block, replace(block, vendor=Vendor.MYSQL)], EnvelopeOptions("shop", schemas=True))
    payloads = [message["value"]["payload"]["source"]["connector"] for message in found]
    schemas = [message["value"]["schema"]["fields"][2]["name"] for message in found]
    assert payloads == ["mariadb", "mysql"]
    assert schemas == [f"io.debezium.connector.{name}.Source" for name in payloads]


def test_heartbeat_says_the_time() -> None:
    key, value = heartbeat(EnvelopeOptions("shop"), NOW)
    assert (key, value) == (b'{"serverName":"shop"}', b'{"ts_ms":1700000000123}')
    for part in heartbeat(EnvelopeOptions("shop", schemas=True), NOW):
        message = json.loads(part)
        _check_schema(message["schema"], message["payload"])


def test_a_source_has_a_name() -> None:
    with pytest.raises(OptionError, match="topic_prefix is empty"):
        EnvelopeOptions("")
