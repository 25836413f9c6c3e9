"""`spark.read`: everything from the start to the end of data at planning time, `BinlogBatchReader`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSourceReader

from binlog_connector.spark.failures import readable, readable_errors
from binlog_connector.spark.options import Edge
from binlog_connector.spark.partitions import RangePartition, plan_partitions
from binlog_connector.spark.reading import RangeReader, open_watched
from binlog_connector.spark.starts import advance, initial_offset
from binlog_format.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa
    from pyspark.sql.datasource import InputPartition
    from pyspark.sql.types import StructType

    from binlog_connector.spark.options import SourceOptions


class BinlogBatchReader(DataSourceReader):
    """A batch read; the end is fixed once, when the query is planned."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        if options.start is Edge.LATEST:
            raise OptionError(
                "INVALID_VALUE",
                'option startingOffsets: expected earliest or an offset in a batch query, got "latest"',
                hint="Behind latest there is nothing yet; readStream waits for it",
            )
        self._options = options
        self._range_reader = RangeReader(options, schema)

    @readable
    def partitions(self) -> Sequence[InputPartition]:
        """The log from the start to its present end, cut into partitions."""
        with open_watched(self._options) as watched:
            start = initial_offset(watched, self._options.start)
            end = advance(watched, start, size_max=None)
            parts = plan_partitions(
                watched.log,
                start.position,
                end.position,
                skip_gtid=start.skip_gtid,
                count_min=self._options.partitions_min,
            )
        # Spark reads an empty list as "one partition of no value".
        return parts or [RangePartition(start.position, start.position, start.skip_gtid)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of *partition*, on a worker."""
        assert isinstance(partition, RangePartition)
        if partition.start < partition.end:
            with readable_errors():
                yield from self._range_reader.read(partition)
