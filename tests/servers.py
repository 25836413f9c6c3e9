"""MariaDB servers of tests: `mariadb_server_in(folder)`; nothing else in the tests makes one."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import MariaDbServer


def mariadb_server_in(folder: Path, *, server_id: int = 1, options: Sequence[str] = ()) -> MariaDbServer:
    """A server that is not started yet; a test is skipped where none is installed, but fails in CI."""
    from binlog_lab.demo.mariadb.server import MariaDbError, MariaDbServer

    try:
        return MariaDbServer(folder, server_id=server_id, options=options)
    except MariaDbError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
