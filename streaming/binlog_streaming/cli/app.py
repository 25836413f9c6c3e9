"""The program's frame: registers the commands, and turns every named error into one line and an exit status.

Exit status: 0 done, or nobody reads on (`| head`); 1 a named error or a finding; 2 wrong use; 130 interrupted.

A line on the terminal while kernels are compiled, which happens once after installation: `show_compiling`.
"""

from __future__ import annotations

import inspect
import logging
import os
import signal
import sys
from importlib import import_module
from importlib.metadata import entry_points, version
from typing import TYPE_CHECKING, Annotated, NoReturn

import typer
from rich.console import Console
from typer.core import TyperGroup
from typer.main import get_command

from binlog_connector.installing import missing_extra
from binlog_format.errors import BinlogError, storage_error
from binlog_format.kernels import watch_compiling
from binlog_format.messages import told_options
from binlog_streaming.cli.output import ENDED_BY_SIGNAL, SIGNALLED, VisibleFormatter, escaped, name_job, print_traceback

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


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


app = typer.Typer(
    name="binlog-stream",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Read database binary logs from their files, and keep lakehouse tables in step with them.",
)

COMMANDS = {
    "files": "logs.files",
    "groups": "logs.groups",
    "events": "logs.events",
    "changes": "logs.changes",
    "tail": "logs.tail",
    "pages": "logs.pages",
    "verify": "logs.verify",
    "find": "logs.find",
    "map": "logs.map",
    "archive": "logs.archive",
    "bread": "logs.bread.command",
    "brecovery": "logs.brecovery",
    "init": "jobs.init",
    "check": "jobs.check",
    "run": "jobs.run",
    "mirror": "jobs.mirror",
    "publish": "jobs.publish",
    "status": "status.status",
    "doctor": "status.doctor",
    "switch": "jobs.switch",
    "replay": "jobs.replay",
    "versions": "jobs.versions",
    "snapshot": "jobs.snapshot",
    "prove": "jobs.prove",
    "adopt": "jobs.adopt",
    "upgrade-table": "jobs.upgrade_table",
}
"""Modules of commands, in the order of --help; each has a function with the name of its command."""

OTHER_COMMANDS = "binlog_stream.commands"
"""Entry points with functions `register(app)`, by the names of their commands: those of the laboratory, for one."""

VERBATIM_COMMANDS = ("bread", "brecovery")
"""Commands that take their words apart themselves, as the programs do whose place they take: functions `run(words)`."""

JOB_COMMANDS = (
    "init",
    "check",
    "run",
    "publish",
    "status",
    "switch",
    "replay",
    "versions",
    "snapshot",
    "adopt",
    "prove",
    "upgrade-table",
)
"""Commands whose settings are in a job file."""


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
    name_job(None)
    register_commands(sys.argv[1:])
    if logging.lastResort is not None:
        logging.lastResort.setFormatter(VisibleFormatter())
    sys.excepthook = print_traceback
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        status = _run()
        # What is still in a buffer would make Python complain while it ends.
        sys.stdout.flush()
    except BrokenPipeError:
        _let_go_of_output()
        status = 0
    except OSError as error:
        _let_go_of_output()
        status = _report(storage_error(error.filename or "standard output", "write", error))
    sys.exit(status)


def register_commands(arguments: Sequence[str]) -> None:
    """Add the command that is called; all of them where help is, or a name that is no command."""
    if list(arguments) == ["--version"]:
        return

    show_compiling()
    name = next((argument for argument in arguments if not argument.startswith("-")), "")
    known = {command.name or getattr(command.callback, "__name__", "") for command in app.registered_commands}
    for command, module in COMMANDS.items():
        if command not in known and (command == name or name not in COMMANDS):
            _add(command, module)
    if name not in COMMANDS:
        for point in entry_points(group=OTHER_COMMANDS):
            if point.name not in known:
                point.load()(app)
    for added in app.registered_commands:
        # Typer would join the lines of examples.
        added.help = added.help or (_help_of(added.callback) if added.callback is not None else None)


def _add(name: str, module: str) -> None:
    function = getattr(import_module(f"binlog_streaming.cli.{module}"), name.replace("-", "_"))
    app.command(name, rich_help_panel=None if module.startswith("logs.") else "Tables kept in step")(function)


def _help_of(command: Callable[..., None]) -> str:
    """The docstring of *command*: lines of a paragraph are joined, indented ones stay as they are."""
    paragraphs = inspect.cleandoc(command.__doc__ or "").split("\n\n")
    return "\n\n".join(
        paragraph if paragraph.startswith(" ") else " ".join(paragraph.split("\n")) for paragraph in paragraphs
    )


def _run() -> int:
    """The exit status of the program; what it prints may still be in a buffer."""
    name, *words = sys.argv[1:] or [""]
    try:
        if name in VERBATIM_COMMANDS:
            _run_verbatim(name, words)
        app()
    except BinlogError as error:
        return _report(error)
    except ModuleNotFoundError as error:
        missing = missing_extra(error.name or "")
        if missing is None:
            raise
        return _report(missing)
    except SystemExit as error:
        if error.code in ENDED_BY_SIGNAL:
            typer.echo(ENDED_BY_SIGNAL[error.code], err=True)
        # Whoever read our output has gone (`| head`), which is no failure; click and rich make one of it.
        if isinstance(error.__context__, BrokenPipeError):
            raise error.__context__ from error
        return error.code if isinstance(error.code, int) else int(error.code is not None)
    return 0


def _run_verbatim(name: str, words: list[str]) -> NoReturn:
    # Not through Typer, which takes longer to load what it needs than a million events take to be printed.
    run: Callable[[list[str]], int] = import_module(f"binlog_streaming.cli.{COMMANDS[name]}").run
    try:
        status = run(words)
    except KeyboardInterrupt:  # as Typer does
        status = SIGNALLED + signal.SIGINT
    sys.exit(status)


def _report(error: BinlogError) -> int:
    """Print the error in one line, in the words of the command; returns its exit status."""
    # Settings, and all that they name, take a moment to load.
    from binlog_streaming.settings.names import as_flags, as_job_setting

    commands = get_command(app)
    assert isinstance(commands, TyperGroup)
    name = next((argument for argument in sys.argv[1:] if argument in commands.commands), None)
    spell = as_job_setting if name is None or name in JOB_COMMANDS else as_flags(commands.commands[name].params)
    console = Console(stderr=True, emoji=False, highlight=False)
    console.print(f"[red bold]error:[/] {escaped(told_options(str(error), spell))}", soft_wrap=True)
    return 2 if error.is_wrong_use else 1


def _let_go_of_output() -> None:
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
