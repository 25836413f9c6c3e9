"""Messages of whole event groups into Kafka, exactly once: `Publisher`; `open_producer` gives it a client.

Example:
    ::

        with Publisher(connection, names) as publisher:
            for step in tailer_at(publisher.offset).steps():
                publisher.publish(lambda: messages_of(step), step.end.to_json())

One call is one transaction of Kafka: its messages, however many, and a record of the offset after them, in a compacted
topic. A consumer that reads with `read_committed` sees all of them or none; a publisher that starts goes on after the
newest record. Nothing else records how far it has come.

After an error nobody knows whether a transaction was committed: brokers may commit it and their answer is lost. So
there is one way out of all errors: a new producer, whose beginning ends what was open; then the newest record states
whether the transaction is there. If not, its messages are asked for and sent again.

The newest record also names the session that wrote it. Who finds another one has lost its name to another publisher
and stops; so of two publishers with one name the one that began last goes on.
"""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
import uuid
from dataclasses import dataclass
from enum import StrEnum
from importlib.util import find_spec
from typing import TYPE_CHECKING

from binlog_connector.crash_points import reached
from binlog_connector.kafka.connection import is_transient
from binlog_connector.kafka.offset_store import NOTHING, OffsetRecord, OffsetStore
from binlog_connector.kafka.producer import Delivery, ProducerSettings
from binlog_connector.kafka.topics import Topics
from binlog_format.errors import BrokerError, RegistryError
from binlog_format.position import Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

    from binlog_connector.kafka.connection import Connection
    from binlog_connector.kafka.producer import Messages, Producer

logger = logging.getLogger(__name__)

_RETRY_SECONDS = 0.5
_TELL_SECONDS = 30.0


class PublishStep(StrEnum):
    """Step that a publisher has just finished; its process may end between any two steps."""

    STARTED = "started"
    """No other publisher can write under this name any more."""
    BEGUN = "begun"
    """A transaction is open."""
    SENT = "sent"
    """The transaction's messages are with the client."""
    RECORDED = "recorded"
    """The transaction's record is written too."""
    COMMITTED = "committed"
    """Consumers see all of it."""


@dataclass(frozen=True, slots=True)
class PublisherOptions:
    """Publisher options.

    Attributes:
        name: Of the publisher: its transactional id, and its key in *offsets_topic*.
        offsets_topic: Compacted topic of the records; created if need be.
        is_first_start: Whether there may be no record yet; else that there is none is an error.
        client: See `open_producer`.
        compression: See `ProducerSettings`.
        transaction_timeout: Seconds that one call of `publish` may take. Consumers wait as long for what comes after
            when a publisher is killed and never starts again. Brokers allow 900 (`transaction.max.timeout.ms`).
        patience: Seconds without a success after which an error is raised that another try might mend.
        start_patience: The same when the publisher starts.
    """

    name: str
    offsets_topic: str
    is_first_start: bool = False
    delivery: Delivery = Delivery.EXACTLY_ONCE
    client: str | None = None
    compression: str = "none"
    transaction_timeout: float = 900.0
    patience: float = 300.0
    start_patience: float = 0.0


class Publisher:
    """Publishes under one name, while it is entered; one thread uses it, `stop` may be called from others.

    Args:
        clock: Seconds that only go forward.

    Raises:
        BrokerError: On entering: no broker could be used within *start_patience*; `OFFSETS_LOST`, `OFFSETS_TOPIC`;
            `OTHER_PUBLISHER`.
    """

    def __init__(
        self, connection: Connection, publishing: PublisherOptions, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._connection = connection
        self._how = publishing
        self._clock = clock
        self._store = OffsetStore(connection, publishing.offsets_topic, publishing.name)
        self._session = uuid.uuid4().hex
        self._known = NOTHING
        self._producer: Producer | None = None
        self._is_over = False
        self._stopped = threading.Event()

    @property
    def offset(self) -> str | None:
        """Position after the last published event group; None: none is published."""
        return self._known.offset

    def __enter__(self) -> Self:
        try:
            self._start_patiently()
            reached(PublishStep.STARTED)
            # A transaction without messages: from now on the newest record is of this session.
            self.publish(lambda: (), self._known.offset)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def stop(self) -> None:
        """Make no further try after an error: it is raised at once."""
        self._stopped.set()

    def publish(self, messages: Callable[[], Iterable[Messages]], offset: str | None) -> None:
        """Publish the messages of whole event groups; when this returns they are committed.

        Args:
            messages: Gives them; called again, for the same ones, when they have to be sent again.

        Raises:
            BrokerError: They are not published, or it is not known: another publisher finds out, this one has ended.
        """
        assert not self._is_over, "a publisher ends with its first error"
        record = OffsetRecord(self._session, self._known.number + 1, offset)
        trouble_since: float | None = None
        while True:
            topics: set[str] = set()
            began = self._clock()
            try:
                if self._producer is None and self._is_committed(record):
                    break
                self._attempt(messages, record, topics)
                break
            except BrokerError as error:
                named = self._explained(error, topics, self._clock() - began)
                self._give_up_attempt(aborts=not is_transient(named))
                trouble_since = began if trouble_since is None else trouble_since
                is_over = self._clock() - trouble_since > self._how.patience
                if not is_transient(named) or is_over or self._stopped.wait(_RETRY_SECONDS):
                    self._is_over = True
                    raise named from error
            except BaseException:
                self._is_over = True
                self._give_up_attempt(aborts=True)
                raise
        self._known = record
        reached(PublishStep.COMMITTED)

    def _start_patiently(self) -> None:
        began, told_at = self._clock(), -math.inf
        while True:
            try:
                return self._start()
            except BrokerError as error:
                self._close()
                seconds = self._clock() - began
                if not is_transient(error) or seconds >= self._how.start_patience:
                    raise
                if seconds - told_at >= _TELL_SECONDS:
                    told_at = seconds
                    logger.warning("trying again for %.0f s: %s", self._how.start_patience - seconds, error)
                if self._stopped.wait(_RETRY_SECONDS):
                    raise

    def _start(self) -> None:
        self._store.ensure(may_create=self._how.is_first_start)
        self._producer = self._open()
        newest = self._store.newest(waits=True)
        if newest is None and not self._how.is_first_start:
            raise self._store.lost("it has no record")
        self._known = newest or NOTHING

    def _attempt(self, messages: Callable[[], Iterable[Messages]], record: OffsetRecord, topics: set[str]) -> None:
        producer = self._producer
        assert producer is not None, "the publisher is entered"
        is_transaction = self._how.delivery is Delivery.EXACTLY_ONCE
        if is_transaction:
            producer.begin()
        reached(PublishStep.BEGUN)
        for some in messages():
            topics.add(some.topic)
            producer.send(some)
        reached(PublishStep.SENT)
        if not is_transaction:
            producer.flush()
        producer.send(self._store.messages(record))
        reached(PublishStep.RECORDED)
        if is_transaction:
            producer.commit()
        else:
            producer.flush()

    def _is_committed(self, record: OffsetRecord) -> bool:
        """Check with a new producer if the transaction of *record*, whose outcome is unknown, was committed."""
        self._store.ensure(may_create=False)
        # A new producer would end what another publisher does: see first whether there is one. What brokers have agreed
        # to commit, but have not marked in the topic yet, cannot be read now: an older record means nothing.
        self._check_alone(self._store.newest(waits=False), record)
        self._producer = self._open()
        newest = self._store.newest(waits=True)
        if newest == record:
            return True
        if (newest or NOTHING) == self._known:
            return False
        self._check_alone(newest, record)
        found = "no record" if newest is None else f"transaction {newest.number}"
        raise self._store.lost(f"found {found}, expected transaction {self._known.number}")

    def _check_alone(self, newest: OffsetRecord | None, record: OffsetRecord) -> None:
        if newest is not None and newest != record and newest.number > self._known.number:
            raise BrokerError(
                "OTHER_PUBLISHER",
                f"another publisher with the name {self._how.name} has started and goes on in place of this one",
                at=Place(f"topic {self._how.offsets_topic}"),
                hint="Stop one of them, or give it another name",
            )

    def _explained(self, error: BrokerError, topics: set[str], seconds: float) -> BrokerError:
        """The reason of an error, as far as asking the brokers shows more than it contains."""
        if isinstance(error, RegistryError):
            return error
        if error.subclass in {"OTHER_PUBLISHER", "OFFSETS_LOST", "OFFSETS_TOPIC", "MESSAGE_TOO_LARGE", "REFUSED"}:
            return error
        try:
            with Topics(self._connection) as asked:
                if asked.partition_count(self._how.offsets_topic) is None:
                    return self._store.lost("the topic is not there")
                asked.check(topics)
        except BrokerError as found:
            return found
        if self._how.delivery is Delivery.EXACTLY_ONCE and seconds > self._how.transaction_timeout:
            return BrokerError(
                "TRANSACTION_TOO_LONG",
                f"event groups took {seconds:.0f} s; after {self._how.transaction_timeout:g} s brokers abort them",
                hint="Raise the transaction timeout, and the brokers' transaction.max.timeout.ms",
            )
        # All of it is there, and may be used: what was not found, or refused, has changed meanwhile.
        return error if is_transient(error) or error.subclass == "DENIED" else BrokerError("FAILED", error.reason)

    def _open(self) -> Producer:
        name = self._how.name if self._how.delivery is Delivery.EXACTLY_ONCE else None
        settings = ProducerSettings(name, self._how.transaction_timeout, self._how.compression)
        return open_producer(self._connection, settings, self._how.client)

    def _give_up_attempt(self, *, aborts: bool) -> None:
        # Else consumers wait until the transaction has timed out, or this publisher starts again.
        if aborts and self._producer is not None and self._how.delivery is Delivery.EXACTLY_ONCE:
            with contextlib.suppress(BrokerError):
                self._producer.abort()
        self._close()

    def _close(self) -> None:
        producer, self._producer = self._producer, None
        if producer is not None:
            producer.close()


def open_producer(connection: Connection, settings: ProducerSettings, client: str | None = None) -> Producer:
    """A producer that is ready.

    Args:
        client: `confluent-kafka` or `kafka-python`; None: the first of them that is installed.
    """
    return CLIENTS[client or default_client()](connection, settings)


def default_client() -> str:
    """confluent-kafka where it is installed."""
    return "confluent-kafka" if find_spec("confluent_kafka") else "kafka-python"


def _rdkafka(connection: Connection, settings: ProducerSettings) -> Producer:
    from binlog_connector.installing import require

    require("confluent_kafka")
    from binlog_connector.kafka.rdkafka_clients import RdkafkaProducer

    return RdkafkaProducer(connection, settings)


def _python(connection: Connection, settings: ProducerSettings) -> Producer:
    from binlog_connector.kafka.python_producer import PythonProducer

    return PythonProducer(connection, settings)


CLIENTS: dict[str, Callable[[Connection, ProducerSettings], Producer]] = {
    "confluent-kafka": _rdkafka,
    "kafka-python": _python,
}
"""Clients by the names of their packages."""
