"""`binlog-stream events`: the replication events of a log, one after the other."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Annotated

import typer

from binlog_format.messages import count_text
from binlog_streaming.cli.logs.ranges import EndOption, StartOption, opened_log
from binlog_streaming.cli.options import ExcludeTablesOption, TablesOption
from binlog_streaming.cli.output import Output, OutputOption, PathArgument, escaped, output_console, print_rows
from binlog_streaming.cli.tabular import json_rows, position_text, shortened, warned_of_none, write_batches

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from binlog_format import Log
    from binlog_format.views.events import EventsView

TABLE_ROWS = 50
"""Rows printed for people when no limit is given."""
_TEXT_WIDTH = 60


def events(
    path: PathArgument,
    output: OutputOption = Output.TABLE,
    *,
    tables: TablesOption = None,
    exclude_tables: ExcludeTablesOption = None,
    start: StartOption = None,
    end: EndOption = None,
    limit: Annotated[
        int | None, typer.Option(min=0, help=f"Rows to print; default: all as jsonl, {TABLE_ROWS} as table.")
    ] = None,
) -> None:
    """List the replication events of a log, decompressed: types, sizes, tables, statements.

    For example:

        binlog-stream events /var/lib/mysql --start 0-1-575 --limit 10
        binlog-stream events /var/lib/mysql --tables 'shop[.]orders' -o jsonl

    docs/reading.md explains what it prints.
    """
    # Compiled code takes a moment to load: not for --help.
    from binlog_format.log.log import ReadRange
    from binlog_format.transactions.expansion import expanded
    from binlog_format.views.events import EventsView
    from binlog_format.views.filters import TableFilter

    accepted = TableFilter(tables, exclude_tables) if tables or exclude_tables else None
    with opened_log(path) as log:
        part = ReadRange.of(log, start, end)
        view = EventsView(tables=accepted, groups=part.groups)
        batches = view.batches(expanded(part.stored_blocks(log)))
        if tables and limit != 0:
            batches = warned_of_none(batches, tables, log, part, is_all=start is None and end is None)
        if output is Output.JSONL:
            write_batches(batches, view, limit)
        else:
            _print_table(batches, view, TABLE_ROWS if limit is None else limit, log)


def _print_table(batches: Iterator[pa.RecordBatch], view: EventsView, limit: int, log: Log) -> None:
    # One row more than is shown tells whether there are more.
    found = list(itertools.islice(json_rows(batches, view), limit + 1))
    console = output_console()
    if not found:
        console.print("No events.")
        return
    rows = [
        (
            position_text(row["position"], log),
            str(row["event_no"]),
            str(row["gtid"] or ""),
            str(row["time"]),
            f"{row['type']}" + (f" [dim]in {row['stored_as']}[/]" if row["stored_as"] else ""),
            f"{row['size']:,}",
            escaped(_what(row)),
        )
        for row in found[:limit]
    ]
    columns = ("position", "no", "gtid", "time", "type", "bytes", "what")
    numbers = ("no", "bytes")
    print_rows(console, columns, rows, right=numbers, labelled=numbers, last_width=_TEXT_WIDTH // 2)
    if len(found) > limit:
        console.print(f"The first {count_text(limit, 'event')}; --limit shows more, --output jsonl all.", style="dim")


def _what(row: dict[str, object]) -> str:
    if row["text"] is not None:
        database = f"{row['database']}: " if row["database"] else ""
        return database + shortened(json.dumps(row["text"], ensure_ascii=False)[1:-1], _TEXT_WIDTH)
    return f"{row['database']}.{row['table']}" if row["table"] else ""
