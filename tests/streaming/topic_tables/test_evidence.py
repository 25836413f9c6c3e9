"""What changes say about the rows before them is compared with tables out of topics, as far as these have the rows."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Any

import pytest
from kafka.admin import ConfigResource, ConfigResourceType, KafkaAdminClient

from binlog_format.errors import TableError
from binlog_streaming.cli.status.status import _table_state
from binlog_streaming.job_state.progress import Note
from binlog_streaming.status.tallies import TableTallies
from tests.streaming.topic_tables.test_run import RULES, Source, bring_back, ids, target

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from binlog_streaming.job_state.progress import BatchProgress
    from tests.faults.kafka_broker import KafkaBroker

pytestmark = pytest.mark.server

MIRROR = '[[tables]]\nmode = "mirror"\ntarget = "mirror/{database}/{table}"\n'
OFF = f'{MIRROR}evidence = "off"\n'


@pytest.fixture
def source(kafka_broker: KafkaBroker) -> Iterator[Source]:
    with Source(kafka_broker, f"e{uuid.uuid4().hex[:12]}", partitions=1) as made:
        yield made


def row(number: int, name: str) -> dict[str, Any]:
    return {"id": number, "name": name}


def send(source: Source, place: int, op: str, before: Any = None, after: Any = None) -> None:
    source.send(0, source.change(place, op, before, after), key=source.key((before or after)["id"]))


CONTRADICTIONS = [
    pytest.param("c", None, row(1, "new"), "needs .*no row of key id", id="a TRUNCATE that nobody published"),
    pytest.param("u", row(1, "b"), row(1, "c"), "needs .*the row .*: name is", id="an ALTER TABLE that converted"),
    pytest.param("d", row(1, "b"), None, "needs .*the row .*: name is", id="a DELETE of another row"),
]


@pytest.mark.parametrize("is_read_before", [False, True])
@pytest.mark.parametrize(("op", "before", "after", "reason"), CONTRADICTIONS)
def test_a_row_that_is_another_one_is_named(
    source: Source, tmp_path: Path, op: str, before: Any, after: Any, reason: str, is_read_before: bool
) -> None:
    send(source, 1, "c", after=row(1, "a"))
    if is_read_before:
        bring_back(source.job(tmp_path, rules=MIRROR))
    send(source, 2, op, before, after)
    with pytest.raises(TableError, match=rf"CONTRADICTED\] shop\.items: .* at 0-1-2 .*{reason}.*skipped_operations"):
        bring_back(source.job(tmp_path, rules=MIRROR))
    bring_back(source.job(tmp_path, rules=OFF))
    assert target(source.job(tmp_path), "mirror", "shop.items").to_pylist() == ([] if after is None else [after])


def test_rows_from_before_the_topic_may_be_missing_and_come_later(source: Source, tmp_path: Path) -> None:
    send(source, 1, "u", row(1, "a"), row(1, "b"))
    send(source, 2, "d", row(2, "a"))
    send(source, 3, "r", after=row(1, "b"))
    send(source, 4, "r", after=row(3, "c"))
    send(source, 5, "u", row(3, "c"), row(3, "d"))
    job = source.job(tmp_path, rules=RULES)
    batches: list[BatchProgress] = []
    bring_back(job, listener=batches.append)
    found = {table.mode: (table.missing, table.notes) for table in batches[0].tables}
    assert found == {"mirror": (2, frozenset({Note.ROWS_MISSING})), "changelog": (0, frozenset())}
    send(source, 6, "r", after=row(3, "d"))
    send(source, 7, "d", row(3, "d"))
    send(source, 8, "c", after=row(3, "e"))
    bring_back(job, listener=batches.append)
    assert target(job, "mirror", "shop.items").sort_by("id").to_pylist() == [row(1, "b"), row(3, "e")]
    tallies = TableTallies(())
    for each in batches:
        tallies.take_batch(each)
    (table,) = tallies.tables(None, "")
    state = f"rows are missing: it lacked 2 rows that changes were about, last in batch {batches[0].batch_id}"
    assert _table_state(table) == (state, "yellow")


def test_messages_that_a_compaction_leaves_prove_nothing(source: Source, tmp_path: Path) -> None:
    admin = KafkaAdminClient(bootstrap_servers=source.broker.servers)
    admin.alter_configs([ConfigResource(ConfigResourceType.TOPIC, source.topic, {"cleanup.policy": "compact"})])
    admin.close()
    send(source, 1, "c", after=row(1, "a"))
    job = source.job(tmp_path, rules=MIRROR)
    bring_back(job)
    send(source, 5, "u", row(1, "d"), row(1, "e"))
    send(source, 9, "c", after=row(1, "f"))
    bring_back(job)
    assert ids(job) == [1]
