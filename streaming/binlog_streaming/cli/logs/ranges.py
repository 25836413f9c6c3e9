"""The options --start and --end, which every command understands alike; logs as commands open them: `opened_log`."""

from __future__ import annotations

import sys
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated

import typer

from binlog_format import open_log
from binlog_format.errors import BinlogError, OptionError
from binlog_format.kernels import interpreted_if_small
from binlog_format.log.log import EDGE_HINT, parse_edge
from binlog_format.position import Position

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_format import Log


@contextmanager
def opened_log(path: str) -> Iterator[Log]:
    """Open a log for a command; a small one is read without the compiler, which would take longer to load."""
    with open_log(path) as log, interpreted_if_small(lambda: _size(path, log)):
        yield log


def _size(path: str, log: Log) -> int:
    from binlog_format.formats.opening import open_live_files

    if "://" in path:
        return sys.maxsize  # each look is a request
    try:
        with closing(open_live_files(path, log.format_name)) as files:
            return files.written_size(0)
    except (BinlogError, OSError):
        return sys.maxsize  # whoever reads it names the error, or never comes there


def _checked(text: str | None) -> str | None:
    """See that *text* can be a position or GTIDs; whether it is in the log shows later."""
    if text is None:
        return None
    try:
        parse_edge(text)
    except ValueError as error:
        raise OptionError("INVALID_VALUE", f"{error}", hint=EDGE_HINT) from error
    return text


StartOption = Annotated[
    str | None,
    typer.Option(
        "--start",
        metavar="POSITION",
        callback=_checked,
        help="Position (0:12:3, or mysql-bin.000001:14542) to start at, or GTIDs (0-1-575, or MySQL's uuid:1-77) to "
        "start after.",
    ),
]
EndOption = Annotated[
    str | None,
    typer.Option(
        "--end", metavar="POSITION", callback=_checked, help="Position to stop before, or GTIDs to stop after."
    ),
]


def positions_of(path: str, start: str | None, end: str | None) -> tuple[Position | None, Position | None]:
    """The positions that *start* and *end* stand for, for commands that look at pages.

    GTIDs are looked up, which needs a log that can be read; positions are taken as they are.
    """
    edges = [None if edge is None else parse_edge(edge) for edge in (start, end)]
    first, last = (edge if isinstance(edge, Position) else None for edge in edges)
    if [first, last] == edges:
        return first, last  # nothing to look up: what is damaged can be looked at all the same
    from binlog_format.log.log import ReadRange

    with open_log(path) as log:
        part = ReadRange.of(log, start, end)
        return part.start, part.end
