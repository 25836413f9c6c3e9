"""Avro into a real broker: a consumer with the registry's schemas gets exactly the workload's tables."""

from __future__ import annotations

import base64
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from binlog_connector.crash_points import watched
from binlog_connector.kafka.publisher import PublishStep
from binlog_format.errors import RegistryError
from binlog_lab.demo.proof.topics import read_values
from binlog_streaming.jobs.publish_check import check_publish_job
from binlog_streaming.settings.source_texts import publish_job_text
from tests.faults.processes import Kill, in_a_process
from tests.faults.schema_registry import SchemaRegistryServer
from tests.program import run_program
from tests.streaming.topics.publishing import Recording, assert_topics_hold, publish, publish_job, recorded

if TYPE_CHECKING:
    from collections.abc import Iterator
    from enum import StrEnum
    from pathlib import Path

    from binlog_streaming.settings import PublishJob
    from tests.faults.kafka_broker import KafkaBroker

pytestmark = pytest.mark.server

PASSWORD = {"REGISTRY_PASSWORD": "correct horse"}


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Recording:
    return recorded(tmp_path_factory.mktemp("recorded") / "log", 1500)


@pytest.fixture
def server() -> Iterator[SchemaRegistryServer]:
    # Columns are added that are NOT NULL: without a default no schema of before can be read with the new one.
    with SchemaRegistryServer(compatibility_default="NONE") as running:
        yield running


@pytest.fixture
def job(kafka_broker: KafkaBroker, recording: Recording, server: SchemaRegistryServer, tmp_path: Path) -> PublishJob:
    more = f'format = "avro"\ntransaction_metadata = true\n[sink.registry]\nurl = "{server.url}"\n'
    return publish_job(tmp_path, recording.directory, kafka_broker, more=more)


def _publish_until_killed(job: PublishJob, kill: Kill) -> None:
    with watched(kill):
        publish(job)


def test_killed_again_and_again(job: PublishJob, recording: Recording, server: SchemaRegistryServer) -> None:
    ends = [in_a_process(partial(_publish_until_killed, job, Kill(left))) for left in range(1, 5)]
    assert ends == [-9] * 4
    publish(job)
    assert_topics_hold(job, recording, server.decode)
    prefix = job.sink.topic_prefix
    altered = [subject for subject in server.subjects() if len(server.versions(subject)) > 1]
    assert altered, "tables are altered in the workload"
    assert all(subject.startswith(f"{prefix}.shop.") for subject in altered)
    values = read_values(job.sink.bootstrap_servers, f"{prefix}.transaction")
    assert {server.decode(value)["status"] for _, value in values if value} == {"BEGIN", "END"}


def test_a_registry_that_goes_away_is_waited_for(
    job: PublishJob, recording: Recording, server: SchemaRegistryServer
) -> None:
    """Between two transactions, and with answers of 503 when it is there again."""
    begun = []

    def go_away(step: StrEnum) -> None:
        begun.append(step is PublishStep.BEGUN)
        if begun.count(True) == 2 and begun[-1]:
            server.failures += [503, 503]

    with watched(go_away):
        publish(job)
    assert not server.failures
    assert_topics_hold(job, recording, server.decode)


def test_a_change_that_a_subject_forbids_is_named_and_nothing_of_it_is_visible(
    job: PublishJob, recording: Recording, server: SchemaRegistryServer
) -> None:
    server.compatibility_default = "BACKWARD"
    with pytest.raises(RegistryError, match=rf"INCOMPATIBLE.*subject {job.sink.topic_prefix}\.shop\.\w+-value"):
        publish(job)
    server.compatibility_default = "NONE"
    publish(job)
    assert_topics_hold(job, recording, server.decode)


def test_events_have_their_data_under_a_subject_of_its_own(
    kafka_broker: KafkaBroker, recording: Recording, server: SchemaRegistryServer, tmp_path: Path
) -> None:
    more = 'format = "avro"\nenvelope = "cloudevents"\nskipped_operations = ["t"]\ntransaction_metadata = true\n'
    more += f'[sink.registry]\nurl = "{server.url}"\n'
    job = publish_job(tmp_path, recording.directory, kafka_broker, more=more)
    subject = f"{job.sink.topic_prefix}.shop.orders-data-value"
    server.compatibility[subject] = "BACKWARD"
    other = '{"type":"record","name":"Data","fields":[{"name":"other","type":"string"}]}'
    assert server.register(subject, other)[0] == 200
    (problem,) = check_publish_job(job).problems
    assert problem.startswith(f"{subject}: its schema is not compatible")
    with pytest.raises(RegistryError, match=rf"INCOMPATIBLE.*subject {subject}"):
        publish(job)
    del server.compatibility[subject]
    publish(job)

    def data(message: bytes) -> Any:
        value = server.decode(message)
        return server.decode(base64.b64decode(value["data"])) if "specversion" in value else value

    assert_topics_hold(job, recording, data)


def test_the_format_of_a_job_stays(job: PublishJob, tmp_path: Path) -> None:
    publish(job)
    text = publish_job_text(job).replace('format = "avro"', 'format = "json"').replace("url =", "# url =")
    (tmp_path / "job.toml").write_text(text)
    done = run_program("publish", tmp_path / "job.toml", "--once")
    assert done.returncode == 2
    assert "sink.format: this checkpoint was begun with 'avro', now it is 'json'" in done.stderr


def test_check_asks_the_registry_and_a_wrong_password_is_named_and_not_shown(
    kafka_broker: KafkaBroker, recording: Recording, tmp_path: Path
) -> None:
    with SchemaRegistryServer(user="app", password=PASSWORD["REGISTRY_PASSWORD"]) as server:
        registry = f'[sink.registry]\nurl = "{server.url}"\nuser = "app"\npassword_variable = "REGISTRY_PASSWORD"\n'
        job = publish_job(tmp_path, recording.directory, kafka_broker, more=f'format = "avro"\n{registry}')
        (tmp_path / "job.toml").write_text(publish_job_text(job))
        for command in ("check", "publish"):
            wrong = run_program(command, tmp_path / "job.toml", environment={"REGISTRY_PASSWORD": "wrong pony"})
            assert wrong.returncode == 1
            assert "BINLOG_REGISTRY.AUTHENTICATION" in wrong.stderr
            assert "pony" not in wrong.stdout + wrong.stderr
        right = run_program("check", tmp_path / "job.toml", environment=PASSWORD)
        assert right.returncode == 0, right.stdout + right.stderr
        assert f"{server.url} (it answers)" in right.stdout
        assert server.subjects() == []
        other = '{"type":"record","name":"Key","fields":[{"name":"other","type":"string"}]}'
        subject = f"{job.sink.topic_prefix}.shop.orders-key"
        assert server.register(subject, other)[0] == 200
        refused = run_program("check", tmp_path / "job.toml", environment=PASSWORD)
        assert refused.returncode == 1
        assert f"{subject}: its schema is not compatible" in " ".join(refused.stdout.split())


def test_a_registry_that_is_not_there_is_named_at_once(job: PublishJob, server: SchemaRegistryServer) -> None:
    server.stop()
    with pytest.raises(RegistryError, match=r"BINLOG_REGISTRY\.UNREACHABLE"):
        publish(job)
