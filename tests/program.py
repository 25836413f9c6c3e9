"""`binlog-stream` in this process: `run_program`. A process of its own takes seconds to import and to load kernels.

Examples in the `--help` of its commands: `help_examples`.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.main import get_command

from binlog_streaming.cli import main
from binlog_streaming.cli.app import VERBATIM_COMMANDS, app, register_commands
from binlog_streaming.cli.logs import brecovery
from binlog_streaming.cli.logs.bread import arguments as bread_arguments

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from types import FrameType

    from typer.core import TyperGroup

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


_NAME = "binlog-stream"
_EXAMPLE = re.compile(rf"^ {{2,}}((?:.*\| )?{_NAME} .*)$", re.MULTILINE)
_SHELL = "|&;<>"


def all_commands() -> TyperGroup:
    """The program with all its commands."""
    app.registered_commands.clear()
    register_commands(["--help"])
    return get_command(app)  # type: ignore[return-value]


def help_examples() -> dict[str, list[str]]:
    """Lines that call the program, by the command whose help they are in."""
    texts = {name: command.help or "" for name, command in all_commands().commands.items()}
    verbatim = {"bread": bread_arguments.HELP, "brecovery": brecovery.HELP}
    assert verbatim.keys() == set(VERBATIM_COMMANDS)
    verbatim = {name: text[text.index("\nExample") :] for name, text in verbatim.items()}
    return {name: _EXAMPLE.findall(text) for name, text in (texts | verbatim).items()}


def calls_in(line: str) -> Iterator[list[str]]:
    """Arguments of each call of the program in a line for a shell."""
    words: list[str] = []
    lexer = shlex.shlex(line, posix=True, punctuation_chars=_SHELL)
    lexer.whitespace_split = True
    for word in (*lexer, ";"):
        if not set(word) <= set(_SHELL):
            words.append(word)
            continue
        if words[:1] == [_NAME]:
            yield words[1:]
        words = []
