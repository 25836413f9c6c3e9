"""This decoder over a file, as often as is said: `python -m bench.peers.ours FILE quick|full PASSES [TRANSACTIONS]`.

Prints a line of JSON for each pass. It goes the way of every view: committed blocks, the row events of each table,
their images, each column of all images as an Arrow array; every checksum is verified.
"""

from __future__ import annotations

import json
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from bench.peers.found import Found
from binlog_format import Position, open_log
from binlog_format.rows.images import ImageKind, read_images
from binlog_format.views.filters import GroupFilter, TableFilter
from binlog_format.views.selection import Selection

if TYPE_CHECKING:
    from binlog_format.log.log import Log


def decode(path: str, *, full: bool, end: Position | None = None) -> Found:
    """Decode all columns of all images.

    Args:
        full: Sum the bytes of texts, too.
    """
    found = Found()
    kinds = np.zeros(len(ImageKind), dtype=np.int64)
    selection = Selection(TableFilter(), GroupFilter(None, None))
    with open_log(path) as log:
        for block in log.committed_blocks(end=end):
            for touched in selection.of(block):
                images = read_images(block.data, block.events, touched.events, touched.layout, place=block.place)
                for column in range(len(touched.layout.columns)):
                    _add(found, images.column(column), full=full)
                kinds += np.bincount(images.table["kind"], minlength=len(kinds))
    found.inserts, found.updates = int(kinds[ImageKind.INSERT]), int(kinds[ImageKind.UPDATE_AFTER])
    found.deletes = int(kinds[ImageKind.DELETE])
    return found


def _add(found: Found, values: pa.Array, *, full: bool) -> None:
    assert values.null_count == 0, "the workload has no NULLs"
    _, *buffers = values.buffers()
    if values.type != pa.string():
        found.int_sum += int(np.frombuffer(buffers[0], dtype=np.int32).sum(dtype=np.int64))
        return
    starts = np.frombuffer(buffers[0], dtype=np.int32)
    first, last = int(starts[0]), int(starts[len(values)])
    found.text_size += last - first
    if full:
        found.byte_sum += int(np.frombuffer(buffers[1], dtype=np.uint8)[first:last].sum(dtype=np.int64))


def end_of(path: str, transactions: int) -> Position:
    """Where the event group after so many transactions begins."""
    with open_log(path) as log:
        return _position(log, transactions)


def _position(log: Log, number: int) -> Position:
    for block in log.blocks():
        groups = block.groups[block.groups["begins"]]
        if number < len(groups):
            return Position(*(int(groups[name][number]) for name in ("file_no", "page", "chunk")))
        number -= len(groups)
    raise ValueError("the file has fewer event groups")


def main() -> None:
    """Decode as the arguments ask for."""
    path, mode, passes, *transactions = sys.argv[1:]
    end = end_of(path, int(transactions[0])) if transactions else None
    for _ in range(int(passes)):
        started, cpu_started = time.perf_counter(), time.process_time()
        found = decode(path, full=mode == "full", end=end)
        taken = {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu_started}
        print(json.dumps({**asdict(found), **taken}), flush=True)


if __name__ == "__main__":
    main()
