"""The catalog of a folder of Iceberg tables, in SQLite: `open_catalog(directory)`, `identifier(directory, uri)`."""

from __future__ import annotations

import fcntl
import sqlite3
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError
from sqlalchemy.exc import SQLAlchemyError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.io import FileIO
    from pyiceberg.table import CommitTableResponse, Table
    from pyiceberg.table.metadata import TableMetadata
    from pyiceberg.table.update import TableRequirement, TableUpdate

CATALOG_NAME = "binlog_stream"
CATALOG_FILE = "iceberg-catalog.db"
_LOCK_FILE = ".iceberg-catalog.lock"
_SQL_TABLES = ("iceberg_tables", "iceberg_namespace_properties")
WAIT_S = 60
"""How long a commit waits for others that commit into the same catalog; they take milliseconds."""


class _Catalog(SqlCatalog):
    # The library leaves the file with the table's new metadata behind when a commit comes to nothing.
    _unnamed: tuple[FileIO, str] | None = None

    def commit_table(
        self, table: Table, requirements: tuple[TableRequirement, ...], updates: tuple[TableUpdate, ...]
    ) -> CommitTableResponse:
        self._unnamed = None
        try:
            return super().commit_table(table, requirements, updates)
        except Exception:
            if self._unnamed is not None:
                io, path = self._unnamed
                with suppress(OSError, SQLAlchemyError):
                    if self.load_table(table.name()).metadata_location != path:
                        io.delete(path)
            raise

    def _write_metadata(self, metadata: TableMetadata, io: FileIO, metadata_path: str) -> None:  # type: ignore[override]
        self._unnamed = io, metadata_path
        super()._write_metadata(metadata, io, metadata_path)


def open_catalog(directory: str) -> SqlCatalog:
    """The catalog of *directory*; it is made when it is not there. To be closed."""
    Path(directory).mkdir(parents=True, exist_ok=True)
    file = Path(directory, CATALOG_FILE).absolute()
    properties = {
        "uri": f"sqlite:///{file}?timeout={WAIT_S}",
        "warehouse": directory,
        "py-io-impl": "binlog_streaming.lake.iceberg.io.SyncedFileIO",
    }
    if _is_whole(file):
        return _Catalog(CATALOG_NAME, **properties)
    with _locked(directory):  # two that make the same SQL tables would fail
        return _Catalog(CATALOG_NAME, **properties)


def _is_whole(file: Path) -> bool:
    # The library makes its two SQL tables one after the other.
    if not file.exists():
        return False
    with closing(sqlite3.connect(f"{file.as_uri()}?mode=ro", uri=True, timeout=WAIT_S)) as database:
        (count,) = database.execute("SELECT count(*) FROM sqlite_master WHERE name IN (?, ?)", _SQL_TABLES).fetchone()
    return bool(count == len(_SQL_TABLES))


def identifier(directory: str, uri: str) -> tuple[str, ...]:
    """Name in the catalog of the table at *uri*: its path from *directory*."""
    parts = uri.removeprefix(directory.rstrip("/")).strip("/").split("/")
    # A dot separates the parts of a namespace.
    parts = [part.replace(".", "@002e") for part in parts]
    return tuple(parts) if len(parts) > 1 else ("default", *parts)


def ensure_namespace(catalog: SqlCatalog, directory: str, namespace: tuple[str, ...]) -> None:
    """Make the namespace when it is not there."""
    if catalog.namespace_exists(namespace):
        return
    with _locked(directory):
        try:
            catalog.create_namespace(namespace)
        except NamespaceAlreadyExistsError:
            return  # made while we waited


@contextmanager
def _locked(directory: str) -> Iterator[None]:
    with Path(directory, _LOCK_FILE).open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)  # goes with the file, also when the process dies
        yield
