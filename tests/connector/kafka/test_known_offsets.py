"""Offsets that a leader does not know yet are asked for again, for as long as a connection may take."""

from __future__ import annotations

import pytest
from kafka import TopicPartition

from binlog_connector.kafka.connection import Connection
from binlog_connector.kafka.topics import known_offsets
from binlog_format.errors import BrokerError

_PARTITION = TopicPartition("topic", 0)


class _Leader:
    """Knows the offsets from the *after*-th time on that it is asked."""

    def __init__(self, after: int) -> None:
        self.left = after

    def offsets(self, partitions: list[TopicPartition]) -> dict[TopicPartition, int]:
        if self.left:
            self.left -= 1
            raise KeyError(partitions[0])  # as kafka-python does
        return dict.fromkeys(partitions, 7)


def test_a_leader_is_asked_until_it_knows() -> None:
    leader = _Leader(3)
    assert known_offsets(leader.offsets, [_PARTITION], Connection("nobody:1")) == {_PARTITION: 7}


def test_a_leader_that_never_knows_is_named() -> None:
    with pytest.raises(BrokerError, match=r"FAILED.*topic topic: the broker knows no offsets"):
        known_offsets(_Leader(1_000_000).offsets, [_PARTITION], Connection("nobody:1", timeout=0.1))
