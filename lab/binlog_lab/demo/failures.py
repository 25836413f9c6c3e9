"""Conditions that keep the demo from running: `DemoError`."""

from __future__ import annotations

from binlog_format.errors import BinlogError


class DemoError(BinlogError):
    """The demo cannot run, or cannot go on; this tells nothing about the tables."""

    FAMILY = "BINLOG_DEMO"
    SUBCLASSES = frozenset({"NO_CHECKOUT", "DIRECTORY_IN_USE", "NO_SERVER", "PROCESS_FAILED", "STANDS_STILL"})
