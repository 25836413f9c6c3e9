"""A primary dies under load, and tables and topics of jobs go on in the log of its replica, by one command."""

from __future__ import annotations

import uuid
from collections import Counter
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable

from binlog_connector.crash_points import watched
from binlog_connector.kafka.producer import Messages
from binlog_connector.kafka.publisher import Publisher
from binlog_format.errors import BrokerError
from binlog_streaming.job_state.switch_journal import SwitchStep
from binlog_streaming.jobs.mirror import any_job_at
from binlog_streaming.jobs.switch import plan_switch
from binlog_streaming.settings import PublishJob
from binlog_streaming.topics.connecting import connection_of, names_of, publishing_of
from tests.faults.processes import Cut, CutAt
from tests.servers import ServerKind
from tests.streaming.failing_over.pairs import (
    INSERT,
    SCHEMA,
    TABLES_JOB,
    TOPICS_JOB,
    Load,
    Pair,
    follow,
    promote,
    ran,
    read_changes,
    rows_of,
    server_of,
    wait_until_at,
)
from tests.streaming.snapshot.live import run_sql, url_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from pyspark.sql import SparkSession

    from binlog_lab.demo.mariadb.server import DatabaseServer
    from binlog_lab.demo.servers.kafka_broker import KafkaBroker

pytestmark = [pytest.mark.server, pytest.mark.slow]


@pytest.fixture(params=[ServerKind.MARIADB, pytest.param(ServerKind.MYSQL, marks=pytest.mark.thorough)])
def servers(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[DatabaseServer, DatabaseServer]]:
    """A primary with the tables, and its replica."""
    with server_of(request.param, tmp_path / "one", 1) as primary, server_of(request.param, tmp_path / "two", 2) as two:
        follow(two, primary)
        run_sql(primary, SCHEMA)
        yield primary, two


@pytest.mark.spark
def test_tables_go_on_in_the_log_of_a_replica(
    spark: SparkSession, servers: tuple[DatabaseServer, DatabaseServer], tmp_path: Path
) -> None:
    primary, replica = servers
    (tmp_path / "job.toml").write_text(TABLES_JOB.format(log=primary.binlog_directory))
    with Load(primary, 1) as load:
        load.wait(50)
        ran(tmp_path, "run", "job.toml", "--once")
        load.wait(50)
        wait_until_at(replica, primary.gtid_position())
        primary.kill()
    promote(replica)
    ran(tmp_path, "switch", "job.toml", "--to", replica.binlog_directory)
    with Load(replica, 2) as load:
        load.wait(50)
    ran(tmp_path, "run", "job.toml", "--once")
    proved = ran(tmp_path, "prove", "job.toml", "--server", url_of(replica), password=replica.password)
    assert "2 of 2 targets equal" in proved
    for table in ("items", "orders"):
        changes = DeltaTable(str(tmp_path / "tables/changelog" / table)).to_pyarrow_table(
            columns=["_gtid", "_event_no", "_row_no", "_change_type"]
        )
        assert len(set(map(tuple, (row.values() for row in changes.to_pylist())))) == len(changes)


BACK_JOB = """
checkpoint = "back"
[source]
kind = "kafka"
bootstrap_servers = "{servers}"
topics = '{prefix}[.]shop[.].*'
[sink]
directory = "tables"
[[tables]]
mode = ["mirror", "changelog"]
target = "{{mode}}/{{table}}"
"""


def test_tables_of_topics_go_on_within_a_second(mariadb_pair: Pair, kafka_broker: KafkaBroker, tmp_path: Path) -> None:
    """All is of one second, and the replica's places are smaller: no time tells which log a change is of."""
    primary, replica = mariadb_pair.primary, mariadb_pair.replica
    moment = "SET timestamp = 4000000000"
    run_sql(primary, ["FLUSH BINARY LOGS"] * 3)
    run_sql(primary, [moment, *(INSERT.format(key) for key in range(2, 9))])
    names = {"servers": kafka_broker.servers, "prefix": f"t{uuid.uuid4().hex[:12]}"}
    text = TOPICS_JOB.format(log=primary.binlog_directory, **names)
    (tmp_path / "job.toml").write_text(f"{text}schemas_enable = true\n")
    (tmp_path / "back.toml").write_text(BACK_JOB.format(**names))
    ran(tmp_path, "publish", "job.toml", "--once")
    ran(tmp_path, "run", "back.toml", "--once")
    mariadb_pair.catch_up()
    promote(replica)
    job = any_job_at(str(tmp_path / "job.toml"))
    assert isinstance(job, PublishJob)
    options = publishing_of(job.sink, names_of(job.sink), is_first_start=False)
    with Publisher(connection_of(job.sink), options) as frozen:  # before it has sent anything
        ran(tmp_path, "switch", "job.toml", "--to", replica.binlog_directory)
        again = Messages(f"{names['prefix']}.shop.items", pa.array([b"again"]), pa.array([b"again"]))
        with pytest.raises(BrokerError, match="OTHER_PUBLISHER"):
            frozen.publish(lambda: [again], frozen.offset)
    run_sql(replica, [moment, *(f"UPDATE shop.items SET n = {n} WHERE id < 20" for n in (2, 3)), INSERT.format(20)])
    ran(tmp_path, "publish", "job.toml", "--once")
    ran(tmp_path, "run", "back.toml", "--once")
    found = {
        mode: DeltaTable(str(tmp_path / "tables" / mode / "items")).to_pyarrow_table()
        for mode in ("mirror", "changelog")
    }
    assert sorted(map(tuple, (row.values() for row in found["mirror"].to_pylist()))) == rows_of(replica, "items")
    kinds = Counter(found["changelog"].column("_change_type").to_pylist())
    assert kinds == {"insert": 9, "update_preimage": 16, "update_postimage": 16}


def test_topics_go_on_in_the_log_of_a_replica(
    servers: tuple[DatabaseServer, DatabaseServer], kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    primary, replica = servers
    prefix = f"t{uuid.uuid4().hex[:12]}"
    text = TOPICS_JOB.format(log=primary.binlog_directory, servers=kafka_broker.servers, prefix=prefix)
    (tmp_path / "job.toml").write_text(text)
    with Load(primary, 1) as load:
        load.wait(50)
        ran(tmp_path, "publish", "job.toml", "--once")
        load.wait(50)
        wait_until_at(replica, primary.gtid_position())
        primary.kill()
    promote(replica)
    # Cut off before Kafka has it, and completed by the next call.
    with watched(CutAt(SwitchStep.DEFINITIONS)), pytest.raises(Cut):
        plan_switch(str(tmp_path / "job.toml"), str(replica.binlog_directory)).apply(lambda _: None)
    assert ran(tmp_path, "switch", "job.toml", "--to", replica.binlog_directory).startswith("nothing")
    with Load(replica, 2) as load:
        load.wait(50)
        ran(tmp_path, "publish", "job.toml", "--once")
        load.wait(10)
    ran(tmp_path, "publish", "job.toml", "--once")
    for table, key_columns in (("items", 1), ("orders", 2)):
        topic = read_changes(kafka_broker.servers, f"{prefix}.shop.{table}", key_columns)
        assert topic.faults == []
        assert topic.rows == rows_of(replica, table)
        assert topic.changes > len(topic.rows)
