"""An error in a message: `MessageError`."""

from __future__ import annotations


class MessageError(Exception):
    """A message that is not one of those that are published; who knows where it was names the place.

    Args:
        row: Its number among those that were read.
        reason: What is wrong with it.
    """

    def __init__(self, row: int, reason: str) -> None:
        super().__init__(row, reason)
        self.row = row
        self.reason = reason
