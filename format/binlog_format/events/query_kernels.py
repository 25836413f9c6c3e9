"""Kernel that finds the statement of a Query event: `query_text_start`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.events.query_layout import QUERY_DATABASE_SIZE_OFFSET, QUERY_FIXED_SIZE, QUERY_STATUS_SIZE_OFFSET
from binlog_format.kernels import kernel
from binlog_format.memory_kernels import load_u8, load_u16

if TYPE_CHECKING:
    from binlog_format.kernels import Bytes


@kernel
def query_text_start(data: Bytes, start: int) -> int:
    """The byte where the statement begins of the Query event at *start*, whose fixed part is there.

    It may come after the event's end.
    """
    database = start + QUERY_FIXED_SIZE + load_u16(data, start + QUERY_STATUS_SIZE_OFFSET)
    return database + load_u8(data, start + QUERY_DATABASE_SIZE_OFFSET) + 1
