"""The process that runs a job, and a check that it has ended: `own_process`, `is_gone`."""

from __future__ import annotations

import os
import socket
from pathlib import Path

from binlog_streaming.status.model import ProcessId

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
