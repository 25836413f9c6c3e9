"""One process at a time writes the tables of a job: `JobLock(job)`."""

from __future__ import annotations

import errno
import fcntl
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from binlog_format.errors import StorageError, storage_error
from binlog_format.position import Place

if TYPE_CHECKING:
    from types import TracebackType

    from binlog_streaming.settings.job_file import AnyJob

LOCK_FILE = "binlog-stream.lock"
"""File in the checkpoint's folder. The system releases the lock when a process ends, however it ends."""

_HELD = frozenset({errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES})


class JobLock:
    """A lock on a job's checkpoint; a context manager that takes it and gives it back.

    In an object store there is none: there the checkpoint's own files tell, a batch later, that two processes write.

    Args:
        job: The settings.
    """

    def __init__(self, job: AnyJob) -> None:
        self._checkpoint = job.checkpoint
        self._file: BinaryIO | None = None

    def __enter__(self) -> JobLock:
        self.take()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.give_back()

    def take(self) -> None:
        """Take the lock.

        Raises:
            StorageError: `IN_USE`: another process has it.
            StorageError, AccessError: The checkpoint's folder cannot be written.
        """
        if "://" in self._checkpoint or self._file is not None:
            return
        path = Path(self._checkpoint) / LOCK_FILE
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("ab")
        except OSError as error:
            raise storage_error(path, "write", error) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            if error.errno not in _HELD:
                return  # a file system without locks
            raise StorageError(
                "IN_USE",
                "another process works with this checkpoint: the job runs, or its tables are being written",
                at=Place(self._checkpoint),
                hint="Stop the job, or wait for the other command",
            ) from error
        self._file = file

    def give_back(self) -> None:
        """Release the lock."""
        if self._file is not None:
            self._file.close()
            self._file = None
