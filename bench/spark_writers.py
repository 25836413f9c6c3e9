"""Spark's own writers: changes a second that they merge and append; `python -m bench.spark_writers [delta|iceberg]`.

On a PySpark that has their jars (`.venv-pyspark-4.1.4` of `make test-compat`). A table of 250,000 rows in sysbench's
shape takes batches of 100,000 changes: 70 in 100 are updates, 15 inserts, 15 deletes, spread over all keys.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from binlog_streaming.lake.change import Change
from binlog_streaming.lake.spark.sessions import spark_targets
from binlog_streaming.lake.target import Ticket
from binlog_streaming.settings import Mode, Sink, TableFormat, Writer
from binlog_streaming.spark_jars import session_settings
from binlog_streaming.spark_session import local_session

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from binlog_streaming.lake.target import Target

ROWS = 250_000
CHANGES = 100_000
BATCHES = 4
"""The first warms the JVM up and does not count."""


def main() -> None:
    """Print a line for each format and operation."""
    formats = [TableFormat(name) for name in sys.argv[1:]] or [TableFormat.DELTA, TableFormat.ICEBERG]
    settings: dict[str, str] = {}
    for table_format in formats:
        settings = session_settings(table_format, settings)
    with tempfile.TemporaryDirectory() as folder:
        session = local_session("bench", settings=settings, log_file=Path(folder, "spark.log"))
        for table_format in formats:
            sink = Sink(directory=f"{folder}/{table_format}", format=table_format, writer=Writer.SPARK)
            Path(sink.directory).mkdir()
            targets = spark_targets(session, sink)
            for name, write in (("append", _append), ("merge", _merge)):
                with closing(targets.at(sink, f"{sink.directory}/{name}")) as target:
                    rate = _rate(target, write)
                print(f"tables.spark.{table_format}.{name}: {rate:,.0f} changes/s")
        session.stop()


def _rate(target: Target, write: Callable[[Target, Ticket, int], object]) -> float:
    ticket = Ticket("bench", 0, 2, "sb.sbtest", Mode.MIRROR, ("id",), "0:0:0", "0:0:0:0", None)
    target.create(_rows(np.arange(0)).schema, ticket)
    target.append(_rows(np.arange(ROWS) * 2).to_reader(), ticket)
    seconds = []
    for batch_id in range(1, BATCHES + 1):
        started = time.perf_counter()
        write(target, replace(ticket, batch_id=batch_id), batch_id)
        seconds.append(time.perf_counter() - started)
    return CHANGES / statistics.median(seconds[1:])


def _append(target: Target, ticket: Ticket, batch_id: int) -> None:
    first = 2 * ROWS + batch_id * CHANGES
    target.append(_rows(np.arange(first, first + CHANGES)).to_reader(), ticket)


def _merge(target: Target, ticket: Ticket, batch_id: int) -> None:
    random = np.random.default_rng(batch_id)
    there = random.permutation(ROWS)[: CHANGES * 85 // 100] * 2
    new = random.permutation(ROWS)[: CHANGES * 15 // 100] * 2 + 1
    updates, deletes = np.split(there, [CHANGES * 70 // 100])
    change = Change(_rows(np.concatenate([updates, new])), pa.table({"id": pa.array(deletes, pa.int32())}))
    target.merge(change, ticket)


def _rows(keys: NDArray[np.int64]) -> pa.Table:
    texts = pa.array([f"{key:0119d}" for key in keys.tolist()], pa.string())
    pads = pa.array([f"{key:059d}" for key in keys.tolist()], pa.string())
    numbers = pa.array(keys, pa.int32())
    return pa.table({"id": numbers, "k": numbers, "c": texts, "pad": pads})


if __name__ == "__main__":
    main()
