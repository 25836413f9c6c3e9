"""The line that states what a number was measured on: `machine_line`; memory of this process: `peak_bytes`."""

from __future__ import annotations

import os
import platform
import resource
import sys
from importlib.metadata import version
from pathlib import Path

LIBRARIES = ("numpy", "numba", "pyarrow", "pyspark")


def machine_line() -> str:
    """Processor, cores, memory, load and versions, in one line."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    versions = ", ".join(f"{name} {version(name)}" for name in LIBRARIES)
    load = os.getloadavg()[0]
    return (
        f"{_processor()}, {cores} cores, {memory:.0f} GiB, load {load:.1f}, "
        f"{platform.system()}, Python {platform.python_version()}, {versions}"
    )


def peak_bytes() -> int:
    """Most memory that this process has had resident."""
    status = Path("/proc/self/status")
    if status.exists():
        # What getrusage reports includes the process that started this one.
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) << 10
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak << 10


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()
