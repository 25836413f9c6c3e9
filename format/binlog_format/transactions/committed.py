"""Committed changes alone: `committed(log, start, end, prepared)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.events.expansion import expanded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlog_format.block import Block
    from binlog_format.log import Log
    from binlog_format.position import Position
    from binlog_format.transactions.xa import PreparedXa


def committed(
    log: Log, start: Position | None, end: Position | None, prepared: Iterable[PreparedXa] = ()
) -> Iterator[Block]:
    """See `Log.committed_blocks`."""
    del prepared
    return expanded(log.blocks(start, end))
