"""Positions, GTIDs and table names that users give to commands, Spark and Python: taken, or named as not there."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from typer.testing import CliRunner

from binlog_connector.following.starts import ending, initial_offset
from binlog_connector.following.watched import WatchedLog
from binlog_connector.options.source_options import SourceOptions
from binlog_format import Position, open_log
from binlog_format.errors import BinlogError
from binlog_streaming.cli.logs.changes import changes
from binlog_streaming.cli.logs.events import events
from binlog_streaming.cli.logs.find import find
from binlog_streaming.cli.logs.groups import groups
from binlog_streaming.cli.logs.tail import start_of
from tests.corpus import SERVER_CASES

if TYPE_CHECKING:
    from collections.abc import Sequence

import typer

OLTP = str(SERVER_CASES / "mariadb-10.11" / "oltp_small")
MYSQL = str(SERVER_CASES / "mysql-9" / "rotation")
app = typer.Typer()
for command in (changes, events, find, groups):
    app.command()(command)


def run(*arguments: str) -> str:
    """Standard output; errors are raised."""
    return CliRunner().invoke(app, arguments, catch_exceptions=False).stdout


def lines(*arguments: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in run(*arguments, "--output", "jsonl").splitlines()]


def places(path: str) -> list[Position]:
    with open_log(path) as log:
        return [
            Position(int(group["file_no"]), int(group["page"]), int(group["chunk"]))
            for block in log.blocks()
            for group in block.groups
        ]


def server_text(position: Position) -> str:
    return f"mysql-bin.{position.file_no:06}:{position.page * 16384 + position.chunk}"


def json_text(position: Position) -> str:
    return json.dumps(position.to_json())


def test_positions_are_taken_as_the_server_gives_them() -> None:
    second, third = places(OLTP)[1:3]
    for start, end in ((str(second), str(third)), (server_text(second), server_text(third))):
        (row,) = lines("groups", OLTP, "--start", start, "--end", end)
        assert row["position"] == second.to_json()
        assert row["server_position"] == server_text(second)


def test_spark_and_tail_take_positions_as_the_server_gives_them() -> None:
    second, third = places(OLTP)[1:3]
    with WatchedLog(OLTP) as watched:
        for text in (str, server_text, json_text):
            options = SourceOptions.parse({"path": OLTP, "startingOffsets": text(second), "endingOffsets": text(third)})
            start = initial_offset(watched, options.start)
            assert (start.position, ending(watched, options.end, second).position) == (second, third)
        tail_start = start_of(server_text(second), None, None)
        assert not hasattr(tail_start, "astimezone")
        assert initial_offset(watched, tail_start).position == second


def test_position_of_files_with_another_name_is_refused() -> None:
    with pytest.raises(BinlogError, match=r"INVALID_VALUE\] start binlog.000001:4: .*are like 1:0:4 \(mysql"):
        run("groups", OLTP, "--start", "binlog.000001:4")


def test_one_shape_of_a_position_in_json() -> None:
    position = places(OLTP)[5]
    (group,) = lines("groups", OLTP, "--start", str(position), "--limit", "1")
    (found,) = lines("find", OLTP, "--gtid", str(group["gtid"]))
    event = lines("events", OLTP, "--start", str(position), "--limit", "1")[0]
    assert group["position"] == found["position"] == event["position"] == position.to_json()
    assert found["server_position"] == server_text(position)
    change = lines("changes", OLTP, "--limit", "1")[0]
    assert isinstance(change["position"], dict)
    assert set(change["position"]) == {"file_no", "page", "chunk"}


@pytest.mark.parametrize("command", [("groups",), ("events", "--limit", "5"), ("changes", "--limit", "5")])
def test_people_see_both_positions_of_a_classic_log(command: Sequence[str]) -> None:
    name, *rest = command
    shown = run(name, OLTP, *rest)
    assert "mysql-bin.000001:" in shown
    assert "1:0:" in shown


def test_groups_names_events_as_events_does_and_has_a_limit() -> None:
    (first,) = lines("groups", OLTP, "--limit", "1")
    types = [row["type"] for row in lines("events", OLTP, "--end", str(places(OLTP)[1]))]
    assert first["event_types"] == types
    assert "The first 2 groups" in run("groups", OLTP, "--limit", "2")


@pytest.mark.parametrize("inside", [1, 60])
def test_start_inside_of_a_transaction_names_the_places_around_it(inside: int) -> None:
    second, third = places(OLTP)[1:3]
    start = Position(second.file_no, second.page, second.chunk + inside)
    around = rf"begins at {second} \({server_text(second)}\), the next one begins at {third} "
    with pytest.raises(BinlogError, match=rf"POSITION_NOT_FOUND\] .*start {start} .*{around}"):
        run("changes", OLTP, "--start", str(start))
    options = SourceOptions.parse({"path": OLTP, "startingOffsets": json_text(start)})
    with WatchedLog(OLTP) as watched, pytest.raises(BinlogError, match=rf"POSITION_NOT_FOUND\] .*{around}"):
        initial_offset(watched, options.start)


@pytest.mark.parametrize(
    ("edges", "condition"),
    [
        (("--start", "9:0:4"), r"POSITION_NOT_FOUND\] .*: start: the log ends at \d+:\d+:\d+ \(mysql-bin"),
        (("--end", "9:0:4"), r"POSITION_NOT_FOUND\] .*: end: the log ends at"),
        (("--start", "0-1011-20", "--end", "0-1011-10"), "START_AFTER_END"),
        (("--start", "0-1011-99999999"), r"GTID_NOT_FOUND\] .*the log's last GTIDs are 0-"),
        (("--end", "0-1011-99999999"), "GTID_NOT_FOUND"),
        (("--start", "77-1-5"), "GTID_NOT_FOUND"),
    ],
)
def test_edges_that_the_log_does_not_have_are_refused(edges: Sequence[str], condition: str) -> None:
    for command in ("groups", "events", "changes"):
        with pytest.raises(BinlogError, match=condition):
            run(command, OLTP, *edges)


def test_start_after_the_last_file_is_refused_in_spark() -> None:
    options = SourceOptions.parse({"path": OLTP, "startingOffsets": "9:0:4"})
    with WatchedLog(OLTP) as watched, pytest.raises(BinlogError, match=r"POSITION_NOT_FOUND.*the log ends at"):
        initial_offset(watched, options.start)


def test_mysql_set_that_the_log_has_not_come_to_is_refused() -> None:
    unknown = "aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee:1-5"
    known = str(lines("groups", MYSQL, "--limit", "1")[0]["gtid"]).partition(":")[0]
    for start in (unknown, f"{known}:1-99999"):
        with pytest.raises(BinlogError, match="GTID_NOT_FOUND"):
            run("changes", MYSQL, "--start", start)
    assert lines("groups", MYSQL, "--start", f"{known}:1-3,{unknown}", "--limit", "1")[0]["gtid"] == f"{known}:4"


def test_table_that_the_log_does_not_have_is_named() -> None:
    with pytest.raises(BinlogError, match=r"TABLE_NOT_FOUND\] the log has no changes of table t.nope"):
        run("changes", OLTP, "--table", "t.nope", "--output", "jsonl")
    for command, *options in (
        ("changes", "--tables", "nope.*"),
        ("changes", "--table", "t.nope", "--end", str(places(OLTP)[1])),
        ("events", "--tables", "nope.*"),
    ):
        result = CliRunner().invoke(app, [command, OLTP, *options, "--output", "jsonl"], catch_exceptions=False)
        assert (result.exit_code, result.stdout) == (0, "")
        assert "has no changes of" in result.stderr


def test_table_without_its_database_is_refused() -> None:
    with open_log(OLTP) as log, pytest.raises(BinlogError, match=r'INVALID_VALUE\] option table: .*got "a"'):
        log.changes(table="a")
    with pytest.raises(BinlogError, match=r'INVALID_VALUE\] option --table: .*got "a"'):
        run("changes", OLTP, "--table", "a")
