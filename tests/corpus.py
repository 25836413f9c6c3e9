"""The corpora of logs in `tests/data`: `corpus(name)` unpacks one, once for all runs."""

from __future__ import annotations

import functools
import gzip
import hashlib
import os
import shutil
import tarfile
import tempfile
from pathlib import Path

DATA = Path(__file__).parent / "data"
SERVER_CASES = DATA / "servers"
"""Real logs, as they are."""


@functools.cache
def corpus(name: str) -> Path:
    """The folder of a corpus: `cppbinlog`, `innodb-binlog`, `innodb-ops`, `servers`, ..."""
    archives = sorted((DATA / "corpus" / name).glob("*.tar.xz"))
    assert archives, f"there is no corpus {name}"
    # One folder for each state of the archives; made under another name first, so that two runs cannot meet.
    state = hashlib.sha256(b"".join(archive.read_bytes() for archive in archives)).hexdigest()[:16]
    # Of each user its own: others may not read the folders of the archive.
    target = Path(tempfile.gettempdir()) / f"binlog-stream-corpus-{os.getuid()}-{name}-{state}"
    if not target.exists():
        partial = Path(tempfile.mkdtemp(prefix="binlog-stream-corpus-"))
        if name == "servers":
            _copy_server_cases(partial)
        for archive in archives:
            with tarfile.open(archive) as tar:
                tar.extractall(partial, filter="data")
        try:
            partial.rename(target)
        except OSError:  # another run was faster
            shutil.rmtree(partial)
    return target


def _copy_server_cases(into: Path) -> None:
    shutil.copytree(SERVER_CASES, into, dirs_exist_ok=True)
    for packed in into.rglob("expected.json.gz"):
        packed.with_suffix("").write_bytes(gzip.decompress(packed.read_bytes()))
        packed.unlink()
