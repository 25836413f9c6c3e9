"""The catalog of a folder of Iceberg tables, in SQLite: `open_catalog(directory)`, `identifier(directory, uri)`."""

from __future__ import annotations

import fcntl
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.exceptions import NamespaceAlreadyExistsError

if TYPE_CHECKING:
    from collections.abc import Iterator

CATALOG_NAME = "binlog_stream"
CATALOG_FILE = "iceberg-catalog.db"
_LOCK_FILE = ".iceberg-catalog.lock"
_WAIT_S = 60
"""How long a commit waits for others that commit into the same catalog; they take milliseconds."""


def open_catalog(directory: str) -> SqlCatalog:
    """The catalog of *directory*; it is made when it is not there. To be closed."""
    Path(directory).mkdir(parents=True, exist_ok=True)
    file = Path(directory, CATALOG_FILE).absolute()
    properties = {"uri": f"sqlite:///{file}?timeout={_WAIT_S}", "warehouse": directory}
    if file.exists() and file.stat().st_size:
        return SqlCatalog(CATALOG_NAME, **properties)
    with _locked(directory):  # two that make the same SQL tables would fail
        return SqlCatalog(CATALOG_NAME, **properties)


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
