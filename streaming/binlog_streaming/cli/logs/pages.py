"""`binlog-stream pages`: the pages and chunks of an `.ibb` log, and one page byte by byte (`PageView`)."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Annotated

import typer
from rich.table import Table
from rich.text import Text

from binlog_format.errors import OptionError, StartError, UnsupportedError
from binlog_format.format_traits import INNODB
from binlog_format.formats.directories import open_directory
from binlog_format.formats.opening import detect_format
from binlog_format.innodb.layout import (
    CHUNK_HEADER_SIZE,
    CHUNK_SPACE_MIN,
    HEADER_CHECKSUM_OFFSET,
    HEADER_FIELDS_SIZE,
    HEADER_SIZE,
    PAGE_CHECKSUM_SIZE,
    PAGE_SIZE_MIN,
)
from binlog_format.innodb.pages.checksum import page_checksum, stored_checksum
from binlog_format.kernels import empty_bytes
from binlog_format.messages import count_text
from binlog_format.position import Position
from binlog_streaming.cli.logs.ranges import EndOption, StartOption, positions_of
from binlog_streaming.cli.output import Output, OutputOption, PathArgument, output_console, write_json_lines

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import Console, ConsoleOptions

    from binlog_format.innodb.inspection.page_rows import PageRow
    from binlog_format.source_file import Directory


TABLE_ROWS = 200
"""Rows printed for people when no limit is given."""

_FLAGS = {(True, True): "whole", (True, False): "first", (False, True): "last", (False, False): "middle"}


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
    """List the pages of an .ibb log and the chunks in them, damaged pages too; or show one page byte by byte.

    For example:

        binlog-stream pages /var/lib/mysql --limit 20
        binlog-stream pages /var/lib/mysql --file 0 --page 1

    docs/reading.md explains what it prints.
    """
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
        "record": None if record is None else record.to_json(),
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
        console.print(f"The first {count_text(limit, 'row')}; --limit shows more, --output jsonl all.", style="dim")


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


KIND_STYLES = {
    "commit": "blue",
    "oob": "yellow",
    "gtid_state": "green",
    "dummy": "bright_black",
    "xa_prepare": "magenta",
    "xa_complete": "bright_magenta",
    "header": "cyan",
    "empty": "dim",
    "damaged": "bold red",
}
"""Colour of each kind of record or page."""

ROW_BYTES = 16
SHOWN_START_BYTES = 6 * ROW_BYTES
SHOWN_END_BYTES = 2 * ROW_BYTES
"""Number of bytes shown at the start and at the end of a long range."""

_HEADER_FIELDS = (
    (0, 4, "magic"),
    (4, 4, "log2 of the page size"),
    (8, 4, "major version"),
    (12, 4, "minor version"),
    (16, 8, "file number"),
    (24, 8, "pages of the file when it was begun"),
    (32, 8, "LSN"),
    (40, 8, "GTID state interval in pages"),
    (48, 8, "lowest file with out-of-band data"),
    (56, 8, "lowest file with prepared XA"),
)


@dataclass(frozen=True, slots=True)
class _Part:
    """A stretch of the page with one meaning; the first *strong* bytes stand out."""

    start: int
    end: int
    style: str
    caption: str
    strong: int = 0


class PageView:
    """The bytes of a page, coloured by chunk, each chunk under a line that describes it.

    Args:
        only: Name of the one file that was given.
        rows: The page's rows, at least one.
        is_full: Show all bytes; else those of long stretches only in part.
    """

    def __init__(
        self, directory: Directory, only: str | None, rows: list[PageRow], page: int, *, is_full: bool
    ) -> None:
        from binlog_format.innodb.inspection.file_views import view_files

        self._rows = rows
        self._page = page
        self._is_full = is_full
        first = rows[0]
        view = next(view for view in view_files(directory, only) if view.file_no == first.file_no)
        self._data = b""
        self._page_size = view.page_size
        with closing(directory.open(first.file)) as source:
            buffer = empty_bytes(self._page_size)
            self._data = buffer[: source.read_into(page * self._page_size, buffer)].tobytes()

    def __rich_console__(self, _console: Console, _options: ConsoleOptions) -> Iterator[Text]:
        yield self._title()
        is_alternate = False
        for part in self._parts():
            yield Text.assemble((f"  {part.caption}", f"bold {part.style}".strip()))
            style = f"{part.style} dim" if is_alternate and part.style else part.style
            yield from self._hex(part, style)
        if not self._is_full and any(_is_long(part) for part in self._parts()):
            yield Text("--full shows all bytes", style="dim")

    def _title(self) -> Text:
        row = self._rows[0]
        start = self._page * self._page_size
        return Text.assemble(
            (f"{row.file}, page {self._page}", "bold"),
            f"  bytes {start:#x} to {start + len(self._data):#x}, ",
            (row.page_state, KIND_STYLES.get(row.page_state, "")),
        )

    def _parts(self) -> list[_Part]:
        state = self._rows[0].page_state
        if len(self._data) < self._page_size:
            return [_Part(0, len(self._data), "red", "the file ends within the page")]
        if self._page == 0 and state != "empty":
            return self._header_parts()
        if state == "empty":
            return [_Part(0, len(self._data), "dim", "nothing has been written")]
        if state == "damaged":
            end = self._page_size - PAGE_CHECKSUM_SIZE
            return [_Part(0, end, "red", self._rows[0].text), self._checksum_part()]
        return self._chunk_parts()

    def _header_parts(self) -> list[_Part]:
        parts = []
        for start, size, name in _HEADER_FIELDS:
            value = int.from_bytes(self._data[start : start + size], "little")
            shown = f"{value:#010x}" if name == "magic" else "none" if value == 2**64 - 1 else f"{value:,}"
            parts.append(_Part(start, start + size, "cyan", f"{name}: {shown}"))
        parts.append(_Part(HEADER_FIELDS_SIZE, HEADER_CHECKSUM_OFFSET, "dim", "not used"))
        parts.append(_Part(HEADER_CHECKSUM_OFFSET, HEADER_SIZE, "magenta", "CRC-32C of the bytes before"))
        if self._page_size > PAGE_SIZE_MIN:
            parts.append(_Part(HEADER_SIZE, self._page_size - PAGE_CHECKSUM_SIZE, "dim", "not used"))
            parts.append(self._checksum_part())
        return parts

    def _chunk_parts(self) -> list[_Part]:
        parts = []
        at = 0
        for row in self._rows:
            if row.chunk is None or row.length is None:
                continue
            start = row.file_offset - self._page * self._page_size
            at = start + CHUNK_HEADER_SIZE + row.length
            flags = " ".join(name for name, on in (("first", row.begins), ("last", row.ends)) if on) or "middle"
            caption = f"chunk {row.chunk}: {row.kind}, {flags}, {row.length:,} bytes"
            if row.record is not None and not row.begins:
                caption += f", of the record at {row.record}"
            caption += f": {row.text}" if row.begins else ""
            style = "red" if row.is_wrong else KIND_STYLES.get(row.kind or "", "")
            parts.append(_Part(start, at, style, caption, CHUNK_HEADER_SIZE))
        end = self._page_size - PAGE_CHECKSUM_SIZE
        if at < end:
            wrong = next((row.text for row in self._rows if row.is_wrong and row.chunk is None), None)
            usual = (
                "filler" if end - at < CHUNK_SPACE_MIN or self._data[at] else "end of data, nothing has been written"
            )
            parts.append(_Part(at, end, "red" if wrong else "dim", wrong or usual))
        parts.append(self._checksum_part())
        return parts

    def _checksum_part(self) -> _Part:
        stored, computed = stored_checksum(self._data), page_checksum(self._data)
        shown = "right" if stored == computed else f"wrong, computed {computed:#010x}"
        style = "magenta" if stored == computed else "bold red"
        start = self._page_size - PAGE_CHECKSUM_SIZE
        return _Part(start, self._page_size, style, f"CRC-32C {stored:#010x}, {shown}")

    def _hex(self, part: _Part, style: str) -> Iterator[Text]:
        if self._is_full or not _is_long(part):
            yield from self._lines(part, part.start, part.end, style)
            return
        head_end = part.start + SHOWN_START_BYTES - part.start % ROW_BYTES
        tail_start = part.end - SHOWN_END_BYTES
        tail_start -= tail_start % ROW_BYTES
        yield from self._lines(part, part.start, head_end, style)
        yield Text(f"  {'':8}  ... {tail_start - head_end:,} bytes", style="dim")
        yield from self._lines(part, tail_start, part.end, style)

    def _lines(self, part: _Part, start: int, end: int, style: str) -> Iterator[Text]:
        """Lines of 16 bytes of the page; what belongs to other parts is left blank."""
        for line_start in range(start - start % ROW_BYTES, end, ROW_BYTES):
            line = Text(f"  {self._page * self._page_size + line_start:08x}  ", style="dim")
            shown = Text()
            for at in range(line_start, line_start + ROW_BYTES):
                gap = "  " if at % ROW_BYTES == ROW_BYTES // 2 - 1 else " "
                if not start <= at < end:
                    line.append("  " + gap)
                    shown.append(" ")
                    continue
                byte = self._data[at]
                byte_style = f"{style} bold reverse" if at < part.start + part.strong else style
                line.append(f"{byte:02x}", style=f"not dim {byte_style}" if style != "dim" else style)
                line.append(gap)
                shown.append(chr(byte) if 32 <= byte < 127 else ".", style=style or None)
            yield line + Text(" ") + shown


def _is_long(part: _Part) -> bool:
    return part.end - part.start > SHOWN_START_BYTES + SHOWN_END_BYTES + 2 * ROW_BYTES
