"""`binlog-stream verify`: is everything in a log as it should be?"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.text import Text

from binlog_format import open_log
from binlog_format.messages import visible
from binlog_streaming.cli.logs.ranges import EndOption, StartOption, positions_of
from binlog_streaming.cli.output import Output, OutputOption, PathArgument, write_json
from binlog_streaming.cli.progress import progress_bar

if TYPE_CHECKING:
    from binlog_format.log_format import Finding
    from binlog_streaming.jobs.row_format_report import RowFormatReport


def verify(
    path: PathArgument,
    output: OutputOption = Output.TABLE,
    start: StartOption = None,
    end: EndOption = None,
    *,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Print findings only, no remarks and no summary.")
    ] = False,
) -> None:
    """Check every checksum, header, chunk, reference, event, entry and GTID state of a log.

    Each finding is a line with its place and the name of the condition; damage does not end the check. The exit status
    is 1 if there is an error. Data that is not written yet, at the end of a live log, is a remark. The last line shows
    if all changed rows are in the log: statements in the log's text change rows that no row event has.

    For example:

        binlog-stream verify /var/lib/mysql
    """
    # Compiled code takes a moment to load: not for --help.
    from binlog_format.formats.opening import verify_log
    from binlog_streaming.jobs.row_format_report import read_row_format

    first, last = positions_of(path, start, end)
    found = remarks = 0
    console = Console(highlight=False, soft_wrap=True)
    with progress_bar("Verifying") as on_progress:
        for finding in verify_log(path, start=first, end=last, on_progress=on_progress):
            found += finding.is_error
            remarks += not finding.is_error
            if output is Output.JSONL:
                write_json(msgspec.json.encode(_json(finding)) + b"\n")
                sys.stdout.flush()
            elif finding.is_error or not quiet:
                console.print(_line(finding))
    with open_log(path) as log:
        has_rows = log.traits.has_changes
    if has_rows:
        report = read_row_format(path, first, last)
        found += report.tally.incidents
        _print_report(report, console, output, quiet=quiet)
    if output is Output.TABLE and not quiet:
        console.print(_summary(found, remarks))
    if found:
        raise typer.Exit(1)


def _print_report(report: RowFormatReport, console: Console, output: Output, *, quiet: bool) -> None:
    if output is Output.JSONL:
        write_json(msgspec.json.encode(report.to_json()) + b"\n")
    elif not quiet or report.tally.incidents:
        for line in report.lines():
            console.print(Text(line, style="" if report.tally.is_complete else "yellow"))


def _json(finding: Finding) -> dict[str, object]:
    at = finding.at
    return {
        "severity": "error" if finding.is_error else "remark",
        "condition": finding.condition,
        "file": None if at is None else at.name,
        "page": None if at is None else at.page,
        "byte": None if at is None else at.byte,
        "reason": finding.reason,
        "hint": finding.hint,
    }


def _line(finding: Finding) -> Text:
    line = Text()
    line.append(finding.condition, style="bold red" if finding.is_error else "cyan")
    line.append(visible(f"  {finding.at}: ") if finding.at is not None else "  ", style="bold")
    line.append(visible(finding.reason))
    return line


def _summary(found: int, remarks: int) -> Text:
    shown = f", {remarks} remark{'s' if remarks > 1 else ''}" if remarks else ""
    if found == 0:
        return Text(f"Nothing is wrong{shown}.", style="green")
    return Text(f"{found} finding{'s' if found > 1 else ''}{shown}.", style="red")
