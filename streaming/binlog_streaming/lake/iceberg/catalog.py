"""The catalog of Iceberg tables, `open_catalog(sink)`: named by settings, or in the sink's folder, in SQLite."""

from __future__ import annotations

import fcntl
import os
import sqlite3
from contextlib import closing, contextmanager
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from pyiceberg.catalog import AVAILABLE_CATALOGS, CatalogType, load_catalog
from pyiceberg.catalog.rest import RestCatalog
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NotInstalledError, OAuthError, RESTError
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from binlog_format.errors import OptionError
from binlog_streaming.lake.folder_store import sync_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.catalog import Catalog
    from pyiceberg.io import OutputStream
    from pyiceberg.typedef import Properties

    from binlog_streaming.settings import Sink

CATALOG_NAME = "binlog_stream"
CATALOG_FILE = "iceberg-catalog.db"
_LOCK_FILE = ".iceberg-catalog.lock"
_SQL_TABLES = ("iceberg_tables", "iceberg_namespace_properties")
_FILES = "py-io-impl"
_SYNCED_FILES = "binlog_streaming.lake.iceberg.catalog.SyncedFileIO"
_CATALOGS_MAX = 8
WAIT_S = 60
"""Seconds that a commit waits for other commits to the same catalog; they take milliseconds."""
ANSWER_S = 120
"""Seconds that a catalog may be silent; a commit of many tables takes some."""


def catalog_properties(sink: Sink) -> dict[str, str]:
    """Properties for the library's `load_catalog`, which opens the catalog."""
    if sink.catalog:
        return {"name": CATALOG_NAME, **sink.catalog}
    file = Path(sink.directory, CATALOG_FILE).absolute()
    return {
        "name": CATALOG_NAME,
        "type": "sql",
        "uri": f"sqlite:///{file}?timeout={WAIT_S}",
        "warehouse": sink.directory,
    }


def open_catalog(sink: Sink) -> Catalog:
    """The catalog of a sink; that of a folder is made when it is not there. To be given to `close_catalog`."""
    if sink.catalog:
        return _named_catalog(tuple(sorted(catalog_properties(sink).items())))
    directory = sink.directory
    _require_folder(directory)
    Path(directory).mkdir(parents=True, exist_ok=True)
    properties = {**catalog_properties(sink), _FILES: _SYNCED_FILES}
    if _is_whole(Path(directory, CATALOG_FILE).absolute()):
        return _FolderCatalog(**properties)
    with _locked(directory):  # two that make the same SQL tables would fail
        return _FolderCatalog(**properties)


def close_catalog(catalog: Catalog) -> None:
    """Close it; a catalog that settings name stays open for the next table, with its connections and its token."""
    if isinstance(catalog, _FolderCatalog):
        catalog.close()


class _FolderCatalog(SqlCatalog):
    """The catalog of a folder."""


class _AnsweringCatalog(RestCatalog):
    """A REST catalog that answers, or fails: the library waits for an answer as long as the connection is there."""

    def _config_headers(self, session: Any) -> None:
        # The library calls it for a new session, before its first request.
        super()._config_headers(session)
        session.request = partial(session.request, timeout=ANSWER_S)


def _answering_catalog(name: str, properties: Properties) -> Catalog:
    return _AnsweringCatalog(name, **properties)


AVAILABLE_CATALOGS[CatalogType.REST] = _answering_catalog


@lru_cache(_CATALOGS_MAX)
def _named_catalog(settings: tuple[tuple[str, str], ...]) -> Catalog:
    try:
        return load_catalog(**{_FILES: _SYNCED_FILES, **dict(settings)})
    except (ValueError, NotInstalledError, OAuthError) as error:  # some have replies in them, with tokens
        raise OptionError(
            "INVALID_VALUE",
            f"sink.catalog: no catalog can be opened with it: {str(error).strip().partition(chr(10))[0]}",
            hint="Its keys are those of pyiceberg's catalogs: type, uri, warehouse, credential, ...",
        ) from None


@contextmanager
def reading_replies() -> Iterator[None]:
    """A catalog's answer that the library does not understand is an error of the catalog's, without the answer.

    Raises:
        RESTError: A reply is not what the protocol asks for; it may have held a token.
    """
    try:
        yield
    except ValueError as error:
        reason = str(error).strip().partition("\n")[0]
        raise RESTError(f"a reply of the catalog is not understood: {reason}") from None


def _is_whole(file: Path) -> bool:
    # The library makes its two SQL tables one after the other.
    if not file.exists():
        return False
    # Not "ro": a commit that a kill cut off is undone by whoever reads next.
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=rw", uri=True, timeout=WAIT_S)) as database:
        (count,) = database.execute("SELECT count(*) FROM sqlite_master WHERE name IN (?, ?)", _SQL_TABLES).fetchone()
    return bool(count == len(_SQL_TABLES))


def identifier(directory: str, uri: str) -> tuple[str, ...]:
    """Name in the catalog of the table at *uri*: its path from *directory*."""
    parts = uri.removeprefix(directory.rstrip("/")).strip("/").split("/")
    # A dot separates the parts of a namespace.
    parts = [part.replace(".", "@002e") for part in parts]
    return tuple(parts) if len(parts) > 1 else ("default", *parts)


def ensure_namespace(catalog: Catalog, directory: str, namespace: tuple[str, ...]) -> None:
    """Make the namespace when it is not there, and those that it is in."""
    if catalog.namespace_exists(namespace):
        return
    if isinstance(catalog, _FolderCatalog):
        with _locked(directory):  # two that make the same one at the same time would fail
            catalog.create_namespace_if_not_exists(namespace)
        return
    for length in range(1, len(namespace) + 1):
        try:
            catalog.create_namespace_if_not_exists(namespace[:length])
        except Exception:
            # Of two that make it at the same time one may get any error.
            if not catalog.namespace_exists(namespace[:length]):
                raise


@contextmanager
def _locked(directory: str) -> Iterator[None]:
    with Path(directory, _LOCK_FILE).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # goes with the file, also when the process dies
        yield


def _require_folder(directory: str) -> None:
    """See that *directory* is no URL."""
    if "://" in directory:
        raise OptionError(
            "INVALID_VALUE",
            f"option sink.directory: iceberg tables are kept in a folder, got {directory}",
            hint="Name a folder; in an object store Delta tables can be kept, and Iceberg tables with [sink.catalog]",
        )


class SyncedFileIO(PyArrowFileIO):
    """Files that are on the disk before anything names them, for pyiceberg to write with.

    A commit is a row in the catalog, and SQLite sees to it that this is on the disk when it returns. What the row leads
    to (the table's metadata, manifests, data files) has to be there before it: else a power loss leaves a table that
    names files which are empty. Object stores keep what they have taken.
    """

    def new_output(self, location: str) -> PyArrowFile:
        """A file to be written; when it is closed, it is on the disk."""
        scheme, netloc, path = self.parse_location(location, self.properties)
        if scheme != "file":
            return super().new_output(location)
        return _SyncedFile(location, path, self.fs_by_scheme(scheme, netloc))


class _SyncedFile(PyArrowFile):
    def create(self, overwrite: bool = False) -> OutputStream:
        if not overwrite and self.exists():
            raise FileExistsError(f"Cannot create file, already exists: {self.location}")
        path = Path(self._path)
        made = [folder for folder in path.parents if not folder.exists()]
        path.parent.mkdir(parents=True, exist_ok=True)
        return _SyncedStream(path, [path.parent, *(folder.parent for folder in made)])


class _SyncedStream(pa.OSFile):  # type: ignore[misc] # pyarrow has no types
    # *folders*: where a name is new.
    def __new__(cls, path: Path, _folders: list[Path]) -> _SyncedStream:
        stream: _SyncedStream = super().__new__(cls, str(path), "wb")
        return stream

    def __init__(self, path: Path, folders: list[Path]) -> None:
        self._path = path
        self._folders = folders

    def close(self) -> None:
        if self.closed:
            return
        super().close()
        with self._path.open("rb") as file:
            os.fsync(file.fileno())
        for folder in self._folders:
            sync_folder(folder)
