"""`binlog-stream brecovery`: what a crashed program had logged and not written, from an image of its memory."""

from __future__ import annotations

import os
import stat
import sys
import time
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from binlog_streaming.cli.output import write_output

if TYPE_CHECKING:
    from collections.abc import Iterator

NO_ARGUMENT = 1
CANNOT_READ = 2
CANNOT_WRITE = 3
WRITE_FAILED = 4

HELP = """\
brecovery -- recover events of the C++ library Binlog from the memory of a crashed program

Synopsis:
  binlog-stream brecovery image [output]

Arguments:
  image   Core file, or any other image of the program's memory, however large
  output  Log to write; without one, or if it is -, standard output

The queues of a program's sessions are found by their magic numbers. Events that had not been written to its log
are recovered, and all that is needed to read them; names of writers are lost. What was being written at the moment of
the crash can be in the log and here. What is found is told on standard error.

Exit status: 0 done; 1 no image given; 2 it cannot be opened; 3 the output cannot be opened; 4 it cannot be written.

Example:
  binlog-stream brecovery core.4711 recovered.blog
  binlog-stream bread -s recovered.blog
"""


def brecovery() -> None:
    """Recover structured logs (C++ Binlog) from a memory image, as the library's brecovery does."""


def run(words: list[str]) -> int:
    """Recover what *words* ask for; the exit status."""
    if not words or words[0] in ("-h", "--help"):
        write_output(HELP.encode())
        return 0 if words else NO_ARGUMENT
    image_path, output_path = words[0], words[1] if len(words) > 1 else "-"
    with ExitStack() as stack:
        try:
            descriptor = stack.enter_context(_image(image_path))
        except OSError:
            _note("ERRO", f"Failed to open {image_path} for reading")
            write_output(HELP.encode())
            return CANNOT_READ
        try:
            output = stack.enter_context(_Output(output_path, descriptor))
        except _OutputError as error:
            _note("ERRO", f"Failed to open {output_path} for writing")
            _note("ERRO", f"  {error}")
            write_output(HELP.encode())
            return CANNOT_WRITE
        try:
            _recover(descriptor, image_path, output)
        except _OutputError as error:
            _note("ERRO", "Failure while writing output")
            _note("ERRO", f"  {error}")
            return WRITE_FAILED
    return 0


class _OutputError(Exception):
    """The output cannot be opened or written."""


class _Output:
    """Destination of what is recovered; a context manager.

    A file is there when it is complete, and replaces an older one then.

    Args:
        path: Of the file; `-`: standard output.
        image: Descriptor of the image, which must not be replaced.
    """

    def __init__(self, path: str, image: int) -> None:
        self._path = Path(path)
        self._partial: Path | None = None
        self._descriptor = -1
        if path == "-":
            return
        with _named_failures():
            if self._path.exists() and os.path.samestat(self._path.stat(), os.fstat(image)):
                raise _OutputError("it is the image itself")
            target = self._path
            if self._path.is_file() or not self._path.exists():
                target = self._partial = self._path.with_name(f".{self._path.name}.partial")
            self._descriptor = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o666)

    def __enter__(self) -> _Output:
        return self

    def __exit__(self, *_: object) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
        if self._partial is not None:
            self._partial.unlink(missing_ok=True)

    def write(self, piece: bytes) -> None:
        if self._descriptor < 0:
            write_output(piece)
            return
        view = memoryview(piece)
        with _named_failures():
            while view:
                view = view[os.write(self._descriptor, view) :]

    def finish(self) -> None:
        if self._descriptor < 0:
            sys.stdout.flush()
        if self._partial is not None:
            with _named_failures():
                os.fsync(self._descriptor)
                self._partial.replace(self._path)
            self._partial = None


@contextmanager
def _named_failures() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise _OutputError(error.strerror or str(error)) from error


def _recover(descriptor: int, path: str, output: _Output) -> None:
    # Compiled code takes a moment to load: not for the help.
    from binlog_format.structured.recovery import ImageFile, recovered

    image = ImageFile(descriptor)
    _note("INFO", f"Read input from {path}")
    blocks = recovered(image, _note)
    _note("INFO", "Done reading input")
    _note("INFO", "Write output")
    offset = 0
    for block in blocks:
        kind = block.kind.name.capitalize()
        _note("INFO", f"Write {block.size} bytes of recovered {kind} to output at offset {offset}")
        for piece in block.pieces(image):
            output.write(piece)
        offset += block.size
    output.finish()
    _note("INFO", "Done writing output")


@contextmanager
def _image(path: str) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        if stat.S_ISDIR(os.fstat(descriptor).st_mode):
            raise IsADirectoryError(path)
        yield descriptor
    finally:
        os.close(descriptor)


def _note(severity: str, text: str) -> None:
    seconds, ns = divmod(time.time_ns(), 1_000_000_000)
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(seconds))
    sys.stderr.write(f"{severity} [{moment}.{ns:09}] {text}\n")
    sys.stderr.flush()
