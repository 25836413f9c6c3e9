"""Pages about tables: the worked example gives what it says, on a live server; lists are those in the code."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pytest

from binlog_streaming.job_state.record import RECORD_FILE
from binlog_streaming.modes.mode_columns import mode_schema
from binlog_streaming.settings import Deletes, Mode, OnCascade, OnStatement, Sink, TableFormat, TableRule
from tests.docs import effects_table
from tests.docs.markdown import REPO, code_blocks, table_rows
from tests.docs.settings_reference import PAGE, page_text
from tests.program import run_program
from tests.servers import mariadb_server_in

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

GUIDE = "docs/tables.md"
EXAMPLE = "## A worked example"


def block(language: str, *, with_text: str = "") -> str:
    """The block of the worked example in *language*."""
    start = (REPO / GUIDE).read_text().splitlines().index(EXAMPLE)
    blocks = [block for block in code_blocks(GUIDE, language) if block.line > start and with_text in block.text]
    return blocks[0].text


@pytest.mark.thorough
@pytest.mark.server
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("table_format", [TableFormat.DELTA])
def test_worked_example_gives_what_it_says(spark: SparkSession, table_format: TableFormat, tmp_path: Path) -> None:
    with mariadb_server_in(tmp_path / "server") as server:
        with server.connect() as connection, connection.cursor() as cursor:
            for statement in block("sql").split(";\n")[:-1]:
                cursor.execute(statement)
        job = block("toml").replace("/var/lib/mysql", str(server.binlog_directory)).replace("/data", str(tmp_path))
        (tmp_path / "job.toml").write_text(f'{job}format = "{table_format}"\n')
        done = run_program("run", "job.toml", "--once", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    shown = tmp_path / "show.py"
    shown.write_text(block("python").replace("/data", str(tmp_path)))
    # Threads of the libraries are still there when a program ends: some ways of reading abort it then, now and then.
    for _ in range(4):
        ran = subprocess.run([sys.executable, str(shown)], capture_output=True, text=True, check=False)
        assert (ran.returncode, ran.stdout, ran.stderr) == (0, block("text"), "")


def test_modes_and_formats_are_those_in_the_code() -> None:
    modes = {row[0].strip("`"): row[2] for row in table_rows("docs/modes.md", "## Modes")}
    assert set(modes) == set(Mode)
    for mode in Mode:
        own = mode_schema(mode, pa.schema([]), Deletes.MARK, OnCascade.APPLY).names
        assert re.findall(r"`(_[a-z_]+)`", modes[mode]) == own
    assert {row[0].strip("`") for row in table_rows("docs/lake.md", "## Formats")} == set(TableFormat)


def test_what_may_change_under_a_checkpoint_is_named() -> None:
    text = PAGE.read_text()
    assert RECORD_FILE in text
    section = text.split("## What may change later")[1]
    for settings in (TableRule, Sink):
        for field in msgspec.structs.fields(settings):
            assert re.search(rf"`{field.name}`", section), field.name


def test_words_for_statements_are_those_in_the_code() -> None:
    rows = table_rows("docs/ddl.md", "## TRUNCATE and DROP")
    assert [row[0].strip("`") for row in rows] == list(OnStatement)
    assert (TableRule().on_truncate, TableRule().on_drop) == (OnStatement.APPLY, OnStatement.IGNORE)


def test_settings_are_those_of_the_model() -> None:
    page = PAGE.read_text()
    assert page_text(page) == page, "python -m tests.docs.settings_reference writes them anew"


def test_table_of_conversions_is_that_of_the_code() -> None:
    page = effects_table.PAGE.read_text()
    assert effects_table.page_text(page) == page, "python -m tests.docs.effects_table writes it anew"
