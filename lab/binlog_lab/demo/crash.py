"""Finds the middle of a batch, for a kill: `BatchKiller(job, tables, kill).arm()`."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING

from binlog_lab.demo.proof.targets import commits

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_streaming.settings import Job

COMMITS_BEFORE = 6
"""The kill comes after so many commits into target tables, of the dozens that a batch makes."""
LOOK_INTERVAL_S = 0.005


class BatchKiller:
    """Watches the job's checkpoint and tables on a thread of its own, and kills when a batch is in its middle.

    Args:
        job: With its checkpoint in a local folder.
        tables: Where the files of its tables are on this machine.
        kill: Called with the batch's number and the commits seen; returns whether the batch was cut off. If it had
            just ended, it is called again in a later batch.
    """

    def __init__(self, job: Job, tables: Path, kill: Callable[[int, int], bool]) -> None:
        self._job = job
        self._tables = tables
        self._kill = kill
        self._is_over = threading.Event()
        self._thread: threading.Thread | None = None
        self._failure: Exception | None = None

    @property
    def is_armed(self) -> bool:
        """True if it is watching, or has done its work."""
        return self._thread is not None

    def arm(self) -> None:
        """Arm the crash: the next batch that begins is cut off."""
        last = self._last_batch()
        self._thread = threading.Thread(target=self._watch, args=(last,), name="demo-kill", daemon=True)
        self._thread.start()

    def disarm(self) -> None:
        """Stop watching the job; a kill that has begun is finished."""
        self._is_over.set()
        if self._thread is not None:
            self._thread.join()

    def check(self) -> None:
        """Raise what went wrong."""
        if self._failure is not None:
            raise self._failure

    def _watch(self, last: int) -> None:
        try:
            while not self._is_over.is_set():
                batch_id = self._last_batch()
                if batch_id > last:
                    last = batch_id
                    made = self._commits_of(batch_id)
                    if made is not None and self._kill(batch_id, made):
                        return
                time.sleep(LOOK_INTERVAL_S)
        except Exception as error:  # raised again by check(), on the thread that can show it
            self._failure = error

    def _commits_of(self, batch_id: int) -> int | None:
        # When there are enough; None when the batch has ended before.
        before = commits(self._job.sink, self._tables)
        while not self._is_over.is_set() and not is_done(self._job, batch_id):
            made = commits(self._job.sink, self._tables) - before
            if made >= COMMITS_BEFORE:
                return made
            time.sleep(LOOK_INTERVAL_S)
        return None

    def _last_batch(self) -> int:
        # Spark writes down what a batch will hold before it begins with it.
        folder = Path(self._job.checkpoint) / "offsets"
        names = (path.name for path in folder.iterdir()) if folder.is_dir() else iter(())
        return max((int(name) for name in names if name.isdecimal()), default=-1)


def is_done(job: Job, batch_id: int) -> bool:
    """True if the batch is committed in the checkpoint."""
    return (Path(job.checkpoint) / "commits" / str(batch_id)).exists()
