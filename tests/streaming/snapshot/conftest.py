"""A server that the tests of a module share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.servers import mariadb_server_in
from tests.streaming.snapshot.live import BLACKHOLE, run_sql

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_lab.demo.mariadb.server import MariaDbServer


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDbServer]:
    """A MariaDB server with BLACKHOLE and an empty database `shop`; skips where none is installed, but fails in CI."""
    with mariadb_server_in(tmp_path_factory.mktemp("server")) as server:
        run_sql(server, [BLACKHOLE, "CREATE DATABASE shop"])
        yield server
