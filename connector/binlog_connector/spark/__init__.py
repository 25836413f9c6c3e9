"""The Spark data source `binlog-stream`; `source.BinlogDataSource` is what Spark finds."""
