"""`binlog-stream pages`: the pages and chunks of an `.ibb` log, and one page byte by byte."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from binlog_format.archives.directories import open_directory
from binlog_format.errors import OptionError, StartError, UnsupportedError
from binlog_format.format_traits import INNODB
from binlog_format.formats.opening import detect_format
from binlog_format.position import Position
from binlog_streaming.cli.logs.page_view import KIND_STYLES, PageView
from binlog_streaming.cli.logs.ranges import EndOption, StartOption, positions_of
from binlog_streaming.cli.output import Output, OutputOption, PathArgument, output_console, write_json_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format.innodb.inspection.page_rows import PageRow
    from binlog_format.source_file import Directory

TABLE_ROWS = 200
"""Rows printed for people when no limit is given."""

_FLAGS = {(True, True): "whole", (True, False): "first", (False, True): "last", (False, False): "middle"}


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("pages")(pages)


def pages(  # noqa: PLR0913 - the options of the command
    path: PathArgument,
    output: OutputOption = Output.TABLE,
    start: StartOption = None,
    end: EndOption = None,
    *,
    file: Annotated[int | None, typer.Option(min=0, metavar="N", help="Only the file with this number.")] = None,
    page: Annotated[
        int | None,
        typer.Option(min=0, metavar="N", help="Only this page, its bytes coloured by chunk (0: the header)."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="With --page: show all bytes of long chunks.")] = False,
    limit: Annotated[
        int | None, typer.Option(min=0, help=f"Rows to print; default: all as jsonl, {TABLE_ROWS} as table.")
    ] = None,
) -> None:
    """List the pages of an .ibb log and the chunks in them, damaged pages too; or show one page byte by byte."""
    directory, only = open_directory(path)
    if (found := detect_format(directory, only)) != INNODB:
        raise UnsupportedError("FORMAT", f"{path}: a log of the format {found} has no pages", hint="See `groups`")
    # Compiled code takes a moment to load: not for --help.
    from binlog_format.innodb.inspection.page_rows import page_rows

    first, last = _range(path, directory, only, start, end, file, page)
    rows = page_rows(directory, only, first, last)
    if output is Output.JSONL:
        write_json_lines(_json(row) for row in (rows if limit is None else islice(rows, limit)))
    elif page is not None:
        listed = list(rows)
        if not listed:
            raise StartError("POSITION_NOT_FOUND", f"page {page} is not there", hint="`files` lists how long files are")
        view = PageView(directory, only, listed, page, is_full=full)
        output_console().print(view, soft_wrap=True)
    else:
        _print_table(rows, TABLE_ROWS if limit is None else limit)


def _range(
    path: str,
    directory: Directory,
    only: str | None,
    start: str | None,
    end: str | None,
    file: int | None,
    page: int | None,
) -> tuple[Position | None, Position | None]:
    if file is None and page is None:
        return positions_of(path, start, end)
    if start is not None or end is not None:
        raise OptionError("INVALID_VALUE", "pages: --file and --page choose what to list, --start and --end do so too")
    from binlog_format.innodb.files import LogFiles

    numbers = LogFiles(directory, only).numbers()
    if file is None:
        if len(numbers) > 1:
            raise OptionError("MISSING", f"pages: --page needs --file: there are files {numbers[0]} to {numbers[-1]}")
        file = numbers[0]
    if file not in numbers:
        raise StartError("POSITION_NOT_FOUND", f"file {file} is not there", hint="`files` lists those that are")
    if page is None:
        return Position(file, 0, 0), Position(file + 1, 0, 0)
    return Position(file, page, 0), Position(file, page + 1, 0)


def _json(row: PageRow) -> dict[str, object]:
    record = row.record
    return {
        "file_no": row.file_no,
        "file": row.file,
        "page": row.page,
        "page_count": row.page_count,
        "page_state": row.page_state,
        "file_offset": row.file_offset,
        "chunk": row.chunk,
        "kind": row.kind,
        "type": row.type,
        "begins": row.begins,
        "ends": row.ends,
        "length": row.length,
        "record": None if record is None else {"file_no": record.file_no, "page": record.page, "chunk": record.chunk},
        "holds": row.holds,
        "is_wrong": row.is_wrong,
    }


def _print_table(rows: Iterator[PageRow], limit: int) -> None:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in ("file", "page", "chunk"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("kind", no_wrap=True)
    table.add_column("flags", no_wrap=True)
    table.add_column("length", justify="right", no_wrap=True)
    table.add_column("record", no_wrap=True)
    table.add_column("holds", overflow="fold")
    before: tuple[int, int] | None = None
    for row in islice(rows, limit):
        here = row.file_no, row.page
        file_text = str(row.file_no) if before is None or here[0] != before[0] else ""
        table.add_row(file_text, "" if here == before else _pages_text(row), *_cells(row))
        before = here
    console = output_console()
    console.print(table)
    if next(rows, None) is not None:
        console.print(f"The first {limit:,} rows; --limit shows more, --output jsonl all.", style="dim")


def _cells(row: PageRow) -> tuple[Text, ...]:
    if row.chunk is None:
        style = "bold red" if row.is_wrong else KIND_STYLES.get(row.page_state, "")
        return Text(), Text(row.page_state, style=style), Text(), Text(), Text(), Text(row.text, style=style)
    flags = _FLAGS[bool(row.begins), bool(row.ends)]
    style = "bold red" if row.is_wrong else KIND_STYLES.get(row.kind or "", "")
    text_style = "bold red" if row.is_wrong else "" if row.begins else "dim"
    return (
        Text(str(row.chunk)),
        Text(row.kind or "", style=style),
        Text(flags, style="dim" if flags == "whole" else ""),
        Text(f"{row.length:,}"),
        Text("-" if row.record is None else str(row.record), style="" if row.begins else "dim"),
        Text(row.text, style=text_style),
    )


def _pages_text(row: PageRow) -> str:
    return str(row.page) if row.page_count == 1 else f"{row.page}-{row.page + row.page_count - 1}"
