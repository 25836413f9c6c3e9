"""`binlog-stream events` on logs of real servers."""

from __future__ import annotations

import json
from collections import Counter
from typing import TYPE_CHECKING

import pytest
import typer
from typer.testing import CliRunner

from binlog_format.errors import BinlogError
from binlog_streaming.cli.logs.events import events
from tests.corpus import SERVER_CASES, corpus

if TYPE_CHECKING:
    JsonObject = dict[str, object]

OLTP = SERVER_CASES / "mariadb-10.11" / "oltp_small"
# Events in groups, counted from the file's event headers.
OLTP_TYPES = {
    "mariadb_gtid": 309,
    "annotate_rows": 1204,
    "table_map": 1204,
    "update_rows_v1": 600,
    "write_rows_v1": 312,
    "delete_rows_v1": 300,
    "xid": 304,
    "query": 5,
}


def _run(*arguments: object) -> str:
    app = typer.Typer()
    app.callback()(lambda: None)
    app.command()(events)
    result = CliRunner().invoke(app, ["events", *(str(argument) for argument in arguments)])
    if result.exception is not None:
        raise result.exception
    return result.stdout


def _lines(*arguments: object) -> list[JsonObject]:
    return [json.loads(line) for line in _run(*arguments, "--output", "jsonl").splitlines()]


def test_every_event_of_the_file_is_listed() -> None:
    events = _lines(OLTP)
    assert Counter(str(event["type"]) for event in events) == OLTP_TYPES
    names = "position event_no type stored_as size flags server_id time gtid database table text"
    assert all(list(event) == names.split() for event in events)
    assert all(event["gtid"] and event["server_id"] == 1011 for event in events)


def test_events_say_what_they_are_about() -> None:
    by_type: dict[str, list[JsonObject]] = {}
    for event in _lines(OLTP):
        by_type.setdefault(str(event["type"]), []).append(event)
    assert {event["database"] for event in by_type["write_rows_v1"]} == {"sb"}
    assert {event["table"] for event in by_type["table_map"]} == {f"sbtest{number}" for number in range(1, 5)}
    assert str(by_type["annotate_rows"][-1]["text"]).split()[0] in ("INSERT", "UPDATE", "DELETE")
    assert any(str(event["text"]).startswith("CREATE TABLE") for event in by_type["query"])
    assert by_type["xid"][0]["text"] is None


def test_tables_and_ranges_are_chosen() -> None:
    everything = _lines(OLTP)
    chosen = _lines(OLTP, "--tables", r"sb\.sbtest[12]", "--exclude-tables", r"sb\.sbtest1")
    assert chosen == [event for event in everything if event["table"] == "sbtest2"]
    gtid = str(everything[len(everything) // 2]["gtid"])
    assert _lines(OLTP, "--end", gtid) + _lines(OLTP, "--start", gtid) == everything


def test_table_for_people_says_when_there_is_more() -> None:
    text = _run(OLTP, "--limit", 4)
    assert "CREATE DATABASE" in text or "CREATE TABLE" in text
    assert "The first 4 events" in text
    assert "No events" in _run(OLTP, "--tables", "no.such")


def test_wrong_use_is_named() -> None:
    with pytest.raises(BinlogError, match="INVALID_VALUE"):
        _run(OLTP, "--tables", "(")


def test_compressed_events_are_shown_plain() -> None:
    case = corpus("servers") / "mariadb-10.11"
    compressed, plain = _lines(case / "ops_compressed"), _lines(case / "ops")
    assert [(event["type"], event["table"]) for event in compressed] == [
        (event["type"], event["table"]) for event in plain
    ]
    stored = Counter(event["stored_as"] for event in compressed if event["stored_as"] is not None)
    assert stored["query_compressed"] == 74
    assert stored["write_rows_compressed_v1"] == 72


def test_events_in_a_compressed_transaction_are_shown_plain() -> None:
    events = _lines(corpus("servers") / "mysql-9" / "ops_zstd")
    inner = [event for event in events if event["stored_as"] == "transaction_payload"]
    assert {"table_map", "write_rows_v2", "xid"} <= {event["type"] for event in inner}
    assert "transaction_payload" not in {event["type"] for event in events}
