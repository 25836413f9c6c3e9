"""A MariaDB server's tables, published and brought back, are the server's; publisher and job are killed on the way."""

from __future__ import annotations

from decimal import Decimal
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from deltalake import DeltaTable

from binlog_connector.crash_points import watched
from binlog_streaming.topics.job import TopicsJob
from tests.faults.processes import Kill, in_a_process
from tests.streaming.topic_tables.test_run import back_job, bring_back
from tests.streaming.topics.publishing import publish_job
from tests.streaming.topics.test_live_server import run

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import MariaDbServer
    from tests.faults.kafka_broker import KafkaBroker

pytestmark = pytest.mark.server

STATEMENTS = """
CREATE DATABASE shop CHARACTER SET utf8mb4;
CREATE TABLE shop.items (
    id INT PRIMARY KEY, name VARCHAR(40) NOT NULL, price DECIMAL(8,2), big BIGINT UNSIGNED, small TINYINT,
    flags BIT(12), truth BIT(1), at DATETIME(6), day DATE, raw VARBINARY(20), weight DOUBLE, ratio FLOAT,
    kind ENUM('a', 'b'), digits DECIMAL(65,30), seen TIMESTAMP(3) NULL
);
CREATE TABLE shop.log (message VARCHAR(40), number INT);
INSERT INTO shop.items VALUES
    (1, 'a', 1.10, 18446744073709551615, -128, 5, 1, '2024-01-31 12:00:00.123456', '1000-01-01', 'x', 1e300, 0.1,
        'a', 0.000000000000000000000000000001, '2024-01-31 12:00:00.123'),
    (2, 'b', -2.20, 0, 127, 4095, 0, '9999-12-31 23:59:59.999999', '9999-12-31', '', -0.5, -1e30, 'b',
        -99999999999999999999999999999999999.000000000000000000000000000001, NULL),
    (3, 'ü', NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
UPDATE shop.items SET price = price + 1 WHERE id < 3;
UPDATE shop.items SET id = 30 WHERE id = 3;
DELETE FROM shop.items WHERE id = 2;
INSERT INTO shop.log VALUES ('first', 1), ('second', 2), ('second', 2);
DELETE FROM shop.log WHERE number = 2 LIMIT 1;
CREATE TABLE shop.gone (id INT PRIMARY KEY, word VARCHAR(9));
INSERT INTO shop.gone VALUES (1, 'x'), (2, 'y'), (3, 'z'), (4, 'z');
TRUNCATE TABLE shop.gone;
INSERT INTO shop.gone VALUES (2, 'again'), (5, 'new');
UPDATE shop.items SET id = 3, name = 'moved' WHERE id = 30;
UPDATE shop.items SET id = 4 WHERE id = 3;
"""
TABLES = ("items", "log", "gone")


def rows_of(server: MariaDbServer, table: str) -> list[tuple[Any, ...]]:
    with server.connect(autocommit=True) as connection, connection.cursor() as cursor:
        cursor.execute("SET time_zone = '+00:00'")
        cursor.execute(f"SELECT * FROM shop.{table}")
        return sorted((tuple(_plain(value) for value in row) for row in cursor.fetchall()), key=repr)


def _plain(value: Any) -> Any:
    return value.replace(tzinfo=None) if hasattr(value, "tzinfo") else value


def _killed(work: Callable[[], object], kills: int) -> None:
    def until_killed(kill: Kill) -> None:
        with watched(kill):
            work()

    assert -9 in [in_a_process(partial(until_killed, Kill(left))) for left in range(1, kills + 1)]
    work()


def test_tables_of_a_server_come_back_from_its_topics(
    mariadb_server: MariaDbServer, kafka_broker: KafkaBroker, tmp_path: Path
) -> None:
    run(mariadb_server, STATEMENTS)
    job = publish_job(tmp_path, mariadb_server.binlog_directory, kafka_broker, more="schemas_enable = true")
    job = msgspec.structs.replace(job, sink=msgspec.structs.replace(job.sink, decimal_handling="precise"))
    _killed(lambda: TopicsJob(job, once=True, step_size_max=1).run(), 4)
    back = back_job(tmp_path, kafka_broker.servers, job.sink.topic_prefix, rules='[[tables]]\nmode = "mirror"\n')
    _killed(lambda: bring_back(back), 12)
    for table in TABLES:
        rows = DeltaTable(f"{back.sink.directory}/shop/{table}").to_pyarrow_table().to_pylist()
        found = sorted((tuple(map(_plain, row.values())) for row in rows), key=repr)
        assert _texts(found) == _texts(rows_of(mariadb_server, table))
        assert found


def _texts(rows: list[tuple[Any, ...]]) -> list[tuple[str, ...]]:
    return [tuple(_text(value) for value in row) for row in rows]


def _text(value: Any) -> str:
    if isinstance(value, bytes) and len(value) <= 2:
        return str(int.from_bytes(value, "big"))  # BIT
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, float):
        return f"{value:.6g}"
    return str(int(value)) if isinstance(value, bool) else str(value)
