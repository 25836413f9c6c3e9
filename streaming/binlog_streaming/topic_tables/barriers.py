"""Places of the log that all partitions of a topic reach before one of them is read past it: `Barriers`.

A TRUNCATE is one, for rows before it must not come after it. So is the first change of a table whose keys have another
form: from there on changes of a row are in another partition, and those before have to come first.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from binlog_connector.kafka.connection import broker_error
from binlog_connector.schema.definitions import TableName
from binlog_format.errors import BrokerError, UnsupportedError
from binlog_format.position import Place
from binlog_streaming.topic_tables.batch import Truncate

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from binlog_connector.kafka.fetching import FetchedPartition
    from binlog_connector.kafka.topic_reader import TopicReader
    from binlog_streaming.topic_tables.batch import ChangePlace, TableState, TopicBatch

TRUNCATE_SECONDS = 60.0
"""Seconds that a partition waits for the others, without any message from them."""


@dataclass(frozen=True, slots=True)
class NewKeys:
    """First change of a table, in a partition, whose key has a form. *form*: see `ReceivedChanges.key_form`."""

    table: TableName
    form: str
    place: ChangePlace
    offset: int


_Stop = Truncate | NewKeys


class Barriers:
    """Partitions that wait at an offset.

    Attributes:
        held: What each of them waits at.

    Args:
        reader: Knows how far each partition has been read.
        seconds: As `TRUNCATE_SECONDS`.
    """

    def __init__(self, reader: TopicReader, seconds: float) -> None:
        self.held: dict[FetchedPartition, _Stop] = {}
        self._reader = reader
        self._seconds = seconds
        self._since = 0.0
        self._forms: dict[TableName, set[str]] = {}
        self._last: dict[TableName, ChangePlace] = {}

    def follow(self, tables: Iterable[TableState]) -> None:
        """Changes up to these states of the tables have been written."""
        self._since = time.monotonic()
        for table in tables:
            if table.key_form is not None:
                name = TableName(table.database, table.table)
                self._forms[name] = {table.key_form}
                self._last[name] = table.place

    def hold(self, batch: TopicBatch, partitions: Collection[FetchedPartition]) -> None:
        """Let partitions wait at what of *batch* must come after what others have not brought. *partitions*: all."""
        self._since = time.monotonic()
        stops = self._stops(batch, partitions)
        while self._has_passed(self._unknown({**self.held, **stops}), partitions):
            stops = self._stops(batch, partitions)
        self.held |= stops

    def whole_truncate(self, partitions: Collection[FetchedPartition]) -> dict[FetchedPartition, Truncate]:
        """A TRUNCATE that has come in each partition of its topic; none: there is no such."""
        for topic in {partition.topic for partition in self.held}:
            some = [partition for partition in partitions if partition.topic == topic]
            found = {partition: stop for partition in some if isinstance(stop := self.held.get(partition), Truncate)}
            if len(found) == len(some) and len({(stop.table, stop.place) for stop in found.values()}) == 1:
                return found
        return {}

    def release(self, partitions: Collection[FetchedPartition]) -> bool:
        """Let partitions go on whose wait for others has ended; whether one does. *partitions*: all."""
        before = len(self.held)
        self._has_passed(self._unknown(self.held), partitions)
        self.held = self._unknown(self.held)
        return len(self.held) < before

    def check_patience(self) -> None:
        """See that the wait is not for ever. Raises `BinlogError`: it is too long."""
        if not self.held or time.monotonic() - self._since <= self._seconds:
            return
        partition, stop = min(self.held.items())
        if isinstance(stop, NewKeys):
            reason = "its other partitions cannot be read to their ends: transactions are open there"
            raise broker_error("TRANSACTION_OPEN", reason, at=f"topic {partition.topic}")
        raise BrokerError(
            "FAILED",
            f"a TRUNCATE of {stop.table} has not come in all partitions of its topic",
            at=Place(f"{partition}, offset {stop.offset}"),
            hint="binlog-stream publish sends it to each; partitions that were added later lack it. Begin anew "
            "with another checkpoint and other tables, from topics that hold everything",
        )

    def _stops(self, batch: TopicBatch, partitions: Collection[FetchedPartition]) -> dict[FetchedPartition, _Stop]:
        # The first one of each partition.
        found: dict[FetchedPartition, _Stop] = {
            partition: truncates[0] for partition, truncates in batch.truncates.items()
        }
        for partition, keys in first_keys(batch):
            is_alone = sum(other.topic == partition.topic for other in partitions) == 1
            if not is_alone and not self._is_known(keys):
                stop = found.get(partition)
                if stop is None or keys.offset < stop.offset:
                    found[partition] = keys
        return found

    def _unknown(self, stops: Mapping[FetchedPartition, _Stop]) -> dict[FetchedPartition, _Stop]:
        return {partition: stop for partition, stop in stops.items() if not self._is_known(stop)}

    def _is_known(self, stop: _Stop) -> bool:
        return isinstance(stop, NewKeys) and stop.form in self._forms.get(stop.table, ())

    def _has_passed(self, stops: Mapping[FetchedPartition, _Stop], partitions: Collection[FetchedPartition]) -> bool:
        # Of what waits in a topic whose other partitions have nothing that comes before, the first goes on.
        for topic in sorted({partition.topic for partition in stops}):
            others = [partition for partition in partitions if partition.topic == topic and partition not in stops]
            first, stop = min(
                ((partition, stop) for partition, stop in stops.items() if partition.topic == topic),
                key=lambda item: item[1].place,
            )
            if isinstance(stop, NewKeys) and self._are_read(others):
                self._accept(first, stop)
                return True
        return False

    def _are_read(self, partitions: Collection[FetchedPartition]) -> bool:
        if any(partition in self.held for partition in partitions):
            return False  # it is about to go on
        # Markers of a transaction come to its partitions one after the other: what is not committed here counts.
        ends = self._reader.log_ends(partitions) if partitions else {}
        return all(self._reader.position(partition) >= end for partition, end in ends.items())

    def _accept(self, partition: FetchedPartition, stop: NewKeys) -> None:
        last = self._last.get(stop.table)
        if last is not None and stop.place < last:
            raise UnsupportedError(
                "MESSAGE",
                f"a change of {stop.table} has a key of another form than changes that were made after it, and that "
                "are in the table: changes of a row may be in two partitions, in no order",
                at=Place(f"{partition}, offset {stop.offset}"),
                hint="The columns of the key, or their types, were changed, and changed back. Publish anew, into "
                "topics of one partition",
            )
        self._forms.setdefault(stop.table, set()).add(stop.form)


def first_keys(batch: TopicBatch) -> list[tuple[FetchedPartition, NewKeys]]:
    """The first change of each table with keys of each form, in each partition."""
    starts = np.cumsum([0, *map(len, batch.messages)])
    found = []
    for changes in batch.changes:
        table = TableName(changes.layout.database, changes.layout.table)
        owners = np.searchsorted(starts, changes.rows, side="right") - 1
        for owner, first in zip(*np.unique(owners, return_index=True), strict=True):
            run = batch.messages[owner]
            place = (*changes.places[first].tolist(), int(changes.ops[first]))
            offset = int(run.offsets[changes.rows[first] - starts[owner]])
            found.append((run.partition, NewKeys(table, changes.key_form, place, offset)))
    return found
