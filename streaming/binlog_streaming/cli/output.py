"""Output of commands: tables for people, JSON lines for programs.

Rows for people: a table where the terminal is wide enough for one, else each row over a few lines: `print_rows`.
"""

from __future__ import annotations

import contextlib
import logging
import re
import shlex
import signal
import sys
import threading
import traceback
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from binlog_format.messages import library_text, printable, visible, visible_json

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from types import FrameType


class Output(StrEnum):
    """Form of results in the output."""

    TABLE = "table"
    JSONL = "jsonl"


OutputOption = Annotated[
    Output, typer.Option("--output", "-o", help="For people (table) or for programs (jsonl: one JSON object a line).")
]
PathArgument = Annotated[
    str, typer.Argument(help="Directory of a server's binlog files, one file of it, or a URL (s3://...).")
]


SIGNALLED = 128
"""Exit status of a program that a signal has ended, minus the number of the signal."""
ENDED_BY_SIGNAL: dict[object, str] = {
    SIGNALLED + signal.SIGINT: "interrupted",
    SIGNALLED + signal.SIGTERM: "terminated",
}
"""Exit statuses of what a signal ended before it was done, and the message then."""
PIPED_WIDTH = 160
"""Columns of a table that goes to a file or a program."""


@contextlib.contextmanager
def stopped_by_signals(stop_running: Callable[[], None], *, ends_at_once: bool = False) -> Iterator[list[int]]:
    """SIGINT and SIGTERM let a job end in order, a second one ends it at once; gives those that came.

    Args:
        ends_at_once: *stop_running* ends it at once when it is called again; else the second signal ends the process.
    """
    caught: list[int] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        caught.append(number)
        # In a thread: this one may be holding the lock that `stop` needs.
        threading.Thread(target=stop_running).start()
        if not ends_at_once:
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


JOB_PLACE = "JOB.toml"
"""Word for the job file in messages, in place of which a person reads its name: `name_job`."""
_job: list[str] = []


def name_job(place: str | None) -> None:
    """Show *place* where messages name the job file, as words of a shell; None: none is known."""
    _job[:] = [] if place is None else [shlex.quote(place)]


def with_job(text: str) -> str:
    """*text* with the name of the job file that the command was given."""
    return text.replace(JOB_PLACE, _job[0]) if _job else text


def output_console() -> Console:
    """Console for tables: as wide as the terminal, and wide enough without one."""
    console = Console(highlight=False, emoji=False)
    return console if console.is_terminal else Console(highlight=False, emoji=False, width=PIPED_WIDTH)


def escaped(text: str) -> str:
    """*text* as it is, where Rich takes brackets for markup and a terminal control characters for commands."""
    return escape(visible(with_job(text)))


def say(text: str, *, err: bool = False) -> None:
    """Print one line for people; names in it may contain whatever a server's users like."""
    typer.echo(printable(with_job(text)), err=err)


class VisibleFormatter(logging.Formatter):
    """Formats log records for a terminal: lines of text, with escapes for all else, and no values of rows."""

    def format(self, record: logging.LogRecord) -> str:
        """The text of a record."""
        return visible_lines(with_job(super().format(record)))

    def formatException(self, ei: tuple[object, ...]) -> str:
        """The text of an exception; see `traceback_text`."""
        return traceback_text(ei[1]) if isinstance(ei[1], BaseException) else ""


def visible_lines(text: str) -> str:
    """*text* for a terminal, line by line."""
    return "\n".join(printable(line) for line in text.split("\n"))


def traceback_text(error: BaseException) -> str:
    """Traceback of *error* and of its causes, without values that their texts may quote (`library_text`)."""
    before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    text = "" if before is None else f"{traceback_text(before)}\n\nThen:\n\n"
    frames = "".join(traceback.format_tb(error.__traceback__))
    return f"{text}Traceback (most recent call last):\n{frames}{type(error).__name__}: {library_text(error)}"


def print_traceback(_kind: type[BaseException], error: BaseException, _frames: object) -> None:
    """Print what Python prints of an exception that nobody foresaw, fit for a terminal: for `sys.excepthook`."""
    sys.stderr.write(f"{visible_lines(traceback_text(error))}\n")


def write_output(data: bytes | bytearray | memoryview) -> None:
    """Write all of *data* to standard output.

    With PYTHONUNBUFFERED, which many containers set, `sys.stdout.buffer` is the pipe itself: one `write` takes no more
    than it has room for.
    """
    view = memoryview(data).cast("B")
    while len(view):
        view = view[sys.stdout.buffer.write(view) :]


def write_json(data: bytes | memoryview) -> None:
    """Write lines of JSON to standard output, which may be a terminal."""
    write_output(visible_json(data))


def write_json_lines(rows: Iterable[Mapping[str, object]]) -> None:
    """Print each row as one line of JSON."""
    encoder = msgspec.json.Encoder()
    for row in rows:
        write_json(encoder.encode(row) + b"\n")
    sys.stdout.flush()


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
