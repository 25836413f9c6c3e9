"""Differences between kinds of jobs, for display: `job_facts`, `log_measure`."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypedDict

from binlog_streaming.settings import EventTablesJob, Job, PublishJob, TopicTablesJob
from binlog_streaming.status.log_measure import NOT_SET, LogMeasure
from binlog_streaming.status.wording import without_access

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_streaming.settings.job_file import AnyJob


class JobFacts(TypedDict):
    """See `RecordedStatus`."""

    name: str
    source: str
    target: str
    kind: str


def job_facts(job: AnyJob) -> JobFacts:
    """Name, source and target of a job."""
    if isinstance(job, PublishJob):
        target = f"{job.sink.bootstrap_servers} ({job.sink.topic_prefix})"
        return JobFacts(name=job.name, source=without_access(job.source.path), target=target, kind="topics")
    target = f"{without_access(job.sink.directory)} ({job.sink.format})"
    if isinstance(job, TopicTablesJob):
        source = f"{job.source.bootstrap_servers} ({job.source.topics})"
        return JobFacts(name=job.name, source=source, target=target, kind="from_topics")
    kind = "events" if isinstance(job, EventTablesJob) else "tables"
    return JobFacts(name=job.name, source=without_access(job.source.path), target=target, kind=kind)


def log_measure(job: AnyJob, clock: Callable[[], float]) -> LogMeasure | None:
    """Meter of the log of *job*; None: it reads none."""
    if isinstance(job, TopicTablesJob):
        return None
    expiry = job.status.purge_after_seconds if isinstance(job, Job | PublishJob) else None
    # A program's log has no server that removes its files.
    not_known = NOT_SET if isinstance(job, Job | PublishJob) else ""
    return LogMeasure(job.source.path, job.source.format, expiry, not_known=not_known, clock=clock)
