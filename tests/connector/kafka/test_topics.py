"""Topics that brokers refuse to create: their words are in the error, and it is transient where waiting helps."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest

from binlog_connector.kafka.connection import Connection, is_transient
from binlog_connector.kafka.topics import Topics
from binlog_format.errors import BrokerError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faults.kafka_broker import KafkaBroker

pytestmark = pytest.mark.server


@pytest.fixture
def topics(kafka_broker: KafkaBroker) -> Iterator[Topics]:
    with Topics(Connection(kafka_broker.servers)) as topics:
        yield topics


def test_more_copies_than_brokers_are_refused_in_the_words_of_the_broker(topics: Topics) -> None:
    with pytest.raises(BrokerError, match=r"REFUSED\] topic wide: .*replication factor of 3.* 1 broker") as failed:
        topics.create("wide", replication=3, settings={})
    assert not is_transient(failed.value)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (38, "Unable to replicate the partition 1 time(s): All brokers are currently fenced."),
        (41, None),
    ],
)
def test_a_cluster_that_is_starting_is_waited_for(topics: Topics, code: int, words: str | None) -> None:
    """A cluster is in these states for less than a second: its answers are made here."""
    answer = {"topics": [{"name": "early", "error_code": code, "error_message": words}]}
    with (
        patch.object(topics._client, "create_topics", return_value=answer),
        pytest.raises(BrokerError, match="topic early") as failed,
    ):
        topics.create("early", settings={})
    assert is_transient(failed.value)


def test_a_cluster_without_a_controller_is_waited_for(topics: Topics) -> None:
    error = RuntimeError("Failed to find active controller id!")
    with (
        patch.object(topics._client, "create_topics", side_effect=error),
        pytest.raises(BrokerError, match=r"UNREACHABLE\] topic early: Failed to find active controller") as failed,
    ):
        topics.create("early", settings={})
    assert is_transient(failed.value)


def test_of_two_that_create_a_topic_one_is_the_second(topics: Topics) -> None:
    topics.create("twice", partitions=2, settings={})
    topics.create("twice", partitions=2, settings={})
    assert topics.partition_count("twice") == 2
