"""`binlog-stream map`: a picture of what the pages of an `.ibb` log hold."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003 (typer looks at annotations)
from typing import Annotated

import typer
from rich.console import Console

from binlog_connector.installing import require
from binlog_format.detect import INNODB, detect_format
from binlog_format.errors import OptionError, UnsupportedError, storage_error
from binlog_format.source_file import open_directory
from binlog_streaming.cli.logs.ranges import EndOption, StartOption, positions_of
from binlog_streaming.cli.output import PathArgument  # noqa: TC001
from binlog_streaming.cli.progress import progress_bar

SUFFIXES = (".svg", ".png", ".pdf")


def register(app: typer.Typer) -> None:
    """Add the command to the program."""
    app.command("map")(map_pages)


def map_pages(
    path: PathArgument,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The picture: .svg, .png or .pdf.")],
    start: StartOption = None,
    end: EndOption = None,
) -> None:
    """Draw the pages of an .ibb log as cells, coloured by what they hold: one look shows the large transactions."""
    if output.suffix not in SUFFIXES:
        raise OptionError(
            "INVALID_VALUE", f"map: --output {output}: expected a name that ends in {', '.join(SUFFIXES)}"
        )
    require("matplotlib")
    directory, only = open_directory(path)
    if (found := detect_format(directory, only)) != INNODB:
        raise UnsupportedError(
            "FORMAT",
            f"{path}: map draws the pages of .ibb logs, and this log is {found}",
            hint=f"binlog-stream repack {path} --to DIR makes an .ibb log of a MariaDB server's",
        )
    from binlog_format.innodb.inspection.page_usage import measure_pages
    from binlog_streaming.page_map import draw_map

    first, last = positions_of(path, start, end)
    with progress_bar("Measuring") as on_progress:
        usage = measure_pages(directory, only, start=first, end=last, on_progress=on_progress)
    try:
        draw_map(usage, path, output)
    except OSError as error:
        raise storage_error(output, "write", error) from error
    console = Console(highlight=False, emoji=False, soft_wrap=True)
    if usage.problem is not None:
        console.print(f"Transactions behind this are not told apart: {usage.problem}", style="yellow", markup=False)
    pages = sum(len(file.bytes) for file in usage.files)
    console.print(f"{output}: {pages:,} pages, {len(usage.transactions):,} transactions with out-of-band data")
