"""The data source `binlog-stream`: `BinlogDataSource`, what Spark makes of `format("binlog-stream")`.

Example: `spark.readStream.format("binlog-stream").option("path", "/var/lib/mysql").load()`
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from binlog_connector.spark.spark_api import readable

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from binlog_connector.log_definitions import SchemaFile
    from binlog_connector.options.source_options import SourceOptions
    from binlog_connector.spark.batch_reader import BinlogBatchReader
    from binlog_connector.spark.stream_reader import BinlogStreamReader
    from binlog_format.events.table_map import TableLayout

# Spark loads this module in a process of its own just to see that there is such a source, and in another one for its
# columns: what else is needed is loaded where it is.

NAME = "binlog-stream"


class BinlogDataSource(DataSource):
    """A database server's binary log as rows."""

    @classmethod
    def name(cls) -> str:
        """Name in `format(...)`."""
        return NAME

    @readable
    def schema(self) -> StructType:
        """The view's columns; with the option `table`, typed by the log, or by a schema file."""
        from binlog_connector.options.query_views import make_decoding, make_view, open_watched
        from binlog_connector.options.source_options import SourceOptions, View
        from binlog_connector.spark.schema import to_spark

        options = SourceOptions.parse(self.options)
        decoding = make_decoding(options, None)
        layout: TableLayout | None = None
        # Also where it is not needed here: an error of a worker shows less of the reason.
        given = options.given_definitions(_schema_file(options))
        with open_watched(options) as watched:
            options = options.of_log(watched.log)
            if options.view is View.LOGS:
                from binlog_connector.spark.reading import events_schema

                return to_spark(events_schema(watched.log, options))
            if options.table is not None and options.view in (View.CHANGES, View.CHANGEFEED):
                from binlog_connector.spark.schema import find_layout

                layout = find_layout(
                    watched,
                    options.table,
                    options.start,
                    given,
                    declared_types=options.declared_types,
                    defined_tables=options.defined_tables,
                )
        return to_spark(make_view(options, decoding=decoding).schema(layout))

    @readable
    def reader(self, schema: StructType) -> BinlogBatchReader:
        """Make the reader for `spark.read`."""
        from binlog_connector.options.source_options import SourceOptions
        from binlog_connector.spark.batch_reader import BinlogBatchReader, FilteringBatchReader
        from binlog_connector.spark.spark_api import hands_over_filters

        options = SourceOptions.parse(self.options)
        reader = FilteringBatchReader if hands_over_filters() else BinlogBatchReader
        return reader(options, schema, _schema_file(options))

    @readable
    def streamReader(self, schema: StructType) -> BinlogStreamReader:
        """Make the reader for `spark.readStream`."""
        from binlog_connector.options.source_options import SourceOptions
        from binlog_connector.spark.stream_reader import BinlogStreamReader

        options = SourceOptions.parse(self.options)
        return BinlogStreamReader(options, schema, _schema_file(options))


def _schema_file(options: SourceOptions) -> SchemaFile | None:
    if options.schema_file is None:
        return None
    from binlog_connector.log_definitions import SchemaFile

    return SchemaFile.read(options.schema_file)
