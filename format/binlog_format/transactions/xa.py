"""XA transactions in classic logs: `XaId`, and `PreparedXa`, one that is prepared and has not ended."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from binlog_format.position import Position


@dataclass(frozen=True, slots=True, order=True)
class XaId:
    """The name that a client gave the transaction; servers write it as `X'gtrid',X'bqual',format_id`."""

    gtrid: bytes
    bqual: bytes
    format_id: int

    def __str__(self) -> str:
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format_id}"


@dataclass(frozen=True, slots=True)
class PreparedXa:
    """A prepared XA transaction.

    Attributes:
        xid: Its name; free again when it has ended.
        position: Of the group that holds its rows.
    """

    xid: XaId
    position: Position
