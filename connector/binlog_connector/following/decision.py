"""Result of a comparison of an offset with its log: `Decision`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.errors import DataLossError

if TYPE_CHECKING:
    from binlog_connector.following.offsets import SourceOffset
    from binlog_format.position import Place

START_AGAIN = (
    "Begin anew with a new checkpoint or offset file (after a full copy of the tables), or set option "
    "failOnDataLoss=false"
)


@dataclass(frozen=True, slots=True)
class Decision:
    """Result of `compare`.

    Attributes:
        offset: Where to go on; after a loss, where to go on without what is lost.
        reason: Why, in words.
        loss: The error to raise, unless the user accepts losses; None when nothing is lost.
    """

    offset: SourceOffset
    reason: str
    loss: DataLossError | None = None


def lost(subclass: str, reason: str, *, go_on: SourceOffset, hint: str, at: Place | None = None) -> Decision:
    """The decision that something is lost.

    Args:
        subclass: Of the error.
        reason: What is lost, and how that shows.
        go_on: Where to go on without it.
        hint: What the operator can do.
        at: Where that shows.
    """
    return Decision(go_on, reason, DataLossError(subclass, reason, at=at, hint=hint))
