"""Places where a write may be cut off: `reached(step)` marks a place; `watched(observer)` lets a test stop there."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from enum import StrEnum

_observers: list[Callable[[Any], None]] = []


def reached(step: StrEnum) -> None:
    """Notify the observer; each layer that writes has an enumeration of its steps."""
    for observer in _observers:
        observer(step)


@contextmanager
def watched(observer: Callable[[Any], None]) -> Iterator[None]:
    """Call *observer* at every step of this process; what it raises cuts the write off there."""
    _observers.append(observer)
    try:
        yield
    finally:
        _observers.remove(observer)
