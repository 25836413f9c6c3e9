"""`binlog-stream doctor [PATH|JOB.toml] [--server URL]`: what is wrong here, and how to put it right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from binlog_format.messages import count_text, told_options
from binlog_streaming.cli.jobs.check import MIB, ScanOption
from binlog_streaming.cli.output import Output, OutputOption, name_job, output_console, with_job, write_json_lines
from binlog_streaming.cli.progress import progress_bar

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_streaming.doctor import DoctorFinding
    from binlog_streaming.jobs.log_tables import OnProgress
    from binlog_streaming.settings.job_file import AnyJob

SCAN_MIB = 256
STYLES = {"ok": "green", "warning": "yellow", "wrong": "bold red"}


def doctor(
    target: Annotated[
        str | None, typer.Argument(metavar="PATH|JOB.toml", help="A log, or a job; default: this machine alone.")
    ] = None,
    server: Annotated[
        str | None,
        typer.Option(metavar="URL", help="The server that writes the log: mysql://user@host:3306/, as for snapshot."),
    ] = None,
    password_file: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A file with the password; else as for snapshot.")
    ] = None,
    scan: ScanOption = SCAN_MIB,
    output: OutputOption = Output.TABLE,
) -> None:
    """Look for common mistakes: on this machine, in a log, in a job, and on its server. Nothing is changed.

    It checks Python, Java, packages and their versions, compiled kernels, the machine's name; of a log its files and
    rights to read them, row format, row images, names of columns, keys; of a job all results of check, free space,
    rights to write, its lag and how long it is safe; of a server its settings, its expiry, its clock, and that it
    writes this log. Every line that is not ok has advice.

    For example:

        binlog-stream doctor job.toml --server mysql://cdc@db.example.com/

    Exit status: 0 no mistake (warnings do not count), 1 a mistake, 2 wrong use.
    """
    # Compiled code takes a moment to load: not for --help.
    from binlog_streaming.doctor import Health

    with progress_bar("Looking for tables") as on_progress:
        found = _findings(target, server, password_file, scan * MIB, on_progress)
        findings = [replace(finding, found=_shown(finding.found), fix=_shown(finding.fix)) for finding in found]
    if output is Output.JSONL:
        write_json_lines(msgspec.to_builtins(finding) for finding in findings)
    else:
        _print(findings)
    if any(finding.health is Health.WRONG for finding in findings):
        raise typer.Exit(1)


def _shown(text: str) -> str:
    """*text* with settings as a job file has them, and without passwords."""
    from binlog_streaming.settings.names import as_job_setting
    from binlog_streaming.status.wording import without_access

    return without_access(told_options(text, as_job_setting))


def _findings(
    target: str | None, server: str | None, password_file: Path | None, scan_size: int, on_progress: OnProgress
) -> Iterator[DoctorFinding]:
    from binlog_streaming.doctor import examined
    from binlog_streaming.doctor.job import job_findings, needs_of
    from binlog_streaming.doctor.machine import Needs, machine_findings
    from binlog_streaming.doctor.source import log_findings

    job = _job_at(target)
    yield from machine_findings(Needs() if job is None else needs_of(job))
    path = target if job is None else getattr(job.source, "path", None)  # a job may read topics
    if job is not None:
        yield from examined("job", "check", job_findings(job, scan_size, on_progress))
    elif path is not None:
        yield from examined("log", "files", log_findings(path, scan_size, on_progress))
    if server is not None:
        yield from examined("server", "connection", _server_findings(server, password_file, path, job))


def _job_at(target: str | None) -> AnyJob | None:
    """The job that *target* names; None: it names a log, or nothing."""
    from binlog_streaming.jobs.mirror import OWN_FOLDER, any_job_at

    if target is None:
        return None
    is_mirror = "://" not in target and (Path(target) / OWN_FOLDER).is_dir()
    if not target.endswith(".toml") and not is_mirror:
        return None
    name_job(target)
    return any_job_at(target)


def _server_findings(
    server: str, password_file: Path | None, path: str | None, job: AnyJob | None
) -> Iterator[DoctorFinding]:
    from binlog_connector.installing import require

    require("pymysql")
    from binlog_streaming.doctor.source import server_findings
    from binlog_streaming.server.address import ServerAddress, find_credentials
    from binlog_streaming.server.session import connect

    address = ServerAddress.parse(server)
    credentials = find_credentials(address.user, None if password_file is None else str(password_file))
    with connect(address, credentials) as session:
        yield from server_findings(session, path, job)


def _print(findings: list[DoctorFinding]) -> None:
    from binlog_streaming.doctor import Health
    from binlog_streaming.status.wording import visible

    console = output_console()
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("", "where", "what", "found, and what to do"):
        table.add_column(name, no_wrap=name in ("", "where"), overflow="fold")
    for finding in findings:
        text = Text(visible(with_job(finding.found)))
        if finding.fix:
            is_ok = finding.health is Health.OK
            text.append(f"\n{'' if is_ok else '→ '}{visible(with_job(finding.fix))}", style="dim" if is_ok else "bold")
        table.add_row(Text(finding.health, STYLES[finding.health]), finding.area, Text(visible(finding.what)), text)
    console.print(table)
    wrong = sum(finding.health is Health.WRONG for finding in findings)
    warnings = sum(finding.health is Health.WARNING for finding in findings)
    told = "Nothing is wrong" if not wrong else f"{count_text(wrong, 'thing')} wrong"
    console.print(f"\n{told}, {count_text(warnings, 'warning')}.", style="bold")
