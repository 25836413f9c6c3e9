"""Publishers of whole event groups, over both clients, on a real broker."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import msgspec
import pyarrow as pa
import pytest
from kafka.admin import KafkaAdminClient

from binlog_connector.crash_points import watched
from binlog_connector.kafka.offset_store import OffsetRecord, OffsetStore
from binlog_connector.kafka.producer import Delivery, Messages, ProducerSettings
from binlog_connector.kafka.publisher import PublishStep, open_producer
from binlog_connector.kafka.topics import Topics
from binlog_format.errors import BrokerError, UnsupportedError
from tests.connector.kafka.topics import (
    CLIENTS,
    GROUP_MESSAGES,
    Case,
    assert_once_in_order,
    consumed,
    group,
    new_case,
    numbered,
    publish_groups,
)
from tests.faults.processes import Cut, CutAt, Kill, in_a_process

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.faults.kafka_broker import KafkaBroker

pytestmark = pytest.mark.server


@pytest.fixture(params=CLIENTS)
def case(request: pytest.FixtureRequest, kafka_broker: KafkaBroker) -> Case:
    return new_case(kafka_broker, request.param)


def test_a_publisher_goes_on_where_the_last_one_ended(case: Case) -> None:
    with case.publisher() as publisher:
        assert publisher.offset is None
        publish_groups(publisher, case, 3)
    with case.publisher() as publisher:
        assert publisher.offset == "3"
        publish_groups(publisher, case, 5)
    assert_once_in_order(case, 5)


@pytest.mark.parametrize("step", PublishStep)
def test_cut_off_at_a_step(case: Case, step: PublishStep) -> None:
    """What was open is visible to nobody, and not in the way of those who read on."""
    with case.publisher() as publisher:
        publish_groups(publisher, case, 1)
    with watched(CutAt(step)), pytest.raises(Cut), case.publisher() as publisher:
        publish_groups(publisher, case, 2)
    with case.publisher() as publisher:
        assert publisher.offset == ("2" if step is PublishStep.COMMITTED and publisher.offset == "2" else "1")
        publish_groups(publisher, case, 3)
    assert_once_in_order(case, 3)


_MORE_GROUPS_THAN_STEPS = 10_000


def _publish(case: Case, end: int, kill: Kill) -> None:
    with watched(kill), case.publisher() as publisher:
        publish_groups(publisher, case, end)


@pytest.mark.parametrize("kills", [6, pytest.param(30, marks=pytest.mark.thorough)])
def test_killed_again_and_again(case: Case, kills: int) -> None:
    """Each process comes one step further than the one before."""
    ends = [in_a_process(partial(_publish, case, _MORE_GROUPS_THAN_STEPS, Kill(left))) for left in range(1, kills + 1)]
    assert set(ends) == {-9}
    with case.publisher() as publisher:
        end = int(publisher.offset or 0) + 1
        publish_groups(publisher, case, end)
    assert_once_in_order(case, end)


def test_the_last_of_two_publishers_goes_on(case: Case) -> None:
    with case.publisher() as first:
        publish_groups(first, case, 2)
        with case.publisher() as second:
            publish_groups(second, case, 4)
            with pytest.raises(BrokerError, match=r"OTHER_PUBLISHER.*another publisher with the name"):
                first.publish(group(case, 2), "3")
            publish_groups(second, case, 5)
    assert_once_in_order(case, 5)


def test_another_publisher_begins_in_the_middle_of_a_transaction(case: Case) -> None:
    def begin() -> None:
        with case.publisher() as second:
            publish_groups(second, case, 2)

    with case.publisher() as first:
        publish_groups(first, case, 1)
        with pytest.raises(BrokerError, match="OTHER_PUBLISHER"):
            first.publish(group(case, 1, then=begin), "2")
    assert_once_in_order(case, 2)


def test_a_commit_that_cannot_be_read_yet_is_not_lost(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """A broker that dies right after it has agreed to a commit marks it in the topic only when it is back."""
    newest = OffsetStore.newest
    with case.publisher() as publisher:
        publish_groups(publisher, case, 1)
        before = newest(OffsetStore(case.connection, case.publishing.offsets_topic, case.publishing.name), waits=True)
        publish_groups(publisher, case, 2)
        monkeypatch.setattr(OffsetStore, "newest", lambda self, *, waits: newest(self, waits=True) if waits else before)
        troubles = [BrokerError("FAILED", "no answer")]
        publisher.publish(group(case, 2, then=lambda: _raise_once(troubles)), "3")
    assert_once_in_order(case, 3)


def _raise_once(troubles: list[BrokerError]) -> None:
    while troubles:
        raise troubles.pop()


def test_a_transaction_that_lasts_too_long_is_named(case: Case) -> None:
    short = replace(case, publishing=replace(case.publishing, transaction_timeout=4.0))
    with short.publisher() as publisher, pytest.raises(BrokerError, match="TRANSACTION_TOO_LONG"):
        publisher.publish(group(case, 0, then=lambda: _wait_until_aborted(case)), "1")


def _wait_until_aborted(case: Case) -> None:
    client = KafkaAdminClient(bootstrap_servers=case.broker.servers)
    name = case.publishing.name
    while "ABORT" not in str(client.describe_transactions([name])[name].state).upper():
        pass
    client.close()


def test_a_message_that_is_too_large_is_named(case: Case) -> None:
    large = Messages(case.topic, pa.array([b"key"]), pa.array([bytes(2 << 20)]))
    with case.publisher() as publisher:
        publish_groups(publisher, case, 1)
        with pytest.raises(BrokerError, match=rf"MESSAGE_TOO_LARGE.*{case.topic}.*max\.message\.bytes"):
            publisher.publish(lambda: [numbered(case.topic, 100, 200), large], "2")
    assert_once_in_order(case, 1)  # nothing of the transaction is visible, and nothing is open
    with case.publisher() as publisher:
        publish_groups(publisher, case, 2)
    assert_once_in_order(case, 2)


def test_large_messages_go_where_the_topic_takes_them(case: Case) -> None:
    with Topics(case.connection) as topics:
        topics.create(f"{case.topic}.large", partitions=1, settings={"max.message.bytes": str(8 << 20)})
    values = pa.array([bytes([number]) * (6 << 20) for number in range(12)])
    with case.publisher() as publisher:
        publisher.publish(lambda: [Messages(f"{case.topic}.large", pa.nulls(12, pa.binary()), values)], "1")
    (records,) = consumed(case.broker, f"{case.topic}.large").values()
    assert [record.value for record in records] == values.to_pylist()


def test_a_topic_of_small_batches_takes_them(case: Case) -> None:
    """Or says that it does not: librdkafka sends a batch as it is, or not at all."""
    topic = f"{case.topic}.small"
    with Topics(case.connection) as topics:
        topics.create(topic, partitions=1, settings={"max.message.bytes": "20000"})
    values = pa.array([b"%d " % number * 200 for number in range(400)])
    with case.publisher() as publisher, _refused_by_librdkafka(case):
        publisher.publish(lambda: [Messages(topic, pa.nulls(len(values), pa.binary()), values)], "1")
        (records,) = consumed(case.broker, topic).values()
        assert [record.value for record in records] == values.to_pylist()


def _refused_by_librdkafka(case: Case) -> AbstractContextManager[object]:
    if case.client == "confluent-kafka":
        return pytest.raises(BrokerError, match=r"MESSAGE_TOO_LARGE.*max\.message\.bytes")
    return nullcontext()


def test_a_deleted_topic_is_named(case: Case) -> None:
    with case.publisher() as publisher:
        publish_groups(publisher, case, 1)
        _delete(case, case.topic)
        with pytest.raises(BrokerError, match=f"TOPIC_NOT_FOUND.*{case.topic}"):
            publisher.publish(group(case, 1), "2")


def test_a_message_too_large_is_named_while_others_are_sent(case: Case) -> None:
    """A client refuses all messages after it, those of other topics too, with other words."""
    other = new_case(case.broker, case.client).topic
    large = Messages(case.topic, pa.array([b"key"]), pa.array([bytes(2 << 20)]))

    def messages() -> Iterator[Messages]:
        yield large
        while True:
            yield numbered(other, 0, 100)

    with case.publisher() as publisher, pytest.raises(BrokerError, match=rf"MESSAGE_TOO_LARGE.*topic {case.topic}"):
        publisher.publish(messages, "1")


def test_a_topic_that_was_never_there_is_named(case: Case) -> None:
    with case.publisher() as publisher, pytest.raises(BrokerError, match=r"TOPIC_NOT_FOUND.*nobody\.made"):
        publisher.publish(lambda: [numbered("nobody.made", 0, 1)], "1")


@pytest.mark.thorough_where("confluent")
def test_lost_offsets_are_never_a_new_start(case: Case) -> None:
    with case.publisher() as publisher:
        publish_groups(publisher, case, 1)
        _delete(case, case.publishing.offsets_topic)
        with pytest.raises(BrokerError, match="OFFSETS_LOST"):
            publisher.publish(group(case, 1), "2")
    again = replace(case, publishing=replace(case.publishing, is_first_start=False))
    with pytest.raises(BrokerError, match=r"OFFSETS_LOST.*the topic is not there"), again.publisher():
        pass
    with Topics(case.connection) as topics:
        topics.create(case.publishing.offsets_topic, partitions=1, settings={"cleanup.policy": "compact"})
    with pytest.raises(BrokerError, match=r"OFFSETS_LOST.*it has no record"), again.publisher():
        pass


def test_an_offset_that_went_back_is_an_error(case: Case, kafka_broker: KafkaBroker) -> None:
    """What an unclean election of a leader does: the newest records are gone."""
    store = OffsetStore(case.connection, case.publishing.offsets_topic, case.publishing.name)
    with case.publisher() as publisher:
        publish_groups(publisher, case, 2)
        older = store.newest(waits=True)
        assert older is not None
        publish_groups(publisher, case, 3)
        producer = open_producer(case.connection, ProducerSettings(), case.client)
        producer.send(store.messages(older))
        producer.flush()
        producer.close()
        _fence(case)
        with pytest.raises(BrokerError, match=r"OFFSETS_LOST.*found transaction 3, expected transaction 4"):
            publisher.publish(group(case, 3), "4")


def _fence(case: Case) -> None:
    open_producer(case.connection, ProducerSettings(case.publishing.name), case.client).close()


def test_a_fenced_publisher_whose_name_nobody_took_goes_on(case: Case) -> None:
    """Brokers abort what lasts too long, or lose track of it, in the same words as for another publisher."""
    with case.publisher() as publisher:
        publish_groups(publisher, case, 1)
        publisher.publish(group(case, 1, then=lambda: _fence(case)), "2")
        publish_groups(publisher, case, 3)
    assert_once_in_order(case, 3)


@pytest.mark.thorough_where("confluent")
def test_a_topic_that_no_broker_can_hold_is_refused(case: Case) -> None:
    with Topics(case.connection) as topics, pytest.raises(BrokerError, match=r"KAFKA\.REFUSED\].*eplication"):
        topics.create("wide", partitions=1, replication=2, settings={})


@pytest.mark.thorough_where("confluent")
@pytest.mark.parametrize("policy", ["delete", "compact,delete"])
def test_offsets_that_would_be_deleted_with_time_are_refused(case: Case, policy: str) -> None:
    with Topics(case.connection) as topics:
        topics.create(case.publishing.offsets_topic, partitions=1, settings={"cleanup.policy": policy})
    with pytest.raises(BrokerError, match=f"OFFSETS_TOPIC.*cleanup.policy={policy}"), case.publisher():
        pass


@pytest.mark.thorough_where("confluent")
def test_the_topic_of_offsets_is_compacted(case: Case) -> None:
    with case.publisher(), Topics(case.connection) as topics:
        assert topics.settings(case.publishing.offsets_topic)["cleanup.policy"] == "compact"
        assert topics.partition_count(case.publishing.offsets_topic) == 1


@pytest.mark.thorough_where("confluent")
def test_publishers_share_a_topic_of_offsets(case: Case, kafka_broker: KafkaBroker) -> None:
    """The newest record is found though the other one has written hundreds since, and has a transaction open."""
    other = new_case(kafka_broker, case.client)
    other = replace(other, publishing=replace(other.publishing, offsets_topic=case.publishing.offsets_topic))
    store = OffsetStore(case.connection, case.publishing.offsets_topic, case.publishing.name)
    with case.publisher() as publisher:
        publish_groups(publisher, case, 1)
    with other.publisher() as publisher:
        for number in range(150):
            publisher.publish(lambda: (), str(number))
    found = store.newest(waits=True)
    assert found is not None
    assert (found.number, found.offset) == (2, "1")


@pytest.mark.thorough_where("confluent")
def test_an_open_transaction_of_others_hides_no_record(case: Case) -> None:
    """Records after its beginning cannot be read: the one before them is not taken for the newest."""
    store = OffsetStore(case.connection, case.publishing.offsets_topic, case.publishing.name)
    with case.publisher() as publisher:
        publish_groups(publisher, case, 1)
        other = open_producer(case.connection, ProducerSettings("other", 60.0), case.client)
        other.begin()
        other.send(Messages(store.topic, pa.array([b"other"]), pa.array([b"{}"]), partition=0))
        other.flush()
        publish_groups(publisher, case, 2)
        with pytest.raises(BrokerError, match=r"TRANSACTION_OPEN.*a transaction is open"):
            store.newest(waits=True)
        other.abort()
        found = store.newest(waits=True)
        assert found is not None
        assert found.offset == "2"
        other.close()


@pytest.mark.thorough_where("confluent")
@pytest.mark.parametrize(
    ("value", "expected", "text"),
    [
        (b"not JSON", BrokerError, "OFFSETS_TOPIC.*not one of a publisher"),
        (msgspec.json.encode(OffsetRecord("a", 1, "b", version=2)), UnsupportedError, "VERSION.*Use a later version"),
        (None, BrokerError, "OFFSETS_LOST"),
    ],
)
def test_a_strange_record_is_refused(case: Case, value: bytes | None, expected: type[Exception], text: str) -> None:
    with case.publisher() as publisher:
        publish_groups(publisher, case, 1)
    producer = open_producer(case.connection, ProducerSettings(), case.client)
    key = pa.array([case.publishing.name.encode()])
    producer.send(Messages(case.publishing.offsets_topic, key, pa.array([value], pa.binary()), partition=0))
    producer.flush()
    producer.close()
    again = replace(case, publishing=replace(case.publishing, is_first_start=False))
    with pytest.raises(expected, match=text), again.publisher():
        pass


def test_at_least_once_needs_no_transactions(case: Case) -> None:
    plain = replace(case, publishing=replace(case.publishing, delivery=Delivery.AT_LEAST_ONCE))
    for step, groups in ((PublishStep.SENT, 2), (PublishStep.RECORDED, 3)):
        with watched(_Late(step, case)), pytest.raises(Cut), plain.publisher() as publisher:
            publish_groups(publisher, plain, groups)
    with plain.publisher() as publisher:
        publish_groups(publisher, plain, 4)
    seen = [[int(record.value) for record in records] for records in consumed(case.broker, case.topic).values()]
    assert {number for numbers in seen for number in numbers} == set(range(4 * GROUP_MESSAGES))
    for numbers in seen:
        first_times = list(dict.fromkeys(numbers))
        assert first_times == sorted(first_times)


class _Late(CutAt):
    # Cuts off at the second transaction with messages, not at the one that a publisher begins with.
    def __init__(self, step: PublishStep, case: Case) -> None:
        super().__init__(step)
        self._left = 2

    def __call__(self, step: object) -> None:
        self._left -= step is self.step
        if self._left == 0:
            raise Cut


def test_a_huge_group_is_one_transaction(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its parts are sent as they come, and none is visible before the last one."""
    seen: list[int] = []
    value = pa.array([bytes(100_000)] * 100)

    def parts() -> object:
        for number in range(10):
            yield Messages(case.topic, pa.array([b"%d %d" % (number, row) for row in range(100)]), value)
            if number == 8:
                seen.append(sum(map(len, consumed_now(case).values())))

    with case.publisher() as publisher:
        publisher.publish(parts, "1")  # type: ignore[arg-type]
    assert seen == [0]
    assert sum(map(len, consumed(case.broker, case.topic).values())) == 1000


def consumed_now(case: Case) -> dict[int, list[object]]:
    from kafka import KafkaConsumer, TopicPartition

    reader = KafkaConsumer(bootstrap_servers=case.broker.servers, group_id=None, isolation_level="read_committed")
    partitions = [TopicPartition(case.topic, number) for number in range(3)]
    reader.assign(partitions)
    reader.seek_to_beginning(*partitions)
    ends = reader.end_offsets(partitions)
    reader.close()
    return {one.partition: [None] * end for one, end in ends.items()}


def _delete(case: Case, topic: str) -> None:
    client = KafkaAdminClient(bootstrap_servers=case.broker.servers)
    client.delete_topics([topic])
    client.close()
    with Topics(case.connection) as topics:  # a broker deletes it a moment after it says so
        while topics.partition_count(topic) is not None:
            pass
