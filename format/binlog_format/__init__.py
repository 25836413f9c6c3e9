"""Binary logs as tables: `open_log(path)` reads them, without Spark and without a server."""

from __future__ import annotations

from binlog_format.block import Block
from binlog_format.errors import (
    AccessError,
    BinlogError,
    CorruptError,
    DataLossError,
    OptionError,
    SchemaError,
    StartError,
    UnsupportedError,
)
from binlog_format.formats.opening import open_log
from binlog_format.gtids.gtid import Gtid, GtidPosition
from binlog_format.log.log import Log
from binlog_format.log_format import Bound, GtidStart, LogFile, Span
from binlog_format.position import Position

__all__ = [
    "AccessError",
    "BinlogError",
    "Block",
    "Bound",
    "CorruptError",
    "DataLossError",
    "Gtid",
    "GtidPosition",
    "GtidStart",
    "Log",
    "LogFile",
    "OptionError",
    "Position",
    "SchemaError",
    "Span",
    "StartError",
    "UnsupportedError",
    "open_log",
]
