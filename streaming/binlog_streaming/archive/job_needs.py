"""Files of an archive that jobs still read: `JobNeeds(files, ...)`, asked by retention before anything is removed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from binlog_format.errors import OptionError
from binlog_format.position import Place
from binlog_format.source_file import ARCHIVE_MARK
from binlog_streaming.job_state.checkpoint import read_checkpoint
from binlog_streaming.job_state.state_files import state_of
from binlog_streaming.settings import Job, PublishJob, load_any_job
from binlog_streaming.topics.connecting import published_offset
from binlog_streaming.topics.record import begun_with

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from binlog_connector.following.offsets import SourceOffset


class JobNeeds:
    """Jobs that read an archive.

    Args:
        files: Their job files.
        path: Of the log that is archived.
        uri: Of the archive.

    Raises:
        OptionError: `INVALID_VALUE`: a job reads no log of a server, or another one.
        BinlogError: A job file cannot be read.
    """

    def __init__(self, files: Sequence[Path], path: str, uri: str) -> None:
        places = {_place(path), _place(uri)}
        self._jobs = [(file, _job_at(file, places)) for file in files]

    def oldest(self) -> tuple[Path, int] | None:
        """The job that is furthest back, and the number of the oldest file that it needs; None: there is no job.

        Of a job that has not begun that is 0: it may need all of them.

        Raises:
            BinlogError: What a job has reached cannot be read.
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
