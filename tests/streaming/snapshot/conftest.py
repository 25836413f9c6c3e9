"""A server that the tests of a module share."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.streaming.snapshot.live import BLACKHOLE, run_sql

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_streaming.demo.mariadb.server import MariaDbServer


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDbServer]:
    """A MariaDB server with BLACKHOLE and an empty database `shop`; skips where none is installed, but fails in CI."""
    from binlog_streaming.demo.mariadb.server import MariaDbError, MariaDbServer

    try:
        server = MariaDbServer(tmp_path_factory.mktemp("server"))
    except MariaDbError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    with server:
        run_sql(server, [BLACKHOLE, "CREATE DATABASE shop"])
        yield server
