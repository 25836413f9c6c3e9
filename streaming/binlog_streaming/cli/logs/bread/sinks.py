"""Destinations of a log's blocks: `BreadSink`, `TextSink`; those of options of our own are in `extended`."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING

from binlog_format.errors import CorruptError
from binlog_format.structured.layout import Severity
from binlog_format.structured.text.lines import damage_error
from binlog_streaming.cli.logs.bread.streams import LogDamage
from binlog_streaming.cli.output import write_output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from binlog_format.structured.event_log import LogBlock
    from binlog_format.structured.text.lines import Lines, LineWriter

    OnDamage = Callable[[CorruptError], None]

_RESET = b"\x1b[0m"
_COLORS = {
    Severity.TRACE: b"\x1b[2m",
    Severity.DEBUG: b"\x1b[36m",
    Severity.INFO: b"\x1b[32m",
    Severity.WARNING: b"\x1b[33m",
    Severity.ERROR: b"\x1b[31m",
    Severity.CRITICAL: b"\x1b[1;37;41m",
}


PAUSE_SECONDS = 10.0
"""Longest wait for a sign of change before a file is looked at anyway."""


def severity_colors() -> Mapping[int, tuple[bytes, bytes]] | None:
    """Escape sequences around severities; None unless the output is a terminal that can show colours."""
    is_plain = not sys.stdout.isatty() or os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return None if is_plain else {int(severity): (color, _RESET) for severity, color in _COLORS.items()}


class BreadSink:
    """Takes the blocks of a log."""

    def take(self, block: LogBlock) -> None:
        """Take the events of a block. Raises `LogDamage`: an argument cannot be read, and damage is not skipped."""
        raise NotImplementedError

    def pause(self) -> float:
        """There is nothing to read at the moment. Gives the seconds after which to call again, if that stays so."""
        return PAUSE_SECONDS

    def finish(self) -> None:
        """All blocks have been taken."""


class TextSink(BreadSink):
    """Lines on standard output, in the order of the log.

    Args:
        on_damage: Called instead of raising an error for an event that cannot be written; the event is left out.
    """

    def __init__(self, writer: LineWriter, on_damage: OnDamage | None) -> None:
        self._writer = writer
        self._on_damage = on_damage

    def take(self, block: LogBlock) -> None:
        """Write the events of a block; of one that cannot be written, what comes before the damage."""
        for lines in event_lines(self._writer, block, self._on_damage):
            is_end = lines.damage is not None and self._on_damage is None
            write_output(lines.text if is_end or not len(lines.ends) else lines.text[: lines.ends[-1]])
            if is_end:
                raise LogDamage(str(lines.damage))


def event_lines(writer: LineWriter, block: LogBlock, on_damage: OnDamage | None) -> Iterator[Lines]:
    """The lines of the events of a block; with *on_damage*, they go on after one that is damaged."""
    row = 0
    while row < len(block.events):
        for lines in writer.lines(block, first_row=row):
            yield lines
            row = lines.next_row
            if lines.damage is not None:
                if on_damage is None:
                    return
                on_damage(damage_error(block, lines.damage))
                row += 1
