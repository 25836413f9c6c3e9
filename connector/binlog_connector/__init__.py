"""A live log as batches with positions: the tailer, the Spark source, and what both know of tables."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from binlog_connector.following.offsets import SourceOffset
    from binlog_connector.following.starts import Edge
    from binlog_connector.following.steps import Step
    from binlog_connector.following.tailer import FollowOptions, Tailer
    from binlog_connector.schema.history import SchemaHistory
    from binlog_connector.schema.history_file import load_history, save_history
    from binlog_connector.spark.listener import BinlogMetricsListener
    from binlog_connector.spark.source import BinlogDataSource

__all__ = [
    "BinlogDataSource",
    "BinlogMetricsListener",
    "Edge",
    "FollowOptions",
    "SchemaHistory",
    "SourceOffset",
    "Step",
    "Tailer",
    "load_history",
    "save_history",
]

_HOMES = {
    "BinlogDataSource": "spark.source",
    "BinlogMetricsListener": "spark.listener",
    "Edge": "following.starts",
    "FollowOptions": "following.tailer",
    "SchemaHistory": "schema.history",
    "SourceOffset": "following.offsets",
    "Step": "following.steps",
    "Tailer": "following.tailer",
    "load_history": "schema.history_file",
    "save_history": "schema.history_file",
}


def __getattr__(name: str) -> object:
    """Import a public name when it is asked for: the tailer needs no Spark, and neither is imported for the other."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
