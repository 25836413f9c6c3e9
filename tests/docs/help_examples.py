"""Examples in the `--help` of all commands: `help_examples()`."""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING

from typer.main import get_command

from binlog_streaming.cli.app import VERBATIM_COMMANDS, app, register_commands
from binlog_streaming.cli.logs import brecovery
from binlog_streaming.cli.logs.bread import arguments as bread_arguments

if TYPE_CHECKING:
    from collections.abc import Iterator

    from typer.core import TyperGroup

PROGRAM = "binlog-stream"
_EXAMPLE = re.compile(rf"^ {{2,}}((?:.*\| )?{PROGRAM} .*)$", re.MULTILINE)
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
        if words[:1] == [PROGRAM]:
            yield words[1:]
        words = []
