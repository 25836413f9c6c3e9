"""Work done ahead by a thread, on the core that the caller leaves idle: `ahead`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

Item = TypeVar("Item")


def ahead(items: Iterable[Item]) -> Generator[Item]:
    """*items*, the next one of which a thread makes while the caller works on one.

    Not more than two are in memory. What making one raises is raised here, after those before it were given out. When
    the caller stops before the end, the thread has stopped too.
    """
    end = object()
    iterator = iter(items)
    with ThreadPoolExecutor(1) as pool:
        coming = pool.submit(next, iterator, end)
        while (item := coming.result()) is not end:
            coming = pool.submit(next, iterator, end)
            yield item  # type: ignore[misc]
