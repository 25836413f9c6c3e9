"""A driver that is killed again and again loses no change and doubles none; `make soak KILLS=50` does it longer."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.soak.kills import Soak

if TYPE_CHECKING:
    from pathlib import Path

KILLS = 3


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.thorough  # a job is killed in tests/streaming/tables/jobs/test_kill.py
def test_each_change_arrives_exactly_once_however_often_the_driver_is_killed(tmp_path: Path) -> None:
    killed: list[int] = []
    outcome = Soak(tmp_path, seed=6).run(KILLS, killed.append)
    assert killed == list(range(1, KILLS + 1))
    assert outcome.changes > 1000
    assert outcome.batches > 1
    assert (outcome.lost, outcome.more) == (0, 0)
