"""`archive --retention --keep-for`: nothing goes that a job still needs, nor while nobody knows what it needs.

Jobs over a log that is purged as soon as it is archived: nothing is lost, and the archive may come and go.
"""

from __future__ import annotations

import random
import shutil
from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from binlog_connector.following.log_end import start_of_file
from binlog_connector.following.watched import WatchedLog
from binlog_connector.options.source_options import SourceOptions
from binlog_format.classic.layout import MAGIC_SIZE
from binlog_format.errors import DataLossError
from binlog_format.events.layout import EVENT_SIZE_OFFSET
from binlog_format.source_file import with_archive
from binlog_streaming.archive.archiver import Archiver
from binlog_streaming.archive.run import JobNeeds
from binlog_streaming.job_state.record import JobRecord, changes_between
from binlog_streaming.settings import load_job
from tests.program import run_program
from tests.streaming.archive.growing_logs import GrowingClassic, purge
from tests.streaming.archive.test_archiver import ROTATION, archive_once, manifest_of
from tests.streaming.tables.jobs.test_job import job_for, run_once, write_job
from tests.streaming.tables.oltp import OLTP, TABLES, mirror, truth
from tests.streaming.test_job_check import write_checkpoint

if TYPE_CHECKING:
    import subprocess
    from pathlib import Path

    from pyspark.sql import SparkSession


@pytest.fixture
def log(tmp_path: Path) -> Path:
    for _ in GrowingClassic(ROTATION, tmp_path / "server", random.Random(8)).steps():
        continue
    # Long ago: the age of a file without transactions is that of its archiving.
    with closing(Archiver(str(tmp_path / "server"), str(tmp_path / "archive"), clock=lambda: 1e9)) as one:
        one.archive()
    return tmp_path / "server"


def reached(folder: Path, log: Path, file_no: int) -> None:
    """The job's checkpoint says that it goes on with a file."""
    shutil.rmtree(folder / "checkpoint", ignore_errors=True)
    with WatchedLog(str(log)) as watched:
        write_checkpoint(folder, [start_of_file(watched, file_no)], committed=1)


def archived_for(folder: Path, *jobs: Path) -> subprocess.CompletedProcess[str]:
    options = [option for job in jobs for option in ("--keep-for", job)]
    return run_program(
        "archive", folder / "server", "--to", folder / "archive", "--once", "--retention", "1s", *options
    )


def numbers(folder: Path) -> list[int]:
    return [file.file_no for file in manifest_of(folder / "archive").files]


def test_files_stay_as_long_as_a_job_needs_them(tmp_path: Path, log: Path) -> None:
    all_files = numbers(tmp_path)
    job = write_job(tmp_path, log=tmp_path / "archive")
    assert archived_for(tmp_path, job).returncode == 0
    assert numbers(tmp_path) == all_files  # it has not begun: it may need all of them
    for file_no in (all_files[2], all_files[4]):
        reached(tmp_path, log, file_no)
        assert JobNeeds([job], str(log), str(tmp_path / "archive")).oldest() == (job, file_no)
        assert archived_for(tmp_path, job).returncode == 0
        assert numbers(tmp_path) == all_files[all_files.index(file_no) :]
    assert archived_for(tmp_path).returncode == 0
    assert numbers(tmp_path) == all_files[-1:]


def test_the_job_that_is_furthest_back_counts(tmp_path: Path, log: Path) -> None:
    all_files = numbers(tmp_path)
    jobs = []
    for name, file_no in (("fast", all_files[5]), ("slow", all_files[3])):
        folder = tmp_path / name
        folder.mkdir()
        jobs.append(write_job(folder, log=tmp_path / with_archive("server", str(tmp_path / "archive"))))
        reached(folder, log, file_no)
    assert archived_for(tmp_path, *jobs).returncode == 0
    assert numbers(tmp_path) == all_files[3:]


def test_nothing_is_removed_on_a_guess(tmp_path: Path, log: Path) -> None:
    all_files = numbers(tmp_path)
    job = write_job(tmp_path, log=log)
    reached(tmp_path, log, all_files[3])
    (tmp_path / "checkpoint" / "metadata").write_text("{")
    refused = archived_for(tmp_path, job)
    assert refused.returncode == 2
    assert "not the checkpoint of a stream from a log" in refused.stderr
    assert numbers(tmp_path) == all_files
    other = tmp_path / "other"
    other.mkdir()
    refused = archived_for(tmp_path, write_job(other, log=ROTATION))
    assert refused.returncode == 2
    assert "neither this archive nor the log of it" in refused.stderr
    assert run_program("archive", log, "--to", tmp_path / "archive", "--once", "--keep-for", job).returncode == 2
    assert numbers(tmp_path) == all_files


HEAD_EVENTS = 3
"""Events before the first group of a file of this log: Format_description, Gtid_list, Binlog_checkpoint."""


def test_archive_of_a_job_file_is_part_of_the_path(tmp_path: Path) -> None:
    """Both relative to the file; the checkpoint belongs to the log, with or without its archive."""
    file = write_job(tmp_path, log=ROTATION)
    plain = load_job(file)
    text = file.read_text().replace("[source]\n", '[source]\narchive = "kept/log"\n')
    file.write_text(text)
    job = load_job(file)
    assert job.source.path == with_archive(str(ROTATION), str(tmp_path / "kept" / "log"))
    assert job.source.archive is None
    assert changes_between(JobRecord.of(plain), JobRecord.of(job)) == []
    file.write_text(text.replace("kept/log", "s3://bucket/log"))
    assert load_job(file).source.path == with_archive(str(ROTATION), "s3://bucket/log")
    options = SourceOptions.parse({"path": "/var/lib/mysql", "archive": "s3://bucket/log"})
    assert options.path == "/var/lib/mysql?archive=s3://bucket/log"


def end_of_head(file: bytes) -> int:
    end = MAGIC_SIZE
    for _ in range(HEAD_EVENTS):
        end += int.from_bytes(file[end + EVENT_SIZE_OFFSET : end + EVENT_SIZE_OFFSET + 4], "little")
    return end


@pytest.mark.spark
def test_tables_are_complete_though_the_server_purged_the_log(spark: SparkSession, tmp_path: Path) -> None:
    """The job runs once, stands still while files come and go, and goes on through the archive."""
    server, archive = tmp_path / "server", tmp_path / "archive"
    for number, _ in enumerate(GrowingClassic(OLTP, server, random.Random(1)).steps()):
        if number == 2:
            archive_once(server, archive)
            run_once(job_for(tmp_path, log=server), spark)
    # The server goes on in a file of its own, and purges what it had.
    following = (ROTATION / "mysql-bin.000002").read_bytes()
    (server / "mysql-bin.000002").write_bytes(following[: end_of_head(following)])
    archive_once(server, archive)
    assert purge(server, archive) == 1
    with pytest.raises(DataLossError, match="FILE_PURGED"):
        run_once(job_for(tmp_path, log=server), spark)
    write_job(tmp_path, log=server)
    file = tmp_path / "job.toml"
    file.write_text(file.read_text().replace("[source]\n", f'[source]\narchive = "{archive}"\n'))
    run_once(load_job(file), spark)
    for table in TABLES:
        assert mirror(tmp_path / "tables", table) == truth(table)
