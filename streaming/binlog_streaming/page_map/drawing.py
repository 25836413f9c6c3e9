"""Draws a `Picture` of a log's pages: `draw_map`. Needs matplotlib, the extra `plot`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import rc_context
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.patches import Patch

from binlog_streaming.page_map.picture import Sign, size_text

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.legend import Legend
    from numpy.typing import NDArray

    from binlog_format.kernels import Int64s, Mask
    from binlog_streaming.page_map.picture import LegendLine, Picture, PictureFile

CELLS_MAX = 8192
"""Cells of a picture; with more pages than that a cell stands for several."""

_COLUMNS = (8, 16, 32, 64, 128)
_ASPECT = 1.25  # width of the cells to their height, as far as the files allow
_GAP = 0.06  # between cells, of a cell's width
_WIDTH_INCHES = 8.5  # of the cells, about
_CELL_INCHES_MIN = 0.15
_CELL_INCHES_MAX = 0.42
_LABEL_INCHES = 0.34  # room above each file
_LEGEND_INCHES = 3.0
_LINE_INCHES = 0.192  # of the legend
_TEXT = "#263238"


@dataclass(slots=True)
class _Layout:
    """Places of cells, *columns* in a row, each for *pages* pages.

    *tops* is the first row of each file; *height* counts rows too, *cell* is the width of a cell in inches.
    """

    columns: int
    pages: int
    cell: float
    tops: list[float]
    height: float


def draw_map(picture: Picture, title: str, target: Path) -> None:
    """Draw *picture* and write it to *target*; the file's ending sets the kind of picture.

    Args:
        target: `.svg`, `.png` or `.pdf`.
    """
    layout = _lay_out([len(file.amounts) for file in picture.files])
    width = layout.columns * layout.cell
    height = layout.height * layout.cell
    # Text stays text in an SVG, and the same log gives the same bytes.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "binlog-stream", "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(width + _LEGEND_INCHES, height), facecolor="white", dpi=150)
        axes = figure.add_axes((0, 0, width / (width + _LEGEND_INCHES), 1))
        axes.set_xlim(0, layout.columns)
        axes.set_ylim(layout.height, 0)
        axes.axis("off")
        for file, top in zip(picture.files, layout.tops, strict=True):
            _draw_file(axes, file, top, layout)
            if file.dots is not None:
                _draw_dots(axes, file.dots, picture.dot_color, top, layout)
        _draw_diamonds(axes, picture, layout)
        figure.text(0, 1 + 0.1 / height, title, fontsize=13, weight="bold", color=_TEXT, va="bottom")
        x = (width + 0.25) / (width + _LEGEND_INCHES)
        _draw_legends(figure, picture, layout, (x, 1 - 0.06 / height))
        metadata = {"Date": None} if target.suffix == ".svg" else None
        figure.savefig(target, metadata=metadata, bbox_inches="tight", pad_inches=0.25)


def _lay_out(page_counts: list[int]) -> _Layout:
    pages = 1
    while sum(-(-count // pages) for count in page_counts) > CELLS_MAX:
        pages *= 2
    cells = [-(-count // pages) for count in page_counts]

    def cell_inches(columns: int) -> float:
        return min(max(_WIDTH_INCHES / columns, _CELL_INCHES_MIN), _CELL_INCHES_MAX)

    def rows(columns: int) -> float:
        return sum(-(-count // columns) + _LABEL_INCHES / cell_inches(columns) for count in cells)

    columns = min(_COLUMNS, key=lambda columns: abs(math.log(columns / rows(columns) / _ASPECT)))
    label_rows = _LABEL_INCHES / cell_inches(columns)
    tops = []
    top = 0.0
    for count in cells:
        tops.append(top + label_rows)
        top += label_rows + -(-count // columns)
    return _Layout(columns, pages, cell_inches(columns), tops, top)


def _draw_file(axes: Axes, file: PictureFile, top: float, layout: _Layout) -> None:
    baseline = top - 0.06 / layout.cell
    axes.text(0, baseline, file.name, fontsize=8.5, weight="bold", color=_TEXT, va="bottom")
    extent = f"{len(file.amounts):,} pages, {size_text(file.size)}"
    axes.text(layout.columns, baseline, extent, fontsize=7.5, color="#607d8b", ha="right", va="bottom")
    amounts = file.amounts
    cells = -(-len(amounts) // layout.pages)
    padded = np.zeros((cells * layout.pages, amounts.shape[1]))
    padded[: len(amounts)] = amounts
    totals = padded.reshape(cells, layout.pages, -1).sum(axis=1)
    ends = np.cumsum(totals, axis=1) / np.maximum(totals.sum(axis=1, keepdims=True), 1)
    x, y = _cell_corners(np.arange(cells), top, layout)
    for column, color in enumerate(file.colors):
        rows = np.flatnonzero(totals[:, column])
        before = ends[rows, column - 1] if column > 0 else np.zeros(len(rows))
        inner = 1 - 2 * _GAP
        left = x[rows] + _GAP + before * inner
        right = x[rows] + _GAP + ends[rows, column] * inner
        upper, lower = y[rows] + _GAP, y[rows] + 1 - _GAP
        corners = np.stack([left, upper, right, upper, right, lower, left, lower], axis=1).reshape(-1, 4, 2)
        # Thin edges in the same colour keep strips together where they meet.
        axes.add_collection(PolyCollection(list(corners), facecolors=color, edgecolors=color, linewidths=0.2))


def _cell_corners(cells: Int64s, top: float, layout: _Layout) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    return (cells % layout.columns).astype(np.float64), (top + cells // layout.columns).astype(np.float64)


def _draw_dots(axes: Axes, dots: Mask, color: str, top: float, layout: _Layout) -> None:
    has_dot = np.logical_or.reduceat(dots, np.arange(0, len(dots), layout.pages))
    x, y = _cell_corners(np.flatnonzero(has_dot), top, layout)
    axes.plot(
        x + 0.24,
        y + 0.24,
        linestyle="none",
        marker="o",
        markersize=3.4,
        markerfacecolor=color,
        markeredgecolor="white",
        markeredgewidth=0.5,
    )


def _draw_diamonds(axes: Axes, picture: Picture, layout: _Layout) -> None:
    for place, page in picture.diamonds:
        cell = page // layout.pages
        axes.plot(
            cell % layout.columns + 0.68,
            layout.tops[place] + cell // layout.columns + 0.62,
            marker="D",
            markersize=4.2,
            markerfacecolor="white",
            markeredgecolor=_TEXT,
            markeredgewidth=0.7,
        )


def _draw_legends(figure: Figure, picture: Picture, layout: _Layout, corner: tuple[float, float]) -> None:
    x, y = corner
    name = picture.page_name
    cell = f"a cell is a {name}" if layout.pages == 1 else f"a cell is {layout.pages:,} {name.replace('page', 'pages')}"
    first = _legend(figure, [_handle(line) for line in picture.legend], (x, y), cell)
    if not picture.more_legend:
        return
    figure.add_artist(first)
    lower = y - (len(picture.legend) + 2) * _LINE_INCHES / figure.get_figheight()
    _legend(figure, [_handle(line) for line in picture.more_legend], (x, lower), picture.more_title)


def _handle(line: LegendLine) -> Patch | Line2D:
    if line.sign is Sign.COLOR:
        return Patch(facecolor=line.color, edgecolor=line.edge or line.color, linewidth=0.6, label=line.label)
    if line.sign is Sign.DOT:
        return Line2D([], [], linestyle="none", marker="o", color=line.color, label=line.label)
    return Line2D(
        [], [], linestyle="none", marker="D", markersize=4.5, color=line.color, markeredgecolor=_TEXT, label=line.label
    )


def _legend(figure: Figure, handles: list[Patch | Line2D], corner: tuple[float, float], title: str) -> Legend:
    return figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=corner,
        borderaxespad=0,
        borderpad=0,
        frameon=False,
        fontsize=8.5,
        labelcolor=_TEXT,
        alignment="left",
        title=title,
        title_fontproperties={"weight": "bold", "size": 8.5},
    )
