"""A line on the terminal while kernels are compiled, which happens once after installation: `show_compiling`."""

from __future__ import annotations

import sys

from binlog_format.kernels import watch_compiling

_CLEAR = "\r\x1b[K"


class _Line:
    # Only there while the compiler works: what the command prints comes after it.
    def __init__(self) -> None:
        self._depth = 0  # a kernel compiles those that it calls
        self._count = 0

    def __call__(self, starts: bool) -> None:
        self._depth += 1 if starts else -1
        self._count += starts
        if self._depth == 1 and starts:
            sys.stderr.write(f"{_CLEAR}Compiling for this machine, once after installation: kernel {self._count} ...")
        elif self._depth == 0:
            sys.stderr.write(_CLEAR)
        sys.stderr.flush()


def show_compiling() -> None:
    """Show the line from now on, if there is a terminal."""
    if sys.stderr.isatty():
        watch_compiling(_Line())
