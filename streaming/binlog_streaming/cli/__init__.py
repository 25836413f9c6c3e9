"""The command line program `binlog-stream`: `main`; each command is a module of this package."""

from __future__ import annotations

from binlog_streaming.cli.app import main

__all__ = ["main"]
