"""One run of a job of any kind: `JobRun`; `start` gets it ready, `wait` takes batches; `JobLock` keeps others out.

What all kinds have in common is here: one process at a time, a stop after the batch under way, who is told of what. A
kind states how it begins, where its batches come from (first of all the one that was under way when the last process
ended), and how a batch is applied, so that one that is applied again changes nothing:

| kind | source of batches | what decides whether one is done |
|---|---|---|
| `tables.job.TablesJob` | Spark's stream, which calls for each | `Target.is_done`; then Spark's checkpoint |
| `event_tables.run.EventTablesRun` | steps of the tailer | `Target.is_done`; then `events.json` |
| `topic_tables.run.TopicTablesRun` | messages of the topics | `Target.is_done`; then `topics.json` |
| `topics.job.TopicsJob` | steps of the tailer | the offset in Kafka, in the transaction of the messages |
"""

from __future__ import annotations

import errno
import fcntl
import threading
from abc import ABC, abstractmethod
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, ClassVar, Generic, Protocol, TypeVar

from binlog_format.errors import StorageError, storage_error
from binlog_format.position import Place
from binlog_streaming.job_state.checkpoint import require_places, state_of
from binlog_streaming.job_state.switch_journal import complete_switch
from binlog_streaming.lake.folder_store import sync_folder
from binlog_streaming.settings.model import Job

if TYPE_CHECKING:
    from collections.abc import Callable

    from binlog_connector.following.offsets import SourceOffset
    from binlog_streaming.job_state.record import JobRecord
    from binlog_streaming.settings.job_file import AnyJob

LOOK_SECONDS = 1.0
"""Seconds that a look for new data waits."""

Batch = TypeVar("Batch")
Report = TypeVar("Report")
Counted = TypeVar("Counted", contravariant=True)
Sums = TypeVar("Sums", bound="RunProgress[Any]")


class RunProgress(Protocol[Counted]):
    """Sums up what a run has done."""

    def add(self, batch: Counted, /) -> None:
        """Take in one more batch."""


class JobRun(ABC, Generic[Batch, Report, Sums]):
    """One run of a job; `stop` may be called from other threads.

    Args:
        once: End at what is in the source when this starts.
        listener: Told of each batch that is applied; what it raises ends the job.
    """

    is_fenced: ClassVar[bool] = False
    """True if the target itself ends a process when another one takes its place; else a lock keeps other processes
    out."""

    def __init__(self, job: AnyJob, progress: Sums, *, once: bool, listener: Callable[[Report], None] | None) -> None:
        self.progress = progress
        self.once = once
        self._lock = JobLock(job)
        self._listener = listener
        self._resources = ExitStack()
        self._stopped = threading.Event()

    @property
    @abstractmethod
    def offset(self) -> SourceOffset | None:
        """Offset at which the job continues in its log; None: it reads none, or has not begun."""

    @property
    def recorded(self) -> JobRecord | None:
        """Record of the job's tables; None: nothing is recorded of them but their progress."""
        return None

    @property
    def start_facts(self) -> dict[str, object]:
        """Facts about this kind of job for programs, at its start, beside those of all jobs."""
        return {}

    def run(self, on_ready: Callable[[SourceOffset | None], None] = lambda _: None) -> None:
        """`start`, then `wait`."""
        self.start(on_ready)
        self.wait()

    def start(self, on_ready: Callable[[SourceOffset | None], None] = lambda _: None) -> None:
        """Get everything ready.

        Args:
            on_ready: Told of `offset`, before the first batch.

        Raises:
            StorageError: `IN_USE`: another process runs the job, or writes its tables.
        """
        try:
            require_places(self._lock.job)
            self._check(self._resources)
            if not self.is_fenced:
                self._resources.enter_context(self._lock)
            self._begin(self._resources)
            on_ready(self.offset)
            self._launch()
        except BaseException:
            self._resources.close()
            raise

    def wait(self, on_idle: Callable[[], None] = lambda: None) -> None:
        """Take batches until `stop` is called, or the end is reached; then everything is closed.

        Args:
            on_idle: Called whenever nothing new has come for a moment.

        Raises:
            BinlogError: What ended the job; target and checkpoint stay as good as before.
        """
        with self._resources:
            while not self.is_stopped:
                batch = self._next()
                if batch is not None:
                    self._take(batch)
                elif self._is_ended():
                    return
                else:
                    self._idle()
                    on_idle()

    def stop(self) -> None:
        """End after the batch under way."""
        self._stopped.set()
        self._interrupt()

    @property
    def is_stopped(self) -> bool:
        """True if `stop` was called."""
        return self._stopped.is_set()

    def _take(self, batch: Batch) -> None:
        report = self._apply(batch)
        if report is None:
            return
        self.progress.add(report)
        if self._listener is not None:
            self._listener(report)

    def _check(self, resources: ExitStack) -> None:
        """See that source and settings can be used, before others are kept out; *resources* closes what it opens."""

    @abstractmethod
    def _begin(self, resources: ExitStack) -> None:
        """Read the checkpoint, and open what is needed; *resources* closes it."""

    def _launch(self) -> None:
        """Let batches come, where they come by themselves."""

    @abstractmethod
    def _next(self) -> Batch | None:
        """The batch that was under way when the last process ended, else the next one; None: nothing came yet."""

    @abstractmethod
    def _is_ended(self) -> bool:
        """True if nothing more will come."""

    @abstractmethod
    def _apply(self, batch: Batch) -> Report | None:
        """Bring a batch into the target, with all that the checkpoint records of it; None: nothing was in it."""

    def _idle(self) -> None:
        """Nothing new has come for a moment."""

    def _interrupt(self) -> None:
        """End a wait for what is new."""


LOCK_FILE = "binlog-stream.lock"
"""File in the checkpoint's folder. The system releases the lock when a process ends, however it ends."""

_HELD = frozenset({errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES})


class JobLock:
    """A lock on a job's checkpoint; a context manager that takes it and gives it back.

    Whoever has it finds the checkpoint of tables whole: a switch to another log that was cut off is completed first.
    And a loss of power takes nothing of it any more, not even what a process left that was killed before that was safe.

    In an object store there is none: there the checkpoint's own files tell, a batch later, that two processes write.
    """

    def __init__(self, job: AnyJob) -> None:
        self.job = job
        self._checkpoint = job.checkpoint
        self._file: BinaryIO | None = None

    def __enter__(self) -> JobLock:
        self.take()
        return self

    def __exit__(self, *_: object) -> None:
        self.give_back()

    def take(self) -> None:
        """Take the lock."""
        is_folder = "://" not in self._checkpoint
        if is_folder and self._file is None:
            self._lock()
        try:
            if is_folder:
                self._sync()
            if isinstance(self.job, Job):
                complete_switch(state_of(self.job))
        except BaseException:
            self.give_back()
            raise

    def _lock(self) -> None:
        path = Path(self._checkpoint) / LOCK_FILE
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            file = path.open("ab")
        except OSError as error:
            raise storage_error(path, "write", error) from error
        try:
            _lock_for_one(file)
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

    def is_held(self) -> bool | None:
        """True if a process has the lock now; None: it is not known, as in an object store."""
        if "://" in self._checkpoint:
            return None
        try:
            with (Path(self._checkpoint) / LOCK_FILE).open("rb") as file:
                return _is_held_by_one(file)
        except FileNotFoundError:
            return False
        except OSError:
            return None  # a file system without locks, or the file is not for this account

    def _sync(self) -> None:
        try:
            sync_folder(Path(self._checkpoint))
        except OSError as error:
            raise storage_error(self._checkpoint, "write", error) from error

    def give_back(self) -> None:
        """Release the lock."""
        if self._file is not None:
            self._file.close()
            self._file = None


def _lock_for_one(file: BinaryIO) -> None:
    """Take the lock. Whoever only looks whether it is held (`JobLock.is_held`) is waited for: that takes no time."""
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno not in _HELD or _is_held_by_one(file):
                raise
        else:
            return


def _is_held_by_one(file: BinaryIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in _HELD:
            raise
        return True
    fcntl.flock(file, fcntl.LOCK_UN)
    return False
