"""`LogBlock`: a run of whole entries of one file as one byte buffer, and the tables that point into it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.position import Place

if TYPE_CHECKING:
    from binlog_format.block import Table
    from binlog_format.kernels import Bytes
    from binlog_format.position import Position
    from binlog_format.structured.metadata import ClockSync, EventSource, LogState, WriterProp


@dataclass(frozen=True, slots=True, repr=False)
class LogBlock:
    """Whole entries of one file; at least one.

    Attributes:
        data: The bytes of the entries.
        events: `LOG_EVENT_DTYPE`, in file order.
        sources: Those in force before the block or in it that its events refer to. An id that is defined anew in the
            block has several rows.
        writers: The same; those of equal id and name are one row, whatever their batches.
        clock_syncs: The same.
        file_no: Number of the file.
        file_offset: Byte of `data[0]` in the file.
        path: Of the file, for messages.
        next_position: Where reading goes on.
        state_after: What is in force there.
    """

    data: Bytes
    events: Table
    sources: tuple[EventSource, ...]
    writers: tuple[WriterProp, ...]
    clock_syncs: tuple[ClockSync, ...]
    file_no: int
    file_offset: int
    path: str
    next_position: Position
    state_after: LogState

    def __repr__(self) -> str:
        return (
            f"<LogBlock of {self.path} from byte {self.file_offset:,} to {self.next_position}, "
            f"{len(self.events):,} events, {len(self.data):,} bytes>"
        )

    def place(self, byte: int) -> Place:
        """Place of *byte* of `data` in the file, for messages."""
        return Place(self.path, byte=self.file_offset + byte)
