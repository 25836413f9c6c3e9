"""Tables on S3 and topics are what the server has after all that can happen; `make soak MINUTES=60` takes its time."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import pytest

from binlog_lab.demo.failures import DemoError
from tests.servers import ServerKind
from tests.soak.lake import LakeSoak

if TYPE_CHECKING:
    from pathlib import Path

LOGGER = logging.getLogger(__name__)
MINUTES = 3.0


@pytest.mark.server
@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.thorough
def test_tables_and_topics_are_the_servers_after_all_faults(tmp_path: Path) -> None:
    try:
        soak = LakeSoak(tmp_path, kind=ServerKind.MARIADB, seed=5, tell=LOGGER.info)
    except DemoError as error:  # the soak kills processes, not containers
        pytest.skip(f"{error.reason}: {error.hint}")
    outcome = soak.run(MINUTES)
    assert outcome.differences == ()
    assert outcome.faults.total() >= 1
    assert outcome.written["huge transaction"] + outcome.written["ALTER TABLE"] >= 1
    assert min(outcome.proved, outcome.messages) > 10_000
    assert (tmp_path / "memory.png").stat().st_size > 10_000
