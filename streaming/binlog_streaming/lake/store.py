"""Storage of a table's files: a `Store`, in a folder or in an object store; `store_at(uri, options)` gives one.

Names are paths below the table's place, with `/` in them. A file is whole or not there; `create` is put-if-absent: of
several who create one name at the same time one does, and the others learn it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.errors import TableError
from binlog_format.messages import library_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    import pyarrow as pa


UNFINISHED = ".unfinished-"
"""Prefix of names that are not for readers: Spark, DuckDB and Arrow ignore names that begin with a dot."""

_ACCESS = "sink.storage has the access to an object store"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file.

    Attributes:
        name: Below the table's place.
        modified: When it was written, seconds since 1970 UTC.
    """

    name: str
    size: int
    modified: float


class NewFile(ABC):
    """A file that is being written: it is there, whole, when `finish` has been called."""

    sink: pa.NativeFile
    """Destination of its bytes; `tell` counts them."""

    @abstractmethod
    def finish(self) -> int:
        """Complete the file, safe from a loss of power; returns its size in bytes."""

    @abstractmethod
    def finish_as(self, name: str) -> bool:
        """Complete the file under another name, safe from a loss of power; False if that name exists.

        An answer that gets lost may make it False although the file is this one: whoever needs to know looks at it.
        """

    @abstractmethod
    def abandon(self) -> None:
        """Discard the file."""


class Store(ABC):
    """Files of one table, or of one job; what hinders access to them is an OSError."""

    uri: str

    @abstractmethod
    def read(self, name: str) -> bytes:
        """A whole file. Raises `FileNotFoundError`: it is not there."""

    @abstractmethod
    def read_part(self, name: str, start: int, size: int) -> bytes:
        """Read bytes of a file, up to *size* or to its end."""

    @abstractmethod
    def opened(self, name: str) -> pa.NativeFile:
        """A file to be read here and there; to be closed. Raises `FileNotFoundError`: it is not there."""

    @abstractmethod
    def create(self, name: str, content: bytes) -> bool:
        """Create a small file; False if that name exists."""

    @abstractmethod
    def exchange(self, name: str, before: bytes | None, content: bytes) -> bool:
        """Replace the content of a small file; False if its content is not *before* (None: no file)."""

    @abstractmethod
    def write(self, name: str, content: bytes) -> None:
        """Write a small file, replacing any file of that name; if this fails, the old content stays."""

    @abstractmethod
    def may_hold(self, name: str) -> bool:
        """True if `create` failed with an error, and the file may exist or come to exist all the same."""

    @abstractmethod
    def new_file(self, name: str) -> NewFile:
        """Begin a large file under a name that nobody else uses."""

    def link(self, path: str, name: str) -> bool:
        """Link a local file that is never changed again into the store, without a copy; False: not possible."""
        del path, name
        return False

    @abstractmethod
    def files(self, folder: str = "", *, after: str = "") -> Iterator[StoredFile]:
        """Files of a folder and of those in it; by name; those after *after* alone where that saves requests."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""

    @abstractmethod
    def clear(self) -> None:
        """Remove all files, and the place itself."""

    def sync(self, name: str) -> None:
        """Make a file that another program has written, if it is there, safe from a loss of power."""
        del name  # what is in an object store is

    def sync_names(self) -> None:  # noqa: B027 (object stores have nothing to sync)
        """Make the names of new files safe from a loss of power."""


@contextmanager
def looking_at(uri: str, *errors: type[Exception], access: str = _ACCESS) -> Iterator[None]:
    """Turn errors of a look at a table into named errors. *access*: for the hint: the setting with the access to it."""
    named: tuple[type[Exception], ...] = (OSError, *errors)
    try:
        yield
    except named as error:
        raise TableError(
            "WRITE_FAILED",
            f"{uri} cannot be read: {library_text(error)}",
            hint=f"Nothing was written. Make it readable ({access}) and start again",
        ) from error
