"""The row images of a part of a batch, which are in a log, or were read elsewhere: `part_row_batches`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.views.index.table_index import TableIndex
from binlog_streaming.modes.row_batches import load_row_batches
from binlog_streaming.plan.batch_plan import IndexPart

if TYPE_CHECKING:
    from binlog_format.log import Log
    from binlog_format.rows.decoding import Decoding
    from binlog_streaming.modes.row_batches import RowBatch


@dataclass(frozen=True, slots=True)
class ReceivedPart(IndexPart):
    """A part whose rows came without a log; its index is empty.

    Attributes:
        row_batches: The rows.
    """

    row_batches: tuple[RowBatch, ...] = ()


def part_row_batches(part: IndexPart, log: Log | None, decoding: Decoding) -> list[RowBatch]:
    """What *part* holds.

    Args:
        part: Of a batch.
        log: Where its index points to; None: all parts are received.
        decoding: How rows become values.

    Raises:
        DataLossError: As `load_row_batches`.
    """
    if isinstance(part, ReceivedPart):
        return list(part.row_batches)
    assert log is not None, "an index points into a log"
    return load_row_batches((TableIndex.from_bytes(part.index),), log, decoding)
