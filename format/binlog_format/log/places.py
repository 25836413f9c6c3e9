"""Positions as users give them: `parse_position`, `resolve_position`, and whether a log has them: `check_start`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.errors import OptionError, StartError
from binlog_format.position import Position

if TYPE_CHECKING:
    from binlog_format.log.log import Log

_SERVER_POSITION = re.compile(r"(?P<name>.+\.\d{6,}):(?P<byte>\d{1,19})")


@dataclass(frozen=True, slots=True)
class ServerPosition:
    """A place in a classic log as its server gives it: `mysql-bin.000001:14542`.

    Attributes:
        name: Of the file.
        byte: In the file; the server calls it `Pos`, `end_log_pos` or `Position`.
    """

    name: str
    byte: int

    def __str__(self) -> str:
        return f"{self.name}:{self.byte}"


def parse_position(text: str) -> Position | ServerPosition:
    """Read `file_no:page:chunk`, or a server's own `mysql-bin.000001:14542`.

    Raises:
        ValueError: *text* is neither.
    """
    match = _SERVER_POSITION.fullmatch(text.strip())
    return Position.parse(text) if match is None else ServerPosition(match["name"], int(match["byte"]))


def resolve_position(log: Log, name: str, position: Position | ServerPosition) -> Position:
    """The position in *log* that a user means.

    Args:
        log: The log.
        name: Of the option, for messages.
        position: What it holds.

    Raises:
        OptionError: `INVALID_VALUE`: the log's files are not named like that.
    """
    if isinstance(position, Position):
        return position
    found = log.position_at_byte(position.name, position.byte)
    if found is None:
        example = shown_position(log, log.start_position())
        raise OptionError(
            "INVALID_VALUE",
            f"{name} {position}: {log.path} has no files named like that",
            hint=f"Its positions are like {example}",
        )
    return found


def shown_position(log: Log, position: Position) -> str:
    """A position for messages: ours, and beside it the server's own, where it has one."""
    of_server = log.server_position(position)
    return str(position) if of_server is None else f"{position} ({of_server})"


def check_start(log: Log, name: str, position: Position) -> None:
    """See that reading can begin at a position that a user gave; of a classic log the file is walked up to it.

    What has been purged, and files that are missing, are found by reading.

    Args:
        log: The log.
        name: Of the option, for messages.
        position: What it holds.

    Raises:
        StartError: `POSITION_NOT_FOUND`: it lies after the end of the log, or where nothing begins.
    """
    check_end(log, name, position)
    starts = {start.file_no: start for start in log.file_starts()}
    if position.file_no not in starts or log.can_start_at(position):
        return
    before, after = _neighbours(log, starts[position.file_no], position)
    near = f"the next one begins at {shown_position(log, after)}"
    if before is not None:
        near = f"the transaction before it begins at {shown_position(log, before)}, {near}"
    raise StartError(
        "POSITION_NOT_FOUND",
        f"{log.path}: {name} {shown_position(log, position)}: no transaction begins there; {near}",
        hint="Take positions from `groups` or `find`",
    )


def check_end(log: Log, name: str, position: Position) -> None:
    """See that the log reaches as far as a position that a user gave.

    Raises:
        StartError: `POSITION_NOT_FOUND`.
    """
    end = log.end_position()
    if position > end:
        raise StartError(
            "POSITION_NOT_FOUND",
            f"{log.path}: {name}: the log ends at {shown_position(log, end)}, before {shown_position(log, position)}",
            hint="Use a position of this log, for example from `groups` or `find`",
        )


def _neighbours(log: Log, start: Position, position: Position) -> tuple[Position | None, Position]:
    """The last group of a file that begins before *position*, and where the next one does, or the data end."""
    before: Position | None = None
    after = start
    for heads in log.heads(start, None):
        for row in range(len(heads.groups)):
            if heads.position(row) > position:
                return before, heads.position(row)
            before = heads.position(row)
        after = heads.next_position
    return before, after
