"""Plain events in place of compressed ones: `expanded(blocks)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from binlog_format.block import Block


def expanded(blocks: Iterable[Block]) -> Iterator[Block]:
    """Blocks with the same groups, in which every event is plain."""
    yield from blocks
