"""The program's frame: registers the commands, and turns every named error into one line and an exit status.

Exit status: 0 done, or nobody reads on (`| head`); 1 a named error or a finding; 2 wrong use; 130 interrupted.
"""

from __future__ import annotations

import importlib
import os
import sys
from importlib.metadata import version
from typing import Annotated

import typer
from rich.console import Console

from binlog_format.errors import BinlogError, OptionError
from binlog_streaming.cli.compiling import show_compiling

app = typer.Typer(
    name="binlog-stream",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Read database binary logs from their files, and keep lakehouse tables in step with them.",
)

# A command module has a function `register(app)`; the order here is the order in --help.
COMMAND_MODULES = (
    "files",
    "groups",
    "events",
    "changes",
    "tail",
    "pages",
    "verify",
    "find",
    "map",
    "repack",
    "simulate",
    "init",
    "check",
    "run",
    "mirror",
    "replay",
    "demo",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"binlog-stream {version('binlog-stream')}")
        raise typer.Exit


@app.callback()
def _options(
    _version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    pass


def main() -> None:
    """Run the program with the arguments of the process."""
    show_compiling()
    for name in COMMAND_MODULES:
        importlib.import_module(f"binlog_streaming.cli.{name}").register(app)
    try:
        app()
    except BinlogError as error:
        console = Console(stderr=True, emoji=False, highlight=False)
        console.print(f"[red bold]error:[/] {_escape(str(error))}", soft_wrap=True)
        sys.exit(2 if isinstance(error, OptionError) else 1)
    except KeyboardInterrupt:
        sys.exit(130)
    except BrokenPipeError:
        _let_go_of_output()
    except SystemExit as error:
        # Whoever read our output has gone (`| head`), which is no failure; click and rich make one of it.
        if not isinstance(error.__context__, BrokenPipeError):
            raise
        _let_go_of_output()
    finally:
        # What is still in a buffer would make Python complain while it ends.
        try:
            sys.stdout.flush()
        except BrokenPipeError:
            _let_go_of_output()


def _let_go_of_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _escape(text: str) -> str:
    return text.replace("[", r"\[")
