"""An archiver at work, once or until it is stopped: `ArchiveRun`.

Files of an archive that jobs still read: `JobNeeds(files, ...)`, asked by retention before anything is removed.
"""

from __future__ import annotations

import logging
import os
import threading
from contextlib import ExitStack
from typing import TYPE_CHECKING

from binlog_connector.following.offsets import SourceOffset
from binlog_connector.following.watch import DirectoryWatch
from binlog_connector.metrics.exporter import HOST, MetricsExporter
from binlog_connector.metrics.follower import ArchiveTotals, Follower
from binlog_connector.metrics.lag import Consumed, LagMeter
from binlog_format.errors import BinlogError, OptionError
from binlog_format.formats.directories import open_directory
from binlog_format.position import Place
from binlog_format.source_file import ARCHIVE_MARK
from binlog_streaming.archive.archiver import Archiver
from binlog_streaming.job_state.checkpoint import read_checkpoint, state_of
from binlog_streaming.settings import Job, PublishJob, load_any_job
from binlog_streaming.topics.connecting import published_offset
from binlog_streaming.topics.record import begun_with

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from binlog_format.formats.manifest import ArchivedFile
    from binlog_streaming.archive.archiver import Stored


logger = logging.getLogger(__name__)

RANGE_SECONDS = 10.0
"""Seconds between two ranges of a file that is being written."""

_IDLE_SECONDS = 60.0
"""Seconds between looks at a log to which nothing is written."""


class ArchiveRun:
    """Archives a log.

    Args:
        path: Directory of the binlog files, or a URL.
        retention: Seconds after which files are removed; None: never.
        needs: Jobs for which files stay that are older.
        range_seconds: How long to wait after storing what was new.
        on_removed: Told of each file that retention has removed.
    """

    def __init__(
        self,
        path: str,
        uri: str,
        *,
        retention: float | None = None,
        needs: JobNeeds | None = None,
        range_seconds: float = RANGE_SECONDS,
        on_stored: Callable[[Stored], None] = lambda _: None,
        on_removed: Callable[[ArchivedFile], None] = lambda _: None,
    ) -> None:
        self._path = path
        self._uri = uri
        self._retention = retention
        self._needs = needs
        self._range_seconds = range_seconds
        self._on_stored = on_stored
        self._on_removed = on_removed
        self._stopped = threading.Event()
        self._watch: DirectoryWatch | None = None
        self._follower: Follower | None = None
        self._reported: set[str] = set()

    def stop(self) -> None:
        """Make `run` end after the part under way; signal handlers may call it."""
        self._stopped.set()
        if self._watch is not None:
            self._watch.wake()

    def run(
        self, *, once: bool, metrics_port: int | None = None, on_metrics: Callable[[str], None] = lambda _: None
    ) -> None:
        """Archive what is there, and what comes until `stop` is called.

        Args:
            once: End when what is there has been archived.
            metrics_port: Export metrics for Prometheus there.
        """
        with ExitStack() as stack:
            archiver = Archiver(self._path, self._uri, listener=self._stored)
            stack.callback(archiver.close)
            if metrics_port is not None:
                on_metrics(self._export(stack, metrics_port))
            # Before the first look: what is written after it ends the first wait.
            self._watch = stack.enter_context(DirectoryWatch(open_directory(self._path)[0].path))
            while True:
                archiver.archive(is_stopped=self._stopped.is_set)
                self._remove_old(archiver, may_wait=not once)
                self._measure(archiver)
                if once or self._stopped.is_set():
                    return
                self._watch.wait(_IDLE_SECONDS)
                self._stopped.wait(self._range_seconds)

    def _remove_old(self, archiver: Archiver, *, may_wait: bool) -> None:
        if self._retention is None:
            return
        try:
            oldest = None if self._needs is None else self._needs.oldest()
        except BinlogError as error:
            if not may_wait:
                raise
            # Nothing is removed on a guess; the archive itself goes on.
            self._say_once(f"retention: nothing is removed, since what a job needs is not known: {error}")
            return
        for file in archiver.remove_old(self._retention, keep_from=None if oldest is None else oldest[1]):
            self._on_removed(file)

    def _say_once(self, text: str) -> None:
        if text not in self._reported:
            self._reported.add(text)
            logger.warning(text)

    def _export(self, stack: ExitStack, port: int) -> str:
        meter = LagMeter(self._path)
        stack.callback(meter.close)
        exporter = stack.enter_context(MetricsExporter(port))
        self._follower = Follower("archive", meter)
        self._follower.progress.archive = ArchiveTotals()
        exporter.add(self._follower)
        return f"http://{HOST}:{exporter.port}/metrics"

    def _stored(self, stored: Stored) -> None:
        if self._follower is not None:
            progress = self._follower.progress
            progress.size.add(stored.size)
            progress.transactions += stored.transactions
            progress.consumed = Consumed(SourceOffset(stored.end, gtid=stored.gtids), stored.file.last_time)
        self._on_stored(stored)

    def _measure(self, archiver: Archiver) -> None:
        totals = None if self._follower is None else self._follower.progress.archive
        if totals is not None:
            totals.file_count = len(archiver.files)
            totals.size = sum(file.size for file in archiver.files)
            totals.waiting_since = archiver.waiting_since()


class JobNeeds:
    """Jobs that read an archive."""

    def __init__(self, files: Sequence[Path], path: str, uri: str) -> None:
        places = {_place(path), _place(uri)}
        self._jobs = [(file, _job_at(file, places)) for file in files]

    def oldest(self) -> tuple[Path, int] | None:
        """The job that is furthest back, and the number of the oldest file that it needs; None: there is no job.

        Of a job that has not begun that is 0: it may need all of them.
        """
        needs = ((file, _oldest_file(_reached(job))) for file, job in self._jobs)
        return min(needs, key=lambda need: need[1], default=None)


def _job_at(file: Path, places: set[str]) -> Job | PublishJob:
    job = load_any_job(file)
    at = Place(str(file))
    if not isinstance(job, Job | PublishJob):
        raise OptionError("INVALID_VALUE", "--keep-for: this job reads no log of a server", at=at)
    if places.isdisjoint(map(_place, job.source.path.split(ARCHIVE_MARK))):
        reason = f"--keep-for: this job reads {job.source.path}, neither this archive nor the log of it"
        raise OptionError("INVALID_VALUE", reason, at=at)
    return job


def _place(path: str) -> str:
    return path.rstrip("/") if "://" in path else os.path.realpath(path)


def _reached(job: Job | PublishJob) -> SourceOffset | None:
    if isinstance(job, PublishJob):
        return published_offset(job, may_be_new=begun_with(job) is None)
    checkpoint = read_checkpoint(state_of(job))
    return None if checkpoint is None else checkpoint.offset


def _oldest_file(offset: SourceOffset | None) -> int:
    if offset is None:
        return 0
    return min([offset.position.file_no, *(xa.position.file_no for xa in offset.prepared_xa)])
