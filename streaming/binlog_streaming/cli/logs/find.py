"""`binlog-stream find`: where a GTID or a time is in a log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from binlog_format.errors import OptionError
from binlog_format.gtids.gtid_set import parse_gtid
from binlog_streaming.cli.logs.groups import read_groups, type_summary
from binlog_streaming.cli.logs.ranges import opened_log
from binlog_streaming.cli.output import Output, OutputOption, PathArgument, write_json_lines
from binlog_streaming.cli.tabular import position_text

if TYPE_CHECKING:
    from binlog_format import Log, Position


def find(
    path: PathArgument,
    output: OutputOption = Output.TABLE,
    *,
    gtid: Annotated[
        str | None, typer.Option(metavar="GTID", help="The event group with this GTID: 0-1-575, or MySQL's uuid:77.")
    ] = None,
    time: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="The first event group committed at this time or later: 2026-01-31T12:00:00 (UTC "
            "unless it has +02:00), or seconds since 1970.",
        ),
    ] = None,
) -> None:
    """Find an event group by its GTID or its time: its position, file and byte, and its content.

    For example:

        binlog-stream find /var/lib/mysql --gtid 0-1-575
        binlog-stream find /var/lib/mysql --time 2026-01-31T12:00

    docs/reading.md explains what it prints.
    """
    if (gtid is None) == (time is None):
        raise OptionError("MISSING", "find: give one of --gtid and --time")
    with opened_log(path) as log:
        row = _found(log, _find(log, gtid, time))
        if output is Output.JSONL:
            write_json_lines([row])
        else:
            _print(row)


def _find(log: Log, gtid: str | None, time: str | None) -> Position:
    # Compiled code takes a moment to load: not for --help.
    from binlog_connector.options.option_values import moment
    from binlog_format.log.search import find_gtid

    try:
        if gtid is not None:
            return find_gtid(log, parse_gtid(gtid))
        assert time is not None
        return log.position_of_time(moment("time", time))
    except ValueError as error:
        raise OptionError("INVALID_VALUE", f"find: {error}") from error


def _found(log: Log, position: Position) -> dict[str, object]:
    from binlog_format.log.log import ReadRange

    row = next(read_groups(log, ReadRange(start=position)))
    names = {file.file_no: file.name for file in log.files()}
    return {"position": row["position"], "file": names[position.file_no], **row}


def _print(row: dict[str, object]) -> None:
    types = row["event_types"]
    assert isinstance(types, list)
    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row("position", f"[bold]{position_text(row['position'])}[/]")
    if "server_position" in row:
        table.add_row("server's position", str(row["server_position"]))
    table.add_row("file", str(row["file"]))
    table.add_row("byte", f"{row['file_offset']:#x}")
    table.add_row("gtid", str(row["gtid"] or "-"))
    table.add_row("commit time", str(row["commit_time"]))
    table.add_row("events", f"{row['events']}: {type_summary(types)}")
    table.add_row("bytes", f"{row['bytes']:,}")
    if row["oob_records"]:
        table.add_row("out-of-band", f"{row['oob_records']} + {row['oob_records_second_set']} records")
    Console(highlight=False).print(table)
