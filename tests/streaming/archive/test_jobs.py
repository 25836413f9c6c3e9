"""Jobs over a log that is purged as soon as it is archived: nothing is lost, and the archive may come and go."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from binlog_connector.options.source_options import SourceOptions
from binlog_format.classic.layout import MAGIC_SIZE
from binlog_format.errors import DataLossError
from binlog_format.events.layout import EVENT_SIZE_OFFSET
from binlog_format.source_file import with_archive
from binlog_streaming.job_state.record import JobRecord, changes_between
from binlog_streaming.settings import load_job
from tests.streaming.archive.growing_logs import GrowingClassic, purge
from tests.streaming.archive.test_archiver import ROTATION, archive_once
from tests.streaming.tables.jobs.test_job import job_for, run_once, write_job
from tests.streaming.tables.oltp import OLTP, TABLES, mirror, truth

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

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
