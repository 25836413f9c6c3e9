"""A server that folds names of tables: rows have small letters, statements what was written; each reader knows both."""

from __future__ import annotations

import json
import shutil
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
import typer
from typer.testing import CliRunner

from binlog_connector import log_definitions
from binlog_connector.following.starts import Edge
from binlog_connector.following.tailer import STEP_SIZE_MAX, FollowOptions, Tailer
from binlog_format.errors import SchemaError
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_streaming.cli.jobs.init import init
from binlog_streaming.cli.logs.changes import changes
from binlog_streaming.cli.logs.tail import tail
from binlog_streaming.settings import PublishJob, parse_any_job
from binlog_streaming.topics.connecting import names_of
from binlog_streaming.topics.record import Records
from binlog_streaming.topics.step_messages import StepMessages
from tests.streaming.tables.shop import ShopLog

if TYPE_CHECKING:
    from pathlib import Path

    from typer.testing import Result

ORDERS = TableSpec("shop", "orders", (ColumnSpec("id", "int"), ColumnSpec("n", "int")), ("id",))
MADE = "CREATE TABLE Orders (id INT PRIMARY KEY, n INT UNSIGNED)"
MOST = (1 << 32) - 1
FLAG = "--lower-case-table-names"


@pytest.fixture(autouse=True)
def new_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_definitions, "_known", {})


def write_log(folder: Path, *statements: str, metadata: bool = False) -> Path:
    with ShopLog(folder / "log", metadata=metadata) as log:
        for text in statements:
            log.statement(text)
        log.insert(ORDERS, (1, -1))
    return folder / "log"


def invoke(*arguments: str) -> Result:
    app = typer.Typer()
    for command in (changes, tail, init):
        app.command()(command)
    result = CliRunner().invoke(app, arguments)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    assert result.exit_code == 0, result.output
    return result


def rows(command: str, log: Path, *options: str) -> list[dict[str, Any]]:
    result = invoke(command, str(log), "--output", "jsonl", *options)
    return [json.loads(line)["after"] for line in result.stdout.splitlines()]


COMMANDS = (("changes",), ("tail", "--from", "earliest", "--once"))


@pytest.mark.parametrize("command", COMMANDS)
def test_a_log_that_proves_it_needs_no_setting(tmp_path: Path, command: tuple[str, ...]) -> None:
    log = write_log(tmp_path, "CREATE DATABASE shop", MADE)
    assert rows(command[0], log, *command[1:]) == [{"id": 1, "n": MOST}]


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("value", ["1", "2"])
def test_the_setting_tells_what_the_log_does_not(tmp_path: Path, command: tuple[str, ...], value: str) -> None:
    log = write_log(tmp_path, MADE)
    assert rows(command[0], log, *command[1:], FLAG, value) == [{"id": 1, "n": MOST}]


@pytest.mark.parametrize("command", COMMANDS)
def test_what_is_unclear_is_named(tmp_path: Path, command: tuple[str, ...]) -> None:
    log = write_log(tmp_path, MADE)
    with pytest.raises(SchemaError, match=r"NAMES_UNCLEAR\] shop\.orders: .*shop\.Orders"):
        rows(command[0], log, *command[1:])
    with pytest.raises(SchemaError, match=r"NO_COLUMN_METADATA\] shop\.orders"):
        rows(command[0], log, *command[1:], FLAG, "0")


def test_rows_of_a_database_that_was_dropped_prove_nothing(tmp_path: Path) -> None:
    with ShopLog(tmp_path / "log", metadata=False) as log:
        log.insert(ORDERS, (1, -1))
        for text in ("DROP DATABASE shop", "CREATE DATABASE shop", MADE):
            log.statement(text)
    with pytest.raises(SchemaError, match="NO_COLUMN_METADATA"):
        rows("changes", tmp_path / "log")


def messages(folder: Path, *settings: str, step_size: int = STEP_SIZE_MAX) -> list[tuple[str, dict[str, Any]]]:
    """Topic and value of all messages."""
    source = "\n".join(settings)
    text = f"""
checkpoint = "state"
[source]
path = "log"
{source}
[sink]
kind = "kafka"
skipped_operations = []
bootstrap_servers = "127.0.0.1:9"
topic_prefix = "t"
schema_changes = true
[[tables]]
select = "shop.orders"
"""
    job = parse_any_job(text, file=folder / "job.toml")
    assert isinstance(job, PublishJob)
    made = StepMessages(job, names_of(job.sink), None, lambda _: 1)
    found = []
    with Tailer(job.source.path, Edge.EARLIEST, how=FollowOptions(ends=True, step_size_max=step_size)) as tailer:
        while (step := tailer.step(0.0)) is not None or not tailer.is_ended:
            for some in made.of(step, Records()) if step is not None else ():
                found += [(some.topic, msgspec.json.decode(value.as_py())) for value in some.values]
    return found


def test_topics_have_statements_under_the_names_of_rows(tmp_path: Path) -> None:
    with ShopLog(tmp_path / "log", metadata=False) as log:
        log.statement(MADE)
        log.insert(ORDERS, (1, -1))
        log.statement("TRUNCATE TABLE Orders")
    with pytest.raises(SchemaError, match=r"NAMES_UNCLEAR\] shop\.orders"):
        messages(tmp_path)
    found = messages(tmp_path, "lowerCaseTableNames = 1")
    assert [(topic, value["op"]) for topic, value in found if topic != "t"] == [
        ("t.shop.orders", "c"),
        ("t.shop.orders", "t"),
    ]
    assert {"id": 1, "n": MOST} in [value["after"] for topic, value in found if topic != "t"]
    changes = [change["id"] for topic, value in found if topic == "t" for change in value["tableChanges"]]
    assert changes == ['"shop"."orders"', '"shop"."orders"']


def test_an_unclear_truncate_is_named_where_table_maps_have_names(tmp_path: Path) -> None:
    with ShopLog(tmp_path / "log") as log:
        log.insert(ORDERS, (1, 1))
        log.statement("TRUNCATE TABLE Orders")
    with pytest.raises(SchemaError, match=r"NAMES_UNCLEAR\] shop\.orders: it is emptied"):
        messages(tmp_path)
    assert [topic for topic, _ in messages(tmp_path, "lowerCaseTableNames = 0")] == ["t.shop.orders"]


def test_rows_of_earlier_steps_count(tmp_path: Path) -> None:
    """Steps end with their files; of two tables whose names differ in case each is itself."""
    capital = TableSpec("shop", "Orders", ORDERS.columns, ("id",))
    with ShopLog(tmp_path / "log") as log:
        log.insert(ORDERS, (1, 1))
        log.flush()
        log.statement("TRUNCATE TABLE Orders")
    with pytest.raises(SchemaError, match=r"NAMES_UNCLEAR\] shop\.orders: it is emptied"):
        messages(tmp_path, step_size=1)
    shutil.rmtree(tmp_path / "log")
    with ShopLog(tmp_path / "log") as log:
        log.insert(capital, (1, 1))
        log.flush()
        log.insert(ORDERS, (1, 1))
        log.statement("TRUNCATE TABLE Orders")
    assert [topic for topic, _ in messages(tmp_path, step_size=1)] == ["t.shop.orders"]


@pytest.mark.parametrize("sink", ["tables", "kafka"])
def test_init_writes_the_setting(tmp_path: Path, sink: str) -> None:
    log = write_log(tmp_path, MADE)
    result = invoke("init", str(log), "--for", sink, FLAG, "1")
    assert "\nlowerCaseTableNames = 1\n" in result.stdout
    assert "shop.orders (" in result.stdout, "its columns are known"
