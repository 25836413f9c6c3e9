"""Secrets of job files, and text that commands a terminal, are in no output and in no file that others may read."""

from __future__ import annotations

import errno
import logging
import os
import socket
import stat
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkRuntimeError
from pyspark.sql import SparkSession

from binlog_connector.following.offsets import OffsetFile, SourceOffset
from binlog_connector.metrics.exporter import MetricsExporter
from binlog_format.errors import AccessError, MachineError, OptionError, StartError, StorageError, listening_error
from binlog_format.messages import without_keys
from binlog_format.position import Position
from binlog_streaming.cli.output import VisibleFormatter, say
from binlog_streaming.job_state.checkpoint import StateFolder
from binlog_streaming.settings import load_any_job
from binlog_streaming.spark_session import LOG_SIZE_MAX, bound_log, local_session
from tests.program import run_program

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "hunter2"
WITH_SECRETS = (
    f"https://user:{SECRET}@host/x",
    f"s3://KEYID:{SECRET}@bucket/x",
    f"abfss://c@account/x?sv=1&sig={SECRET}",
    f"s3://bucket/x?aws_secret_access_key={SECRET}",
    f"mysql://cdc:{SECRET}@db/",
)
TABLES = 'checkpoint = "{checkpoint}"\n[source]\npath = "{path}"\narchive = "{archive}"\nschemaFile = "{schemaFile}"\n'
TABLES += '[[tables]]\ntarget = "{target}"\n[sink]\ndirectory = "{directory}"\n'
TOPICS = 'checkpoint = "c"\n[source]\npath = "/nolog"\n[sink]\nkind = "kafka"\nbootstrap_servers = "{servers}"\n'
TOPICS += 'topic_prefix = "{prefix}"\n[sink.registry]\nurl = "{registry}"\n'
SETTINGS = [
    (TABLES, "checkpoint"),
    (TABLES, "path"),
    (TABLES, "archive"),
    (TABLES, "schemaFile"),
    (TABLES, "target"),
    (TABLES, "directory"),
    (TOPICS, "servers"),
    (TOPICS, "prefix"),
    (TOPICS, "registry"),
]


@pytest.mark.parametrize("url", WITH_SECRETS)
@pytest.mark.parametrize(("text", "setting"), SETTINGS)
def test_keys_in_urls_are_refused_in_every_setting(tmp_path: Path, text: str, setting: str, url: str) -> None:
    values = dict.fromkeys((setting for _, setting in SETTINGS), "x")
    (tmp_path / "job.toml").write_text(text.format(**{**values, setting: url}))
    with pytest.raises(OptionError, match="has a password or a key in it") as raised:
        load_any_job(tmp_path / "job.toml")
    assert SECRET not in str(raised.value)


def test_what_object_stores_and_catalogs_are_given_may_have_keys(tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text(
        'checkpoint = "c"\n[source]\npath = "log"\n[[tables]]\n[sink]\ndirectory = "t"\n'
        f'[sink.storage]\nproxy_url = "{WITH_SECRETS[0]}"\n'
    )
    assert load_any_job(path).name == "job"


@pytest.mark.parametrize("url", WITH_SECRETS)
def test_errors_mask_keys(url: str) -> None:
    for error in (
        OptionError("INVALID_VALUE", f"expected a place, got '{url}'"),
        StorageError("FAILED", f"cannot read it: GET {url} failed"),
        StartError("PATH_NOT_FOUND", "nothing", hint=f"see {url}"),
    ):
        assert SECRET not in f"{error} {error.reason}"
    assert without_keys("abfss://container@account/x?sv=1") == "abfss://container@account/x?sv=1"


@pytest.mark.parametrize(
    "line", [f'password = "{SECRET}', f'key = "{SECRET}" x', f"'{SECRET}", f'a = "\\u{SECRET}"', f"a = {SECRET}"]
)
def test_mistakes_in_a_job_file_do_not_show_the_line(tmp_path: Path, line: str) -> None:
    (tmp_path / "job.toml").write_text(f'checkpoint = "c"\n{line}\n')
    done = run_program("check", tmp_path / "job.toml")
    assert done.returncode == 2
    assert "job.toml:2: not TOML" in done.stderr or "job.toml:3: not TOML" in done.stderr
    assert SECRET not in done.stdout + done.stderr


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "latin-1"])
def test_encodings_of_job_files(tmp_path: Path, encoding: str) -> None:
    path = tmp_path / "job.toml"
    text = '# Größe\ncheckpoint = "c"\n[source]\npath = "log"\n[[tables]]\n[sink]\ndirectory = "t"\n'
    path.write_bytes(text.encode(encoding))
    if encoding in ("utf-8", "utf-8-sig", "utf-16"):
        assert load_any_job(path).name == "job"
        return
    with pytest.raises(OptionError, match=r"not TOML|is no text in UTF-8.*Save the file as UTF-8"):
        load_any_job(path)


def test_files_of_a_job_are_its_users_alone(tmp_path: Path) -> None:
    folder = StateFolder(str(tmp_path / "checkpoint"), {})
    folder.write("state.json", b"{}")
    assert folder.create("other.json", b"{}")
    OffsetFile(tmp_path / "offset").save(SourceOffset(Position(1, 0, 0)))
    for path in (tmp_path / "checkpoint" / "state.json", tmp_path / "checkpoint" / "other.json", tmp_path / "offset"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


HOSTILE = "\x1b]0;owned\x07\x1b[2J\x9b31m\u202egnp\r\x00"


def test_nothing_that_is_logged_commands_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    say(f"table {HOSTILE}")
    say(f"table {HOSTILE}", err=True)
    record = logging.LogRecord("x", logging.WARNING, "x.py", 1, f"{HOSTILE} and %s", (HOSTILE,), None)
    told = capsys.readouterr()
    for text in (told.out, told.err, VisibleFormatter().format(record)):
        assert text.strip("\n").isprintable(), ascii(text)
        assert "owned" in text


def test_log_of_spark_is_bounded(tmp_path: Path) -> None:
    path = tmp_path / "spark.log"
    bound_log(path)
    assert not path.exists()
    for letter in (b"a", b"b"):
        with path.open("ab") as file:  # as Java has it
            file.write(letter * LOG_SIZE_MAX)
            bound_log(path)
            assert path.stat().st_size == 0
            file.write(b"after it")
            file.flush()
            assert path.read_bytes() == b"after it"
        before = tmp_path / "spark.log.1"
        assert before.read_bytes()[-1:] == letter
        assert before.stat().st_size <= LOG_SIZE_MAX + len(b"after it")
        assert stat.S_IMODE(before.stat().st_mode) == 0o600


def test_java_that_is_missing_is_no_mistake_in_a_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Builder:
        def config(self, _key: str, _value: str) -> Builder:
            return self

        def getOrCreate(self) -> None:
            raise PySparkRuntimeError(errorClass="JAVA_GATEWAY_EXITED", messageParameters={})

    monkeypatch.setattr(SparkSession, "builder", Builder())
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MachineError, match="NO_JAVA") as raised:
        local_session("job", log_file=tmp_path / "spark.log")
    assert not raised.value.is_wrong_use


def test_port_that_is_taken_has_its_own_condition() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(MachineError, match="PORT_IN_USE"):
        MetricsExporter(taken.getsockname()[1])
    denied = listening_error("status", "127.0.0.1", 80, OSError(errno.EACCES, os.strerror(errno.EACCES)))
    assert isinstance(denied, AccessError)
    elsewhere = listening_error("status", "8.8.8.8", 80, OSError(errno.EADDRNOTAVAIL, "not here"))
    assert elsewhere.is_wrong_use
