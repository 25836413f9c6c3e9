"""`binlog-stream archive`: keep a server's binlog files before it purges them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from binlog_format.messages import count_text
from binlog_streaming.cli.output import (
    SIGNALLED,
    Output,
    OutputOption,
    PathArgument,
    say,
    stopped_by_signals,
    write_json_lines,
)

if TYPE_CHECKING:
    from binlog_format.formats.manifest import ArchivedFile
    from binlog_streaming.archive.archiver import Stored


def archive(  # noqa: PLR0913 - the options of the command
    path: PathArgument,
    to: Annotated[str, typer.Option("--to", metavar="URL", help="A folder, or a place in an object store (s3://...).")],
    once: Annotated[bool, typer.Option("--once", help="End when all present files are archived.")] = False,
    retention: Annotated[
        str | None, typer.Option(metavar="TIME", help="Remove archived files older than this, such as 30d.")
    ] = None,
    keep_for: Annotated[
        list[Path] | None,
        typer.Option("--keep-for", metavar="JOB.toml", help="Keep older files that a job still needs; repeat it."),
    ] = None,
    every: Annotated[
        str, typer.Option(metavar="TIME", help="Interval at which the new part of the current file is stored.")
    ] = "10s",
    metrics_port: Annotated[
        int | None, typer.Option(min=0, max=65535, help="Export metrics for Prometheus at this port.")
    ] = None,
    output: OutputOption = Output.TABLE,
) -> None:
    """Store a log's files in an archive, verified, before the server purges them; every command reads it as a log.

    Finished files are linked (same file system) or copied whole, the current file in ranges. It runs until it is
    stopped, and continues where it stopped when it is started again. Access to an object store is set in the
    environment (AWS_ACCESS_KEY_ID, AWS_ENDPOINT_URL ...). Archived data is never overwritten: a log that was reset, or
    has changed after a crash, ends the command with an error.

    To read it: the archive's URL in the place of the directory, or DIRECTORY?archive=URL for both as one log.

    For example:

        binlog-stream archive /var/lib/mysql --to /backup/binlogs
        binlog-stream archive /var/lib/mysql --to s3://backup/log --retention 30d
    """
    from binlog_streaming.archive.run import ArchiveRun, JobNeeds

    keep = None if retention is None else _seconds("--retention", retention)
    if keep_for and keep is None:
        raise typer.BadParameter("expected --retention beside it: nothing is removed without", param_hint="--keep-for")
    lines = _JsonLines() if output is Output.JSONL else _Lines()
    run = ArchiveRun(
        path,
        to,
        retention=keep,
        needs=JobNeeds(keep_for, path, to) if keep_for else None,
        range_seconds=_seconds("--every", every),
        on_stored=lines.stored,
        on_removed=lines.removed,
    )
    with stopped_by_signals(run.stop) as stopped_by:
        run.run(once=once, metrics_port=metrics_port, on_metrics=lines.metrics)
    lines.ended()
    if stopped_by and once:
        raise typer.Exit(SIGNALLED + stopped_by[0])


def _seconds(option: str, text: str) -> float:
    from binlog_streaming.settings.choices import parse_milliseconds

    try:
        return parse_milliseconds(text) / 1000
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


class _Lines:
    """A line for each file that is stored whole; for people."""

    def __init__(self) -> None:
        self._size = 0

    def metrics(self, address: str) -> None:
        say(f"metrics: {address}")

    def stored(self, stored: Stored) -> None:
        self._size += stored.size
        file = stored.file
        if file.is_sealed:
            how = "linked" if stored.is_linked else "copied"
            gtids = f", up to {file.gtids}" if file.gtids else ""
            held = f"{count_text(file.size, 'byte')}, {count_text(file.transactions, 'transaction')}"
            say(f"{file.name}: {how}, {held}{gtids}")

    def removed(self, file: ArchivedFile) -> None:
        say(f"{file.name}: removed, {file.size:,} bytes")

    def ended(self) -> None:
        say(f"{self._size:,} bytes archived")


class _JsonLines(_Lines):
    """A line for everything that is stored: events `stored`, `removed`, `ended`."""

    def metrics(self, address: str) -> None:
        write_json_lines([{"event": "started", "metrics": address}])

    def stored(self, stored: Stored) -> None:
        self._size += stored.size
        facts = {
            "event": "stored",
            "file": stored.file.name,
            "new_bytes": stored.size,
            "bytes": stored.file.size,
            "transactions": stored.file.transactions,
            "gtids": stored.file.gtids,
            "is_complete": stored.file.is_complete,
            "is_whole": stored.file.is_sealed,
            "is_linked": stored.is_linked,
        }
        write_json_lines([facts])

    def removed(self, file: ArchivedFile) -> None:
        write_json_lines([{"event": "removed", "file": file.name, "bytes": file.size}])

    def ended(self) -> None:
        write_json_lines([{"event": "ended", "bytes": self._size}])
