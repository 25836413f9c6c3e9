"""Where a write may be cut off: `reached(step)` marks the place; `watched(observer)` lets a test stop there."""

from __future__ import annotations

from contextlib import contextmanager
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


class Step(StrEnum):
    """What a write has just done; between any two of them a process may end."""

    LOOKED = "looked"
    """The target is known, and does not hold the batch."""
    CREATED = "created"
    """The empty table is there."""
    PARTS_WRITTEN = "parts written"
    """All tasks that share the batch's rows have written theirs, and no reader sees them yet."""
    FILES_WRITTEN = "files written"
    """The batch's files are there, and no reader sees them yet."""
    COMMITTED = "committed"
    """Readers see the batch."""


_observers: list[Callable[[Step], None]] = []


def reached(step: Step) -> None:
    """Tell whoever watches."""
    for observer in _observers:
        observer(step)


@contextmanager
def watched(observer: Callable[[Step], None]) -> Iterator[None]:
    """Call *observer* at every step of this process; what it raises cuts the write off there."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)
