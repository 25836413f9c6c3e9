"""`binlog-stream` in this process: `run_program`. A process of its own takes seconds to import and to load kernels."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from binlog_streaming.cli import main
from binlog_streaming.cli.app import app

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import FrameType

    Handler = Callable[[int, FrameType | None], object] | int | signal.Handlers | None

PROGRAM = str(Path(sys.executable).with_name("binlog-stream"))
"""For what needs a process: signals, pipes, a session of Spark."""


def run_program(
    *arguments: object, cwd: Path | None = None, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the program, frame and all; a command that starts Spark takes the session of the tests, where it is there.

    Args:
        arguments: Of the command line.
        cwd: Working directory; None: stays.
        environment: Variables besides those that are there.
    """
    output, errors = (io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True) for _ in range(2))
    status: object = 0
    with (
        pytest.MonkeyPatch.context() as patch,
        contextlib.ExitStack() as stack,
        contextlib.chdir(cwd or Path.cwd()),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(errors),
    ):
        patch.setattr(sys, "argv", [PROGRAM, *map(str, arguments)])
        stack.callback(_restore, {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)})
        for name, value in (environment or {}).items():
            patch.setitem(os.environ, name, value)
        app.registered_commands.clear()  # of the run before; `main` adds them
        try:
            main()
        except SystemExit as end:
            status = end.code
    texts = [stream.buffer.getvalue().decode() for stream in (output, errors) if isinstance(stream.buffer, io.BytesIO)]
    return subprocess.CompletedProcess(list(map(str, arguments)), int(str(status or 0)), *texts)


def _restore(handlers: Mapping[signal.Signals, Handler]) -> None:
    for number, handler in handlers.items():
        signal.signal(number, handler)
