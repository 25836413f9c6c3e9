"""Small files that jobs keep their state in, in a folder or an object store: `StateFolder(directory, storage)`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_format.errors import storage_error
from binlog_streaming.lake.storage.table_places import store_at
from binlog_streaming.settings.publish_model import PublishJob

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from binlog_streaming.settings.job_file import AnyJob


class StateFolder:
    """A directory of such files; it need not be there.

    Args:
        directory: Folder or URL.
        storage: Access to an object store, as for tables.

    Attributes:
        directory: As it was given.

    Raises:
        OptionError: `INVALID_VALUE`: there is no such object store.
    """

    def __init__(self, directory: str, storage: Mapping[str, str]) -> None:
        self.directory = directory
        self._store = store_at(directory.rstrip("/"), storage)

    def read(self, name: str) -> bytes | None:
        """Content of a file; None: it is not there.

        Raises:
            StorageError, AccessError: It cannot be read.
        """
        try:
            return self._store.read(name)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise storage_error(f"{self.directory}/{name}", "read", error) from error

    def write(self, name: str, content: bytes) -> None:
        """Make a file, or put *content* in the place of what it holds; the directory is made when it is not there.

        Raises:
            StorageError, AccessError: It cannot be written; what was there before is there still.
        """
        try:
            self._store.write(name, content)
        except OSError as error:
            raise storage_error(f"{self.directory}/{name}", "write", error) from error

    def create(self, name: str, content: bytes) -> bool:
        """Make a file; False: there is one of this name, which stays as it is.

        Raises:
            StorageError, AccessError: It cannot be written.
        """
        try:
            return self._store.create(name, content)
        except OSError as error:
            raise storage_error(f"{self.directory}/{name}", "write", error) from error

    def names(self, folder: str) -> Iterator[str]:
        """Files in a folder of it, those in folders there included; nothing where that is not there.

        Raises:
            StorageError, AccessError: It cannot be read.
        """
        try:
            for file in self._store.files(folder):
                yield file.name.removeprefix(f"{folder}/")
        except OSError as error:
            raise storage_error(f"{self.directory}/{folder}", "read", error) from error

    def forget(self, name: str) -> None:
        """Remove a file, if it is there."""
        self._store.remove(name)

    def remove(self) -> None:
        """Remove the directory and all that is in it, if it is there."""
        self._store.clear()


def state_of(job: AnyJob) -> StateFolder:
    """Folder of a job's state: its checkpoint, to which Spark and this program write."""
    return StateFolder(job.checkpoint, storage_of(job))


def storage_of(job: AnyJob) -> Mapping[str, str]:
    """Access to the object stores of a job; one that publishes has none."""
    return {} if isinstance(job, PublishJob) else job.sink.storage
