"""Names of topics, publisher, job and server change no key; types do not change with a server's variables."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from binlog_connector.following.offsets import SourceOffset
from binlog_connector.kafka.registry import RegistryConnection, SchemaRegistry
from binlog_format.position import Position
from binlog_streaming.settings import PublishJob, parse_any_job
from binlog_streaming.topics.connecting import PublishedOffset
from binlog_streaming.topics.record import remember, with_message_version
from tests.faults.schema_registry import SchemaRegistryServer
from tests.streaming.topics.publishing import messages_made, recorded

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_connector.envelope.avro.avro_encoding import SchemaIds
    from binlog_lab.demo.mariadb.server import MariaDbServer

FORMER = 'topic_prefix = "shop"'
RENAMED = 'topic_prefix = "new"\nsource_name = "shop"\ntopic = "{prefix}-{table}-of-{database}"'


@pytest.mark.parametrize("file_no", [1, 6, 7, 8])
@pytest.mark.parametrize("files_before", [0, 40])
def test_total_orders_grow_wherever_a_job_goes_on(file_no: int, files_before: int) -> None:
    """As after a switch to another log, or in one that was begun anew; at the same place nothing changes."""
    before = PublishedOffset(SourceOffset(Position(7, 3, 4)), files_before)
    after = before.followed_by(SourceOffset(Position(file_no, 3, 2)))
    assert after.order > before.order
    assert after.order.page == 3
    assert (after.files_before > files_before) == (file_no < 8)
    assert PublishedOffset.parse(after.text()) == after
    assert before.followed_by(before.offset) == before
    alone = json.dumps(before.offset.to_json())  # as earlier versions have it
    assert (before.text() == alone) == (files_before == 0)
    assert PublishedOffset.parse(alone) == PublishedOffset(before.offset)


def job_of(folder: Path, log: Path, sink: str, *, name: str = "job") -> PublishJob:
    text = (
        f'name = "{name}"\ncheckpoint = "{name}-state"\n[source]\npath = "{log}"\ndeclaredTypes = true\n[sink]\n'
        f'kind = "kafka"\nbootstrap_servers = "127.0.0.1:1"\nunsigned_bigint_handling = "precise"\n{sink}\n'
    )
    job = parse_any_job(text, file=folder / "job.toml")
    assert isinstance(job, PublishJob)
    return job


def keys(job: PublishJob, registry: SchemaIds | None = None) -> list[str | None]:
    return [message["key"] for message in messages_made(job, registry)]


@pytest.mark.parametrize("schemas", ["false", "true"])
def test_other_topics_and_another_publisher_have_the_same_keys(tmp_path: Path, schemas: str) -> None:
    log = recorded(tmp_path / "log", 300).directory
    more = f"\nschemas_enable = {schemas}"
    before = keys(job_of(tmp_path, log, FORMER + more))
    assert keys(job_of(tmp_path, log, RENAMED + more, name="renamed")) == before
    log.rename(tmp_path / "swapped")
    assert keys(job_of(tmp_path, tmp_path / "swapped", RENAMED + more)) == before
    assert len(set(before)) > 50
    unnamed = keys(job_of(tmp_path, tmp_path / "swapped", 'topic_prefix = "new"' + more))
    assert (unnamed == before) is (schemas == "false")


def test_keys_of_avro_have_the_same_ids_under_other_subjects(tmp_path: Path) -> None:
    log = recorded(tmp_path / "log", 300, alterations=()).directory
    with SchemaRegistryServer() as server:
        more = f'\nformat = "avro"\n[sink.registry]\nurl = "{server.url}"'
        made = [
            keys(job_of(tmp_path, log, sink + more), SchemaRegistry(RegistryConnection(server.url)))
            for sink in (FORMER, RENAMED)
        ]
        subjects = server.subjects()
    assert made[0] == made[1]
    assert {subject.partition(".")[0].partition("-")[0] for subject in subjects} == {"shop", "new"}


def test_a_job_keeps_the_version_of_messages_that_it_began_with(tmp_path: Path) -> None:
    job = job_of(tmp_path, tmp_path, FORMER)
    remember(job)
    record = tmp_path / "job-state" / "binlog-stream-job.json"
    assert with_message_version(job).sink.version == 3
    content = json.loads(record.read_text())
    assert content.pop("message_version") == 3
    record.write_text(json.dumps(content))  # as an earlier version wrote it
    kept = with_message_version(job)
    assert (kept.sink.version, kept.sink.skipped) == (1, frozenset())
    remember(kept)
    assert with_message_version(job).sink.version == 1
    chosen = job_of(tmp_path, tmp_path, f"{FORMER}\nmessage_version = 2")
    assert with_message_version(chosen).sink.version == 2


@pytest.mark.server
def test_types_stay_where_the_server_logs_more_of_tables(mariadb_server: MariaDbServer, tmp_path: Path) -> None:
    """UUID, INET6 and JSON under each value of `binlog_row_metadata`, in the same log, and after a restart."""
    with mariadb_server.connect() as connection, connection.cursor() as cursor:
        for statement in ("CREATE DATABASE shop", "SET GLOBAL binlog_row_metadata = NO_LOG"):
            cursor.execute(statement)
        cursor.execute(
            "CREATE TABLE shop.t (id UUID PRIMARY KEY, a INET6, b INET4, j JSON, n INT UNSIGNED, e ENUM('x'))"
        )
        for number, level in enumerate(("NO_LOG", "FULL", "MINIMAL", "NO_LOG")):
            cursor.execute(f"SET GLOBAL binlog_row_metadata = {level}")
            values = f"'123e4567-e89b-12d3-a456-42665544000{number}', '::{number}', '10.0.0.1', '[{number}]', 7, 'x'"
            cursor.execute(f"INSERT INTO shop.t VALUES ({values})")
    job = job_of(tmp_path, mariadb_server.binlog_directory, f"{FORMER}\nschemas_enable = true")
    made = [parsed(message) for message in messages_made(job) if message["topic"] == "shop.shop.t"]
    assert [value["payload"]["after"]["id"][-1] for _, value in made] == ["0", "1", "2", "3"]
    assert [value["payload"]["after"]["a"] for _, value in made] == ["::", "::1", "::2", "::3"]
    assert all(value["schema"] == made[0][1]["schema"] and key["schema"] == made[0][0]["schema"] for key, value in made)


def parsed(message: dict[str, Any]) -> tuple[Any, Any]:
    return json.loads(message["key"]), json.loads(message["value"])
