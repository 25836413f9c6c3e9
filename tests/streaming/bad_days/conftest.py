"""What the tests of bad days share: one server, once per run."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.servers import mariadb_server_in

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_lab.demo.mariadb.server import MariaDbServer


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDbServer]:
    """A MariaDB server for all scenarios, one after the other; skips where none is installed, but fails in CI."""
    options = ("--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=1", "--innodb-lock-wait-timeout=2")
    with mariadb_server_in(tmp_path_factory.mktemp("bad-days") / "server", options=options) as server:
        yield server
