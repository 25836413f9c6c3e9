"""A disk that gets full: `small_disk` mounts it, `fill` fills it."""

from __future__ import annotations

import contextlib
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PIECE = 64 << 10


@contextlib.contextmanager
def small_disk(folder: Path, size: int) -> Iterator[bool]:
    """A disk of its own for a folder that is not there yet; False: none may be mounted here.

    Args:
        size: MB.
    """
    folder.mkdir(parents=True)
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size}m", "binlog-stream-tests", str(folder)]
    is_mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield is_mounted
    finally:
        if is_mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Leave no room on the disk of a folder; gives the file that has it."""
    filler = folder / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(_PIECE))
    return filler
