"""The data source `binlog-stream`: `BinlogDataSource`, what Spark makes of `format("binlog-stream")`.

Example: `spark.readStream.format("binlog-stream").option("path", "/var/lib/mysql").load()`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from binlog_connector.spark.batch_reader import BinlogBatchReader
from binlog_connector.spark.failures import readable
from binlog_connector.spark.offsets import NO_GTIDS
from binlog_connector.spark.options import SourceOptions
from binlog_connector.spark.reading import make_view, open_watched
from binlog_connector.spark.schema import find_layout, to_spark
from binlog_connector.spark.starts import initial_offset
from binlog_connector.spark.stream_reader import BinlogStreamReader

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from binlog_format.events.table_map import TableLayout

NAME = "binlog-stream"


class BinlogDataSource(DataSource):
    """A database server's binary log as rows."""

    @classmethod
    def name(cls) -> str:
        """What stands in `format(...)`."""
        return NAME

    @readable
    def schema(self) -> StructType:
        """The view's columns; with the option `table`, typed by what the log says of that table."""
        options = SourceOptions.parse(self.options)
        with open_watched(options) as watched:
            layout: TableLayout | None = None
            if options.table is not None:
                layout = find_layout(watched, options.table, initial_offset(watched, options.start).position)
            return to_spark(make_view(options, skip_gtid=NO_GTIDS).schema(layout))

    @readable
    def reader(self, schema: StructType) -> BinlogBatchReader:
        """For `spark.read`."""
        return BinlogBatchReader(SourceOptions.parse(self.options), schema)

    @readable
    def streamReader(self, schema: StructType) -> BinlogStreamReader:
        """For `spark.readStream`."""
        return BinlogStreamReader(SourceOptions.parse(self.options), schema)
