"""The file that a job reads, as `binlog-stream map` draws it, for the page: `FileMaps`."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from binlog_format.errors import UnsupportedError
from binlog_format.position import Position
from binlog_streaming.page_map.describe import describe

if TYPE_CHECKING:
    from binlog_streaming.page_map.picture import LegendLine, PictureFile
    from binlog_streaming.status.view import JobView

CELLS_MAX = 2048
FILE_SIZE_MAX = 1 << 30
"""A larger file is not read for its picture; `binlog-stream map` draws it."""
KEPT_SECONDS = 30.0
"""A picture costs as much as reading the file: it is made when somebody asks, and no more often than this."""


class FileMaps:
    """Makes the picture; may be used by several threads.

    Args:
        view: Gives where the job is.
        path: Of its log; None: it reads none.
    """

    def __init__(self, view: JobView, path: str | None) -> None:
        self._view = view
        self._path = path
        self._lock = threading.Lock()
        self._made: tuple[float, int, bytes] | None = None

    def current(self) -> bytes:
        """The file that is read next, as JSON.

        Raises:
            UnsupportedError: `FORMAT`: there is nothing to draw.
            BinlogError: The log cannot be read.
        """
        position = self._view.status().state.position
        if self._path is None or not position:
            raise UnsupportedError("FORMAT", "the job has no log to draw, or has not begun to read it")
        place = Position.parse(position)
        with self._lock:
            made = self._made
            if made is None or made[1] != place.file_no or time.monotonic() - made[0] > KEPT_SECONDS:
                made = time.monotonic(), place.file_no, self._draw(self._path, place)
                self._made = made
            return made[2]

    def _draw(self, path: str, place: Position) -> bytes:
        start, end = Position(place.file_no, 0, 0), Position(place.file_no + 1, 0, 0)
        described = describe(path, start, end, _check_size)
        if not described.picture.files:
            raise UnsupportedError("FORMAT", f"file {place.file_no} of the log is not there")
        file = described.picture.files[0]
        pages, cells = _cells(file)
        legend = [*described.picture.legend, *described.picture.more_legend]
        return msgspec.json.encode(
            {
                "file": file.name,
                "size": file.size,
                "pages": len(file.amounts),
                "page_name": described.picture.page_name,
                "pages_in_cell": pages,
                "colors": file.colors,
                "cells": cells,
                "read_to": place.page // pages,
                "legend": [_legend(line) for line in legend],
                "findings": described.findings,
            }
        )


def _check_size(_done: int, total: int) -> None:
    # Told how much there is to read before most of it is read.
    if total > 2 * FILE_SIZE_MAX:
        raise UnsupportedError("FORMAT", "the file is too large to be drawn here", hint="binlog-stream map draws it")


def _cells(file: PictureFile) -> tuple[int, list[list[int]]]:
    """Pages in a cell, and for each cell how much of it has which colour, in 255ths."""
    pages = 1
    while -(-len(file.amounts) // pages) > CELLS_MAX:
        pages *= 2
    cells = -(-len(file.amounts) // pages)
    padded = np.zeros((cells * pages, file.amounts.shape[1]))
    padded[: len(file.amounts)] = file.amounts
    totals = padded.reshape(cells, pages, -1).sum(axis=1)
    shares = totals / np.maximum(totals.sum(axis=1, keepdims=True), 1)
    rounded: list[list[int]] = np.rint(shares * 255).astype(np.int64).tolist()
    return pages, rounded


def _legend(line: LegendLine) -> dict[str, str]:
    return {"sign": line.sign.name.lower(), "color": line.color, "label": line.label}
