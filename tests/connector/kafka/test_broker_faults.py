"""Brokers that die or freeze, and networks that fail, under a publisher: each message is seen once, in its order."""

from __future__ import annotations

import random
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from binlog_connector.crash_points import watched
from binlog_connector.kafka.connection import CLIENT_ID, Connection
from binlog_connector.kafka.producer import MESSAGE_SIZE_MAX, Messages, ProducerSettings
from binlog_connector.kafka.publisher import PublishStep, open_producer
from binlog_format.errors import BrokerError
from tests.chance import seed
from tests.connector.kafka.topics import (
    CLIENTS,
    TIMEOUT,
    Case,
    assert_once_in_order,
    consumed,
    group,
    new_case,
    publish_groups,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.faults.kafka_broker import KafkaBroker
    from tests.faults.tcp_proxy import TcpProxy

pytestmark = pytest.mark.server

PAST_EVERY_TIMEOUT = 3 * TIMEOUT


@pytest.fixture(params=CLIENTS)
def case(request: pytest.FixtureRequest, kafka_broker: KafkaBroker) -> Case:
    return new_case(kafka_broker, request.param)


@pytest.fixture(params=CLIENTS)
def far_case(request: pytest.FixtureRequest, kafka_broker: KafkaBroker, kafka_network: TcpProxy) -> Iterator[Case]:
    """One whose publisher reaches the broker through `kafka_network`."""
    yield new_case(kafka_broker, request.param, Connection(f"127.0.0.1:{kafka_network.port}", timeout=TIMEOUT))
    kafka_network.mend()


class At:
    """Does something the first time that a transaction with messages comes to a step."""

    def __init__(self, step: PublishStep, fault: Callable[[], object]) -> None:
        self._step = step
        self._fault = fault
        self.is_done = False

    def __call__(self, step: PublishStep) -> None:
        if step is self._step and not self.is_done:
            self.is_done = True
            self._fault()


def _later(what: Callable[[], object], seconds: float) -> None:
    threading.Timer(seconds, what).start()


def _freeze(broker: KafkaBroker) -> None:
    broker.freeze()
    _later(broker.thaw, PAST_EVERY_TIMEOUT)


def _restart(broker: KafkaBroker) -> None:
    broker.kill()
    broker.start()


def _publish_through(case: Case, step: PublishStep, fault: Callable[[], object]) -> None:
    with case.publisher() as publisher:
        publish_groups(publisher, case, 1)
        # Marked in all its partitions: a broker that is killed before has been seen to skip the markers when it starts
        # again, because none of them has a leader then ("likely deleted already"), which leaves them open for ever.
        for topic in (case.topic, case.publishing.offsets_topic):
            consumed(case.broker, topic)
        at = At(step, fault)
        with watched(at):
            publish_groups(publisher, case, 3)
        assert at.is_done
    assert_once_in_order(case, 3)
    assert _client_threads() == set()  # nothing stays of producers that were given up


def _client_threads() -> set[str]:
    return {thread.name for thread in threading.enumerate() if CLIENT_ID in thread.name}


@pytest.mark.thorough_where("sent|confluent")
@pytest.mark.parametrize("step", [PublishStep.SENT, PublishStep.RECORDED])
def test_broker_freezes_past_every_timeout(case: Case, step: PublishStep) -> None:
    """It may have committed before it froze, or do so when it goes on: nobody has seen the answer."""
    _publish_through(case, step, lambda: _freeze(case.broker))


@pytest.mark.thorough_where("begun|sent")
@pytest.mark.parametrize("step", [PublishStep.BEGUN, PublishStep.SENT, PublishStep.RECORDED])
def test_broker_is_killed_and_comes_back(case: Case, step: PublishStep) -> None:
    _publish_through(case, step, lambda: _restart(case.broker))


@pytest.mark.thorough
def test_broker_is_away_for_some_time(case: Case) -> None:
    def away() -> None:
        case.broker.kill()
        _later(case.broker.start, PAST_EVERY_TIMEOUT)

    _publish_through(case, PublishStep.SENT, away)


@pytest.mark.thorough_where("begun|sent")
@pytest.mark.parametrize("step", [PublishStep.BEGUN, PublishStep.SENT, PublishStep.RECORDED])
def test_network_is_cut(far_case: Case, kafka_network: TcpProxy, step: PublishStep) -> None:
    def cut() -> None:
        kafka_network.cut()
        _later(kafka_network.mend, TIMEOUT)

    _publish_through(far_case, step, cut)


def test_reply_to_a_commit_is_lost(far_case: Case, kafka_network: TcpProxy) -> None:
    """The broker has committed; the publisher finds the record, and sends nothing again."""
    calls = []

    def mend() -> None:
        kafka_network.cut()
        kafka_network.mend()

    def lose() -> None:
        kafka_network.lose_replies()
        _later(mend, PAST_EVERY_TIMEOUT)

    with far_case.publisher() as publisher:
        publish_groups(publisher, far_case, 1)
        messages = group(far_case, 1)

        def counted() -> Iterator[Messages]:
            calls.append(1)
            yield from messages()

        with watched(At(PublishStep.RECORDED, lose)):
            publisher.publish(counted, "2")
        assert publisher.offset == "2"
        publish_groups(publisher, far_case, 3)
    assert_once_in_order(far_case, 3)
    assert len(calls) in {1, 2}  # 2: its messages themselves were not acknowledged before


@pytest.mark.thorough
def test_faults_at_random(kafka_broker: KafkaBroker, kafka_network: TcpProxy) -> None:
    chance = random.Random(seed())
    far = Connection(f"127.0.0.1:{kafka_network.port}", timeout=TIMEOUT)
    cases = [new_case(kafka_broker, client, far, patience=120.0) for client in CLIENTS]

    def cut() -> None:
        kafka_network.cut()
        _later(kafka_network.mend, chance.random() * TIMEOUT)

    faults = [lambda: _freeze(kafka_broker), lambda: _restart(kafka_broker), cut]
    for number in range(1, 11):
        for case in cases:
            with case.publisher() as publisher, watched(At(chance.choice(list(PublishStep)), chance.choice(faults))):
                publish_groups(publisher, case, 2 * number)
    for case in cases:
        assert_once_in_order(case, 20)


@pytest.mark.parametrize("client", CLIENTS)
def test_memory_is_bounded_while_no_broker_answers(kafka_broker: KafkaBroker, client: str) -> None:
    case = new_case(kafka_broker, client)
    taken = []
    value = pa.array([bytes(1 << 20)])

    producer = open_producer(case.connection, ProducerSettings(case.publishing.name), client)
    producer.begin()
    kafka_broker.freeze()

    def send() -> None:
        for number in range(3 * MESSAGE_SIZE_MAX >> 20):
            producer.send(Messages(case.topic, pa.array([b"%d" % number]), value))
            taken.append(number)

    with pytest.raises(BrokerError, match=r"BINLOG_KAFKA\.(FAILED|UNREACHABLE)"):
        send()
    kafka_broker.thaw()
    assert len(taken) - 1 << 20 <= MESSAGE_SIZE_MAX  # one is taken while there is any room
    producer.close()


@pytest.mark.thorough_where("confluent")
def test_a_broker_that_is_down_at_the_start_is_waited_for(case: Case, caplog: pytest.LogCaptureFixture) -> None:
    patient = replace(case, publishing=replace(case.publishing, start_patience=60.0))
    case.broker.kill()
    _later(case.broker.start, 1.0)
    with patient.publisher() as publisher:
        publish_groups(publisher, case, 1)
    assert_once_in_order(case, 1)
    assert "trying again for 60 s: [BINLOG_KAFKA.UNREACHABLE]" in caplog.text


@pytest.mark.thorough_where("confluent")
def test_a_broker_that_never_comes_back_is_named(case: Case) -> None:
    impatient = replace(case, publishing=replace(case.publishing, patience=0.0))
    with impatient.publisher() as publisher:
        case.broker.kill()
        try:
            with pytest.raises(BrokerError, match=r"UNREACHABLE.*127\.0\.0\.1.*refused"):
                publisher.publish(group(case, 0), "1")
        finally:
            case.broker.start()
