"""Writes to a Delta table on a disk that is full: `on_a_full_disk`."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

_SCRIPT = """
import os, resource, sys
import pyarrow as pa
from deltalake import DeltaTable
from binlog_streaming.settings import Merge, Mode, Sink
from binlog_streaming.lake.change import Change
from binlog_streaming.lake.delta.target import DeltaTarget
from binlog_streaming.lake.evolution import SchemaChange
from binlog_streaming.lake.commit_id import CommitId

uri, sink = sys.argv[1], Sink(directory="", merge=Merge(sys.argv[2]))
version = DeltaTable(uri).version()
commit_id = CommitId("q-1", version + 1, 0, "shop.orders", Mode.MIRROR, ("id",), "0:12:3", "0:11:2:5", None)
rows = pa.table({"id": pa.array(range(20000), pa.int32()), "value": [os.urandom(100).hex() for _ in range(20000)]})
none = rows.select(["id"]).slice(0, 0)
note = SchemaChange(added=pa.schema([("note", pa.string())]))
gone = Change(rows.slice(0, 0), rows.select(["id"]).slice(3, 2))
for size, write in ATTEMPTS:
    target = DeltaTarget.at(sink, uri)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, resource.RLIM_INFINITY))
    try:
        write(target)
    except (*target.write_errors, OSError) as error:
        assert "File too large" in str(error), error
        assert not target.is_conflict(error)
    else:
        raise AssertionError("it was written")
    resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert not DeltaTarget.at(Sink(directory=""), uri).is_done(commit_id)
    assert DeltaTable(uri).version() == version
"""


def on_a_full_disk(path: Path, attempts: str, merge: str = "auto") -> None:
    """See that no write is done, each is a write error and none leaves a file.

    A limit on the size of files stands for the disk; the errors are the same but for their number.

    Args:
        attempts: Python: pairs of a limit in bytes and a function of the target, about the names in `_SCRIPT`.
        merge: A value of `Merge`.
    """
    files = sorted(path.rglob("*"))
    done = subprocess.run(
        [sys.executable, "-c", _SCRIPT.replace("ATTEMPTS", attempts), str(path), merge],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stderr
    assert sorted(path.rglob("*")) == files
