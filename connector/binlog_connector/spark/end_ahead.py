"""The end of the next micro-batch, looked for while the one before is read and written: `EndAhead`."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from binlog_format.errors import BinlogError

if TYPE_CHECKING:
    from collections.abc import Callable
    from concurrent.futures import Future

    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.following.starts import Advance
    from binlog_connector.spark.spark_api import ReadLimit


class EndAhead:
    """Looks for the end in a thread; gives it to who asks for the same start and limit, once.

    A backlog would be scanned for an end while nothing else is done, and cold files would be waited for. A copy by way
    of `pickle` looks for nothing.
    """

    def __init__(self) -> None:
        self._wanted: tuple[SourceOffset, ReadLimit | None] | None = None
        self._found: Future[Advance | None] | None = None

    def __reduce__(self) -> tuple[type[EndAhead], tuple[()]]:
        return EndAhead, ()

    def begin(self, start: SourceOffset, limit: ReadLimit | None, find: Callable[[], Advance | None]) -> None:
        """Call *find*, which gives None where the end may still move.

        What *find* raises of the log is not told: who asks then looks himself.
        """
        pool = ThreadPoolExecutor(1, thread_name_prefix="end-ahead")
        self._wanted, self._found = (start, limit), pool.submit(find)
        pool.shutdown(wait=False)  # the thread ends when it is done

    def take(self, start: SourceOffset, limit: ReadLimit | None) -> Advance | None:
        """What was found for *start* and *limit*; waits for it. None: nothing."""
        wanted, found = self._wanted, self._found
        self._wanted = self._found = None
        if found is None or wanted != (start, limit):
            return None
        try:
            return found.result()
        except BinlogError:
            return None
