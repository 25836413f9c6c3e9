"""Partitions of a topic wait for each other where the keys of a table get another form."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from binlog_connector.kafka.record_batches import key_partitions
from binlog_connector.kafka.topic_reader import TopicReader
from binlog_format.errors import UnsupportedError
from tests.streaming.topic_tables.test_run import Source, bring_back, source, target

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from binlog_connector.kafka.topic_reader import PartitionMessages
    from binlog_streaming.settings import TopicTablesJob

__all__ = ["source"]

pytestmark = pytest.mark.server

INT, BIGINT = "int32", "int64"


class Moved:
    """A source whose keys become BIGINT: a row goes to another partition by that."""

    def __init__(self, made: Source) -> None:
        self.source = made
        self.key_of(INT, 0)
        self.numbers = [number for number in range(200) if self._partitions(number) == (0, 1)][:2]

    def _partitions(self, number: int) -> tuple[int, ...]:
        keys = pa.array([self.key_of(kind, number).encode() for kind in (INT, BIGINT)], pa.large_binary())
        return tuple(key_partitions(keys, 2).tolist())

    def key_of(self, kind: str, number: int) -> str:
        """The key of a row, in a column of this type."""
        self.source.fields[0] = {**self.source.fields[0], "type": kind}
        return self.source.key(number)

    def send(self, place: int, kind: str, op: str, number: int, before: str | None, after: str | None) -> None:
        """A change of a row to its partition."""
        key = self.key_of(kind, number)
        rows = [None if name is None else {"id": number, "name": name} for name in (before, after)]
        self.source.send(int(kind == BIGINT), self.source.change(place, op, *rows), key=key)


def last_partition_first(reader: TopicReader, *_: Any) -> Sequence[PartitionMessages]:
    """All of one partition, as a broker may answer first for any of them."""
    ends = {partition: end for partition, (_, end) in reader.ranges(reader._reading).items()}
    places = {partition: reader.position(partition) for partition in reader._reading}
    for partition in sorted(places, reverse=True):
        found = reader.read_ranges({partition: (places[partition], ends[partition])})
        reader.go_on_at(places | {partition: ends[partition]})
        if found:
            return found
        places[partition] = ends[partition]
    return []


def names(job: TopicTablesJob) -> dict[int, str]:
    rows = target(job, "mirror", "shop.items").to_pylist()
    found = {row["id"]: row["name"] for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.mark.parametrize("is_read_before", [False, True])
def test_changes_under_the_old_keys_come_first(
    source: Source, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_read_before: bool
) -> None:
    """A wider type of the key gives its bytes another partition, where they may be read earlier."""
    moved, job = Moved(source), source.job(tmp_path)
    changed, gone = moved.numbers
    monkeypatch.setattr(TopicReader, "read", last_partition_first)
    moved.send(1, INT, "c", changed, None, "old")
    if is_read_before:
        bring_back(job)
    moved.send(2, INT, "c", gone, None, "old")
    moved.send(3, INT, "u", changed, "old", "newer")
    moved.send(5, BIGINT, "u", changed, "newer", "new")
    moved.send(6, BIGINT, "d", gone, "old", None)
    bring_back(job)
    assert names(job) == {changed: "new"}


def test_earlier_changes_under_other_keys_are_named(source: Source, tmp_path: Path) -> None:
    """As after a type that was changed and changed back: later changes are in the table already."""
    moved, job = Moved(source), source.job(tmp_path)
    moved.send(9, BIGINT, "c", moved.numbers[0], None, "new")
    bring_back(job)
    moved.send(5, INT, "c", moved.numbers[1], None, "old")
    with pytest.raises(
        UnsupportedError, match=r"partition 0, offset 0: a change of shop\.items has a key of another form"
    ):
        bring_back(job)
    assert names(job) == {moved.numbers[0]: "new"}
