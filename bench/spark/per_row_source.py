"""A Spark source as most are written, for comparison: it decodes in Python, and gives tuples, row by row: `register`.

The log's pages are read with this library, and the decoder knows beforehand what it will meet: a reader that knows
everything takes several times as long for a row.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

from pyspark import cloudpickle
from pyspark.sql.types import StructType

from bench import per_row_decoder
from binlog_connector.options.query_views import open_watched
from binlog_connector.spark.partitions import RangePartition
from binlog_connector.spark.reading import planned_blocks
from binlog_connector.spark.source import BinlogDataSource
from binlog_connector.spark.stream_reader import BinlogStreamReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import InputPartition

NAME = "binlog-row-by-row"


class RowReader(BinlogStreamReader):
    """Plans as the other one does, and gives tuples."""

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:
        """The rows of *partition*."""
        assert isinstance(partition, RangePartition)
        image = StructType.fromJson(json.loads(self._schema))["before"].dataType
        assert isinstance(image, StructType)
        names = image.fieldNames()
        with open_watched(self._options, partition.format) as watched:
            for block in planned_blocks(watched.log, partition):
                yield from per_row_decoder.changed_rows(block, names)


class RowSource(BinlogDataSource):
    """The same source under another name."""

    @classmethod
    def name(cls) -> str:
        """What is in `format(...)`."""
        return NAME

    def streamReader(self, schema: StructType) -> BinlogStreamReader:
        """For `spark.readStream`."""
        made = super().streamReader(schema)
        made.__class__ = RowReader
        return made


def register(spark: SparkSession) -> str:
    """Make the source known to a session; its name."""
    # Workers do not have the benchmarks on their path.
    for module in (sys.modules[__name__], per_row_decoder):
        cloudpickle.register_pickle_by_value(module)  # type: ignore[no-untyped-call]
    spark.dataSource.register(RowSource)
    return NAME
