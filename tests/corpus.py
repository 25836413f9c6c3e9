"""The shared corpus of binlog files; tests that need it are skipped where it is not there."""

from __future__ import annotations

import functools
import shutil
import tarfile
import tempfile
from pathlib import Path

import pytest

ARCHIVES = Path(__file__).resolve().parents[2] / "shared" / "corpus"
SERVER_CASES = Path(__file__).parent / "data" / "servers"
"""Real logs that are part of this repository."""


@functools.cache
def _unpacked(archive: str) -> Path:
    # One folder per archive version, kept between runs; made under another name first, so that two runs cannot meet.
    source = ARCHIVES / f"{archive}.tar.xz"
    stamp = source.stat()
    target = Path(tempfile.gettempdir()) / f"binlog-stream-corpus-{archive}-{stamp.st_size}-{int(stamp.st_mtime)}"
    if not target.exists():
        partial = Path(tempfile.mkdtemp(prefix="binlog-stream-corpus-"))
        with tarfile.open(source) as tar:
            tar.extractall(partial, filter="data")
        try:
            partial.rename(target)
        except OSError:  # another run was faster
            shutil.rmtree(partial)
    return target


def is_there(archive: str) -> bool:
    """Whether the *archive* is beside this checkout."""
    return (ARCHIVES / f"{archive}.tar.xz").exists()


def corpus(archive: str) -> Path:
    """The unpacked *archive* (`cppbinlog`, `innodb-binlog`, `innodb-ops`, `servers`); skips the test without it."""
    if not is_there(archive):
        pytest.skip(f"the shared corpus {archive}.tar.xz is not beside this checkout")
    return _unpacked(archive)
