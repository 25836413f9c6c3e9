"""A consumer that rebuilds tables from topics gets exactly the workload's, whatever happens to the publisher."""

from __future__ import annotations

import shutil
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING

import pytest
from kafka.admin import KafkaAdminClient
from msgspec.structs import replace

from binlog_connector.crash_points import watched
from binlog_connector.kafka.connection import Connection
from binlog_connector.kafka.publisher import PublishStep
from binlog_connector.kafka.topics import Topics
from binlog_format.errors import BinlogError, BrokerError, DataLossError, OptionError
from binlog_lab.demo.proof.topics import read_values
from binlog_streaming.jobs.publish_check import check_publish_job
from binlog_streaming.settings.publish_model import TopicShape
from binlog_streaming.topics.job import TopicsJob
from tests.faults.processes import Kill, in_a_process
from tests.streaming.topics.publishing import (
    STEP_SIZE,
    LogWriting,
    Recording,
    assert_topics_hold,
    publish,
    publish_job,
    recorded,
)

if TYPE_CHECKING:
    from enum import StrEnum
    from pathlib import Path

    from binlog_streaming.settings import PublishJob
    from tests.faults.kafka_broker import KafkaBroker

pytestmark = pytest.mark.server

CLIENTS = ("kafka-python", "confluent-kafka")
CHANGES = 2500
STEPS_A_TRANSACTION = 4
"""Places where `Publisher` may be killed in one."""


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return recorded(tmp_path_factory.mktemp("recorded") / "log", CHANGES)


@pytest.fixture(params=CLIENTS)
def job(request: pytest.FixtureRequest, kafka_broker: KafkaBroker, recording: Recording, tmp_path: Path) -> PublishJob:
    return publish_job(tmp_path, recording.directory, kafka_broker, client=request.param)


def _publish_until_killed(job: PublishJob, kill: Kill) -> None:
    with watched(kill):
        publish(job)


@pytest.mark.parametrize("kills", [7, pytest.param(60, marks=pytest.mark.thorough)])
def test_killed_again_and_again(job: PublishJob, recording: Recording, kills: int) -> None:
    """Each process is killed one step later than the one before; after a while each gets a transaction done."""
    ends = [in_a_process(partial(_publish_until_killed, job, Kill(left))) for left in range(1, kills + 1)]
    assert set(ends) <= {-9, 0}
    assert ends[:STEPS_A_TRANSACTION] == [-9] * STEPS_A_TRANSACTION
    publish(job)
    assert_topics_hold(job, recording)
    assert publish(job).progress.records == 0


def test_follows_a_log_that_is_written_altered_and_rotated(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    with LogWriting(tmp_path / "log", CHANGES) as writing:
        writing.write(20)
        job = publish_job(tmp_path, writing.directory, kafka_broker, more="transaction_metadata = true")
        is_ready, is_further = threading.Event(), threading.Semaphore(0)
        running = TopicsJob(job, listener=lambda _: is_further.release(), step_size_max=STEP_SIZE)
        with ThreadPoolExecutor(1) as threads:
            ended = threads.submit(running.run, lambda _: is_ready.set())
            assert is_ready.wait(300), ended
            while writing.write(100):
                is_further.acquire(timeout=0.5)  # sessions may have committed nothing
            recording = writing.recording()
            running.stop()
            ended.result()
    assert running.progress.transactions > 5
    publish(job)
    assert_topics_hold(job, recording)
    assert len(list((tmp_path / "log").glob("*.ibb"))) > 2


def test_the_last_of_two_publishers_goes_on(kafka_broker: KafkaBroker, recording: Recording, tmp_path: Path) -> None:
    job = publish_job(tmp_path, recording.directory, kafka_broker)
    is_first = [True]

    def begin_another(_: object) -> None:
        if is_first.pop() if is_first else False:
            publish(job)

    with pytest.raises(BrokerError, match="OTHER_PUBLISHER"):
        TopicsJob(job, once=True, listener=begin_another, step_size_max=STEP_SIZE).run()
    assert_topics_hold(job, recording)


def test_lost_offsets_are_no_new_start(kafka_broker: KafkaBroker, recording: Recording, tmp_path: Path) -> None:
    job = publish_job(tmp_path, recording.directory, kafka_broker)
    publish(job)
    admin = KafkaAdminClient(bootstrap_servers=kafka_broker.servers)
    offsets = f"{job.sink.topic_prefix}.offsets"
    admin.delete_topics([offsets])
    admin.close()
    with Topics(Connection(kafka_broker.servers)) as topics:
        while topics.partition_count(offsets) is not None:
            pass
    with pytest.raises(BrokerError, match="OFFSETS_LOST"):
        publish(job)


def test_a_lost_checkpoint_is_no_new_start(kafka_broker: KafkaBroker, recording: Recording, tmp_path: Path) -> None:
    job = publish_job(tmp_path, recording.directory, kafka_broker)
    publish(job)
    for file in (tmp_path / "state").iterdir():
        file.unlink()
    assert publish(job).progress.records == 0
    assert_topics_hold(job, recording)


def test_a_checkpoint_belongs_to_its_job(kafka_broker: KafkaBroker, recording: Recording, tmp_path: Path) -> None:
    publish(publish_job(tmp_path, recording.directory, kafka_broker))
    with pytest.raises(OptionError, match=r"sink\.topic_prefix: this checkpoint was begun with"):
        publish(publish_job(tmp_path, recording.directory, kafka_broker))


def test_a_log_that_was_begun_anew_is_named(kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    job = publish_job(tmp_path, tmp_path / "log", kafka_broker)
    recorded(tmp_path / "log", 300)
    publish(job)
    for file in (tmp_path / "log").iterdir():
        file.unlink()
    with LogWriting(tmp_path / "log", 300, seed=8) as writing:
        writing.write()
    with pytest.raises(DataLossError):
        publish(job)


@pytest.mark.thorough
@pytest.mark.parametrize("freezes", [False, True])
def test_a_broker_that_goes_away_under_a_transaction(
    job: PublishJob, recording: Recording, kafka_broker: KafkaBroker, freezes: bool
) -> None:
    """Killed and started again; or stopped for longer than any answer may take."""
    sent = []

    def go_away(step: StrEnum) -> None:
        sent.append(step is PublishStep.SENT)
        if sent.count(True) != 3 or not sent[-1]:
            return
        if freezes:
            kafka_broker.freeze()
            threading.Timer(15, kafka_broker.thaw).start()
        else:
            kafka_broker.kill()
            kafka_broker.start()

    with watched(go_away):
        publish(job)
    assert_topics_hold(job, recording)


@pytest.mark.thorough
def test_a_topic_that_nobody_made_is_named(kafka_broker: KafkaBroker, recording: Recording, tmp_path: Path) -> None:
    job = publish_job(tmp_path, recording.directory, kafka_broker)
    with pytest.raises(BrokerError, match=rf"TOPIC_NOT_FOUND.*{job.sink.topic_prefix}\.shop"):
        publish(replace(job, sink=replace(job.sink, partitions=None)))


def test_a_compacted_topic_is_refused_where_messages_have_no_key(
    kafka_broker: KafkaBroker, recording: Recording, tmp_path: Path
) -> None:
    job = publish_job(tmp_path, recording.directory, kafka_broker, more='skipped_operations = ["t"]')
    compacted = TopicShape(select=".*", settings={"cleanup.policy": "compact"})
    made, no_truncates = (
        replace(job.sink, topics=(compacted,)),
        replace(job, sink=replace(job.sink, topics=(compacted,))),
    )
    assert not check_publish_job(no_truncates).problems
    report = check_publish_job(replace(job, sink=replace(made, skipped_operations=())))
    assert report.problems
    assert all("cleanup.policy has compact" in problem and "TRUNCATE" in problem for problem in report.problems)
    publish(no_truncates)
    with Topics(Connection(job.sink.bootstrap_servers)) as topics:
        assert {topics.settings(topic.topic)["cleanup.policy"] for topic in report.topics} == {"compact"}
    # Now they are there, whatever the settings say.
    assert check_publish_job(replace(job, sink=replace(job.sink, skipped_operations=()))).problems == report.problems


def test_a_heartbeat_comes_when_nothing_else_does(
    kafka_broker: KafkaBroker, recording: Recording, tmp_path: Path
) -> None:
    job = publish_job(tmp_path, recording.directory, kafka_broker, more='heartbeat = "50ms"')
    publish(job)
    running = TopicsJob(job)
    with ThreadPoolExecutor(1) as threads:
        ended = threads.submit(running.run)
        topic = f"__debezium-heartbeat.{job.sink.topic_prefix}"
        while not list(read_values(kafka_broker.servers, topic)):
            assert not ended.done()
        running.stop()
        ended.result()


def test_a_heartbeat_comes_while_tables_change_that_are_not_selected(
    kafka_broker: KafkaBroker, recording: Recording, tmp_path: Path
) -> None:
    job = publish_job(tmp_path, recording.directory, kafka_broker, more='heartbeat = "1ms"')
    publish(replace(job, tables=(replace(job.tables[0], select=r"nobody\..*"),)))
    assert list(read_values(kafka_broker.servers, f"__debezium-heartbeat.{job.sink.topic_prefix}"))


def test_what_cannot_be_read_ends_it_before_it_is_visible(
    kafka_broker: KafkaBroker, recording: Recording, tmp_path: Path
) -> None:
    """A damaged page in the middle: what comes before is published, nothing of what comes after."""
    shutil.copytree(recording.directory, tmp_path / "log")
    middle = sorted((tmp_path / "log").glob("*.ibb"))[0]
    content = bytearray(middle.read_bytes())
    content[12 * (16 << 10) + 1000] ^= 1
    middle.write_bytes(content)
    job = publish_job(tmp_path, tmp_path / "log", kafka_broker)
    with pytest.raises(BinlogError, match="BINLOG_CORRUPT"):
        publish(job)
    middle.write_bytes((recording.directory / middle.name).read_bytes())
    publish(job)
    assert_topics_hold(job, recording)


def test_the_log_may_be_elsewhere_but_not_another_one(
    kafka_broker: KafkaBroker, recording: Recording, tmp_path: Path
) -> None:
    job = publish_job(tmp_path, recording.directory, kafka_broker)
    publish(job)
    moved = shutil.copytree(recording.directory, tmp_path / "moved")
    elsewhere = replace(job, source=replace(job.source, path=str(moved)))
    assert publish(elsewhere).progress.records == 0
    other = recorded(tmp_path / "other", 40)
    another = replace(job, source=replace(job.source, path=str(other.directory)))
    with pytest.raises(OptionError, match=r"source\.path: this checkpoint was begun with '.*moved'"):
        publish(another)
    with pytest.raises(DataLossError, match="TRUNCATED_TRANSACTION"):
        check_publish_job(another)
    assert check_publish_job(elsewhere).changed == ()
    assert_topics_hold(job, recording)
