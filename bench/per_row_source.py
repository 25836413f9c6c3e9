"""A Spark source as most are written, for comparison: it gives Python tuples, row by row: `register`.

It decodes with this library, so what is compared is the hand-over alone; a decoder in Python would be slower still.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from pyspark import cloudpickle

from binlog_connector.spark.source import BinlogDataSource
from binlog_connector.spark.stream_reader import BinlogStreamReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

NAME = "binlog-row-by-row"


class RowReader(BinlogStreamReader):
    """Reads as the other one does, and gives tuples."""

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        """The rows of *partition*."""
        for batch in super().read(partition):
            for row in batch.to_pylist():
                yield tuple(row.values())


class RowSource(BinlogDataSource):
    """The same source under another name."""

    @classmethod
    def name(cls) -> str:
        """What stands in `format(...)`."""
        return NAME

    def streamReader(self, schema: StructType) -> BinlogStreamReader:
        """For `spark.readStream`."""
        made = super().streamReader(schema)
        made.__class__ = RowReader
        return made


def register(spark: SparkSession) -> str:
    """Make the source known to a session; its name."""
    # Workers do not have the benchmarks on their path.
    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    spark.dataSource.register(RowSource)
    return NAME
