"""The job of `binlog-stream publish LOG --to HOST:PORT/PREFIX`: `publish_job`, and `write_down(job)`."""

from __future__ import annotations

from binlog_format.errors import OptionError
from binlog_format.source_file import with_places
from binlog_streaming.job_state.state_files import state_of
from binlog_streaming.jobs.mirror import absolute_path, default_checkpoint
from binlog_streaming.settings import PublishJob, check_job_values
from binlog_streaming.settings.publish_model import FollowedSource, KafkaSink, TopicRule
from binlog_streaming.settings.publish_text import publish_job_text
from binlog_streaming.topics.record import begun_with, check_log, check_same

JOB_FILE = "job.toml"
"""Job file in the checkpoint's folder, with which the job can be continued."""

PARTITIONS = 1
"""Number of partitions of the topics that the job creates: one keeps all changes of a table in order."""


def publish_job(path: str, to: str, *, tables: str | None = None, exclude_tables: str | None = None) -> PublishJob:
    """A job that publishes the log at *path*, exactly once, to topics that it creates.

    Args:
        path: Of the log.
        to: `host:port/prefix`; several brokers with commas before the slash.
        tables: Which tables; None: all.
        exclude_tables: Tables to leave out.

    Raises:
        OptionError: `INVALID_VALUE`.
    """
    servers, slash, prefix = to.removeprefix("kafka://").partition("/")
    if not slash or not prefix:
        raise OptionError(
            "INVALID_VALUE",
            f"--to: expected HOST:PORT/PREFIX, got {to!r}",
            hint="For example 127.0.0.1:9092/shop: the topics are shop.<database>.<table>",
        )
    job = PublishJob(
        name=prefix,
        source=FollowedSource(path=with_places(path, absolute_path), exclude_tables=exclude_tables),
        sink=KafkaSink(kind="kafka", bootstrap_servers=servers, topic_prefix=prefix, partitions=PARTITIONS),
        checkpoint=default_checkpoint(f"kafka://{servers}/{prefix}"),
        tables=(TopicRule(select=tables or ".*"),),
    )
    names = {"sink": "--to", "tables": "--tables", "source.excludeTables": "--exclude-tables"}
    check_job_values(job, names)
    return job


def write_down(job: PublishJob) -> str:
    """Write *job* beside its checkpoint as a job file; its path.

    Raises:
        OptionError: `INVALID_VALUE`: the prefix belongs to a job with another log.
        StorageError, AccessError: It cannot be written.
    """
    record = begun_with(job)
    if record is not None:
        check_same(record, job)
        check_log(record, job, None)
    state_of(job).write(JOB_FILE, publish_job_text(job).encode())
    return f"{job.checkpoint}/{JOB_FILE}"
