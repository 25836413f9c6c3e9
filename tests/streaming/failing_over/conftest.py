"""Servers that the tests of a switch share."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.servers import ServerKind
from tests.streaming.failing_over.pairs import INSERT, SCHEMA, Pair, follow, server_of
from tests.streaming.snapshot.live import run_sql

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def mariadb_pair(tmp_path: Path) -> Iterator[Pair]:
    kind = ServerKind.MARIADB
    with server_of(kind, tmp_path / "one", 1) as primary, server_of(kind, tmp_path / "two", 2) as replica:
        follow(replica, primary)
        run_sql(primary, [*SCHEMA, INSERT.format(1)])
        found = Pair(primary, replica)
        found.catch_up()
        yield found
