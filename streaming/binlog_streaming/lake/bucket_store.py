"""A place in an object store as the place of a table: `bucket_at(uri, options)` gives a `BucketStore`."""

from __future__ import annotations

import io
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import obstore
import pyarrow as pa
from obstore.exceptions import AlreadyExistsError, BaseError, NotFoundError, PreconditionError
from obstore.store import from_url

from binlog_format.errors import OptionError
from binlog_streaming.lake.store import NewFile, Store, StoredFile

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from obstore.store import ObjectStore as Bucket

PART_BYTES = 8 << 20
"""Bytes sent to an object store at once while a large file is written."""

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
"""Options that other writers of Delta need where an object store has no put-if-absent; not used here."""

_S3_SCHEMES = ("s3://", "s3a://")
_S3_DEFAULTS = {"aws_copy_if_not_exists": "multipart"}
"""S3's way to copy to a name that is free: by an upload in parts whose end has the condition."""


def bucket_at(uri: str, options: Mapping[str, str]) -> BucketStore:
    """The store at *uri*; see `store_at`."""
    known = {name.lower(): value for name, value in options.items() if name.lower() not in _LOCKING}
    client = {name: value for name, value in known.items() if name.removeprefix("aws_") in _CLIENT_OPTIONS}
    defaults = _S3_DEFAULTS if uri.startswith(_S3_SCHEMES) else {}
    settings: Any = defaults | {name: value for name, value in known.items() if name not in client}
    connection: Any = {name.removeprefix("aws_"): value for name, value in client.items()}
    try:
        return BucketStore(uri, from_url(uri, config=settings, client_options=connection or None))
    except (BaseError, ValueError, TypeError) as error:
        raise OptionError(
            "INVALID_VALUE",
            f"sink.storage: {uri} cannot be reached with these options: {str(error).strip().splitlines()[0]}",
            hint="Options are named as obstore and deltalake name them, such as AWS_ACCESS_KEY_ID",
        ) from error


@contextmanager
def _as_os_errors() -> Iterator[None]:
    # Whoever has files in a store need not know its library.
    try:
        yield
    except NotFoundError as error:
        raise FileNotFoundError(str(error)) from error
    except BaseError as error:
        raise OSError(str(error).strip().partition("\n")[0]) from error


class BucketStore(Store):
    """A place in an object store."""

    def __init__(self, uri: str, bucket: Bucket) -> None:
        self.uri = uri
        self._bucket = bucket

    @_as_os_errors()
    def read(self, name: str) -> bytes:
        """See `Store`."""
        return bytes(obstore.get(self._bucket, name).bytes())

    @_as_os_errors()
    def read_part(self, name: str, start: int, size: int) -> bytes:
        """See `Store`."""
        return bytes(obstore.get_range(self._bucket, name, start=start, length=size))

    @_as_os_errors()
    def opened(self, name: str) -> pa.NativeFile:
        """See `Store`."""
        size = obstore.head(self._bucket, name)["size"]
        return pa.PythonFile(io.BufferedReader(_Ranges(self, name, size), 1 << 16), mode="r")

    @_as_os_errors()
    def create(self, name: str, content: bytes) -> bool:
        """See `Store`."""
        try:
            # In one request: a store compares names when an upload in parts ends, or does not.
            obstore.put(self._bucket, name, content, mode="create", use_multipart=False)
        except AlreadyExistsError:
            return False
        return True

    @_as_os_errors()
    def exchange(self, name: str, before: bytes | None, content: bytes) -> bool:
        """See `Store`."""
        if before is None:
            is_ours = self.create(name, content)
        else:
            try:
                found = obstore.get(self._bucket, name)
            except FileNotFoundError:
                return False
            version: Any = {key: value for key in ("e_tag", "version") if (value := found.meta[key])}
            if bytes(found.bytes()) != before:
                return False
            try:
                obstore.put(self._bucket, name, content, mode=version, use_multipart=False)
                is_ours = True
            except PreconditionError:
                is_ours = False
        # Of an upload whose answer was lost, the next try finds what it put there.
        return is_ours or self.read(name) == content

    def may_hold(self, name: str) -> bool:
        """See `Store`."""
        del name
        return True  # a request whose answer was lost may still be on its way

    def new_file(self, name: str) -> NewFile:
        """See `Store`."""
        return _Upload(self, self._bucket, name)

    def files(self, folder: str = "", *, after: str = "") -> Iterator[StoredFile]:
        """See `Store`."""
        prefix = f"{folder}/" if folder else None
        with _as_os_errors():
            for page in obstore.list(self._bucket, prefix, offset=after or None):
                for meta in page:
                    yield StoredFile(meta["path"], meta["size"], meta["last_modified"].timestamp())

    @_as_os_errors()
    def remove(self, name: str) -> None:
        """See `Store`."""
        with suppress(FileNotFoundError, NotFoundError):
            obstore.delete(self._bucket, name)

    @_as_os_errors()
    def write(self, name: str, content: bytes) -> None:
        """See `Store`."""
        obstore.put(self._bucket, name, content, use_multipart=False)

    def clear(self) -> None:
        """See `Store`."""
        for file in list(self.files()):
            self.remove(file.name)


class _Upload(NewFile):
    # Up to PART_BYTES it is one request; what is larger goes in parts.

    def __init__(self, store: BucketStore, bucket: Bucket, name: str) -> None:
        self._store = store
        self._bucket = bucket
        self._name = name
        self._small = bytearray()
        self._parts: obstore.WritableFile | None = None
        self._size = 0
        self.sink = pa.PythonFile(self, mode="w")

    closed = False

    @_as_os_errors()
    def write(self, data: bytes) -> int:
        self._size += len(data)
        if self._parts is None and self._size <= PART_BYTES:
            self._small += data
            return len(data)
        if self._parts is None:
            self._parts = obstore.open_writer(self._bucket, self._name, buffer_size=PART_BYTES)
            self._parts.write(bytes(self._small))
            self._small.clear()
        self._parts.write(bytes(data))
        return len(data)

    def tell(self) -> int:
        return self._size

    def flush(self) -> None:
        """Parts go when they have their size."""

    def close(self) -> None:
        """`finish` does it."""

    @_as_os_errors()
    def finish(self) -> int:
        if self._parts is None:
            obstore.put(self._bucket, self._name, bytes(self._small), use_multipart=False)
        else:
            self._parts.close()
            self._parts = None
        return self._size

    @_as_os_errors()
    def finish_as(self, name: str) -> bool:
        if self._parts is None:
            return self._store.create(name, bytes(self._small))
        self.finish()
        try:
            obstore.copy(self._bucket, self._name, name, overwrite=False)
        except AlreadyExistsError:
            return False
        finally:
            self.abandon()
        return True

    def abandon(self) -> None:
        # An upload that is not ended is no file.
        self._parts = None
        with suppress(OSError):
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
