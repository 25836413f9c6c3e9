"""Where the files of a table are: `store_at(uri, options)` gives a `Store`, in a folder or in an object store.

Names are paths below the table's place, with `/` in them. A file is whole or not there; `create` is put-if-absent: of
several who create one name at the same time one does, and the others learn it.
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from binlog_format.errors import TableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from binlog_streaming.settings import Mode

UNFINISHED = ".unfinished-"
"""Begins names that are not for readers: Spark, DuckDB and Arrow pass over what begins with a dot."""

_UNUSUAL = re.compile(r"[^A-Za-z0-9_$-]")
_ACCESS = "sink.storage has the access to an object store"


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file.

    Attributes:
        name: Below the table's place.
        size: In bytes.
        modified: When it was written, seconds since 1970 UTC.
    """

    name: str
    size: int
    modified: float


class NewFile(ABC):
    """A file that is being written: it is there, whole, when `finish` has been called."""

    @property
    @abstractmethod
    def sink(self) -> pa.NativeFile:
        """Where its bytes go; `tell` counts them."""

    @abstractmethod
    def finish(self) -> int:
        """Let it be there, safe from a loss of power; its size in bytes."""

    @abstractmethod
    def finish_as(self, name: str) -> bool:
        """Let it be there under another name, safe from a loss of power, unless there is one of that name: then False.

        An answer that gets lost may make it False although the file is this one: whoever needs to know looks at it.
        """

    @abstractmethod
    def abandon(self) -> None:
        """Let it never be there."""


class Store(ABC):
    """Files of one table, or of one job; what hinders access to them is an OSError."""

    uri: str

    @abstractmethod
    def read(self, name: str) -> bytes:
        """A whole file.

        Raises:
            FileNotFoundError: It is not there.
        """

    @abstractmethod
    def read_part(self, name: str, start: int, size: int) -> bytes:
        """Some bytes of a file, as many as are asked for or as there are."""

    @abstractmethod
    def opened(self, name: str) -> pa.NativeFile:
        """A file to be read here and there; to be closed.

        Raises:
            FileNotFoundError: It is not there.
        """

    @abstractmethod
    def create(self, name: str, content: bytes) -> bool:
        """Put a small file there, unless there is one of that name: then False."""

    @abstractmethod
    def exchange(self, name: str, before: bytes | None, content: bytes) -> bool:
        """Put a small file in the place of what it holds, unless that is not *before* (None: no file): then False."""

    @abstractmethod
    def write(self, name: str, content: bytes) -> None:
        """Put a small file there, in the place of any file of that name; whole, or what was there stays."""

    @abstractmethod
    def may_hold(self, name: str) -> bool:
        """Whether a file may be there, or come to be there, that `create` failed to create with an error."""

    @abstractmethod
    def new_file(self, name: str) -> NewFile:
        """Begin a large file under a name that nobody else uses."""

    def link(self, path: str, name: str) -> bool:
        """Let a local file that is never changed again be there, too, without a copy; False: it cannot be linked."""
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

    def settle(self) -> None:  # noqa: B027 (object stores have nothing to settle)
        """Let the names of new files be safe from a loss of power."""


def store_at(uri: str, options: Mapping[str, str]) -> Store:
    """The store of the table at *uri*.

    Args:
        uri: A folder, or a URL of an object store: `s3://`, `gs://`, `az://` and what obstore knows beside them.
        options: Access to the object store, under the names that its own tools have for it (`AWS_ENDPOINT_URL` ...).

    Raises:
        OptionError: `INVALID_VALUE`: no such object store, or no such option.
    """
    if "://" in uri:
        from binlog_streaming.lake.bucket_store import bucket_at

        return bucket_at(uri, options)
    from binlog_streaming.lake.folder_store import FolderStore

    return FolderStore(uri)


@contextmanager
def looking_at(uri: str, *errors: type[Exception], access: str = _ACCESS) -> Iterator[None]:
    """What hinders a look at a table is a named error.

    Args:
        uri: The table.
        errors: Those of its libraries.
        access: For the hint: the setting with the access to it.

    Raises:
        TableError: `WRITE_FAILED`.
    """
    named: tuple[type[Exception], ...] = (OSError, *errors)
    try:
        yield
    except named as error:
        raise TableError(
            "WRITE_FAILED",
            f"{uri} cannot be looked at: {str(error).strip().partition(chr(10))[0]}",
            hint=f"Nothing was written. Mend it ({access}) and start again",
        ) from error


def target_uri(directory: str, template: str, *, database: str, table: str, mode: Mode) -> str:
    """Place of a table.

    ASCII letters, digits, `_`, `-` and `$` of names stay; all else is `@` and four hexadecimal digits, as in MariaDB.
    """
    names = {"database": database, "table": table, "mode": str(mode)}
    filled = template.format(**{key: path_part(name) for key, name in names.items()})
    return f"{directory.rstrip('/')}/{filled.strip('/')}"


def path_part(name: str) -> str:
    """A name as part of a path."""
    # Not percent-encoding: deltalake takes a path for a URL here and for a path there, and decodes it in one of them.
    return _UNUSUAL.sub(lambda match: "".join(f"@{unit:04x}" for unit in _utf16(match[0])), name)


def _utf16(text: str) -> memoryview:
    return memoryview(text.encode("utf-16", "surrogatepass")).cast("H")[1:]
