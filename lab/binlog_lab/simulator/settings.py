"""Settings of a life, as its script chooses: the server's log (`new_log`), and the job's file (`write_job`)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_lab.simulator.classic_server_log import ClassicServerLog
from binlog_lab.simulator.script import LifeKind
from binlog_lab.simulator.server_log import InnodbServerLog, Terms
from binlog_streaming.settings.choices import Deletes, Mode, OnStatement

if TYPE_CHECKING:
    from pathlib import Path
    from random import Random

    from binlog_lab.simulator.server_log import ServerLog

DELTA_SHARE = 0.1
"""Share of the lives whose tables are real Delta tables, which take ten times as long."""

BUCKET_SHARES = {LifeKind.SERVER: 0.12, LifeKind.ARCHIVE: 0.6}
"""Shares of the lives with an object store, by their kind: for tables and checkpoint of the job, or for the archive."""

BUCKET_DELTA_SHARE = 0.6
"""Share of the lives with tables in an object store whose tables are Delta tables."""

TOPICS_SHARE = 0.25
"""Share of the lives whose job publishes to topics."""

AVRO_SHARE = 0.2
"""Share of the jobs with topics whose messages are in Avro."""

SNAPSHOT_TOPICS_SHARE = 0.4
"""The same of lives with snapshots."""

TOPIC_PREFIX = "life"
"""Name of the job for its topics."""

_CHANGELOG_SHARE = 0.4
"""Share of the lives whose tables have changelogs, too."""

_SCD2_SHARE = 0.2
"""Share of the lives whose tables have all versions of rows, too."""

_MARKED_SHARE = 0.2
"""Share of the lives whose mirrors keep rows that were deleted."""

_SYNCED_SHARE = 0.7
"""Share of the servers that force each group to the disk."""

_JOB = """\
checkpoint = "{checkpoint}"

[source]
path = "{log}"
maxBytesPerTrigger = {size}
{parts}

[[tables]]
mode = {modes}
target = "{{database}}/{{table}}/{{mode}}"
on_drop = "{on_drop}"
deletes = "{deletes}"

[sink]
directory = "{tables}"

[trigger]
available_now = true
"""


_PUBLISH_JOB = """\
checkpoint = "{checkpoint}"

[source]
path = "{log}"

[sink]
kind = "kafka"
bootstrap_servers = "broker:9092"
topic_prefix = "{prefix}"
partitions = {partitions}
{form}"""

_AVRO = """\
format = "avro"

[sink.registry]
url = "http://registry"
"""


_EVENT_JOB = """\
checkpoint = "{checkpoint}"

[source]
path = "{log}"
format = "structured"
maxBytesPerTrigger = {size}
failOnDataLoss = {fails}
skipDamaged = {skips}

[[tables]]

[sink]
directory = "{tables}"
"""


def new_log(chance: Random, folder: Path, second: int) -> ServerLog:
    """The log of the first server, which starts at *second*, in *folder*."""
    is_synced = chance.random() < _SYNCED_SHARE
    kind = chance.choice(("mariadb", "mysql", "innodb"))
    if kind == "innodb":
        return InnodbServerLog(
            folder, second, Terms(), page_size=chance.choice((512, 1024, 16384)), is_synced=is_synced
        )
    return ClassicServerLog(folder, second, Terms(), is_mysql=kind == "mysql", is_synced=is_synced)


def write_job(chance: Random, folder: Path, log: Path, *, has_model_tables: bool, bucket: str | None = None) -> Path:
    """Write the file of a job that has its files in *folder*`/job`, or in *bucket*, and reads *log*; gives the file."""
    job, file = folder / "job", folder / "settings" / "job.toml"
    job.mkdir()
    file.parent.mkdir()
    modes = [Mode.MIRROR, *([Mode.CHANGELOG] if chance.random() < _CHANGELOG_SHARE else [])]
    parts = chance.choice((None, None, 2, 3))
    size, on_drop = chance.choice((500, 2000, 100_000)), chance.choice((OnStatement.IGNORE, OnStatement.APPLY))
    modes += [Mode.SCD2] if chance.random() < _SCD2_SHARE else []
    text = _JOB.format(
        checkpoint=f"{bucket or job}/checkpoint",
        log=log,
        size=size,
        parts="" if parts is None else f"minPartitions = {parts}",
        modes=list(map(str, modes)),
        on_drop=on_drop,
        deletes=Deletes.MARK if chance.random() < _MARKED_SHARE else Deletes.REMOVE,
        tables="model://tables" if has_model_tables else f"{bucket or job}/tables",
    )
    file.write_text(text)
    return file


def write_publish_job(chance: Random, folder: Path, log: Path, *, is_avro: bool) -> Path:
    """Write the file of a job that publishes *log*, and has its checkpoint in *folder*`/job`; gives the file."""
    job, file = folder / "job", folder / "settings" / "job.toml"
    job.mkdir()
    file.parent.mkdir()
    text = _PUBLISH_JOB.format(
        checkpoint=job / "checkpoint",
        log=log,
        prefix=TOPIC_PREFIX,
        partitions=chance.choice((1, 3)),
        form=_AVRO if is_avro else "",
    )
    file.write_text(text)
    return file


def write_event_job(chance: Random, folder: Path, log: Path, *, has_model_tables: bool, accepts: bool) -> Path:
    """Write the file of a job with the events of *log*, as `write_job` does. *accepts*: it goes on after losses."""
    job, file = folder / "job", folder / "settings" / "job.toml"
    job.mkdir()
    file.parent.mkdir()
    text = _EVENT_JOB.format(
        checkpoint=job / "checkpoint",
        log=log,
        size=chance.choice((256, 1024, 65536)),
        fails=str(not accepts).lower(),
        skips=str(accepts).lower(),
        tables="model://tables" if has_model_tables else job / "tables",
    )
    file.write_text(text)
    return file
