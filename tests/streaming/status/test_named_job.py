"""Messages that name a job file name the one that the command was given, as words of a shell."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_streaming.cli.output import name_job, with_job
from binlog_streaming.settings import Job, Sink, Source, TableRule
from binlog_streaming.settings.text import job_text
from binlog_streaming.status.view import StatusFile
from tests.program import run_program
from tests.streaming.status.states import failed_status

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize(("name", "shown"), [("shop.toml", "shop.toml"), ("my shop.toml", "'my shop.toml'")])
def test_a_hint_names_the_job_file_of_the_command(tmp_path: Path, name: str, shown: str) -> None:
    job = Job(
        source=Source(path=str(tmp_path / "log")),
        sink=Sink(directory=str(tmp_path / "tables")),
        checkpoint=str(tmp_path / "checkpoint"),
        tables=(TableRule(),),
    )
    (tmp_path / name).write_text(job_text(job))
    done = run_program("status", name, cwd=tmp_path)
    assert done.returncode == 2
    assert f"binlog-stream check {shown} tells what it would do" in done.stderr
    assert "JOB.toml" not in done.stderr


def test_without_a_job_file_the_word_stays() -> None:
    name_job(None)
    assert with_job("binlog-stream run JOB.toml") == "binlog-stream run JOB.toml"
    assert "JOB.toml" in run_program("run", "--help").stdout


def test_recorded_errors_name_settings_as_the_job_file_has_them(tmp_path: Path) -> None:
    job = Job(
        source=Source(path=str(tmp_path)),
        sink=Sink(directory=str(tmp_path / "tables")),
        checkpoint=str(tmp_path / "checkpoint"),
        tables=(TableRule(),),
    )
    (tmp_path / "job.toml").write_text(job_text(job))
    stopped = failed_status("[BINLOG_DATA_LOSS.FILE_PURGED] gone", "Begin anew, or set option failOnDataLoss=false")
    StatusFile(job).write(stopped)
    shown = " ".join(run_program("status", "job.toml", cwd=tmp_path).stdout.split())
    assert "or set source.failOnDataLoss = false" in shown
