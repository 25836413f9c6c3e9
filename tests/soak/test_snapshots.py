"""Tables older than a live server's log are complete in the end; `make soak SNAPSHOT=log` kills thirty times.

`BINLOG_STREAM_ROUNDS` sets how often each server and method kills: 10 make sixty rounds of three servers.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

import pytest

from tests.servers import ServerKind
from tests.soak.snapshots import Method, SnapshotSoak, Victim

if TYPE_CHECKING:
    from pathlib import Path

LOGGER = logging.getLogger(__name__)
ROUNDS = int(os.environ.get("BINLOG_STREAM_ROUNDS", len(Victim)))


@pytest.mark.server
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.thorough  # each is killed in test_command.py, test_join.py and test_kill.py of tests/streaming
@pytest.mark.parametrize("method", Method)
@pytest.mark.parametrize("kind", ServerKind)
def test_tables_equal_the_servers_whatever_is_killed(kind: ServerKind, method: Method, tmp_path: Path) -> None:
    outcome = SnapshotSoak(tmp_path, kind=kind, method=method, seed=8, tell=LOGGER.info).run(ROUNDS)
    LOGGER.info("%s", outcome)
    assert outcome.differences == ()
    assert outcome.kills.total() == ROUNDS
    assert set(outcome.kills) == set(Victim)
    assert outcome.snapshots >= 1
    assert outcome.transactions > 100
