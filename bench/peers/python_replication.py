"""python-mysql-replication over a live server: HOST PORT USER FILE quick|full CHANGES, the password in PASSWORD.

It reads the first row changes of a binlog file and prints what it found and took, as the other programs do. It needs
nothing but the package that it measures.
"""

from __future__ import annotations

import json
import os
import sys
import time

from pymysqlreplication import BinLogStreamReader  # type: ignore[import-not-found]
from pymysqlreplication.row_event import (  # type: ignore[import-not-found]
    DeleteRowsEvent,
    UpdateRowsEvent,
    WriteRowsEvent,
)


def main() -> None:
    """Read as the arguments ask for."""
    host, port, user, file_name, mode, changes = sys.argv[1:]
    counts = {"inserts": 0, "updates": 0, "deletes": 0}
    sums = {"int_sum": 0, "text_size": 0, "byte_sum": 0}
    started, cpu_started = time.perf_counter(), time.process_time()
    stream = BinLogStreamReader(
        {"host": host, "port": int(port), "user": user, "passwd": os.environ["PASSWORD"]},
        server_id=4711,
        log_file=file_name,
        log_pos=4,
        only_events=[WriteRowsEvent, UpdateRowsEvent, DeleteRowsEvent],
    )
    for event in stream:
        if isinstance(event, UpdateRowsEvent):
            counts["updates"] += len(event.rows)
            images = [row[side] for row in event.rows for side in ("before_values", "after_values")]
        else:
            counts["inserts" if isinstance(event, WriteRowsEvent) else "deletes"] += len(event.rows)
            images = [row["values"] for row in event.rows]
        for image in images:
            for value in image.values():
                _add(sums, value, full=mode == "full")
        if sum(counts.values()) >= int(changes):
            break
    stream.close()
    taken = {"seconds": time.perf_counter() - started, "cpu_seconds": time.process_time() - cpu_started}
    print(json.dumps({**counts, **sums, **taken}))


def _add(sums: dict[str, int], value: object, *, full: bool) -> None:
    if isinstance(value, int):
        sums["int_sum"] += value
    elif isinstance(value, str):
        sums["text_size"] += len(value)  # the workload's texts are ASCII
        if full:
            sums["byte_sum"] += sum(value.encode())
    else:
        raise TypeError(f"a value of {type(value)}")


if __name__ == "__main__":
    main()
