"""`binlog-stream files`: which files a log has, and what is in them."""

from __future__ import annotations

from contextlib import nullcontext
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from binlog_format import Bound, Position, open_log
from binlog_format.kernels import interpreted
from binlog_streaming.cli.logs.ranges import EndOption, StartOption, positions_of
from binlog_streaming.cli.output import Output, OutputOption, PathArgument, output_console, print_rows, write_json_lines

if TYPE_CHECKING:
    from binlog_format import LogFile
    from binlog_format.log_format import FileGtids

_TIMES = ("timestamp", "last_timestamp", "created")
"""Fields of headers that are seconds since 1970; 0: there is none."""

_GTID_COLUMNS = ("first GTID state", "last GTID state")

FEW_FILES = 32
"""Files whose GTID states, of a page or two each, are read sooner than the compiler is loaded."""


def files(
    path: PathArgument, output: OutputOption = Output.TABLE, start: StartOption = None, end: EndOption = None
) -> None:
    """List the files of a log: state, size, used size, headers, GTID states and the bound.

    For example:

        binlog-stream files /var/lib/mysql
        binlog-stream files /var/lib/mysql --start 0-1-575 --output jsonl

    docs/reading.md explains what it prints.
    """
    first, last = positions_of(path, start, end)
    with open_log(path) as log:
        traits = log.traits
        with interpreted() if traits.is_indexed else nullcontext():  # of others all that they hold is read
            known = log.files()
        with interpreted() if len(known) <= FEW_FILES else nullcontext():
            gtids = log.file_gtids(known)
        newest_sealed = max((file.file_no for file in known), default=0) - traits.unsealed_files
        rows = [
            _row(file, own, is_sealed=file.file_no <= newest_sealed) for file, own in zip(known, gtids, strict=True)
        ]
        rows = [row for row, file in zip(rows, known, strict=True) if _is_within(file, first, last)]
        if output is Output.JSONL:
            write_json_lines(rows)
        else:
            _print_table(log.path, log.format_name, rows, is_of_server=traits.has_changes)


def _row(file: LogFile, gtids: FileGtids, *, is_sealed: bool) -> dict[str, object]:
    # `sealed`: crash recovery of the server can no longer change the file; an empty one has no bound.
    bound = Bound.SEALED.value if is_sealed else Bound.VISIBLE.value
    return {
        "file_no": file.file_no,
        "name": file.name,
        "state": file.state,
        "size": file.size,
        "used_size": file.used_size,
        "bound": bound if file.header else None,
        "first_gtid_state": gtids.first,
        "last_gtid_state": gtids.last,
        "last_gtid_state_page": gtids.last_page,
        "header": file.header,
    }


def _is_within(file: LogFile, start: Position | None, end: Position | None) -> bool:
    is_after_start = start is None or file.file_no >= start.file_no
    return is_after_start and (end is None or Position(file.file_no, 0, 0) < end)


def _print_table(path: str, format_name: str, rows: list[dict[str, object]], *, is_of_server: bool) -> None:
    headers = [header for row in rows if isinstance(header := row["header"], dict) and header]
    # GTID lists have columns of their own.
    fields = [name for name in dict.fromkeys(name for header in headers for name in header) if name != "gtid_list"]
    # What is the same everywhere is printed once.
    common = {name: headers[0].get(name) for name in fields if len({str(header.get(name)) for header in headers}) == 1}
    shown = ", ".join(f"{_title(name)} {_shown(name, value)}" for name, value in common.items() if value is not None)
    console = output_console()
    console.print(f"{path}: {format_name}" + (f", {shown}" if shown else ""), soft_wrap=True, markup=False)
    own_fields = [name for name in fields if name not in common]
    cells = []
    for row in rows:
        header = row["header"]
        assert isinstance(header, dict)
        sizes = (f"{row['size']:,}", f"{row['used_size']:,}")
        gtids = (_gtid_cell(row["first_gtid_state"]), _gtid_cell(row["last_gtid_state"]))
        values = (_shown(name, header.get(name)) for name in own_fields)
        cells.append((str(row["name"]), str(row["state"]), str(row["bound"] or "-"), *sizes, *values, *gtids))
    fields = ["size", "used", *(_title(name) for name in own_fields)]
    columns = ("file", "state", "bound", *fields, *_GTID_COLUMNS)
    if not is_of_server:  # no GTIDs, and nobody takes anything back
        columns = ("file", "state", *fields)
        cells = [(*row[:2], *row[3 : -len(_GTID_COLUMNS)]) for row in cells]
    print_rows(console, columns, cells, right=fields, labelled=columns[3:], last_width=len(columns[-1]))


def _title(name: str) -> str:
    return name.replace("_", " ") + (" (UTC)" if name in _TIMES else "")


def _shown(name: str, value: object) -> str:
    if isinstance(value, int) and name in _TIMES:
        return datetime.fromtimestamp(value, UTC).strftime("%Y-%m-%d %H:%M:%S") if value else "-"
    return "-" if value is None else str(value)


def _gtid_cell(gtids: object) -> str:
    return "-" if gtids is None else str(gtids) or "none"
