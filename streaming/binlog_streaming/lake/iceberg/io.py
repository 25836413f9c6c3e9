"""Files of Iceberg tables that are on the disk before anything names them: `SyncedFileIO`, for pyiceberg to write with.

A commit is a row in the catalog, and SQLite sees to it that this is on the disk when it returns. What the row leads to
(the table's metadata, manifests, data files) has to be there before it: else a power loss leaves a table that names
files which are empty.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
from pyiceberg.io.pyarrow import PyArrowFile, PyArrowFileIO

from binlog_streaming.lake.storage.folder_store import sync_folder

if TYPE_CHECKING:
    from pyiceberg.io import OutputStream


class SyncedFileIO(PyArrowFileIO):
    """Files in folders of this machine, and in object stores, which keep what they have taken."""

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
