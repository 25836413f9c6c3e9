"""The command line program `binlog-stream`: `main`; each command is a module of this package."""

from __future__ import annotations

import signal

__all__ = ["main"]


def main() -> None:
    """Run the program with the arguments of the process."""
    # Ctrl-C while modules are loaded, which takes a second, ends the process as it ends any other: nothing has begun.
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from binlog_streaming.cli.app import main as run

    run()
