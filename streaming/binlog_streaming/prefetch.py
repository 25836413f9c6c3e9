"""Work done ahead by a thread, on the core that the caller leaves idle: `prefetch`."""

from __future__ import annotations

from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable

Item = TypeVar("Item")


def prefetch(items: Iterable[Item], count: int = 1) -> Generator[Item]:
    """*items*, of which a thread makes the next ones while the caller works on one.

    What making one raises is raised here, after those before it were given out. When the caller stops before the end,
    the thread has stopped too.

    Args:
        items: Iterated in the thread.
        count: How many are made ahead, at most.
    """
    end = object()
    iterator = iter(items)
    coming: deque[Future[Item | object]] = deque()
    with ThreadPoolExecutor(1, thread_name_prefix="ahead") as pool:
        try:
            coming.extend(pool.submit(next, iterator, end) for _ in range(count))
            while (item := coming.popleft().result()) is not end:
                coming.append(pool.submit(next, iterator, end))
                yield item  # type: ignore[misc]
        finally:
            for future in coming:
                future.cancel()
