"""Long runs in which everything fails, in short: `make soak` takes its time.

`SINK=kafka` kills more publishers, and topics give exactly the workload's tables. `KILLS=50` kills a driver again and
again, which loses no change and doubles none. `MINUTES=60`: tables on S3 and topics are what the server has after all
that can happen. `SNAPSHOT=log` kills thirty times; tables older than a live server's log are complete in the end.

`BINLOG_STREAM_ROUNDS` sets how often each server and method kills: 10 make sixty rounds of three servers.
"""

from __future__ import annotations

import logging
import os
from typing import TYPE_CHECKING

import pytest

from binlog_lab.demo.failures import DemoError
from binlog_lab.demo.servers.kafka_broker import KafkaBroker
from tests.connector.kafka.topics import CLIENTS
from tests.servers import ServerKind
from tests.soak.kills import Soak
from tests.soak.lake import LakeSoak
from tests.soak.snapshots import Method, SnapshotSoak, Victim
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
