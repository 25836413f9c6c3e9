"""`binlog-stream files`: which files a log has, and what is in them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table

from binlog_format import open_log
from binlog_streaming.cli.output import Output, OutputOption, PathArgument, write_json_lines

if TYPE_CHECKING:
    import typer

    from binlog_format import LogFile


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("files")(files)


def files(path: PathArgument, output: OutputOption = Output.TABLE) -> None:
    """List the files of a log: state, size, how much of it is used, and their headers."""
    with open_log(path) as log:
        found = log.files()
        if output is Output.JSONL:
            write_json_lines(_json(file) for file in found)
        else:
            _print_table(log.path, log.format_name, found)


def _json(file: LogFile) -> dict[str, object]:
    return {
        "file_no": file.file_no,
        "name": file.name,
        "state": file.state,
        "size": file.size,
        "used_size": file.used_size,
        "header": file.header,
    }


def _print_table(path: str, format_name: str, found: list[LogFile]) -> None:
    headers = [file.header for file in found if file.header]
    fields = list(dict.fromkeys(name for header in headers for name in header))
    # What is the same everywhere is said once.
    common = {name: headers[0].get(name) for name in fields if len({str(header.get(name)) for header in headers}) == 1}
    said = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in common.items() if value is not None)
    console = Console()
    console.print(f"{path}: {format_name}" + (f", {said}" if said else ""), soft_wrap=True, markup=False)
    table = Table()
    table.add_column("file", no_wrap=True)
    table.add_column("state", no_wrap=True)
    own_fields = [name for name in fields if name not in common]
    for column in ("size", "used", *own_fields):
        table.add_column(column.replace("_", " "), justify="right", no_wrap=column in ("size", "used"))
    for file in found:
        values = ("-" if file.header.get(name) is None else str(file.header[name]) for name in own_fields)
        table.add_row(file.name, file.state, f"{file.size:,}", f"{file.used_size:,}", *values)
    console.print(table)
