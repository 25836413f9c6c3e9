"""A MariaDB server's tables, rebuilt from topics by a consumer that knows keys, tombstones and TRUNCATE."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from binlog_format.errors import BinlogError
from binlog_lab.demo.proof.topics import read_values
from binlog_streaming.topics.job import TopicsJob
from tests.streaming.topics.publishing import publish_job

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import MariaDbServer
    from tests.faults.kafka_broker import KafkaBroker

pytestmark = pytest.mark.server

STATEMENTS = """
CREATE DATABASE shop CHARACTER SET utf8mb4;
CREATE TABLE shop.items (id INT PRIMARY KEY, name VARCHAR(40), price DECIMAL(8,2));
CREATE TABLE shop.log (message VARCHAR(40));
INSERT INTO shop.items VALUES (1, 'a', 1.10), (2, 'b', 2.20), (3, 'c', 3.30), (4, 'ü', NULL);
UPDATE shop.items SET price = price + 1 WHERE id < 3;
UPDATE shop.items SET id = 30 WHERE id = 3;
DELETE FROM shop.items WHERE id = 2;
INSERT INTO shop.log VALUES ('first'), ('second');
TRUNCATE TABLE shop.items;
INSERT INTO shop.items VALUES (1, 'again', 5), (7, 'seven', 7.77);
ALTER TABLE shop.items ADD COLUMN stock INT NOT NULL DEFAULT 3;
INSERT INTO shop.items VALUES (8, 'eight', 8.88, 8);
UPDATE shop.items SET stock = 4;
"""


def run(server: MariaDbServer, statements: str) -> None:
    with server.connect(autocommit=True) as connection, connection.cursor() as cursor:
        for statement in filter(None, map(str.strip, statements.split(";"))):
            cursor.execute(statement)


def rebuilt(broker: KafkaBroker, topic: str) -> dict[int, dict[str, Any]]:
    """The rows of a table by `id`, as messages leave them; a TRUNCATE is about the rows of its partition."""
    rows: dict[int, tuple[int, dict[str, Any]]] = {}
    for partition, value in read_values(broker.servers, topic):
        if value is None:
            continue
        message = msgspec.json.decode(value)
        if message["op"] == "t":
            rows = {key: row for key, row in rows.items() if row[0] != partition}
        elif message["after"] is None:
            del rows[message["before"]["id"]]
        else:
            rows[message["after"]["id"]] = partition, message["after"]
    return {key: row for key, (_, row) in rows.items()}


@pytest.mark.parametrize("client", ["kafka-python", "confluent-kafka"])
def test_rows_of_a_server_come_back_from_its_topics(
    mariadb_server: MariaDbServer, kafka_broker: KafkaBroker, tmp_path: Path, client: str
) -> None:
    run(mariadb_server, STATEMENTS)
    job = publish_job(
        tmp_path, mariadb_server.binlog_directory, kafka_broker, client=client, more="schema_changes = true"
    )
    TopicsJob(job, once=True).run()
    prefix = job.sink.topic_prefix
    found = rebuilt(kafka_broker, f"{prefix}.shop.items")
    assert found == {
        1: {"id": 1, "name": "again", "price": "5.00", "stock": 4},
        7: {"id": 7, "name": "seven", "price": "7.77", "stock": 4},
        8: {"id": 8, "name": "eight", "price": "8.88", "stock": 4},
    }
    values = [
        msgspec.json.decode(value or b"null") for _, value in read_values(kafka_broker.servers, f"{prefix}.shop.log")
    ]
    assert [value["after"]["message"] for value in values] == ["first", "second"]
    ddl = [msgspec.json.decode(value or b"null")["ddl"] for _, value in read_values(kafka_broker.servers, prefix)]
    assert [text.split()[0] for text in ddl] == ["CREATE", "CREATE", "CREATE", "TRUNCATE", "ALTER"]


def test_statements_without_row_events_end_it(
    mariadb_server: MariaDbServer, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    run(mariadb_server, STATEMENTS)
    run(mariadb_server, "SET SESSION binlog_format = STATEMENT; UPDATE shop.items SET stock = 9 WHERE id = 1")
    job = publish_job(tmp_path, mariadb_server.binlog_directory, kafka_broker)
    named = r"STATEMENT_FORMAT.*shop\.items.*a job that publishes needs failOnStatement = false"
    with pytest.raises(BinlogError, match=named):
        TopicsJob(job, once=True, step_size_max=1).run()
    assert len(rebuilt(kafka_broker, f"{job.sink.topic_prefix}.shop.items")) == 3  # all before it is there
