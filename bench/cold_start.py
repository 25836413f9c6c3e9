"""How long a command takes that does next to nothing: as many times as `python -c "import numpy"` in the same run."""

from __future__ import annotations

import functools
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.registry import benchmark
from binlog_format.gtids.gtid import Gtid
from binlog_lab.event_encoding.event_encoding import Origin, encode_gtid, encode_xid
from binlog_lab.event_encoding.table_encoding import ColumnSpec, TableEncoder, TableSpec
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.innodb_writer.server import BinlogWriter

RUNS = 7
_PROGRAM = "from binlog_streaming.cli import main; main()"
_SPEC = TableSpec("shop", "orders", (ColumnSpec("id", "int"), ColumnSpec("note", "varchar(60)")), ("id",))


@benchmark("cold.version", unit="x import")
def version() -> float:
    """`binlog-stream --version`, to `import numpy`."""
    return _ratio("--version")


@benchmark("cold.files", unit="x import")
def files() -> float:
    """`binlog-stream files` of a small `.ibb` log, to `import numpy`."""
    return _ratio("files", _log())


@benchmark("cold.changes", unit="x import")
def changes() -> float:
    """`binlog-stream changes --limit 1` of a small `.ibb` log, to `import numpy`."""
    return _ratio("changes", _log(), "--limit", "1")


def _ratio(*arguments: str) -> float:
    """The least time of some runs, to the least time of as many imports between them."""
    command = [sys.executable, "-c", _PROGRAM, *arguments]
    _seconds(command)  # kernels are compiled, files are in memory
    pairs = [(_seconds(command), _seconds([sys.executable, "-c", "import numpy"])) for _ in range(RUNS)]
    return min(ours for ours, _ in pairs) / min(theirs for _, theirs in pairs)


def _seconds(command: list[str]) -> float:
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - started


@functools.cache
def _log() -> str:
    folder = Path(tempfile.mkdtemp(prefix="binlog-stream-cold-"))
    origin, orders = Origin(1_700_000_000, 1), TableEncoder(_SPEC, 1)
    with BinlogWriter(folder, WriterOptions(sync=False)) as writer:
        for number in range(1, 101):
            gtid = Gtid(0, 1, number)
            events = [
                orders.table_map(origin),
                *orders.insert([(number, "x" * 40)], origin),
                encode_xid(number, origin),
            ]
            writer.write_group(gtid, encode_gtid(gtid, origin.timestamp), events)
        writer.checkpoint()
    return str(folder)
