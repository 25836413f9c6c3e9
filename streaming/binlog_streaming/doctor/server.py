"""Examination of a server's settings: its log must be complete, and stay long enough: `server_findings`."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from binlog_format.errors import BinlogError
from binlog_streaming.doctor.findings import DoctorFinding, Health
from binlog_streaming.settings import Job, PublishJob
from binlog_streaming.snapshot.log_identity import check_is_writer
from binlog_streaming.snapshot.server_checks import log_faults
from binlog_streaming.status.wording import bytes_text, duration_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.settings.job_file import AnyJob

SKEW_SECONDS = 2.0
"""Commit times are the server's: lags are as wrong as the clocks differ."""

EXPIRY_SECONDS = 86_400.0
"""A server that keeps less than a day does not survive a night in which nobody looks."""

_FULL = {
    "binlog_row_image": "Rows that lack columns cannot always be completed",
    "binlog_row_metadata": "Columns have no names in the log, and no keys",
}
_SIZE_LIMITS = ("max_binlog_total_size", "binlog_space_limit")


def server_findings(session: ServerSession, path: str | None, job: AnyJob | None) -> Iterator[DoctorFinding]:
    """Look at a server.

    Args:
        session: On it.
        path: Of the log that should be its; None: none was given.
        job: That reads it; None: none was given.

    Raises:
        ServerError: It does not answer any more.
        BinlogError: The log cannot be read.
    """
    yield _finding("version", Health.OK, str(session.version))
    faults = list(log_faults(session))
    for fault in faults:
        yield _finding("settings", Health.WRONG, fault.reason, fault.hint or "")
    if not faults:
        yield _finding("settings", Health.OK, "it logs, in row format")
    for name, consequence in _FULL.items():
        yield _full(session, name, consequence)
    yield from _expiry(session, job)
    yield _clock(session)
    if path is not None:
        yield _writer(session, path)


def _finding(what: str, health: Health, found: str, fix: str = "") -> DoctorFinding:
    return DoctorFinding("server", what, health, found, fix)


def _full(session: ServerSession, name: str, consequence: str) -> DoctorFinding:
    found = session.variable(name)
    if found == "FULL":
        return _finding(name, Health.OK, found)
    if found is None:
        text = f"this server does not have it. {consequence}"
        return _finding(name, Health.WARNING, text, "Give the job a schemaFile (docs/schemas.md)")
    return _finding(name, Health.WARNING, f"{found}. {consequence}", f"SET GLOBAL {name} = 'FULL', and connect anew")


def _expiry(session: ServerSession, job: AnyJob | None) -> Iterator[DoctorFinding]:
    for name in _SIZE_LIMITS:
        limit = int(session.variable(name) or 0)
        if limit:
            text = f"{bytes_text(limit)}: the server removes files by size too, however old they are"
            yield _finding(name, Health.WARNING, text, f"SET GLOBAL {name} = 0, or keep an archive (docs/archive.md)")
    seconds = float(session.variable("binlog_expire_logs_seconds") or 0)
    seconds = seconds or 86_400 * float(session.variable("expire_logs_days") or 0)
    if not seconds:
        yield _finding("expiry", Health.OK, "it removes no files by time")
        return
    kept = duration_text(seconds)
    if seconds < EXPIRY_SECONDS:
        fix = "SET GLOBAL binlog_expire_logs_seconds = 604800, or keep an archive (docs/archive.md)"
        yield _finding("expiry", Health.WARNING, f"it keeps files for {kept}", fix)
    else:
        yield _finding("expiry", Health.OK, f"it keeps files for {kept}")
    if isinstance(job, Job | PublishJob) and job.status.purge_after_seconds != seconds:
        given = job.status.purge_after or "not set"
        text = f"status.purge_after of the job is {given}, the server keeps files for {kept}"
        yield _finding("purge_after", Health.WARNING, text, f'[status] purge_after = "{seconds:.0f}s" in the job file')


def _clock(session: ServerSession) -> DoctorFinding:
    before = time.time()
    server = float(session.value("SELECT UNIX_TIMESTAMP(NOW(6))"))
    after = time.time()
    skew = server - (before + after) / 2
    text = f"{abs(skew):.1f} s {'ahead of' if skew > 0 else 'after'} this machine's"
    if abs(skew) <= SKEW_SECONDS + (after - before):
        return _finding("clock", Health.OK, text)
    fix = "Let both follow NTP (chrony, timesyncd)"
    return _finding("clock", Health.WARNING, f"{text}: lags are wrong by that", fix)


def _writer(session: ServerSession, path: str) -> DoctorFinding:
    try:
        check_is_writer(session, path)
    except BinlogError as error:
        return _finding("log", Health.WRONG, error.reason, error.hint or "")
    return _finding("log", Health.OK, f"{path} is this server's")
