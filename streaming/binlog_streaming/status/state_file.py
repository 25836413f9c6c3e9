"""File of a job's state for others, in its checkpoint: `StatusFile(job)`; and its process: `is_gone`.

It is for people, and never what a job goes on from: a lost one costs nothing but the numbers in it.
"""

from __future__ import annotations

import os
import socket
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from binlog_format.errors import OptionError
from binlog_format.position import Place
from binlog_streaming.job_state.state_files import state_of
from binlog_streaming.status.model import Phase, ProcessId, RecordedStatus

if TYPE_CHECKING:
    from binlog_streaming.settings.job_file import AnyJob

STATUS_FILE = "binlog-stream-status.json"

HEARTBEAT_SECONDS = 10.0
"""A job that has nothing to tell gives a sign of life so often."""

SILENT_SECONDS = 60.0
"""One that gives none for so long does not run."""


class StatusFile:
    """The recorded state of one job.

    Args:
        job: Whose.
    """

    def __init__(self, job: AnyJob) -> None:
        self._folder = state_of(job)

    @property
    def path(self) -> str:
        """Path of the file."""
        return f"{self._folder.directory.rstrip('/')}/{STATUS_FILE}"

    def read(self) -> RecordedStatus | None:
        """Read the last record; None: there is none.

        Raises:
            OptionError: `INVALID_VALUE`: it is no such file.
            StorageError, AccessError: It cannot be read.
        """
        content = self._folder.read(STATUS_FILE)
        if content is None:
            return None
        try:
            return msgspec.json.decode(content, type=RecordedStatus)
        except msgspec.MsgspecError as error:
            raise OptionError(
                "INVALID_VALUE",
                f"not the state of a job: {error}",
                at=Place(self.path),
                hint="It was damaged, or written by a later version. Delete it: only what is shown depends on it",
            ) from error

    def write(self, state: RecordedStatus) -> None:
        """Put *state* in the place of what was recorded.

        Raises:
            StorageError, AccessError: It cannot be written; what was recorded before is there still.
        """
        self._folder.write(STATUS_FILE, msgspec.json.encode(state))


def phase_of(state: RecordedStatus, now: float) -> Phase:
    """Activity of a job, judged by others: a job that should run but gives no sign of life does not run."""
    if state.ended_at is not None:
        return state.phase
    return Phase.LOST if is_gone(state.process) or now - state.seen_at > SILENT_SECONDS else state.phase


_BOOT = Path("/proc/sys/kernel/random/boot_id")
_SPACE = Path("/proc/self/ns/pid")


def own_process() -> ProcessId:
    """Id of this process."""
    return ProcessId(socket.gethostname(), os.getpid(), _space())


def is_gone(process: ProcessId) -> bool:
    """True if *process* is known to have ended; False if this process cannot see it."""
    is_here = bool(process.space) and process.space == _space()
    return is_here and not Path(f"/proc/{process.pid}").exists()


def _space() -> str:
    # Numbers of processes mean the same within one start of a machine, and one namespace of it: containers differ.
    try:
        return f"{_BOOT.read_text().strip()}/{_SPACE.readlink()}"
    except OSError:
        return ""
