"""Compile every kernel that the demo's job needs: `python -m binlog_streaming.demo.kernels`.

Kernels are compiled at their first call and kept in a cache beside their source. This does it once, before the clock
of the demo starts; afterwards it takes a second.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

from binlog_format import open_log
from binlog_format.views.changefeed import changefeed_batch
from binlog_format.views.tables import TablesView
from binlog_streaming.demo.live_writer import LiveLog, repack_real_log
from binlog_streaming.demo.real_log import find_real_log
from binlog_streaming.demo.workload import Workload
from binlog_streaming.tables.pieces import load_pieces

ROWS = 400


def main() -> int:
    """Write a small log, and read it in every way that the job will."""
    with tempfile.TemporaryDirectory(prefix="binlog-stream-") as name:
        directory = Path(name) / "log"
        real = find_real_log()
        if real is not None:
            repack_real_log(real, directory, Path(name) / "truth")
        live = LiveLog(directory, rows_per_s=1e9)
        with live.writer:
            for action in Workload(ROWS, first_gtid=live.next_gtid()).actions():
                live.write(action)
        _read(str(directory))
    return 0


def _read(path: str) -> None:
    with open_log(path) as log:
        start = log.start_position()
        log.split(start, log.span(start).end, 2)
        rows = [row for batch in TablesView().batches(log.committed_blocks(start)) for row in batch.to_pylist()]
        for piece in load_pieces([row["index"] for row in rows], log):
            changefeed_batch(piece.images, piece.events, piece.groups)


if __name__ == "__main__":
    sys.exit(main())
