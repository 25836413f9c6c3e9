"""Tables older than a live server's log are complete in the end; `make soak SNAPSHOT=log` kills thirty times."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from binlog_lab.demo.mariadb.installed import DatabaseServerError
from tests.soak.snapshots import Method, SnapshotSoak, Victim

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.server
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.thorough  # each is killed in test_command.py, test_join.py and test_kill.py of tests/streaming
@pytest.mark.parametrize("method", Method)
def test_tables_equal_the_servers_whatever_is_killed(method: Method, tmp_path: Path) -> None:
    try:
        soak = SnapshotSoak(tmp_path, method=method, seed=8, tell=print)
    except DatabaseServerError as error:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(error))
    outcome = soak.run(len(Victim))
    assert outcome.differences == ()
    assert outcome.kills == dict.fromkeys(Victim, 1)
    assert outcome.alters
    assert outcome.snapshots >= 1
    assert outcome.transactions > 100
