"""Result of a comparison of an offset with its log: `Decision`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.errors import DataLossError

if TYPE_CHECKING:
    from binlog_connector.following.offsets import SourceOffset
    from binlog_format.position import Place


@dataclass(frozen=True, slots=True)
class Decision:
    """Result of `resume.compare`.

    Attributes:
        offset: Where to go on; after a loss, where to go on without what is lost.
        loss: The error to raise, unless the user accepts losses; None when nothing is lost.
        doubt: The error about events that may be lost, where the log does not show whether they are. The tailer logs it
            as a warning and reads on. None: no event can be lost.
        is_waiting: Nothing can be read now: the program has cut its file, and has written no event since; or the file
            that was read was purged, and the one after it has no start yet.
    """

    offset: SourceOffset
    reason: str
    loss: DataLossError | None = None
    doubt: DataLossError | None = None
    is_waiting: bool = False


def lost(subclass: str, reason: str, *, go_on: SourceOffset, hint: str, at: Place | None = None) -> Decision:
    """The decision that something is lost. *reason*: what is lost, and how that shows."""
    return Decision(go_on, reason, DataLossError(subclass, reason, at=at, hint=hint))
