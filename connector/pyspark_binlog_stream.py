"""Spark's entry to the source: Spark imports every top-level module named `pyspark_*` and takes its `DefaultSource`."""

from __future__ import annotations

from binlog_connector.spark.source import BinlogDataSource as DefaultSource

__all__ = ["DefaultSource"]
