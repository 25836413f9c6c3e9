"""`binlog-stream map`: a picture of what the pages of an `.ibb` log or a structured log hold."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from binlog_connector.installing import require
from binlog_format.errors import OptionError, storage_error
from binlog_streaming.cli.logs.ranges import EndOption, StartOption, positions_of
from binlog_streaming.cli.output import PathArgument
from binlog_streaming.cli.progress import progress_bar

SUFFIXES = (".svg", ".png", ".pdf")


def map(
    path: PathArgument,
    output: Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="The picture: .svg, .png or .pdf.")],
    start: StartOption = None,
    end: EndOption = None,
) -> None:
    """Draw the pages of an .ibb log or a structured log as cells, coloured by their content.

    For example:

        binlog-stream map /var/lib/mysql --output log.svg

    docs/reading.md explains what it prints.
    """
    if output.suffix not in SUFFIXES:
        raise OptionError(
            "INVALID_VALUE", f"map: --output {output}: expected a name that ends in {', '.join(SUFFIXES)}"
        )
    require("matplotlib")
    from binlog_streaming.page_map.drawing import draw_map
    from binlog_streaming.page_map.picture import describe

    first, last = positions_of(path, start, end)
    with progress_bar("Measuring") as on_progress:
        described = describe(path, first, last, on_progress)
    try:
        draw_map(described.picture, path, output)
    except OSError as error:
        raise storage_error(output, "write", error) from error
    console = Console(highlight=False, emoji=False, soft_wrap=True)
    if described.problem is not None:
        console.print(f"Transactions after this are not told apart: {described.problem}", style="yellow", markup=False)
    pages = sum(len(file.amounts) for file in described.picture.files)
    console.print(f"{output}: {pages:,} pages, {described.findings}")
