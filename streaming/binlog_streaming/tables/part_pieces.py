"""The row images of a part of a batch, which stand in a log, or have been read elsewhere: `part_pieces`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.views.index.table_index import TableIndex
from binlog_streaming.modes.pieces import load_pieces
from binlog_streaming.plan.batch_plan import IndexPart

if TYPE_CHECKING:
    from binlog_format.log import Log
    from binlog_format.rows.decoding import Decoding
    from binlog_streaming.modes.pieces import Piece


@dataclass(frozen=True, slots=True)
class ReceivedPart(IndexPart):
    """A part whose rows came without a log; its index is empty.

    Attributes:
        pieces: The rows.
    """

    pieces: tuple[Piece, ...] = ()


def part_pieces(part: IndexPart, log: Log | None, decoding: Decoding) -> list[Piece]:
    """What *part* holds.

    Args:
        part: Of a batch.
        log: Where its index points to; None: all parts are received.
        decoding: How rows become values.

    Raises:
        DataLossError: As `load_pieces`.
    """
    if isinstance(part, ReceivedPart):
        return list(part.pieces)
    assert log is not None, "an index points into a log"
    return load_pieces((TableIndex.from_bytes(part.index),), log, decoding)
