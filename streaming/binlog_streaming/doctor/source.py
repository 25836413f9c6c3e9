"""Examination of a log for all that jobs need, such as all rows and names of columns: `log_findings`.

Examination of a server's settings: its log must be complete, and stay long enough: `server_findings`.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from binlog_format import open_log
from binlog_format.errors import AccessError, BinlogError, StorageError
from binlog_format.messages import count_text
from binlog_streaming.doctor import DoctorFinding, Health
from binlog_streaming.jobs.log_tables import find_tables
from binlog_streaming.settings import Job, PublishJob
from binlog_streaming.snapshot.log_identity import check_is_writer
from binlog_streaming.snapshot.server_checks import log_faults
from binlog_streaming.status.wording import bytes_text, duration_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.log.log import Log
    from binlog_streaming.jobs.log_tables import FoundTable, OnProgress
    from binlog_streaming.server.session import ServerSession
    from binlog_streaming.settings.job_file import AnyJob


NAMES_SHOWN_MAX = 5
_CONNECT_ANEW = "and connect applications anew; what is logged already stays as it is"


def log_findings(path: str, scan_size: int, on_progress: OnProgress | None) -> Iterator[DoctorFinding]:
    """Look at the log at *path*, the newest *scan_size* bytes of it for tables."""
    with open_log(path) as log:
        yield from _files(log)
        if not log.traits.has_changes:
            return
    found = find_tables(path, scan_size=scan_size, on_progress=on_progress)
    yield from _row_format(found.tables, [str(count.first.error().reason) for count in found.tally.counts.values()])
    yield from _tables(found.tables)


def _finding(what: str, health: Health, found: str, fix: str = "") -> DoctorFinding:
    return DoctorFinding("log", what, health, found, fix)


def _files(log: Log) -> Iterator[DoctorFinding]:
    try:
        files = log.files()
    except (AccessError, StorageError) as error:
        yield _finding("files", Health.WRONG, str(error), error.hint or "")
        return
    size = sum(file.used_size for file in files)
    yield _finding("files", Health.OK, f"{log.format_name}, {count_text(len(files), 'file')}, {bytes_text(size)}")


def _row_format(tables: tuple[FoundTable, ...] | list[FoundTable], lacking: list[str]) -> Iterator[DoctorFinding]:
    if lacking:
        fix = f"SET GLOBAL binlog_format = 'ROW', {_CONNECT_ANEW}"
        text = f"{count_text(len(lacking), 'kind')} of changes without row events, for example: {lacking[0]}"
        yield _finding("binlog_format", Health.WRONG, text, fix)
    elif tables:
        yield _finding("binlog_format", Health.OK, "all changes are in row events")
    else:
        text = "no row changes in the part that was looked at"
        yield _finding("binlog_format", Health.WARNING, text, "See that binlog_format=ROW is set on the server")


def _tables(tables: tuple[FoundTable, ...] | list[FoundTable]) -> Iterator[DoctorFinding]:
    if not tables:
        return
    yield _about(
        "binlog_row_metadata",
        [table.name for table in tables if not table.layout.has_names],
        "the log does not name the columns of",
        f"SET GLOBAL binlog_row_metadata = 'FULL', {_CONNECT_ANEW}; or give a schemaFile (docs/schemas.md)",
        "columns have names",
    )
    yield _about(
        "binlog_row_image",
        [table.name for table in tables if table.has_partial_rows],
        "rows lack columns in",
        f"SET GLOBAL binlog_row_image = 'FULL', {_CONNECT_ANEW}",
        "rows have all columns",
    )
    yield _about(
        "primary keys",
        [table.name for table in tables if not table.layout.primary_key],
        "the log names no key for",
        "Add a primary key, or name columns that tell rows apart: keys in [[tables]]",
        "all tables have one",
    )
    for table in tables:
        if table.problem is not None:
            yield _finding(table.name, Health.WRONG, table.problem.reason, table.problem.hint or "")


def _about(what: str, names: list[str], text: str, fix: str, well: str) -> DoctorFinding:
    if not names:
        return _finding(what, Health.OK, well)
    more = f" and {len(names) - NAMES_SHOWN_MAX} more" if len(names) > NAMES_SHOWN_MAX else ""
    return _finding(what, Health.WARNING, f"{text} {', '.join(names[:NAMES_SHOWN_MAX])}{more}", fix)


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
        path: Of the log that should be the server's; None: none was given.
        job: That reads it; None: none was given.
    """
    yield _server_finding("version", Health.OK, str(session.version))
    faults = list(log_faults(session))
    for fault in faults:
        yield _server_finding("settings", Health.WRONG, fault.reason, fault.hint or "")
    if not faults:
        yield _server_finding("settings", Health.OK, "it logs, in row format")
    for name, consequence in _FULL.items():
        yield _full(session, name, consequence)
    yield from _expiry(session, job)
    yield _clock(session)
    if path is not None:
        yield _writer(session, path)


def _server_finding(what: str, health: Health, found: str, fix: str = "") -> DoctorFinding:
    return DoctorFinding("server", what, health, found, fix)


def _full(session: ServerSession, name: str, consequence: str) -> DoctorFinding:
    found = session.variable(name)
    if found == "FULL":
        return _server_finding(name, Health.OK, found)
    if found is None:
        text = f"this server does not have it. {consequence}"
        return _server_finding(name, Health.WARNING, text, "Give the job a schemaFile (docs/schemas.md)")
    return _server_finding(
        name, Health.WARNING, f"{found}. {consequence}", f"SET GLOBAL {name} = 'FULL', and connect anew"
    )


def _expiry(session: ServerSession, job: AnyJob | None) -> Iterator[DoctorFinding]:
    for name in _SIZE_LIMITS:
        limit = int(session.variable(name) or 0)
        if limit:
            text = f"{bytes_text(limit)}: the server removes files by size too, however old they are"
            yield _server_finding(
                name, Health.WARNING, text, f"SET GLOBAL {name} = 0, or keep an archive (docs/archive.md)"
            )
    seconds = session.expiry_seconds()
    if not seconds:
        yield _server_finding("expiry", Health.OK, "it removes no files by time")
        return
    kept = duration_text(seconds)
    if seconds < EXPIRY_SECONDS:
        fix = "SET GLOBAL binlog_expire_logs_seconds = 604800, or keep an archive (docs/archive.md)"
        yield _server_finding("expiry", Health.WARNING, f"it keeps files for {kept}", fix)
    else:
        yield _server_finding("expiry", Health.OK, f"it keeps files for {kept}")
    if isinstance(job, Job | PublishJob) and job.status.purge_after_seconds != seconds:
        given = job.status.purge_after or "not set"
        text = f"status.purge_after of the job is {given}, the server keeps files for {kept}"
        yield _server_finding(
            "purge_after", Health.WARNING, text, f'[status] purge_after = "{seconds:.0f}s" in the job file'
        )


def _clock(session: ServerSession) -> DoctorFinding:
    before = time.time()
    server = float(session.value("SELECT UNIX_TIMESTAMP(NOW(6))"))
    after = time.time()
    skew = server - (before + after) / 2
    text = f"{abs(skew):.1f} s {'ahead of' if skew > 0 else 'after'} this machine's"
    if abs(skew) <= SKEW_SECONDS + (after - before):
        return _server_finding("clock", Health.OK, text)
    fix = "Let both follow NTP (chrony, timesyncd)"
    return _server_finding("clock", Health.WARNING, f"{text}: lags are wrong by that", fix)


def _writer(session: ServerSession, path: str) -> DoctorFinding:
    try:
        check_is_writer(session, path)
    except BinlogError as error:
        return _server_finding("log", Health.WRONG, error.reason, error.hint or "")
    return _server_finding("log", Health.OK, f"{path} is this server's")
