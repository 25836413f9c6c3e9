"""A picture of the demo: rows per second and lag over time: `draw_picture`. Needs matplotlib, the extra `plot`."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from matplotlib import rc_context
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from binlog_lab.demo.state import DemoMarkKind

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from matplotlib.axes import Axes

    from binlog_lab.demo.state import DemoMark, DemoState

SIZE_INCHES = (10.0, 6.4)
DOTS_PER_INCH = 150

_TEXT = "#263238"
_LOG = "#9e9e9e"
_TABLES = "#1f4e79"
_LAG = "#b03a2e"
_DOWN = "#e4e4e4"
_BIN_S = 1.0
_NEAR_S = 1.5
"""Alterations closer than this are told in one label."""
_LABEL_LINES = 4
_LABELS_TO_THE_LEFT = 0.8
"""From this part of the time on, labels are to the left of their marks."""


def draw_picture(state: DemoState, title: str, target: Path) -> None:
    """Draw the live part and write it to *target*.

    Args:
        state: When all is done.
        title: Above the picture.
        target: A PNG file.
    """
    origin = state.live_since
    with rc_context(
        {
            "font.family": "DejaVu Sans",
            "font.size": 9.5,
            "text.color": _TEXT,
            "axes.edgecolor": _TEXT,
            "axes.labelcolor": _TEXT,
            "xtick.color": _TEXT,
            "ytick.color": _TEXT,
            "axes.spines.top": False,
            "axes.spines.right": False,
        }
    ):
        figure = Figure(figsize=SIZE_INCHES, dpi=DOTS_PER_INCH, facecolor="white")
        rates, lags = figure.subplots(2, 1, sharex=True, gridspec_kw={"height_ratios": (3, 2), "hspace": 0.1})
        _draw_rates(rates, state, origin)
        end = _draw_lags(lags, state, origin)
        lags.set_xlim(0, max(end, 1.0) * 1.02)
        lags.set_xlabel("time since the live part of the log began (s)")
        marks = state.marks()
        for axes in (rates, lags):
            axes.set_ylim(bottom=0)
            axes.grid(axis="y", color="#dddddd", linewidth=0.6)
            axes.set_axisbelow(True)
            _draw_marks(axes, marks, origin)
        lags.legend(loc="best", facecolor="white", edgecolor="none", framealpha=0.85)
        _label_marks(rates, marks, origin)
        figure.suptitle(title, x=0.085, y=0.985, ha="left", fontsize=12, weight="bold")
        figure.align_ylabels((rates, lags))
        figure.subplots_adjust(left=0.085, right=0.985, bottom=0.085, top=0.8)
        figure.savefig(target)


def _draw_rates(axes: Axes, state: DemoState, origin: float) -> None:
    edges, committed = _binned(state.log_curve(), origin)
    dashes = (0, (4, 1.5))
    axes.stairs(committed, edges, color=_LOG, linewidth=1.6, linestyle=dashes, label="committed in the log")
    # What a batch brings was worked for since the one before it.
    batches = [batch for batch in state.batches() if batch.finished_at >= origin]
    ends = [0.0, *(batch.finished_at - origin for batch in batches)]
    spans = [max(end - begin, 1e-3) for begin, end in pairwise(ends)]
    applied = [batch.changes / span for batch, span in zip(batches, spans, strict=True)]
    if applied:
        axes.stairs(applied, ends, color=_TABLES, linewidth=1.4, fill=False, label="in all tables, batch by batch")
        axes.stairs(applied, ends, color=_TABLES, alpha=0.15, fill=True)
    axes.set_ylabel("row changes per second")
    axes.yaxis.set_major_locator(MaxNLocator(6))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.legend(loc="best", facecolor="white", edgecolor="none", framealpha=0.85)


def _draw_lags(axes: Axes, state: DemoState, origin: float) -> float:
    # Whoever reads the tables sees what was committed so long ago: a second more every second, until a batch is done.
    points = [(0.0, 0.0)]
    batches = [(at - origin, lag) for at, lag in state.lags()]
    for at, lag in batches:
        before, age = points[-1]
        points += [(at, age + at - before), (at, lag)]
    axes.plot(*zip(*points, strict=True), color=_LAG, linewidth=1.2, label="age of what the tables show")
    if batches:
        ends, lags = zip(*batches, strict=True)
        label = "when a batch is done: lag from commit to all tables"
        axes.plot(ends, lags, "o", markersize=3.5, markerfacecolor="white", markeredgecolor=_LAG, label=label)
    axes.set_ylabel("lag (s)")
    axes.yaxis.set_major_locator(MaxNLocator(5, integer=True))
    return points[-1][0]


def _binned(curve: Sequence[tuple[float, int]], origin: float) -> tuple[list[float], list[float]]:
    # Edges in seconds, and the rate between them, of a count that was looked at now and then.
    times = np.array([at - origin for at, _ in curve])
    counts = np.array([count for _, count in curve], dtype=np.float64)
    end = max(float(times[-1]), _BIN_S) if len(times) else _BIN_S
    edges = np.arange(0.0, end + _BIN_S, _BIN_S)
    if not len(times):
        return edges.tolist(), [0.0] * (len(edges) - 1)
    return edges.tolist(), (np.diff(np.interp(edges, times, counts)) / _BIN_S).tolist()


def _draw_marks(axes: Axes, marks: Sequence[DemoMark], origin: float) -> None:
    killed_at = origin
    for mark in marks:
        if mark.kind is DemoMarkKind.KILLED:
            killed_at = mark.at
        elif mark.kind is DemoMarkKind.REPEATED:
            label = "from the kill until the batch that it cut off is done"
            axes.axvspan(killed_at - origin, mark.at - origin, color=_DOWN, linewidth=0, zorder=0, label=label)
    styles = {
        DemoMarkKind.ALTERED: (0, (1, 1.5)),
        DemoMarkKind.KILLED: "-",
        DemoMarkKind.RESTARTED: (0, (6, 2)),
        DemoMarkKind.SNAPSHOT: (0, (3, 1)),
    }
    for mark in marks:
        if mark.kind in styles:
            axes.axvline(mark.at - origin, color=_TEXT, linewidth=1.1, linestyle=styles[mark.kind])


def _label_marks(axes: Axes, marks: Sequence[DemoMark], origin: float) -> None:
    # Above the plot, each in a line of its own, the first one highest: none is crossed by the mark of a later one.
    labels: list[tuple[float, str]] = []
    last = None
    for mark in marks:
        at = mark.at - origin
        if last is DemoMarkKind.ALTERED is mark.kind and at - labels[-1][0] < _NEAR_S:
            labels[-1] = (labels[-1][0], f"{labels[-1][1]}, {mark.brief}")
        elif mark.brief:
            labels.append((at, f"ALTER TABLE {mark.brief}" if mark.kind is DemoMarkKind.ALTERED else mark.brief))
        last = mark.kind
    right = _LABELS_TO_THE_LEFT * axes.get_xlim()[1]
    for number, (at, text) in enumerate(reversed(labels)):
        height = 1.04 + 0.075 * (number % _LABEL_LINES)
        where = axes.get_xaxis_transform()
        axes.plot([at, at], [1.0, height + 0.045], color=_TEXT, linewidth=0.7, transform=where, clip_on=False)
        side, gap = ("left", 3) if at < right else ("right", -3)
        axes.annotate(
            text, (at, height), (gap, 0), xycoords=where, textcoords="offset points", ha=side, fontsize=9, va="bottom"
        )
