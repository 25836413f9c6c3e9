"""Rows of a view for people and for programs: `write_batches`, `json_rows`, and short texts for table cells."""

from __future__ import annotations

import itertools
import json
import sys
from typing import TYPE_CHECKING, Protocol

from binlog_format.log.log import shown_position
from binlog_format.messages import closest_names
from binlog_format.position import Position
from binlog_streaming.cli.output import say, write_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from binlog_format import Log
    from binlog_format.log.log import ReadRange
    from binlog_format.rows.json.json_rows import JsonStyle

    class View(Protocol):
        """A view whose rows have a form in JSON."""

        def json_styles(self) -> Mapping[str, JsonStyle]:
            """JSON styles of its batches; known after the first batch."""


def tables_there(log: Log, part: ReadRange, asked: str) -> str:
    """The tables in a part of a log that are most like what was asked for, as a sentence."""
    from binlog_format.rows.table_events import TableMaps  # compiled code: only for mistakes

    maps, names = TableMaps(), set[str]()
    for block in part.blocks(log):
        names.update(touched.layout.full_name for touched in maps.resolve(block))
    return f"Tables with changes there: {closest_names(asked, names)}"


def warned_of_none(
    batches: Iterator[pa.RecordBatch], tables: str, log: Log, part: ReadRange, *, is_all: bool
) -> Iterator[pa.RecordBatch]:
    """*batches* of the tables that were named; where there are none, a warning follows.

    Args:
        batches: The first one with rows is read at once.
        part: What they are of.
        is_all: It is the whole log.
    """
    first = next((batch for batch in batches if batch.num_rows), None)
    if first is not None:
        return itertools.chain([first], batches)
    where = "the log" if is_all else "this part of the log"
    say(f"warning: {where} has no changes of '{tables}'. {tables_there(log, part, tables)}", err=True)
    return iter(())


def limited(batches: Iterator[pa.RecordBatch], limit: int | None) -> Iterator[pa.RecordBatch]:
    """The first *limit* rows; all without a limit."""
    if limit is None:
        yield from batches
        return
    while limit > 0 and (batch := next(batches, None)) is not None:
        yield batch.slice(0, limit)
        limit -= batch.num_rows


def write_batches(batches: Iterator[pa.RecordBatch], view: View, limit: int | None) -> None:
    """Print rows as lines of JSON."""
    from binlog_format.rows.json.json_rows import json_lines  # compiled code takes a moment to load: not for --help

    for batch in limited(batches, limit):
        write_json(json_lines(batch, view.json_styles()))
    sys.stdout.flush()


def json_rows(batches: Iterator[pa.RecordBatch], view: View) -> Iterator[dict[str, object]]:
    """Rows one by one, with the values that they have as JSON."""
    from binlog_format.rows.json.json_rows import json_lines

    for batch in batches:
        for line in bytes(json_lines(batch, view.json_styles())).split(b"\n"):
            if line:
                yield json.loads(line)


def position_text(position: object, log: Log | None = None) -> str:
    """`file_no:page:chunk`; with a classic *log* the server's own position beside it."""
    assert isinstance(position, dict)
    place = Position(**position)
    return str(place) if log is None else shown_position(log, place)


def shortened(value: object, width: int) -> str:
    """*value* on one line of at most *width* characters, safe for a terminal."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    text = "".join(char if char.isprintable() else "\N{REPLACEMENT CHARACTER}" for char in text[: width + 1])
    return text if len(text) <= width else text[: width - 1] + "…"
