"""The judge reads messages by their schemas alone, and finds what is wrong with those of a topic."""

from __future__ import annotations

import datetime as dt
import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from tests.judge.histories.history import Done, History, Session
from tests.judge.messages import Part, misfit, plain_value, server_plain
from tests.judge.servers import LiveServer
from tests.judge.tables import DOUBLE, ServerTable
from tests.judge.topics import (
    EmptiedTable,
    Publisher,
    TopicsJudge,
    chain_fault,
    emptied_fault,
    message_fault,
    ordered_messages,
    tombstone_fault,
)
from tests.servers import mariadb_of_path

if TYPE_CHECKING:
    from pathlib import Path

    from tests.judge.topics import Topic

STATEMENTS = (
    "CREATE DATABASE h1",
    "USE h1",
    "CREATE TABLE t (id INT PRIMARY KEY, v BIGINT UNSIGNED, w DECIMAL(30, 2) DEFAULT 1.5) DEFAULT CHARSET utf8mb4",
    "INSERT INTO t (id, v) VALUES (1, 18446744073709551615), (2, NULL)",
    "UPDATE t SET id = 3 WHERE id = 2",
    "ALTER TABLE t MODIFY v VARCHAR(30)",
    "UPDATE t SET v = 'x'",
)
ID = {"type": "int32", "optional": False, "field": "id"}
TEXT = {"type": "string", "optional": True, "field": "v"}
STRUCT = {"type": "struct", "fields": [ID, TEXT], "optional": True}
DECIMAL = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}


def of_connect(name: str, kind: str = "int64") -> dict[str, Any]:
    return {"type": kind, "name": name}


@pytest.mark.parametrize(
    ("schema", "value", "text", "kind"),
    [
        (DECIMAL, "/w==", "-0.01", "decimal"),
        ({**DECIMAL, "parameters": {"scale": "0"}}, "AP//////////", "18446744073709551615", "bigint"),
        (of_connect("io.debezium.data.Bits", "bytes"), "AQI=", "513", "bit"),
        ({"type": "boolean"}, True, "1", "bit"),
        (of_connect("io.debezium.time.Date", "int32"), -1, "1969-12-31", "date"),
        (of_connect("io.debezium.time.Timestamp"), 500, "1970-01-01 00:00:00.5", "datetime"),
        (of_connect("io.debezium.time.MicroTimestamp"), -1, "1969-12-31 23:59:59.999999", "datetime"),
        (of_connect("io.debezium.time.ZonedTimestamp", "string"), "1970-01-01T00:00:01Z", "1970-01-01 00:00:01", ""),
        (of_connect("io.debezium.time.MicroTime"), -3_020_399_000_000, "-838:59:59.0", "time"),
        (of_connect("io.debezium.data.geometry.Geometry", "struct"), {"wkb": "AQ==", "srid": None}, "0:01", "geometry"),
        ({"type": "double"}, 1, "1e0", "double"),
        ({"type": "bytes"}, "AP8=", "00FF", "blob"),
    ],
)
def test_a_field_and_a_text_of_the_server_are_the_same_value(
    schema: dict[str, Any], value: object, text: str, kind: str
) -> None:
    expected = dt.datetime.fromisoformat(text) if kind == "" else server_plain(text, kind)
    assert plain_value(Part(schema, value), kind) == expected


def test_numbers_are_compared_by_their_bits() -> None:
    assert plain_value(Part({"type": "double"}, -0.0), "double") == DOUBLE.pack(-0.0) != DOUBLE.pack(0.0)


@pytest.mark.parametrize(
    ("schema", "value", "why"),
    [
        (ID, None, "not optional"),
        (ID, 2**31, "is no int32"),
        (ID, True, "is no int32"),
        (TEXT, 1, "is no string"),
        ({"type": "bytes", "optional": False}, "a", "is no bytes"),
        ({**ID, "default": "1"}, 1, "default of : '1' is no int32"),
        (STRUCT, {"id": 1}, "fields id, the schema has id, v"),
        (STRUCT, {"id": 1, "v": 2}, r"\.v: 2"),
        ({"type": "array", "items": {"type": "float", "optional": False}, "optional": True}, [1.5, None], "null"),
    ],
)
def test_a_value_that_does_not_fit_its_schema(schema: dict[str, Any], value: object, why: str) -> None:
    with pytest.raises(AssertionError, match=why):
        assert not misfit(Part(schema, value)), misfit(Part(schema, value))
    assert not misfit(Part(STRUCT, {"id": 1, "v": None}))


def change(op: str, number: int, before: str | None, after: str | None, *, key: int = 1) -> tuple[bytes, bytes]:
    rows = {"before": before and {"id": key, "v": before}, "after": after and {"id": key, "v": after}}
    source = {"sequence": f"{number:010}", "gtid": f"0-1-{number}"}
    fields: list[dict[str, Any]] = [{**STRUCT, "field": "before"}, {**STRUCT, "field": "after"}]
    texts = [{"type": "string", "optional": False, "field": name} for name in ("sequence", "gtid", "op")]
    fields += [{"type": "struct", "optional": False, "fields": texts[:2], "field": "source"}, texts[2]]
    schema = {"type": "struct", "optional": False, "fields": fields}
    value = {"schema": schema, "payload": {**rows, "source": source, "op": op}}
    shown = {"schema": {**STRUCT, "fields": [ID]}, "payload": {"id": key}}
    return json.dumps(shown).encode(), json.dumps(value).encode()


DELETED = change("d", 3, "b", None)
RIGHT: Topic = [[change("c", 1, None, "a"), change("u", 2, "a", "b"), DELETED, (DELETED[0], None)]]


def test_a_topic_that_is_right() -> None:
    messages = ordered_messages(RIGHT)
    assert [message.number for message in messages] == [1, 2, 3, 3]
    assert not chain_fault(History(1, ""), "h1.t", messages)
    assert not tombstone_fault(RIGHT)


@pytest.mark.parametrize(
    ("left_out", "why"), [(1, "d of 3 finds"), (3, "without a tombstone"), (2, "then a message under")]
)
def test_a_message_that_is_missing_is_found(left_out: int, why: str) -> None:
    topic = [[*RIGHT[0][:left_out], *RIGHT[0][left_out + 1 :]]]
    assert why in (tombstone_fault(topic) or chain_fault(History(1, ""), "h1.t", ordered_messages(topic)))


@pytest.mark.parametrize("before", ["", "SET STATEMENT max_statement_time = 60 FOR "])
def test_a_statement_about_the_table_may_change_its_rows(before: str) -> None:
    messages = ordered_messages([[change("c", 1, None, "a"), change("u", 4, "x", "b")]])
    history = History(1, "", [Done(f"{before}ALTER TABLE t MODIFY v INT", gtid="0-1-2")])
    assert not chain_fault(history, "h1.t", messages)
    assert "u of 4 finds" in chain_fault(history, "h1.other", messages)


def test_a_key_that_is_not_that_of_its_row_is_found() -> None:
    key, _ = change("c", 1, None, "a", key=2)
    _, value = change("c", 1, None, "a")
    (message,) = ordered_messages([[(key, value)]])
    assert "under the key {'id': 2}" in message_fault(message)
    assert not any(map(message_fault, ordered_messages(RIGHT)))


@pytest.mark.parametrize(
    ("columns", "rows", "key", "why"),
    [
        (["id", "v"], [["1", "b"]], ["id"], ""),
        (["id", "v"], [["1", "c"]], ["id"], "values of varchar: 'b' for 'c'"),
        (["id", "v"], [], ["id"], "1 rows are deleted, the server had 0"),
        (["id", "v"], [["1", "b"]], ["v"], "the key has"),
        (["v", "id"], [["b", "1"]], ["id"], "the columns are"),
    ],
)
def test_rows_of_the_last_deletes_are_compared(
    columns: list[str], rows: list[list[str | None]], key: list[str], why: str
) -> None:
    types = [{"id": "int", "v": "varchar"}[column] for column in columns]
    fault = emptied_fault(EmptiedTable(ServerTable(columns, types, rows), 3, key), ordered_messages(RIGHT))
    assert fault.startswith(why)
    assert bool(fault) == bool(why)


@pytest.mark.server
def test_topics_of_a_history_are_judged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = mariadb_of_path()
    history = History(1, "")
    with LiveServer(installed) as server:
        server.forget()
        with closing(Session(server, history)) as session:
            assert not any(session.do(statement) for statement in STATEMENTS)
            session.keep_tables()
        assert {name: one.kind for name, one in TopicsJudge(server, tmp_path).judge([history]).items()} == {
            "topic of h1.t": "equal"
        }
        with closing(Session(server, history)) as session:
            assert not session.do("INSERT INTO h1.t VALUES (5, 'x', 1)")
            session.keep_tables()
        topic = Publisher.topic

        def losing(publisher: Publisher, name: str) -> Topic:
            return [
                [(key, value) for key, value in part if b'"id":5' not in (key or b"")]
                for part in topic(publisher, name)
            ]

        monkeypatch.setattr(Publisher, "topic", losing)
        (verdict,) = TopicsJudge(server, tmp_path).judge([history]).values()
        assert (verdict.kind, verdict.why) == ("wrong", "0 rows are deleted, the server had 1")
