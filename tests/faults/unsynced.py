"""A disk to which nothing is forced: `do_not_sync`. Tests end processes, never the machine, and lose nothing by it."""

from __future__ import annotations

import functools
import os
from sqlite3 import dbapi2
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike


def do_not_sync() -> None:
    """For all of this process: `os.fsync` only checks its descriptor, and SQLite waits for no disk.

    Tests that write tables would spend a third of their time with waiting for the disk.
    """
    os.fsync = _checked
    unsynced: Any = functools.partial(_connect, dbapi2.connect)
    dbapi2.connect = unsynced


def _checked(fd: FileDescriptorLike) -> None:
    os.fstat(fd if isinstance(fd, int) else fd.fileno())


def _connect(connect: Any, *arguments: Any, **named: Any) -> Any:
    connection = connect(*arguments, **named)
    connection.execute("PRAGMA synchronous = OFF")
    return connection
