"""Workers load the modules of a batch while Java plans the first one: `load_workers`."""

from __future__ import annotations

import threading
from contextlib import suppress
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING

from binlog_streaming.lake.sinks import sink_type

if TYPE_CHECKING:
    from collections.abc import Iterable

    from pyspark import SparkContext

_MODULES = (
    "binlog_streaming.tables.batch",
    "binlog_connector.spark.stream_reader",
    "binlog_connector.schema.statement_rows",
    "pandas",  # Spark hands rows over with it
)


def load_workers(spark_context: SparkContext, table_format: str) -> None:
    """Have as many workers as run at once load what reads the log and what writes tables of a format.

    Returns at once. What goes wrong is left to the first batch, which reports it.
    """
    count = spark_context.defaultParallelism
    tasks = spark_context.parallelize(range(count), count)

    def run() -> None:
        with suppress(Exception):
            tasks.foreachPartition(partial(_load, table_format))

    threading.Thread(target=run, name="binlog-stream-load", daemon=True).start()


def _load(table_format: str, _: Iterable[int]) -> None:
    for module in _MODULES:
        import_module(module)
    sink_type(table_format)
