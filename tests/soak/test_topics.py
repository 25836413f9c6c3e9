"""Topics give exactly the workload's tables after all that can happen; `make soak SINK=kafka` kills more publishers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_lab.demo.failures import DemoError
from binlog_lab.demo.servers.kafka_broker import KafkaBroker
from tests.connector.kafka.topics import CLIENTS
from tests.servers import ServerKind
from tests.soak.topic_snapshots import TopicSnapshotsSoak
from tests.soak.topics import TopicsSoak

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.thorough  # each fault has a test of its own in tests/connector/kafka and tests/streaming/topics
@pytest.mark.parametrize("client", CLIENTS)
def test_topics_give_the_tables_after_all_faults(client: str, tmp_path: Path) -> None:
    try:
        KafkaBroker(tmp_path / "none")
    except DemoError as error:  # the soak kills processes, not containers
        pytest.skip(f"{error.reason}: {error.hint}")
    told: list[str] = []
    outcome = TopicsSoak(tmp_path, client=client, seed=6, tell=told.append).run(1)
    assert outcome.is_equal, outcome.comparisons
    assert len(outcome.faults) == len(told) - 1 == 11
    assert outcome.changes > 1000


@pytest.mark.server
@pytest.mark.slow
@pytest.mark.thorough
@pytest.mark.parametrize("client", CLIENTS)
def test_topics_have_each_message_once_while_snapshots_run(client: str, tmp_path: Path) -> None:
    try:
        KafkaBroker(tmp_path / "none")
    except DemoError as error:
        pytest.skip(f"{error.reason}: {error.hint}")
    told: list[str] = []
    soak = TopicSnapshotsSoak(tmp_path, kind=ServerKind.MARIADB, client=client, seed=3, tell=told.append)
    outcome = soak.run(4)
    assert outcome.differences == (), told
    assert outcome.kills.total() == 4
    assert min(outcome.copied, outcome.rows) > 1000
