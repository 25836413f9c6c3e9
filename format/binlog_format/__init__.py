"""Binary logs as tables: `open_log(path)` reads them, without Spark and without a server."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
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
    from binlog_format.formats.opening import open_log, verify_log
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
    "verify_log",
]

_HOMES = {
    "Block": "block",
    "Bound": "log_format",
    "Gtid": "gtids.gtid",
    "GtidPosition": "gtids.gtid",
    "GtidStart": "log_format",
    "Log": "log.log",
    "LogFile": "log_format",
    "Position": "position",
    "Span": "log_format",
    "open_log": "formats.opening",
    "verify_log": "formats.opening",
}
"""Modules of names that are no errors."""


def __getattr__(name: str) -> object:
    """A public name, once it is asked for: a command that only prints its version needs no NumPy."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES.get(name, 'errors')}"), name)
    globals()[name] = value
    return value
