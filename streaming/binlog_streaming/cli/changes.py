"""`binlog-stream changes`: the changed rows of a log."""

from __future__ import annotations

import json
import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console
from rich.table import Table

from binlog_format.errors import OptionError
from binlog_format.log import open_log
from binlog_streaming.cli.output import Output, OutputOption, PathArgument
from binlog_streaming.cli.ranges import EndOption, StartOption  # noqa: TC001 (typer looks at annotations)

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa

    from binlog_format.views.changefeed import ChangefeedView
    from binlog_format.views.changes import ChangesView

TABLE_ROWS = 50
"""Rows printed for people when no limit is given."""
_VALUE_WIDTH = 40


class View(StrEnum):
    """What a row is."""

    CHANGES = "changes"
    CHANGEFEED = "changefeed"


_COLORS = {"insert": "green", "update": "yellow", "delete": "red"}


def register(app: typer.Typer) -> None:
    """Add the command to *app*."""
    app.command()(changes)


def changes(  # noqa: PLR0913 - the options of the command
    path: PathArgument,
    output: OutputOption = Output.TABLE,
    *,
    tables: Annotated[
        str | None, typer.Option(help="Regular expressions on database.table, separated by commas; default: all.")
    ] = None,
    exclude_tables: Annotated[str | None, typer.Option(help="The same, for what to leave out.")] = None,
    view: Annotated[
        View, typer.Option(help="changes: one row a change, JSON images. changefeed: one row an image, typed.")
    ] = View.CHANGES,
    table: Annotated[str | None, typer.Option(help="With --view changefeed: the table, database.table.")] = None,
    start: StartOption = None,
    end: EndOption = None,
    limit: Annotated[
        int | None, typer.Option(min=0, help=f"Rows to print; default: all as jsonl, {TABLE_ROWS} as table.")
    ] = None,
) -> None:
    """Print the changed rows of a log, in commit order."""
    # Compiled code takes a moment to load: not for --help.
    from binlog_format.views.changefeed import ChangefeedView
    from binlog_format.views.changes import ChangesView
    from binlog_format.views.read_range import ReadRange
    from binlog_format.views.table_filter import TableFilter

    if (view is View.CHANGEFEED) != (table is not None):
        raise OptionError("MISSING", "--view changefeed and --table go together: the table's columns are the row's")
    accepted = TableFilter(tables, exclude_tables)
    with open_log(path) as log:
        read_range = ReadRange.of(log, start, end)
        selected: ChangesView | ChangefeedView
        if table is not None:
            selected = ChangefeedView(table=table, tables=accepted, skip=read_range.skip, until=read_range.until)
        else:
            selected = ChangesView(tables=accepted, skip=read_range.skip, until=read_range.until)
        batches = selected.batches(read_range.blocks(log))
        if output is Output.JSONL:
            _print_lines(_limited(batches, limit), selected)
        else:
            _print_table(batches, selected, TABLE_ROWS if limit is None else limit)


def _limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    if limit is None:
        yield from batches
        return
    while limit > 0 and (batch := next(batches, None)) is not None:
        yield batch.slice(0, limit)
        limit -= batch.num_rows


def _print_lines(batches: Iterator[pa.RecordBatch], view: ChangesView | ChangefeedView) -> None:
    from binlog_format.views.json_rows import json_lines

    for batch in batches:
        sys.stdout.buffer.write(json_lines(batch, view.json_styles()))
    sys.stdout.flush()


def _print_table(batches: Iterator[pa.RecordBatch], view: ChangesView | ChangefeedView, limit: int) -> None:
    from binlog_format.views.json_rows import json_lines

    console = Console(emoji=False)
    # One row more than is shown tells whether there are more.
    lines = [
        line
        for batch in _limited(batches, limit + 1)
        for line in bytes(json_lines(batch, view.json_styles())).split(b"\n")
        if line
    ]
    rows = [json.loads(line) for line in lines[:limit]]
    if not rows:
        console.print("No changes.")
        return
    printed = _changes_table(rows) if "op" in rows[0] and "before" in rows[0] else _images_table(rows)
    console.print(printed)
    if len(lines) > limit:
        console.print(f"The first {limit} rows; --limit shows more, --output jsonl all.", style="dim")


def _changes_table(rows: list[dict[str, object]]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("position", "gtid", "commit time", "table", "op"):
        table.add_column(name, no_wrap=True)
    table.add_column("change", overflow="fold", min_width=_VALUE_WIDTH // 2)
    for row in rows:
        op = str(row["op"])
        table.add_row(
            _position_text(row["position"]),
            str(row["gtid"] or ""),
            str(row["commit_time"]),
            _plain(f"{row['database']}.{row['table']}"),
            f"[{_COLORS[op]}]{op}[/]",
            _plain(_change_text(row["before"], row["after"])),
        )
    return table


def _images_table(rows: list[dict[str, object]]) -> Table:
    table = Table(*(_plain(name) for name in rows[0]), box=None, header_style="bold", pad_edge=False)
    for row in rows:
        row["_position"] = _position_text(row["_position"])
        table.add_row(*(_plain(_short(value)) for value in row.values()))
    return table


def _position_text(position: object) -> str:
    assert isinstance(position, dict)
    return ":".join(str(part) for part in position.values())


def _change_text(before: object, after: object) -> str:
    # An update shows its first column, which is mostly the key, and what has changed.
    if isinstance(before, dict) and isinstance(after, dict):
        known = [
            f"{name}={_short(value)}" for name, value in list(before.items())[:1] if after.get(name, value) == value
        ]
        missing = object()
        changed = [
            f"{name}: {_short(before[name]) + ' -> ' if name in before else ''}{_short(value)}"
            for name, value in after.items()
            if before.get(name, missing) != value
        ]
        return " ".join(known + changed)
    image = before if isinstance(before, dict) else after
    assert isinstance(image, dict)
    return " ".join(f"{name}={_short(value)}" for name, value in image.items())


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text[: _VALUE_WIDTH + 1])
    return text if len(text) <= _VALUE_WIDTH else text[: _VALUE_WIDTH - 1] + "…"


def _plain(text: str) -> str:
    return text.replace("[", r"\[")
