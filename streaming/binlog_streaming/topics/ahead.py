"""Work done ahead, in a thread: `ahead`."""

from __future__ import annotations

import queue
import threading
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _End:
    error: BaseException | None


@contextmanager
def ahead(items: Iterable[T], count: int) -> Iterator[Iterator[T]]:
    """The same *items*, in their order; up to *count* of them are made while others are still being used.

    What making them raises comes out where the next one is asked for. When this is left, nothing is being made any
    more: their thread has ended.

    Args:
        items: Iterated in a thread of its own.
        count: At least 1; one more is in the making.
    """
    ready: queue.Queue[Any] = queue.Queue(count)
    is_over = threading.Event()

    def make() -> None:
        end = _End(None)
        try:
            for item in items:
                ready.put(item)
                if is_over.is_set():
                    return
        except BaseException as error:
            end = _End(error)
        ready.put(end)

    thread = threading.Thread(target=make, name="ahead", daemon=True)
    thread.start()
    try:
        yield _taken(ready)
    finally:
        is_over.set()
        # The thread may be waiting for room; after this there is room for all that it still makes.
        while thread.is_alive():
            _drain(ready)
            thread.join(0.01)


def _taken(ready: queue.Queue[Any]) -> Iterator[Any]:
    while not isinstance(item := ready.get(), _End):
        yield item
    if item.error is not None:
        raise item.error


def _drain(ready: queue.Queue[Any]) -> None:
    while not ready.empty():
        ready.get_nowait()
