"""A structured log as a picture: `picture_of`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.structured.files.page_usage import Use
from binlog_format.structured.layout import VIRTUAL_PAGE_SIZE
from binlog_streaming.page_map.picture import LegendLine, Picture, PictureFile, Sign, size_text

if TYPE_CHECKING:
    from binlog_format.structured.files.page_usage import FileUsage

# Of the severities each is darker or more intense than the one before, so they differ without their hues too; blue and
# orange to red are told apart by people who cannot tell red from green.
_COLORS = {
    Use.METADATA: "#004d73",
    Use.TRACE: "#e3e6e8",
    Use.DEBUG: "#b8bfc4",
    Use.INFO: "#7db8da",
    Use.WARNING: "#f0c419",
    Use.ERROR: "#e06a00",
    Use.CRITICAL: "#a8001c",
    Use.OTHER_SEVERITY: "#9e86c8",
    Use.UNKNOWN: "#5b3a8c",
    Use.DAMAGED: "#000000",
    Use.INCOMPLETE: "#fdeec4",
}
_EDGES = {Use.INCOMPLETE: "#90a4ae"}
_NAMES = {
    Use.METADATA: "sources, clocks, writers",
    Use.TRACE: "trace events",
    Use.DEBUG: "debug events",
    Use.INFO: "info events",
    Use.WARNING: "warning events",
    Use.ERROR: "error events",
    Use.CRITICAL: "critical events",
    Use.OTHER_SEVERITY: "events of other severities",
    Use.UNKNOWN: "unknown entries",
    Use.DAMAGED: "damaged",
    Use.INCOMPLETE: "not complete (yet)",
}


def picture_of(files: list[FileUsage]) -> Picture:
    """Describe what `measure_pages` found."""
    totals = np.sum([file.bytes.sum(axis=0) for file in files], axis=0)
    legend = [
        LegendLine(Sign.COLOR, _COLORS[use], f"{_NAMES[use]}  {size_text(int(totals[use]))}", _EDGES.get(use))
        for use in Use
        if totals[use] > 0
    ]
    shown = [
        PictureFile(file.name, int(file.bytes.sum()), list(_COLORS.values()), file.bytes.astype(np.float64))
        for file in files
    ]
    return Picture(shown, legend, page_name=f"page of {VIRTUAL_PAGE_SIZE >> 10} KiB")
