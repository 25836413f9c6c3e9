"""Contents of a log's pages, as a picture, whatever its format: `describe`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from binlog_format.archives.directories import open_directory
from binlog_format.errors import UnsupportedError
from binlog_format.format_traits import INNODB, STRUCTURED
from binlog_format.formats.opening import detect_format
from binlog_format.structured.files.page_usage import StructuredUse
from binlog_format.structured.layout import VIRTUAL_PAGE_SIZE
from binlog_streaming.page_map.picture import LegendLine, Picture, PictureFile, Sign, size_text

if TYPE_CHECKING:
    from binlog_format.errors import BinlogError
    from binlog_format.log_format import OnProgress
    from binlog_format.position import Position
    from binlog_format.source_file import Directory
    from binlog_format.structured.files.page_usage import StructuredFileUsage


@dataclass(frozen=True, slots=True)
class Description:
    """A picture, and what it shows.

    Attributes:
        picture: Not drawn yet.
        findings: What it shows, in words.
        problem: Why it does not show all transactions; None: it does.
    """

    picture: Picture
    findings: str
    problem: BinlogError | None


def describe(path: str, start: Position | None, end: Position | None, on_progress: OnProgress) -> Description:
    """Measure the pages of the log at *path* in [*start*, *end*).

    Raises:
        UnsupportedError: `FORMAT`: the log has no pages.
        BinlogError: It cannot be read.
    """
    directory, only = open_directory(path)
    found = detect_format(directory, only)
    describe_format = _OF_FORMATS.get(found)
    if describe_format is None:
        raise UnsupportedError(
            "FORMAT",
            f"{path}: map draws the pages of .ibb logs and structured logs, and this log is {found}",
            hint=f"binlog-stream repack {path} --to DIR makes an .ibb log of a MariaDB server's",
        )
    return describe_format(directory, only, start, end, on_progress)


def _describe_innodb(
    directory: Directory, only: str | None, start: Position | None, end: Position | None, on_progress: OnProgress
) -> Description:
    from binlog_format.innodb.inspection.page_usage import measure_pages
    from binlog_streaming.page_map.innodb import picture_of

    usage = measure_pages(directory, only, start=start, end=end, on_progress=on_progress)
    findings = f"{len(usage.transactions):,} transactions with out-of-band data"
    return Description(picture_of(usage), findings, usage.problem)


def _describe_structured(
    directory: Directory, only: str | None, start: Position | None, end: Position | None, on_progress: OnProgress
) -> Description:
    from binlog_format.structured.files.page_usage import StructuredUse, measure_pages
    from binlog_streaming.page_map.picture import size_text

    usages = measure_pages(directory, only, start=start, end=end, on_progress=on_progress)
    damaged = sum(int(usage.bytes[:, StructuredUse.DAMAGED].sum()) for usage in usages)
    findings = f"{size_text(damaged)} damaged" if damaged else "nothing damaged"
    return Description(picture_of(usages), findings, None)


_OF_FORMATS = {INNODB: _describe_innodb, STRUCTURED: _describe_structured}

# Of the severities each is darker or more intense than the one before, so they differ without their hues too; blue and
# orange to red are told apart by people who cannot tell red from green.
_COLORS = {
    StructuredUse.METADATA: "#004d73",
    StructuredUse.TRACE: "#e3e6e8",
    StructuredUse.DEBUG: "#b8bfc4",
    StructuredUse.INFO: "#7db8da",
    StructuredUse.WARNING: "#f0c419",
    StructuredUse.ERROR: "#e06a00",
    StructuredUse.CRITICAL: "#a8001c",
    StructuredUse.OTHER_SEVERITY: "#9e86c8",
    StructuredUse.UNKNOWN: "#5b3a8c",
    StructuredUse.DAMAGED: "#000000",
    StructuredUse.INCOMPLETE: "#fdeec4",
}
_EDGES = {StructuredUse.INCOMPLETE: "#90a4ae"}
_NAMES = {
    StructuredUse.METADATA: "sources, clocks, writers",
    StructuredUse.TRACE: "trace events",
    StructuredUse.DEBUG: "debug events",
    StructuredUse.INFO: "info events",
    StructuredUse.WARNING: "warning events",
    StructuredUse.ERROR: "error events",
    StructuredUse.CRITICAL: "critical events",
    StructuredUse.OTHER_SEVERITY: "events of other severities",
    StructuredUse.UNKNOWN: "unknown entries",
    StructuredUse.DAMAGED: "damaged",
    StructuredUse.INCOMPLETE: "not complete (yet)",
}


def picture_of(files: list[StructuredFileUsage]) -> Picture:
    """Describe what `measure_pages` found."""
    totals = np.sum([file.bytes.sum(axis=0) for file in files], axis=0)
    legend = [
        LegendLine(Sign.COLOR, _COLORS[use], f"{_NAMES[use]}  {size_text(int(totals[use]))}", _EDGES.get(use))
        for use in StructuredUse
        if totals[use] > 0
    ]
    shown = [
        PictureFile(file.name, int(file.bytes.sum()), list(_COLORS.values()), file.bytes.astype(np.float64))
        for file in files
    ]
    return Picture(shown, legend, page_name=f"page of {VIRTUAL_PAGE_SIZE >> 10} KiB")
