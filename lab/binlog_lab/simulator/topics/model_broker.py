"""A broker of Kafka in memory: `ModelBroker`, with transactions, fencing, requests and replies that get lost.

Each call of a client is a request and a reply. A request gets lost, or arrives so late that its sender has given it up;
a reply gets lost after the work was done; the broker is frozen, and takes what was sent meanwhile when it goes on; it
is down; it loses all its topics. A commit is decided first; then the transaction ends in one partition after the other.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from kafka.errors import (
    InvalidProducerEpochError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    UnknownTopicOrPartitionError,
)

from binlog_connector.kafka.record_batches import key_partitions

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from binlog_connector.kafka.producer import Messages
    from binlog_lab.simulator.disk import Disk
    from binlog_lab.simulator.machine import Clock

Answer = TypeVar("Answer")

TIMEOUT_SECONDS = 10
"""Time that a client waits for a reply."""

LATE = "does what was sent before"
"""Note in `Disk.reached` of a change that arrives when nobody waits for its reply any more."""
STILL_ENDING = "ends a transaction of the process before"
"""Note in `Disk.reached` of a commit that was decided, and is not to be read in all partitions yet."""
_AT_ONCE = 0.7
"""Share of the transactions that end in all partitions with their commit."""
_COMMIT = "commit"
_TROUBLES = (1, 3, 8, 45)
"""Calls that a broker is frozen or down, or that a request is late; the last is longer than a publisher's patience."""


class StoredMessage(NamedTuple):
    """A message at a place of a partition."""

    offset: int
    key: bytes | None
    value: bytes | None


@dataclass(slots=True, eq=False)
class Transaction:
    """A transaction. It is decided by its end, and over in a partition when its mark is there."""

    is_committed: bool = False
    left: list[PartitionLog] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class PartitionLog:
    """Places of a partition: a message and its transaction, or nothing, where a transaction has ended."""

    places: list[tuple[StoredMessage, Transaction | None] | None] = field(default_factory=list)
    open: dict[Transaction, int] = field(default_factory=dict)

    @property
    def end(self) -> int:
        """The place after the last one."""
        return len(self.places)

    @property
    def stable_end(self) -> int:
        """The first place of a transaction that is open here; that after the last one, if none is."""
        return min(self.open.values(), default=self.end)

    def append(self, key: bytes | None, value: bytes | None, transaction: Transaction | None) -> None:
        """Add a message."""
        if transaction is not None and transaction not in self.open:
            self.open[transaction] = self.end
            transaction.left.append(self)
        self.places.append((StoredMessage(self.end, key, value), transaction))

    def end_of(self, transaction: Transaction) -> None:
        """Add the mark of a transaction's end."""
        del self.open[transaction]
        self.places.append(None)

    def committed(self, start: int = 0, end: int | None = None) -> list[StoredMessage]:
        """Messages that are committed, or decided to be."""
        there = [place for place in self.places[start:end] if place is not None]
        return [message for message, transaction in there if transaction is None or transaction.is_committed]

    def not_aborted(self) -> list[StoredMessage]:
        """Messages that are committed, or may be yet."""
        there = [place for place in self.places if place is not None]
        return [
            message
            for message, transaction in there
            if transaction is None or transaction.is_committed or transaction in self.open
        ]


@dataclass(slots=True)
class ModelBroker:
    """A broker.

    Attributes:
        clock: That calls without a reply take time from.
        disk: Of the machine of its clients, where calls are counted as those that change files: they may end the
            process, or be lost.
        chance: Decides in which order transactions end.
        topics: Partitions, by topic.
        at_call: What happens at a call, by its number in the process.
        at_name: What happens at the next call of a name.
    """

    clock: Clock
    disk: Disk
    chance: Random
    topics: dict[str, list[PartitionLog]] = field(default_factory=dict)
    at_call: dict[int, Callable[[], None]] = field(default_factory=dict)
    at_name: dict[str, Callable[[], None]] = field(default_factory=dict)
    _settings: dict[str, dict[str, str]] = field(default_factory=dict)
    _epochs: dict[str, int] = field(default_factory=dict)
    _open: dict[str, Transaction] = field(default_factory=dict)
    _ending: dict[str, Transaction] = field(default_factory=dict)
    _late: list[tuple[int, Callable[[], object]]] = field(default_factory=list)
    _calls: int = 0
    _at: str = ""
    _frozen: int = 0
    _down: int = 0
    _delay: int = 0
    _delayed: str = ""
    _kills: bool = False
    _is_silent: bool = False

    # --- what happens to it --------------------------------------------------------------------------------------

    def restart(self) -> None:
        """A new process of a client: what was sent and not taken yet stays on its way, and faults are over."""
        self._late = [(due - self._calls, change) for due, change in self._late]
        self._calls = self._frozen = self._down = self._delay = 0
        self._kills = self._is_silent = False
        self.at_call.clear()
        self.at_name.clear()

    def freeze(self) -> None:
        """Take calls, and answer none, for a while; then what was to be changed is changed."""
        self.note("frozen")
        self._frozen = self.chance.choice(_TROUBLES)

    def go_down(self) -> None:
        """Refuse calls for a while."""
        self.note("down")
        self._down = self.chance.choice(_TROUBLES)

    def delay(self, *, kills: bool = False) -> None:
        """Let the next change, or the next commit, arrive late: its client has given up, or is killed."""
        self._delayed = self.chance.choice((_COMMIT, ""))
        self._delay, self._kills = self.chance.choice(_TROUBLES), kills

    def lose_reply(self) -> None:
        """Commit the next time, and tell nobody."""
        self._is_silent = True

    def lose_topics(self) -> None:
        """Lose everything."""
        self.note("topics lost")
        self.topics.clear()
        self._settings.clear()
        self._epochs.clear()
        self._open.clear()
        self._ending.clear()
        self._late.clear()

    def note(self, what: str) -> None:
        """Something happens in the present call."""
        self.disk.reached.append(f"broker {what} at {self._at}")

    def _take_late(self) -> None:
        """Do what was sent before and arrives now; nobody waits for its reply."""
        arrived = [change for due, change in self._late if due <= self._calls]
        self._late = [(due, change) for due, change in self._late if due > self._calls]
        for change in arrived:
            self.note(LATE)
            with suppress(KafkaError):
                change()

    # --- calls ---------------------------------------------------------------------------------------------------

    def call(self, name: str, answer: Callable[[], Answer], *, changes: bool = False) -> Answer:
        """A request of a client, and the reply.

        Args:
            answer: Does what is asked for.
            changes: It changes something.
        """
        self._calls, self._at = self._calls + 1, name
        self.at_call.pop(self._calls, nothing)()
        self.at_name.pop(name, nothing)()
        self._at = name  # another process may have been here meanwhile
        if self._calls == 1 and self._ending:
            self.note(STILL_ENDING)
        self._end_somewhere()
        if self._frozen:
            self._frozen -= 1
            if changes:
                self._late.append((self._calls + self._frozen + 1, answer))
            raise self._no_reply()
        if self._down:
            self._down -= 1
            self.clock.sleep(TIMEOUT_SECONDS)
            raise KafkaConnectionError("the broker is down")
        self._take_late()
        if self._delay and changes and self._delayed in name:
            self._late.append((self._calls + self._delay, answer))
            self._delay = 0
            self.note("reached late, from one that was killed," if self._kills else "reached late")
            if self._kills:
                self.disk.kill()
            raise self._no_reply()
        self._pass(f"{name}, before")
        result = answer()
        if self._is_silent and name == _COMMIT:
            self._is_silent = False
            self.note("did not tell")
            raise self._no_reply()
        self._pass(f"{name}, after")
        return result

    def _pass(self, when: str) -> None:
        try:
            self.disk.elsewhere(when)
        except OSError as error:
            raise self._no_reply() from error

    def _no_reply(self) -> KafkaTimeoutError:
        self.clock.sleep(TIMEOUT_SECONDS)
        return KafkaTimeoutError(f"no reply to {self._at}")

    def _end_somewhere(self) -> None:
        """A transaction that is decided ends in a partition."""
        for name, transaction in list(self._ending.items()):
            transaction.left.pop(self.chance.randrange(len(transaction.left))).end_of(transaction)
            if not transaction.left:
                del self._ending[name]

    # --- topics --------------------------------------------------------------------------------------------------

    def create(self, topic: str, partitions: int, settings: dict[str, str]) -> None:
        """Create a topic, if it is not there."""
        self.topics.setdefault(topic, [PartitionLog() for _ in range(partitions)])
        self._settings.setdefault(topic, settings)

    def settings(self, topic: str) -> dict[str, str]:
        """Settings of a topic."""
        self.partitions(topic)
        return self._settings[topic]

    def partitions(self, topic: str) -> list[PartitionLog]:
        """Partitions of a topic."""
        if topic not in self.topics:
            raise UnknownTopicOrPartitionError
        return self.topics[topic]

    # --- transactions --------------------------------------------------------------------------------------------

    def begin_epoch(self, name: str) -> int:
        """Fence all producers of that name, and end what they have open; the epoch of a new one."""
        self._finish(name)
        transaction = self._open.pop(name, None)
        if transaction is not None:
            self._ending[name] = transaction
            self._finish(name)
        self._epochs[name] = self._epochs.get(name, 0) + 1
        return self._epochs[name]

    def append(self, name: str | None, epoch: int, messages: Messages) -> None:
        """Add messages, in the transaction of that producer; None: in none."""
        transaction = None
        partitions = self.partitions(messages.topic)
        if name is not None:
            self._see_epoch(name, epoch)
            self._finish(name)
            transaction = self._open.setdefault(name, Transaction())
        chosen = (
            key_partitions(messages.keys, len(partitions)).tolist()
            if messages.partition is None
            else [messages.partition] * len(messages)
        )
        rows = zip(chosen, messages.keys.to_pylist(), messages.values.to_pylist(), strict=True)
        for number, key, value in rows:
            partitions[number].append(key, value, transaction)

    def end(self, name: str, epoch: int, *, commits: bool) -> None:
        """End the transaction of a producer."""
        self._see_epoch(name, epoch)
        transaction = self._open.pop(name, None)
        if transaction is None:
            return
        transaction.is_committed = commits
        self._ending[name] = transaction
        if self.chance.random() < _AT_ONCE:
            self._finish(name)

    def _see_epoch(self, name: str, epoch: int) -> None:
        if self._epochs.get(name) != epoch:
            raise InvalidProducerEpochError

    def _finish(self, name: str) -> None:
        transaction = self._ending.pop(name, None)
        if transaction is not None:
            for one in transaction.left:
                one.end_of(transaction)


def nothing() -> None:
    """Change nothing, and ask for nothing."""
