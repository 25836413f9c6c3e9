"""A structured log is not published: that is said before anything is written or sent."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_format.errors import UnsupportedError
from binlog_lab.simulator.structured.program import LoggingProgram
from binlog_streaming.jobs.mirror import publish_job
from binlog_streaming.topics.job import TopicsJob
from tests.program import run_program

if TYPE_CHECKING:
    from pathlib import Path

NOBODY = "127.0.0.1:9/logs"
"""Where no broker listens: it is never asked."""


@pytest.mark.parametrize("command", [("publish", "--to", NOBODY), ("init", "--for", "kafka")])
def test_commands_name_the_format_and_another_way(tmp_path: Path, command: tuple[str, ...]) -> None:
    with LoggingProgram(tmp_path / "log") as program:
        program.log(3)
    home = {"HOME": str(tmp_path / "home"), "XDG_STATE_HOME": str(tmp_path / "home")}
    result = run_program(*command, tmp_path / "log", environment=home)
    assert result.returncode == 1
    assert "BINLOG_UNSUPPORTED.FORMAT" in result.stderr
    assert "structured log" in result.stderr
    assert "binlog-stream init --for tables" in " ".join(result.stderr.split())
    assert not (tmp_path / "home").exists()


def test_job_ends_before_it_is_written_down(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    with LoggingProgram(tmp_path / "log") as program:
        program.log(3)
    job = publish_job(str(tmp_path / "log"), NOBODY)
    with pytest.raises(UnsupportedError, match="events of a program"):
        TopicsJob(job).run()
    assert not (tmp_path / "home").exists()
