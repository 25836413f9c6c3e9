"""Errors of arguments that cannot be read: `argument_error`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from binlog_format.errors import BinlogError, CorruptError, UnsupportedError
from binlog_format.rows.column_types import TEXT_SIZE_MAX
from binlog_format.structured.arguments.layout import FAILURE_DTYPE
from binlog_format.structured.arguments.value_kernels import BAD_VALUE, OUTSIDE, SHORT, TOO_DEEP
from binlog_format.structured.layout import NESTING_MAX
from binlog_format.structured.types.type_layout import TypeKind

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.structured.block import LogBlock
    from binlog_format.structured.metadata import EventSource

_HINT = (
    "The event is damaged, or not of this source: a program that logs one statement through two sessions writes such "
    "events. Skip damaged events to go on"
)


def new_failure() -> Table:
    """Room in which kernels note a failure."""
    return np.zeros(1, dtype=FAILURE_DTYPE)


def argument_error(block: LogBlock, code: int, failure: Table, kind: int) -> BinlogError:
    """The error for the arguments of an event.

    Args:
        block: With the event.
        code: What a kernel has returned.
        failure: What it has noted.
        kind: `TypeKind` of the node in it.
    """
    noted = failure[0]
    event = block.events[noted["row"]]
    assert code != OUTSIDE, f"{block} has an event {event} that is not in it"
    source = block.sources[event["source"]]
    reasons = {
        SHORT: f"it needs {noted['needed']} bytes, {noted['left']} are left",
        TOO_DEEP: f"it is nested in {NESTING_MAX} values",
        BAD_VALUE: "its enum has no type" if kind == TypeKind.BAD_ENUM else "its type tag is none of this format",
    }
    reason = f"argument {noted['argument'] + 1} of {describe(source)}: {reasons[code]}"
    return CorruptError("BAD_ENTRY", reason, at=block.place(int(noted["place"])), hint=_HINT)


def describe(source: EventSource) -> str:
    """A source for messages."""
    texts = [text.decode("utf-8", "backslashreplace") for text in (source.file, source.format, source.argument_tags)]
    return f'source {source.id} ({texts[0]}:{source.line}, "{texts[1]}", argument tags {texts[2]})'


def check_size(size: int) -> None:
    """Raise where arguments are more than Arrow columns can hold at once."""
    if size > TEXT_SIZE_MAX:
        raise UnsupportedError(
            "EVENT_TYPE",
            f"arguments of more than {TEXT_SIZE_MAX} bytes at once",
            hint="Read fewer events at once",
        )
