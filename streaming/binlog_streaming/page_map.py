"""A picture of a log's pages, coloured by what they hold: `draw_map`. Needs matplotlib, the extra `plot`."""

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

from binlog_format.innodb.inspection.page_usage import Use

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from matplotlib.legend import Legend
    from numpy.typing import NDArray

    from binlog_format.innodb.inspection.page_usage import FileUsage, LogUsage, TransactionUsage

CELLS_MAX = 8192
"""Cells of a picture; with more pages than that a cell stands for several."""

TRANSACTION_COLORS = ("#e4572e", "#f2a541", "#c2185b", "#8e44ad", "#d98880", "#b7950b", "#ff8fab", "#6d4c41")
"""For the largest transactions with out-of-band data; the others share a colour."""

_OTHER_TRANSACTIONS = "#f6d3a8"
_UNUSED_OOB = "#b9aea4"
_COLORS = {
    Use.HEADER: "#37474f",
    Use.COMMIT: "#4682b4",
    Use.GTID_STATE: "#2e9e6b",
    Use.XA: "#26c6da",
    Use.OTHER: "#000000",
    Use.FILLER: "#d5d8dc",
    Use.EMPTY: "#f3f5f7",
    Use.DAMAGED: "#ff0033",
}
_NAMES = {
    Use.HEADER: "header page",
    Use.COMMIT: "commit records",
    Use.GTID_STATE: "GTID states",
    Use.XA: "XA records",
    Use.OTHER: "other records",
    Use.FILLER: "filler and dummies",
    Use.EMPTY: "empty",
    Use.DAMAGED: "damaged",
}
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
    """Where cells stand, *columns* in a row, each for *pages* pages.

    *tops* is the first row of each file; *height* counts rows too, *cell* is the width of a cell in inches.
    """

    columns: int
    pages: int
    cell: float
    tops: list[float]
    height: float


def draw_map(usage: LogUsage, title: str, target: Path) -> None:
    """Draw *usage* and write it to *target*; the file's ending says what kind of picture it is.

    Args:
        usage: What the pages hold.
        title: Above the picture.
        target: `.svg`, `.png` or `.pdf`.
    """
    layout = _lay_out([len(file.bytes) for file in usage.files])
    shown = usage.transactions[: len(TRANSACTION_COLORS)]
    width = layout.columns * layout.cell
    height = layout.height * layout.cell
    # Text stays text in an SVG, and the same log gives the same bytes.
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "binlog-stream", "font.family": "DejaVu Sans"}):
        figure = Figure(figsize=(width + _LEGEND_INCHES, height), facecolor="white", dpi=150)
        axes = figure.add_axes((0, 0, width / (width + _LEGEND_INCHES), 1))
        axes.set_xlim(0, layout.columns)
        axes.set_ylim(layout.height, 0)
        axes.axis("off")
        shares = _transaction_shares(usage)
        for file, top in zip(usage.files, layout.tops, strict=True):
            _draw_file(axes, file, top, layout, shares.get(file.file_no, {}), len(shown))
        _mark_commits(axes, usage, shown, layout)
        figure.text(0, 1 + 0.1 / height, title, fontsize=13, weight="bold", color=_TEXT, va="bottom")
        x = (width + 0.25) / (width + _LEGEND_INCHES)
        _draw_legend(figure, usage, shown, layout, (x, 1 - 0.06 / height))
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


def _transaction_shares(usage: LogUsage) -> dict[int, dict[int, NDArray[np.int64]]]:
    """For each file and transaction (by rank) the bytes in each page."""
    shares: dict[int, dict[int, NDArray[np.int64]]] = {}
    sizes = {file.file_no: len(file.bytes) for file in usage.files}
    for rank, transaction in enumerate(usage.transactions):
        rank = min(rank, len(TRANSACTION_COLORS))
        places = transaction.page_bytes()
        for file_no in np.unique(places[:, 0]).tolist():
            if file_no not in sizes:
                continue
            rows = places[places[:, 0] == file_no]
            pages = shares.setdefault(file_no, {}).setdefault(rank, np.zeros(sizes[file_no], dtype=np.int64))
            np.add.at(pages, rows[:, 1], rows[:, 2])
    return shares


def _draw_file(
    axes: Axes, file: FileUsage, top: float, layout: _Layout, shares: dict[int, NDArray[np.int64]], shown_count: int
) -> None:
    size = len(file.bytes) * file.page_size
    baseline = top - 0.06 / layout.cell
    axes.text(0, baseline, file.name, fontsize=8.5, weight="bold", color=_TEXT, va="bottom")
    said = f"{len(file.bytes):,} pages, {_size_text(size)}"
    axes.text(layout.columns, baseline, said, fontsize=7.5, color="#607d8b", ha="right", va="bottom")
    colors, amounts = _strips(file, shares, shown_count)
    cells = -(-len(file.bytes) // layout.pages)
    padded = np.zeros((cells * layout.pages, amounts.shape[1]))
    padded[: len(amounts)] = amounts
    totals = padded.reshape(cells, layout.pages, -1).sum(axis=1)
    ends = np.cumsum(totals, axis=1) / np.maximum(totals.sum(axis=1, keepdims=True), 1)
    index = np.arange(cells)
    x, y = (index % layout.columns).astype(np.float64), top + index // layout.columns
    for column, color in enumerate(colors):
        rows = np.flatnonzero(totals[:, column])
        before = ends[rows, column - 1] if column > 0 else np.zeros(len(rows))
        inner = 1 - 2 * _GAP
        left = x[rows] + _GAP + before * inner
        right = x[rows] + _GAP + ends[rows, column] * inner
        upper, lower = y[rows] + _GAP, y[rows] + 1 - _GAP
        corners = np.stack([left, upper, right, upper, right, lower, left, lower], axis=1).reshape(-1, 4, 2)
        # Thin edges in the same colour keep strips together where they meet.
        axes.add_collection(PolyCollection(list(corners), facecolors=color, edgecolors=color, linewidths=0.2))
    has_state = np.add.reduceat(file.bytes[:, Use.GTID_STATE], np.arange(0, len(file.bytes), layout.pages)) > 0
    rows = np.flatnonzero(has_state)
    axes.plot(
        x[rows] + 0.24,
        y[rows] + 0.24,
        linestyle="none",
        marker="o",
        markersize=3.4,
        markerfacecolor=_COLORS[Use.GTID_STATE],
        markeredgecolor="white",
        markeredgewidth=0.5,
    )


def _strips(
    file: FileUsage, shares: dict[int, NDArray[np.int64]], shown_count: int
) -> tuple[list[str], NDArray[np.float64]]:
    """Colours, and for each page how many bytes have each of them."""
    colors: list[str] = []
    amounts: list[NDArray[np.float64]] = []

    def add(color: str, values: NDArray[np.int64]) -> None:
        colors.append(color)
        amounts.append(values.astype(np.float64))

    for use in (Use.HEADER, Use.COMMIT):
        add(_COLORS[use], file.bytes[:, use])
    known = np.zeros(len(file.bytes), dtype=np.int64)
    for rank in sorted(shares):
        color = TRANSACTION_COLORS[rank] if rank < shown_count else _OTHER_TRANSACTIONS
        part = np.minimum(shares[rank], file.bytes[:, Use.OOB] - known)
        known += part
        add(color, part)
    # Headers of chunks and records belong to no transaction; a few bytes more are data that no commit refers to.
    rest = file.bytes[:, Use.OOB] - known
    is_overhead = rest * 20 < file.bytes[:, Use.OOB]
    if amounts[2:]:
        largest = np.argmax(np.stack(amounts[2:]), axis=0)
        for number in range(len(amounts) - 2):
            amounts[2 + number] += np.where(is_overhead & (largest == number), rest, 0)
        rest = np.where(is_overhead, 0, rest)
    add(_UNUSED_OOB, rest)
    for use in (Use.GTID_STATE, Use.XA, Use.OTHER, Use.FILLER, Use.DAMAGED, Use.EMPTY):
        add(_COLORS[use], file.bytes[:, use])
    return colors, np.stack(amounts, axis=1)


def _mark_commits(axes: Axes, usage: LogUsage, shown: list[TransactionUsage], layout: _Layout) -> None:
    """A diamond where each of the largest transactions commits."""
    tops = {file.file_no: top for file, top in zip(usage.files, layout.tops, strict=True)}
    for transaction in shown:
        position = transaction.position
        if position.file_no not in tops:
            continue
        cell = position.page // layout.pages
        axes.plot(
            cell % layout.columns + 0.68,
            tops[position.file_no] + cell // layout.columns + 0.62,
            marker="D",
            markersize=4.2,
            markerfacecolor="white",
            markeredgecolor=_TEXT,
            markeredgewidth=0.7,
        )


def _draw_legend(
    figure: Figure, usage: LogUsage, shown: list[TransactionUsage], layout: _Layout, corner: tuple[float, float]
) -> None:
    totals = np.sum([file.bytes.sum(axis=0) for file in usage.files], axis=0)
    shown_size = sum(transaction.size for transaction in shown)
    other_size = sum(transaction.size for transaction in usage.transactions[len(shown) :])
    unused = max(int(totals[Use.OOB]) - shown_size - other_size, 0)
    handles: list[Patch | Line2D] = []
    for use in (Use.COMMIT, Use.XA, Use.OTHER, Use.FILLER, Use.EMPTY, Use.HEADER, Use.DAMAGED):
        if totals[use] > 0:
            handles.append(_patch(_COLORS[use], f"{_NAMES[use]}  {_size_text(int(totals[use]))}"))
    if totals[Use.GTID_STATE] > 0:
        handles.insert(
            1, Line2D([], [], linestyle="none", marker="o", color=_COLORS[Use.GTID_STATE], label="GTID state")
        )
    if other_size:
        label = f"{len(usage.transactions) - len(shown):,} other transactions  {_size_text(other_size)}"
        handles.append(_patch(_OTHER_TRANSACTIONS, label))
    if unused * 20 > totals[Use.OOB]:
        handles.append(_patch(_UNUSED_OOB, f"out-of-band, not committed  {_size_text(unused)}"))
    x, y = corner
    cell = "a cell is a page" if layout.pages == 1 else f"a cell is {layout.pages:,} pages"
    first = _legend(figure, handles, (x, y), cell)
    if not shown:
        return
    large: list[Patch | Line2D] = [
        _patch(color, f"{transaction.gtid or transaction.position}  {_size_text(transaction.size)}")
        for transaction, color in zip(shown, TRANSACTION_COLORS, strict=False)
    ]
    label = "where it commits"
    large.append(
        Line2D([], [], linestyle="none", marker="D", markersize=4.5, color="white", markeredgecolor=_TEXT, label=label)
    )
    figure.add_artist(first)
    lower = y - (len(handles) + 2) * _LINE_INCHES / figure.get_figheight()
    _legend(figure, large, (x, lower), "largest transactions")


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


def _patch(color: str, label: str) -> Patch:
    edge = "#cfd8dc" if color == _COLORS[Use.EMPTY] else color
    return Patch(facecolor=color, edgecolor=edge, linewidth=0.6, label=label)


def _size_text(size: int) -> str:
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}"
    return "1 byte" if size == 1 else f"{size:,} bytes"
