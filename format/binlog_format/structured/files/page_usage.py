"""Use of the bytes of each virtual page of a structured log: `measure_pages` gives `StructuredFileUsage`."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from enum import IntEnum
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.errors import StartError, storage_error
from binlog_format.position import VIRTUAL_PAGE_SIZE, Place, Position
from binlog_format.structured.file_scan import StructuredFileScan
from binlog_format.structured.files.entry_kernels import walk_entries
from binlog_format.structured.files.file_list import list_series
from binlog_format.structured.layout import CLOCK_TAG, ENTRY_HEAD_SIZE, TAG_STRUCT, Severity
from binlog_format.structured.scan import EntryScanner

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_format.errors import CorruptError
    from binlog_format.kernels import Int64s
    from binlog_format.source_file import Directory, SourceFile
    from binlog_format.structured.event_log import LogBlock

    OnProgress = Callable[[int, int], None]


class StructuredUse(IntEnum):
    """Uses of the bytes of a page; columns of `StructuredFileUsage.bytes`."""

    METADATA = 0  # sources, writers, clock syncs
    TRACE = 1
    DEBUG = 2
    INFO = 3
    WARNING = 4
    ERROR = 5
    CRITICAL = 6
    OTHER_SEVERITY = 7
    UNKNOWN = 8  # metadata of unknown kinds, events of sources that have not been defined
    DAMAGED = 9
    INCOMPLETE = 10  # an entry that does not end in the file, zeros at its end


_USE_OF_SEVERITY: dict[int, StructuredUse] = {
    Severity.TRACE: StructuredUse.TRACE,
    Severity.DEBUG: StructuredUse.DEBUG,
    Severity.INFO: StructuredUse.INFO,
    Severity.WARNING: StructuredUse.WARNING,
    Severity.ERROR: StructuredUse.ERROR,
    Severity.CRITICAL: StructuredUse.CRITICAL,
}


@dataclass(slots=True)
class StructuredFileUsage:
    """One file. *bytes*: shape (virtual pages, uses). A file without a byte has one page, of zeros."""

    name: str
    bytes: Int64s


def measure_pages(
    directory: Directory,
    only: str | None = None,
    *,
    start: Position | None = None,
    end: Position | None = None,
    on_progress: OnProgress | None = None,
) -> list[StructuredFileUsage]:
    """Measure what the virtual pages of a log hold; each byte that a file had when it was opened counts once.

    Args:
        only: Name or pattern of the files; None: all structured logs there.
        start: Leave out the files before this one; they are read all the same, for what they define.
        end: Leave out the files that begin there or later.
        on_progress: Told bytes done and bytes to do.

    Returns:
        The files as they were written.
    """
    series = list_series(directory, only)
    begun = [file for file in series.begun.values() if end is None or Position(file.file_no, 0, 0) < end]
    total = sum(file.size for file in begun)
    scanner = EntryScanner(is_missing_ok=True)
    files: list[StructuredFileUsage] = []
    done = 0
    for file in begun:
        with closing(series.open(file.file_no)) as source:
            usage = _measure_file(source, file.file_no, scanner)
        if start is None or file.file_no >= start.file_no:
            files.append(StructuredFileUsage(file.name, usage))
        done += file.size
        if on_progress is not None:
            on_progress(done, total)
    for file in series.unwritten if end is None else ():
        try:
            source = directory.open(file.name)
        except OSError as error:
            raise storage_error(directory.path_of(file.name), "read", error) from error
        with closing(source):
            files.append(StructuredFileUsage(file.name, _measure_file(source, file.file_no, scanner)))
    if not files:
        raise StartError("POSITION_NOT_FOUND", "no file of the log is in the given range", at=Place(series.path))
    return files


def _measure_file(source: SourceFile, file_no: int, scanner: EntryScanner) -> Int64s:
    size = source.size()
    pages = _Pages(size)

    def note_damage(error: CorruptError, until: int) -> None:
        assert error.at is not None
        assert error.at.byte is not None
        pages.add_range(error.at.byte, until, StructuredUse.DAMAGED)

    scan = StructuredFileScan(source, file_no, scanner, limit=size, on_damage=note_damage)
    for block in scan.blocks():
        pages.add(*_entries_of(block))
    pages.add_range(scan.stopped_at, size, StructuredUse.INCOMPLETE)
    return pages.bytes


def _entries_of(block: LogBlock) -> tuple[Int64s, Int64s, Int64s]:
    """Starts, ends and uses of the entries of *block* in the file."""
    entry_size_min = ENTRY_HEAD_SIZE + TAG_STRUCT.size
    starts = np.zeros(len(block.data) // entry_size_min + 1, dtype=np.int64)
    walk = walk_entries(block.data, len(block.data), len(starts), starts, np.zeros_like(starts))
    assert walk.at == len(block.data)
    starts = starts[: walk.entries]
    tag_bytes = block.data[(starts + ENTRY_HEAD_SIZE)[:, None] + np.arange(TAG_STRUCT.size)]
    tags = tag_bytes.view(np.uint64).reshape(-1)
    # Events of sources that have not been defined are in no table, as metadata. The known tags are the last ones.
    uses = np.full(len(starts), int(StructuredUse.UNKNOWN))
    uses[tags >= np.uint64(CLOCK_TAG)] = StructuredUse.METADATA
    severities = (source.severity for source in block.sources)
    of_source = np.array(
        [_USE_OF_SEVERITY.get(severity, StructuredUse.OTHER_SEVERITY) for severity in severities], dtype=np.int64
    )
    uses[np.searchsorted(starts, block.events["start"])] = of_source[block.events["source"]]
    ends = np.append(starts[1:], len(block.data))
    return starts + block.file_offset, ends + block.file_offset, uses


class _Pages:
    """Adds up bytes by page and use. *size*: of the file; it may grow."""

    def __init__(self, size: int) -> None:
        self.bytes: Int64s = np.zeros((max(-(-size // VIRTUAL_PAGE_SIZE), 1), len(StructuredUse)), dtype=np.int64)

    def add_range(self, start: int, end: int, use: StructuredUse) -> None:
        """Add the bytes [*start*, *end*) of the file, if there are any."""
        if start < end:
            self.add(np.array([start]), np.array([end]), np.array([int(use)]))

    def add(self, starts: Int64s, ends: Int64s, uses: Int64s) -> None:
        """Add ranges of bytes, none of them empty; a range that crosses pages is shared between them."""
        first, last = starts // VIRTUAL_PAGE_SIZE, (ends - 1) // VIRTUAL_PAGE_SIZE
        missing = int(last[-1]) + 1 - len(self.bytes)
        if missing > 0:
            self.bytes = np.concatenate([self.bytes, np.zeros((missing, len(StructuredUse)), dtype=np.int64)])
        counts = last - first + 1
        rows = np.repeat(np.arange(len(starts)), counts)
        pages = first[rows] + np.arange(len(rows)) - (np.cumsum(counts) - counts)[rows]
        begin = np.maximum(starts[rows], pages * VIRTUAL_PAGE_SIZE)
        end = np.minimum(ends[rows], (pages + 1) * VIRTUAL_PAGE_SIZE)
        np.add.at(self.bytes, (pages, uses[rows]), end - begin)
