"""What the tests of bad days share: one server, once per run."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from binlog_streaming.demo.mariadb.server import MariaDbServer


@pytest.fixture(scope="session")
def shared_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDbServer]:
    """A MariaDB server for all scenarios, one after the other; skips where none is installed, but fails in CI."""
    from binlog_streaming.demo.mariadb.server import MariaDbError, MariaDbServer

    options = ("--innodb-buffer-pool-size=32M", "--innodb-flush-log-at-trx-commit=1", "--innodb-lock-wait-timeout=2")
    try:
        server = MariaDbServer(tmp_path_factory.mktemp("bad-days") / "server", options=options)
    except MariaDbError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    with server:
        yield server
