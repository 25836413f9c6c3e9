"""Texts of the command line: settings by the names of each face, rows on terminals of every width."""

from __future__ import annotations

import io
import re
from typing import TYPE_CHECKING

import pytest
from rich.console import Console
from rich.text import Text

from binlog_format.errors import OptionError
from binlog_format.messages import told_options, visible
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_streaming.cli.output import print_rows
from binlog_streaming.settings.names import as_flags, as_job_setting
from tests.connector.shop import ORDERS, Shop
from tests.program import run_program
from tests.streaming.snapshot.live import job_file
from tests.streaming.tables.shop import ShopLog

if TYPE_CHECKING:
    from pathlib import Path

UUID = "88ee60ec-e4d9-11f1-baee-02fc00000001"


class Flag:
    def __init__(self, *opts: str, secondary: tuple[str, ...] = ()) -> None:
        self.opts, self.secondary_opts, self.is_flag = list(opts), list(secondary), bool(secondary)


TAIL = (Flag("--schema-file"), Flag("--zero-dates"), Flag("--from"), Flag("--fail-loss", secondary=("--skip-loss",)))
MIRROR = (Flag("--to"), Flag("--mode"), Flag("--exclude-tables"))


@pytest.mark.parametrize(
    ("text", "job", "tail", "mirror"),
    [
        ("(option schemaFile)", "(source.schemaFile)", "(--schema-file)", "(source.schemaFile in a job file)"),
        ("option zeroDates=error", 'source.zeroDates = "error"', "--zero-dates error", None),
        ("option startingOffsets=latest", 'source.startingOffsets = "latest"', "--from latest", None),
        ("option source.excludeTables", "source.excludeTables", "option source.excludeTables", "--exclude-tables"),
        ("option failLoss=false", "option failLoss=false", "--skip-loss", None),
        ("WITH CHECK option", "WITH CHECK option", "WITH CHECK option", "WITH CHECK option"),
    ],
)
def test_setting_has_the_name_of_its_face(text: str, job: str, tail: str, mirror: str | None) -> None:
    assert told_options(text, as_job_setting) == job
    assert told_options(text, as_flags(TAIL)) == tail
    if mirror is not None:
        assert told_options(text, as_flags(MIRROR)) == mirror


@pytest.mark.parametrize("width", [40, 60, 80, 120])
@pytest.mark.parametrize("is_terminal", [True, False])
def test_no_width_cuts_what_a_row_holds(width: int, is_terminal: bool) -> None:
    output = io.StringIO()
    console = Console(file=output, width=width, force_terminal=is_terminal, no_color=True, highlight=False)
    value = "v" * 150
    print_rows(console, ("gtid", "op", "change"), [(f"{UUID}:7", "insert", value)], last_width=20)
    lines = [Text.from_ansi(line).plain for line in output.getvalue().splitlines()]
    text = "".join(line.strip() for line in lines)
    assert text.count("v") == len(value)
    assert "insert" in text
    assert (UUID in text) or "88ee60ec…:7" in text
    if is_terminal:
        assert max(map(len, lines)) <= width
    else:
        assert value in text
        assert "\x1b" not in output.getvalue()


HOSTILE = "[red]\x1b]0;title\x07\x1b[2J\r\n\u202e"
"""What a server lets its users call a table: markup, a window's title, a cleared screen, a line of its own ..."""


@pytest.mark.parametrize("command", ["changes", "events", "groups", "files", "check"])
def test_names_and_statements_cannot_command_a_terminal(command: str, tmp_path: Path) -> None:
    columns = (ORDERS.columns[0], ColumnSpec(HOSTILE, "varchar(60)"), *ORDERS.columns[2:])
    with Shop(tmp_path / "log", orders=TableSpec("shop", HOSTILE, columns, ("id",))) as shop:
        shop.sell(2, note=HOSTILE)
    place = job_file(tmp_path, tmp_path / "log") if command == "check" else tmp_path / "log"
    ran = run_program(command, place)
    output = ran.stdout + ran.stderr
    assert [line for line in output.split("\n") if not line.isprintable()] == []
    if command in ("changes", "check"):
        assert visible(HOSTILE) in re.sub(r"\s+", "", output), output


def test_an_error_is_one_line_whatever_it_is_about() -> None:
    error = OptionError("INVALID_VALUE", f"tables: {HOSTILE}")
    assert str(error).isprintable()
    assert visible("größe 日本 \udcff") == "größe 日本 \\udcff"


@pytest.mark.parametrize(
    "arguments", [["verify"], ["changes"], ["changes", "--output", "jsonl"], ["tail", "--from", "earliest", "--once"]]
)
def test_statements_that_no_row_event_tells_cannot_command_a_terminal(arguments: list[str], tmp_path: Path) -> None:
    with ShopLog(tmp_path / "log") as shop:
        shop.statement(f"UPDATE orders SET note = '{HOSTILE}'")
        shop.statement(f"UPDATE `{HOSTILE.replace('`', '')}` SET note = 1")
    done = run_program(arguments[0], tmp_path / "log", *arguments[1:])
    said = done.stdout + done.stderr
    assert "UPDATE" in said
    assert "title" in said
    assert not set("\x1b\x07\r\u202e") & set(said)
