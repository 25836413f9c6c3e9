"""Bytes of a structured log's file as positions: `position_of`, `byte_of`."""

from __future__ import annotations

from binlog_format.position import Position
from binlog_format.structured.layout import VIRTUAL_PAGE_SIZE


def position_of(file_no: int, file_offset: int) -> Position:
    """The position of a byte."""
    return Position(file_no, *divmod(file_offset, VIRTUAL_PAGE_SIZE))


def byte_of(position: Position) -> int:
    """The byte in its file that *position* stands for."""
    return position.page * VIRTUAL_PAGE_SIZE + position.chunk
