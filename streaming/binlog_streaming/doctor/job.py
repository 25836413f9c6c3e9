"""Examination of a job: can it run, has it room, does it work: `job_findings`; its needs: `needs_of`."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from binlog_format.errors import OptionError
from binlog_format.messages import count_text
from binlog_streaming.doctor import DoctorFinding, Health
from binlog_streaming.doctor.machine import Needs
from binlog_streaming.job_state.checkpoint import StateFolder, nearest_place, place_errors, places_of, storage_of
from binlog_streaming.settings import EventTablesJob, Job, PublishJob, TopicTablesJob
from binlog_streaming.settings.publish_model import Client
from binlog_streaming.status.model import Level
from binlog_streaming.status.view import view_of
from binlog_streaming.status.wording import bytes_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_streaming.jobs.log_tables import OnProgress
    from binlog_streaming.settings.job_file import AnyJob

ROOM_LOW = 5 << 30
ROOM_NONE = 200 << 20
_HEALTH = {Level.OK: Health.OK, Level.WARNING: Health.WARNING, Level.DANGER: Health.WRONG}


def needs_of(job: AnyJob) -> Needs:
    """Needs of *job* on the machine."""
    extras = set()
    if not isinstance(job, PublishJob) and job.sink.format.extra is not None:
        extras.add(job.sink.format.extra)
    if isinstance(job, PublishJob) and job.sink.client is Client.CONFLUENT_KAFKA:
        extras.add("rdkafka")
    if job.metrics.port is not None:
        extras.add("metrics")
    if job.metrics.otlp:
        extras.add("otel")
    if not isinstance(job, Job):
        return Needs(frozenset(extras))
    if job.lineage.namespace is not None:
        extras.add("lineage")
    return Needs(frozenset(extras | {"spark"}), True, str(job.spark.settings.get("spark.jars.packages", "")))


def job_findings(job: AnyJob, scan_size: int, on_progress: OnProgress | None = None) -> Iterator[DoctorFinding]:
    """Examine *job*: the results of `check`, its free space, and its state."""
    yield from _places(job)
    yield _status(job)
    yield from _checked(job, scan_size, on_progress)


def _finding(what: str, health: Health, found: str, fix: str = "") -> DoctorFinding:
    return DoctorFinding("job", what, health, found, fix)


def _places(job: AnyJob) -> Iterator[DoctorFinding]:
    errors = place_errors(job)
    for what, place in places_of(job).items():
        if "://" in place:
            # Rights to write are found by writing: the job does that, a look does not.
            known = StateFolder(place, storage_of(job))
            next(known.names("binlog-stream-doctor"), None)
            yield _finding(what, Health.OK, f"{place} can be listed")
            continue
        if (error := errors.get(what)) is not None:
            yield _finding(what, Health.WRONG, error.reason.removeprefix(f"{what}: "), error.hint or "")
            continue
        free = shutil.disk_usage(nearest_place(place)).free
        health = Health.WRONG if free < ROOM_NONE else Health.WARNING if free < ROOM_LOW else Health.OK
        fix = "" if health is Health.OK else "Make room before the disk is full: a job stops there, and loses nothing"
        yield _finding(what, health, f"{place}: {bytes_text(free)} free", fix)


def _status(job: AnyJob) -> DoctorFinding:
    try:
        verdict = view_of(job).status().verdict
    except OptionError as error:
        if error.subclass != "MISSING":
            raise
        return _finding("status", Health.OK, error.reason)
    health = _HEALTH[verdict.level]
    return _finding("status", health, verdict.text, " ".join(verdict.advice))


def _checked(job: AnyJob, scan_size: int, on_progress: OnProgress | None) -> Iterator[DoctorFinding]:
    if isinstance(job, Job):
        from binlog_streaming.jobs.check import check_job

        report = check_job(job, scan_size=scan_size, on_progress=on_progress)
        warnings = [text for table in report.tables for text in table.warnings]
        yield from _told(warnings, report.warnings, report.problems, count_text(len(report.tables), "table"))
    elif isinstance(job, PublishJob):
        from binlog_streaming.jobs.publish_check import check_publish_job

        published = check_publish_job(job, scan_size=scan_size, on_progress=on_progress)
        yield from _told([], published.warnings, published.problems, count_text(len(published.topics), "topic"))
    elif isinstance(job, EventTablesJob):
        from binlog_streaming.event_tables.run import EventTablesRun

        count = len(EventTablesRun(job).waiting().tables)
        yield _finding("check", Health.OK, f"it can run: {count_text(count, 'table')}")
    else:
        assert isinstance(job, TopicTablesJob)
        from binlog_streaming.topic_tables.run import TopicTablesRun

        count = len(TopicTablesRun(job).waiting())
        yield _finding("check", Health.OK, f"it can run: {count_text(count, 'partition')}")


def _told(
    warnings: list[str], more: tuple[str, ...], problems: tuple[str, ...], amount: str
) -> Iterator[DoctorFinding]:
    """Convert the results of `check`, whose texts contain the advice."""
    for text in problems:
        yield _finding("check", Health.WRONG, text)
    for text in (*warnings, *more):
        yield _finding("check", Health.WARNING, text)
    if not problems:
        yield _finding("check", Health.OK, f"it can run: {amount}")
