"""A server that the tests of a module share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.servers import ServerKind, mariadb_server_in, server_in
from tests.streaming.snapshot.live import BLACKHOLE, run_sql

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_lab.demo.mariadb.server import DatabaseServer, MariaDbServer


@pytest.fixture(scope="module")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDbServer]:
    """A MariaDB server with BLACKHOLE and an empty database `shop`; skips where none is installed, but fails in CI."""
    with mariadb_server_in(tmp_path_factory.mktemp("server")) as server:
        run_sql(server, [BLACKHOLE, "CREATE DATABASE shop"])
        yield server


@pytest.fixture(
    scope="module",
    params=[
        ServerKind.MARIADB,
        pytest.param(ServerKind.NEW_MARIADB, marks=pytest.mark.thorough),
        pytest.param(ServerKind.MYSQL, marks=pytest.mark.thorough),
    ],
)
def any_server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[DatabaseServer]:
    """A server of each kind and an empty database `shop`; a MariaDB that was fetched lacks the plugin for BLACKHOLE."""
    with server_in(request.param, tmp_path_factory.mktemp("server")) as server:
        if server.installed.root is None:
            run_sql(server, [BLACKHOLE])
        run_sql(server, ["CREATE DATABASE shop"])
        yield server
