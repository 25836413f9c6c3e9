"""Hostile text in names, values, statements and settings, looked for as bytes in all that a job and commands give out.

Escapes of terminals, ends of lines, characters that turn text around, and HTML. Values of rows are in no error, page or
file of messages, unless the job file allows it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import urllib.request
from typing import TYPE_CHECKING

import pytest

from binlog_format.messages import HIDDEN, SHOW_VALUES, library_text, row_value
from binlog_format.structured.layout import Severity
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableSpec
from binlog_lab.simulator.structured.program import LoggingProgram
from binlog_streaming.cli.output import traceback_text
from binlog_streaming.topics.step_messages import Notifications
from tests.program import PROGRAM, run_program
from tests.streaming.tables.shop import ShopLog

if TYPE_CHECKING:
    from pathlib import Path

HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m<script>x</script>\r\n\u202egnp\u2028\x7f"
SECRET = "LEAK7731"
COMMANDS = re.compile("[\x00-\x09\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
"""Characters that nothing for people or programs may have but the end of a line."""
PATIENCE_S = 300

NAMES = tuple(f"{kind}{HOSTILE}" for kind in ("db", "t", "c"))
PEOPLE = TableSpec(
    NAMES[0], NAMES[1], (ColumnSpec("id", "int"), ColumnSpec(NAMES[2], "varchar(200)"), ColumnSpec("n", "int")), ("id",)
)
JOB = """
name = {name}
checkpoint = "checkpoint"
on_error = "set_aside"
{more}
[source]
path = "log"
[[tables]]
select = ".*"
[sink]
directory = "lake"
[metrics]
port = 0
"""


def assert_harmless(data: bytes, what: str) -> None:
    text = data.decode()
    found = COMMANDS.search(text)
    assert found is None, f"{what}: {text[max(0, found.start() - 80) : found.end() + 20]!r}"


def toml_text(text: str) -> str:
    return json.dumps(text, ensure_ascii=True).replace("\\u007f", "\\u007F")


def write_log(place: Path) -> None:
    quoted = [f"`{name}`" for name in NAMES]
    with ShopLog(place) as log:
        log.statement(f"CREATE DATABASE {quoted[0]}", database=NAMES[0])
        log.statement(
            f"CREATE TABLE {quoted[1]} (id INT PRIMARY KEY, {quoted[2]} VARCHAR(200), n INT) COMMENT '{HOSTILE}'",
            database=NAMES[0],
        )
        log.insert(PEOPLE, (1, f"{SECRET}{HOSTILE}", 7731), (2, HOSTILE, 2))


@pytest.mark.parametrize(
    "arguments",
    [
        ["files"], ["groups"], ["events"], ["changes"], ["verify"], ["map"], ["pages"],
        ["events", "--output", "jsonl"], ["changes", "--output", "jsonl"], ["verify", "--output", "jsonl"],
        ["tail", "--from", "earliest", "--once"], ["init"], ["doctor"],
    ],
    ids=" ".join,
)  # fmt: skip
def test_commands_about_logs(tmp_path: Path, arguments: list[str]) -> None:
    write_log(tmp_path / "log")
    with ShopLog(tmp_path / "log") as log:
        log.statement(f"UPDATE `{NAMES[1]}` SET `{NAMES[2]}` = '{HOSTILE}'", database=NAMES[0])
    done = run_program(arguments[0], tmp_path / "log", *arguments[1:])
    assert_harmless(done.stdout.encode(), "standard output")
    assert_harmless(done.stderr.encode(), "standard error")
    assert "owned" in done.stdout + done.stderr or arguments[0] in ("files", "map", "pages", "groups", "doctor")


@pytest.mark.parametrize("output", ["table", "jsonl"])
def test_check_and_errors_about_statements(tmp_path: Path, output: str) -> None:
    write_log(tmp_path / "log")
    with ShopLog(tmp_path / "log", first=10) as log:
        log.statement(f"UPDATE `{NAMES[1]}` SET `{NAMES[2]}` = '{SECRET}{HOSTILE}', n = 77317731", database=NAMES[0])
    path = tmp_path / "job.toml"
    path.write_text(JOB.format(name=toml_text(HOSTILE), more=""))
    done = run_program("check", path, "--output", output)
    for stream in (done.stdout, done.stderr):
        assert_harmless(stream.encode(), "check")
        assert SECRET not in stream
        assert "77317731" not in stream
    assert "UPDATE" in done.stdout
    assert "STATEMENT_FORMAT" in done.stdout


SETTINGS = ["name", "checkpoint", "source.path", "sink.directory", "sink.format", "tables.select", "tables.mode", "x"]


@pytest.mark.parametrize("setting", SETTINGS)
def test_settings(tmp_path: Path, setting: str) -> None:
    section, _, key = setting.rpartition(".")
    values = {"checkpoint": "c", "source.path": "nolog", "sink.directory": "lake"}
    values[setting] = HOSTILE
    lines = {"": [], "source": ["[source]"], "sink": ["[sink]"], "tables": ["[[tables]]"]}
    for name, value in values.items():
        part, _, last = name.rpartition(".")
        lines[part].append(f"{last} = {toml_text(value)}")
    (tmp_path / "job.toml").write_text("\n".join(line for part in lines.values() for line in part))
    for command in ("check", "run", "status"):
        done = run_program(command, tmp_path / "job.toml")
        assert done.returncode != 0
        assert_harmless((done.stdout + done.stderr).encode(), f"{command}, {section}.{key}")


def test_jobs_of_events(tmp_path: Path) -> None:
    with LoggingProgram(tmp_path / "log") as program:
        names = {"category": HOSTILE, "function": HOSTILE, "file": HOSTILE}
        program.failure = program.session.add_source(f"{HOSTILE}{{}}", "i", severity=Severity.ERROR, line=1, **names)
        program.log_with()
    path = tmp_path / "job.toml"
    path.write_text(
        f'name = {toml_text(HOSTILE)}\ncheckpoint = "c"\n[source]\npath = "log"\nformat = "structured"\n[sink]\n'
        'directory = "lake"\n'
    )
    for arguments in (("run", path, "--once"), ("status", path), ("status", path, "--json"), ("check", path)):
        done = run_program(*arguments)
        assert_harmless((done.stdout + done.stderr).encode(), str(arguments[0]))


def test_notifications_and_errors() -> None:
    mark = {
        "kind": "cancel", "database": NAMES[0], "table": NAMES[1], "detail": json.dumps({"reason": HOSTILE}),
        "chunk": 1, "row_count": 1, "snapshot": HOSTILE, "commit_time": 1,
    }  # fmt: skip
    messages = Notifications("news", HOSTILE).of_marks([mark])
    for column in (messages.keys, messages.values):
        for data in column.to_pylist():
            assert_harmless(data, "notification")
    assert json.loads(messages.values[0].as_py())["additional_data"]["reason"] == HOSTILE
    with pytest.raises(ValueError, match=SECRET) as raised:
        int(f"{SECRET}: {HOSTILE}")
    assert SECRET not in traceback_text(raised.value)
    assert "test_hostile_text.py" in traceback_text(raised.value)


def test_values_are_shown_to_whom_allows_it(monkeypatch: pytest.MonkeyPatch) -> None:
    assert row_value(SECRET) == HIDDEN
    assert library_text(ValueError(f"cannot cast {SECRET}")) == HIDDEN
    assert library_text(OSError("disk full")) == "disk full"
    monkeypatch.setenv(SHOW_VALUES, "1")
    assert row_value(SECRET) == SECRET
    assert library_text(ValueError(f"cannot cast {SECRET}")) == f"cannot cast {SECRET}"


def fetched(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=PATIENCE_S) as answer:
        data: bytes = answer.read()
    return data


@pytest.mark.spark
@pytest.mark.parametrize("shows", [False, True])
def test_all_outputs_of_a_job_of_tables(tmp_path: Path, shows: bool) -> None:
    write_log(tmp_path / "log")
    path = tmp_path / "job.toml"
    path.write_text(JOB.format(name=toml_text(HOSTILE), more="errors_show_values = true\n" if shows else ""))
    with (tmp_path / "stderr").open("wb") as errors:
        process = subprocess.Popen(
            [PROGRAM, "run", str(path), "--status", "127.0.0.1:0", "-o", "jsonl"],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=errors, start_new_session=True,
        )  # fmt: skip
    outputs: dict[str, bytes] = {}
    try:
        assert process.stdout is not None
        started = process.stdout.readline()
        url, metrics = json.loads(started)["status"], json.loads(started)["metrics"]
        lines = [started, process.stdout.readline()]
        with ShopLog(tmp_path / "log", first=3) as log:
            before = (77317731, f"{SECRET}{HOSTILE}", 1)  # there is no such row
            log.update(PEOPLE, (before, (77317731, f"{SECRET}{HOSTILE}", 2)))
        while b"set_aside" not in lines[-1]:
            lines.append(process.stdout.readline())
            assert lines[-1], (tmp_path / "stderr").read_text()
        outputs["standard output"] = b"".join(lines)
        for name in ("", "status.json", "metrics", "map.json"):
            outputs[f"page {name}"] = fetched(f"{url}{name}")
        outputs["metrics"] = fetched(metrics)
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(PATIENCE_S)
        assert process.stdout is not None
        process.stdout.close()
    for arguments in (("status", path), ("status", path, "--json"), ("check", path)):
        done = run_program(*arguments)
        outputs[" ".join(map(str, arguments))] = (done.stdout + done.stderr).encode()
    outputs["standard error"] = (tmp_path / "stderr").read_bytes()
    for file in (tmp_path / "checkpoint").glob("*"):
        if file.suffix in (".log", ".json") and file.name != "binlog-stream-definitions.json":
            # Spark's log has a trace of Java where the signal meets Java at work; its lines begin with a tab.
            outputs[file.name] = file.read_bytes().replace(b"\n\t", b"\n")
    assert b"CONTRADICTED" in outputs["page status.json"]
    assert b"<script>x" not in outputs["page "]
    for name, data in outputs.items():
        assert_harmless(data, name)
        assert (b"77317731" in data) <= shows, name
        assert SECRET.encode() not in data, name
    assert (b"77317731" in outputs["page status.json"]) == shows
