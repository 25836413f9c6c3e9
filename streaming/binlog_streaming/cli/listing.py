"""Rows for people: a table where the terminal is wide enough for one, else each row over a few lines: `print_rows`."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from rich.console import Console

_GAP = 2
_UUID = re.compile(r"\b([0-9a-f]{8})(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b")


def print_rows(
    console: Console,
    columns: Sequence[str],
    rows: Sequence[Sequence[str]],
    *,
    right: Collection[str] = (),
    labelled: Collection[str] = (),
    last_width: int,
) -> None:
    """Print *rows* so that nothing of them is cut away.

    A table is tried first, then one with UUIDs by their first eight digits. Where the terminal is too narrow for that,
    a row takes several lines. What does not go to a terminal is a table as wide as it needs to be.

    Args:
        rows: A cell for each column, with Rich's markup.
        right: Columns of numbers.
        labelled: Columns whose cells mean nothing without their name.
        last_width: Characters that the last column needs at least; longer cells are folded.
    """
    cells = [[Text.from_markup(cell) for cell in row] for row in rows]
    if not console.is_terminal:
        console.width = max(console.width, _width(columns, cells))
    short = [[Text.from_markup(_UUID.sub("\\1…", cell)) for cell in row] for row in rows]
    for form in (cells, short):
        if _width(columns, form, last_width) <= console.width:
            console.print(_table(columns, form, right))
            return
    for row in cells:
        _print_stacked(console, columns, row, labelled)


def _width(columns: Sequence[str], rows: Sequence[Sequence[Text]], last_width: int | None = None) -> int:
    """Columns of the terminal that a table takes; with *last_width*, one whose last column is folded there."""
    widths = [max([len(name), *(row[number].cell_len for row in rows)]) for number, name in enumerate(columns)]
    if last_width is not None:
        widths[-1] = min(widths[-1], last_width)
    return sum(widths) + _GAP * (len(widths) - 1)


def _table(columns: Sequence[str], rows: Sequence[Sequence[Text]], right: Collection[str]) -> Table:
    table = Table(box=None, header_style="bold", pad_edge=False)
    for name in columns[:-1]:
        table.add_column(name, no_wrap=True, justify="right" if name in right else "left")
    table.add_column(columns[-1], overflow="fold", justify="right" if columns[-1] in right else "left")
    for row in rows:
        table.add_row(*row)
    return table


def _print_stacked(console: Console, columns: Sequence[str], row: Sequence[Text], labelled: Collection[str]) -> None:
    line = Text()
    indent = 0
    for name, cell in zip(columns, row, strict=True):
        if not cell.plain:
            continue
        piece = Text.assemble((f"{name} ", "dim"), cell) if name in labelled else cell
        is_last = name == columns[-1] and name not in labelled
        if line and (is_last or indent + line.cell_len + _GAP + piece.cell_len > console.width):
            _print_indented(console, line, indent)
            line, indent = Text(), _GAP
        line = Text(" " * _GAP).join([line, piece]) if line else piece
    _print_indented(console, line, indent)


def _print_indented(console: Console, line: Text, indent: int) -> None:
    line.overflow = "fold"
    console.print(Padding(line, (0, 0, 0, indent)))
