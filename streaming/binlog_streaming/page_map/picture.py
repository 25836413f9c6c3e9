"""Picture of a log's pages, whatever the log's format: `Picture`. Uses no drawing library."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Sign(Enum):
    """Sign that a line of a legend explains."""

    COLOR = "a colour of cells"
    DOT = "a coloured dot in a cell"
    DIAMOND = "a white diamond in a cell"


@dataclass(frozen=True, slots=True)
class LegendLine:
    """One line; `color` is of the sign, and `edge` of a patch of a colour, where it has another one."""

    sign: Sign
    color: str
    label: str
    edge: str | None = None


@dataclass(slots=True)
class PictureFile:
    """One file.

    Attributes:
        name: Its name.
        size: In bytes.
        colors: Of the strips that fill a cell, from left to right.
        amounts: Shape (pages, colours): bytes of each colour.
        dots: Shape (pages,): which pages have a dot. None: there are none in such a log.
    """

    name: str
    size: int
    colors: list[str]
    amounts: NDArray[np.float64]
    dots: NDArray[np.bool_] | None = None


@dataclass(slots=True)
class Picture:
    """All that is drawn.

    Attributes:
        files: From the top down.
        legend: Its first part; the title tells what a cell is.
        page_name: What a page is called there.
        dot_color: Of the dots.
        diamonds: File (by its place in *files*) and page of each.
        more_legend: Its second part.
        more_title: Above that.
    """

    files: list[PictureFile]
    legend: list[LegendLine]
    page_name: str
    dot_color: str = ""
    diamonds: list[tuple[int, int]] = field(default_factory=list)
    more_legend: list[LegendLine] = field(default_factory=list)
    more_title: str = ""


def size_text(size: int) -> str:
    """A size in the largest unit that it fills."""
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= factor:
            return f"{size / factor:,.1f} {unit}"
    return "1 byte" if size == 1 else f"{size:,} bytes"
