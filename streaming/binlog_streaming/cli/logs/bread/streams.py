"""Bytes of a structured log as the library's reader takes them, from a file or a pipe: `stream_blocks`.

Destinations of its blocks: `BreadSink`, `TextSink`; those of options of our own are in `extended`.
"""

from __future__ import annotations

import os
import stat
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from binlog_format.errors import CorruptError
from binlog_format.kernels import empty_bytes
from binlog_format.structured.layout import ENTRY_HEAD_SIZE, Severity
from binlog_format.structured.scan_kernels import EntryStop
from binlog_format.structured.text.lines import damage_error
from binlog_streaming.cli.logs.bread.arguments import STANDARD_INPUT
from binlog_streaming.cli.output import write_output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from binlog_format.structured.event_log import LogBlock
    from binlog_format.structured.file_scan import Cut
    from binlog_format.structured.scan import EntryScanner
    from binlog_format.structured.text.lines import Lines, LineWriter

    OnDamage = Callable[[CorruptError], None]


CHUNK_SIZE = 1 << 21
"""Bytes asked for at a time; a pipe gives what it has."""


class LogDamage(Exception):
    """Reason why reading ended before the end; the message is that of the library's reader."""


class OpenFailure(Exception):
    """A file cannot be opened."""

    def __init__(self, path: str) -> None:
        super().__init__(f"Failed to open '{path}' for reading")


@contextmanager
def opened(path: str) -> Iterator[int]:
    """A descriptor of a file, or of standard input. Raises `OpenFailure`: there is none."""
    if path == STANDARD_INPUT:
        yield 0
        return
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise OpenFailure(path) from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def stream_blocks(
    descriptor: int, path: str, scanner: EntryScanner, before_read: Callable[[int], None]
) -> Iterator[LogBlock]:
    """The blocks of a log; a size of 0 ends it, as its end does. A block is valid until the next one is asked for.

    Args:
        descriptor: Where to read; a directory is an empty log.
        scanner: Knows what is in force; goes on with the next file.
        before_read: Called with the descriptor before each read, which may take long.

    Raises:
        LogDamage: What follows cannot be read.
    """
    if stat.S_ISDIR(os.fstat(descriptor).st_mode):
        return
    buffer = empty_bytes(CHUNK_SIZE)
    start = end = file_offset = 0
    while True:
        cut = scanner.cut(buffer[start:end], file_no=0, file_offset=file_offset, path=path)
        start += cut.at
        file_offset += cut.at
        if cut.block is not None:
            yield cut.block
        if cut.stop is EntryStop.TABLE_FULL:
            continue
        if cut.stop is EntryStop.ZERO:
            return
        if cut.stop in (EntryStop.SHORT, EntryStop.UNKNOWN_SOURCE):
            raise LogDamage(_reason(cut))
        _check_size(descriptor, cut)
        kept, room = end - start, max(CHUNK_SIZE, 2 * (end - start))
        target = buffer if len(buffer) == room else empty_bytes(room)
        target[:kept] = buffer[start:end].copy()
        buffer, start = target, 0
        before_read(descriptor)
        count = os.readv(descriptor, [buffer.data[kept:]])
        end = kept + count
        if count == 0:
            if cut.stop is EntryStop.END:
                return
            raise LogDamage(_reason(cut))


def _check_size(descriptor: int, cut: Cut[LogBlock]) -> None:
    # Whatever size an entry claims: of a file it is known what is left, before a byte is read.
    status = os.fstat(descriptor)
    if cut.stop is EntryStop.INCOMPLETE and stat.S_ISREG(status.st_mode):
        left = status.st_size - (_place(descriptor) - cut.left)
        if left < cut.needed:
            raise LogDamage(_incomplete("payload", left, cut.needed))


def _place(descriptor: int) -> int:
    """Number of bytes of a file that have been read."""
    return os.lseek(descriptor, 0, os.SEEK_CUR)


def _reason(cut: Cut[LogBlock]) -> str:
    if cut.stop is EntryStop.SHORT:
        return f"Range overflow {cut.needed} > {cut.left}"
    if cut.stop is EntryStop.UNKNOWN_SOURCE:
        return f"Event has invalid source id: {cut.needed}"
    if cut.stop is EntryStop.INCOMPLETE_SIZE:
        return _incomplete("size", cut.left, ENTRY_HEAD_SIZE)
    return _incomplete("payload", cut.left, cut.needed)


def _incomplete(what: str, left: int, needed: int) -> str:
    return f"Failed to read entry {what} from istream, only got {left} bytes, expected {needed}"


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
