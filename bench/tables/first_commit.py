"""How long a user waits for his first table: `lake.first_commit_s`."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from bench.logs.backlog import CHANGES, backlog
from bench.registry import benchmark

RUNS = 3
TRANSACTIONS = 1000
TABLES = 4
ROWS_PER_TABLE = 2000


@benchmark("lake.first_commit_s", unit="s")
def first_commit() -> float:
    """From `binlog-stream mirror LOG --to DIR --once` in a fresh process to its first rows in a table; median of 3.

    Java takes what `SPARK_SUBMIT_OPTS` says, as for a user: with a record of Spark's classes (docs/operations.md) it
    starts in half of the time.
    """
    log = backlog(transactions=TRANSACTIONS, tables=TABLES, rows_per_table=ROWS_PER_TABLE)
    assert log.changes == TRANSACTIONS * CHANGES + TABLES * ROWS_PER_TABLE
    return statistics.median(first_commit_seconds(log.path) for _ in range(RUNS))


def first_commit_seconds(log: Path) -> float:
    """One run of the command over *log*."""
    # Python keeps what it has compiled of modules; a user's does too.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    program = "from binlog_streaming.cli import main; main()"
    with tempfile.TemporaryDirectory(prefix="binlog-stream-bench-") as work:
        command = [sys.executable, "-c", program, "mirror", str(log), "--to", f"{work}/lake", "--once"]
        started = time.time()
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
        commits = [path for path in Path(work).glob("lake/*/*/_delta_log/*.json") if '"add"' in path.read_text()]
        return min(path.stat().st_mtime for path in commits) - started
