"""Where the files of a table are: `store_at(uri, options)` gives a `Store`, in a folder or in an object store.

Names are paths below the table's place, with `/` in them. A file is whole or not there; `create` is put-if-absent: of
several who create one name at the same time one does, and the others learn it.
"""

from __future__ import annotations

import io
import os
import uuid
from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import obstore
import pyarrow as pa
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError
from obstore.store import from_url

from binlog_format.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from obstore.store import ObjectStore as Bucket

PART_BYTES = 8 << 20
"""What goes to an object store at once while a large file is written."""

_CLIENT_OPTIONS = frozenset(
    {
        "allow_http",
        "allow_invalid_certificates",
        "connect_timeout",
        "pool_idle_timeout",
        "proxy_url",
        "timeout",
        "user_agent",
    }
)
"""Options about connections; all others are the object store's own."""

_LOCKING = ("aws_s3_locking_provider", "aws_s3_allow_unsafe_rename", "allow_unsafe_rename")
"""What other writers of Delta need where an object store has no put-if-absent; nothing here asks for it."""


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
        """Where its bytes go; `tell` says how many there are."""

    @abstractmethod
    def finish(self) -> int:
        """Let it be there, safe from a loss of power; its size in bytes."""

    @abstractmethod
    def abandon(self) -> None:
        """Let it never be there."""


class Store(ABC):
    """The place of a table."""

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
    def may_hold(self, name: str) -> bool:
        """Whether a file may be there, or come to be there, that `create` failed to create with an error."""

    @abstractmethod
    def new_file(self, name: str) -> NewFile:
        """Begin a large file under a name that nobody else uses."""

    @abstractmethod
    def files(self, folder: str = "", *, after: str = "") -> Iterator[StoredFile]:
        """Files of a folder and of those in it; by name, from behind *after* on where that spares a look at others."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file, if it is there."""

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
    if "://" not in uri:
        return FolderStore(uri)
    known = {name.lower(): value for name, value in options.items() if name.lower() not in _LOCKING}
    client = {name: value for name, value in known.items() if name.removeprefix("aws_") in _CLIENT_OPTIONS}
    settings: Any = {name: value for name, value in known.items() if name not in client}
    connection: Any = {name.removeprefix("aws_"): value for name, value in client.items()}
    try:
        return BucketStore(uri, from_url(uri, config=settings, client_options=connection or None))
    except (BaseError, ValueError, TypeError) as error:
        raise OptionError(
            "INVALID_VALUE",
            f"sink.storage: {uri} cannot be reached with these options: {str(error).strip().splitlines()[0]}",
            hint="Options are named as obstore and deltalake name them, such as AWS_ACCESS_KEY_ID",
        ) from error


class FolderStore(Store):
    """A folder."""

    def __init__(self, uri: str) -> None:
        self.uri = uri
        self._folder = Path(uri)
        self._written_to: set[Path] = set()

    def read(self, name: str) -> bytes:
        """See `Store`."""
        return (self._folder / name).read_bytes()

    def read_part(self, name: str, start: int, size: int) -> bytes:
        """See `Store`."""
        with (self._folder / name).open("rb") as file:
            file.seek(start)
            return file.read(size)

    def opened(self, name: str) -> pa.NativeFile:
        """See `Store`."""
        return pa.OSFile(str(self._folder / name), "rb")

    def create(self, name: str, content: bytes) -> bool:
        """See `Store`."""
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        # deltalake names its own ones in the same way; readers of a log pass over them.
        staged = path.parent / f"_commit_{uuid.uuid4()}.json.tmp"
        try:
            with staged.open("xb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            # A link, unlike a rename, never replaces a file.
            os.link(staged, path)
        except FileExistsError:
            return False
        finally:
            staged.unlink(missing_ok=True)
        sync_folder(path.parent)
        return True

    def may_hold(self, name: str) -> bool:
        """See `Store`."""
        return (self._folder / name).exists()

    def new_file(self, name: str) -> NewFile:
        """See `Store`."""
        path = self._folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        self._written_to.add(path.parent)
        return _FolderFile(path)

    def files(self, folder: str = "", *, after: str = "") -> Iterator[StoredFile]:
        """See `Store`."""
        try:
            entries = sorted(os.scandir(self._folder / folder), key=lambda entry: entry.name)
        except (FileNotFoundError, NotADirectoryError):
            return
        for entry in entries:
            name = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_dir():
                yield from self.files(name)
            elif name > after:
                with suppress(FileNotFoundError):  # it has just been removed
                    stat = entry.stat()
                    yield StoredFile(name, stat.st_size, stat.st_mtime)

    def remove(self, name: str) -> None:
        """See `Store`."""
        (self._folder / name).unlink(missing_ok=True)

    def settle(self) -> None:
        """See `Store`."""
        for folder in self._written_to:
            sync_folder(folder)
        self._written_to.clear()


class _FolderFile(NewFile):
    def __init__(self, path: Path) -> None:
        self._path = path
        self._sink = pa.OSFile(str(path), "wb")

    @property
    def sink(self) -> pa.NativeFile:
        return self._sink

    def finish(self) -> int:
        self._sink.close()
        with self._path.open("rb") as file:
            os.fsync(file.fileno())
            return os.fstat(file.fileno()).st_size

    def abandon(self) -> None:
        with suppress(OSError, pa.ArrowException):
            self._sink.close()
        self._path.unlink(missing_ok=True)


class BucketStore(Store):
    """A place in an object store."""

    def __init__(self, uri: str, bucket: Bucket) -> None:
        self.uri = uri
        self._bucket = bucket

    def read(self, name: str) -> bytes:
        """See `Store`."""
        return bytes(self._found(name).bytes())

    def read_part(self, name: str, start: int, size: int) -> bytes:
        """See `Store`."""
        return bytes(obstore.get_range(self._bucket, name, start=start, length=size))

    def opened(self, name: str) -> pa.NativeFile:
        """See `Store`."""
        try:
            size = obstore.head(self._bucket, name)["size"]
        except (FileNotFoundError, NotFoundError) as error:
            raise FileNotFoundError(f"{self.uri}/{name}") from error
        return pa.PythonFile(io.BufferedReader(_Ranges(self, name, size), 1 << 16), mode="r")

    def create(self, name: str, content: bytes) -> bool:
        """See `Store`."""
        try:
            # In one request: a store compares names when an upload in parts ends, or does not.
            obstore.put(self._bucket, name, content, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return False
        return True

    def may_hold(self, name: str) -> bool:
        """See `Store`."""
        del name
        return True  # a request whose answer was lost may still be on its way

    def new_file(self, name: str) -> NewFile:
        """See `Store`."""
        return _Upload(self, obstore.open_writer(self._bucket, name, buffer_size=PART_BYTES), name)

    def files(self, folder: str = "", *, after: str = "") -> Iterator[StoredFile]:
        """See `Store`."""
        prefix = f"{folder}/" if folder else None
        for page in obstore.list(self._bucket, prefix, offset=after or None):
            for meta in page:
                yield StoredFile(meta["path"], meta["size"], meta["last_modified"].timestamp())

    def remove(self, name: str) -> None:
        """See `Store`."""
        with suppress(FileNotFoundError, NotFoundError):
            obstore.delete(self._bucket, name)

    def _found(self, name: str) -> obstore.GetResult:
        try:
            return obstore.get(self._bucket, name)
        except (FileNotFoundError, NotFoundError) as error:
            raise FileNotFoundError(f"{self.uri}/{name}") from error


class _Upload(NewFile):
    def __init__(self, store: BucketStore, writer: obstore.WritableFile, name: str) -> None:
        self._store = store
        self._name = name
        self._writer: obstore.WritableFile | None = writer
        self._size = 0
        self._sink = pa.PythonFile(self, mode="w")

    closed = False

    @property
    def sink(self) -> pa.NativeFile:
        return self._sink

    def write(self, data: bytes) -> int:
        assert self._writer is not None
        self._writer.write(bytes(data))
        self._size += len(data)
        return len(data)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        """Parts go when they have their size."""

    def close(self) -> None:
        """`finish` does it."""

    def finish(self) -> int:
        assert self._writer is not None
        self._writer.close()
        self._writer = None
        return self._size

    def abandon(self) -> None:
        # An upload that is not ended is no file.
        self._writer = None
        with suppress(BaseError):
            self._store.remove(self._name)


class _Ranges(io.RawIOBase):
    # A file of an object store, read by ranges.

    def __init__(self, store: BucketStore, name: str, size: int) -> None:
        self._store = store
        self._name = name
        self._size = size
        self._place = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._place

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._place, io.SEEK_END: self._size}[whence]
        self._place = start + offset
        return self._place

    def readinto(self, buffer: Any) -> int:
        size = min(len(buffer), self._size - self._place)
        if size <= 0:
            return 0
        buffer[:size] = self._store.read_part(self._name, self._place, size)
        self._place += size
        return size


def sync_folder(folder: Path) -> None:
    """Let the names of new files be on the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
