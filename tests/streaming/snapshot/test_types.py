"""Values of all types, odd ones too: a chunk has in the log what the INSERT of its rows had."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from binlog_connector.schema.snapshot_marks import Purpose
from binlog_streaming.snapshot.shadow import ShadowEngine
from binlog_streaming.snapshot.source_table import read_table
from binlog_streaming.snapshot.table_snapshot import TableSnapshot
from tests.streaming.snapshot.live import logged_groups, run_sql, session_on, write_all
from tests.truth.live.tables import fill_every_type

if TYPE_CHECKING:
    from binlog_lab.demo.mariadb.server import MariaDbServer

pytestmark = pytest.mark.server

ROWS = 40
# An ENUM that is none of its values, a day that is in no calendar, a number that a virtual column cannot compute, a
# TIMESTAMP without a default, a row that a CHECK would refuse today, what CREATE TABLE ... SELECT leaves away.
CREATE_ODD = """CREATE TABLE shop.odd (id INT AUTO_INCREMENT PRIMARY KEY, e ENUM('a','b') NOT NULL, d DATE, z INT,
    q INT AS (100 DIV z) VIRTUAL, ts TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
    c INT CHECK (c > 0), dbl DOUBLE(7,3), u INT UNSIGNED ZEROFILL DEFAULT 5, n TIMESTAMP NULL DEFAULT NULL)"""
ODD_MODE = "SET SESSION sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO', check_constraint_checks = 0"
ODD_ROWS = """INSERT INTO shop.odd (id, e, d, z, ts, c, dbl, u, n) VALUES
    (0, 'x', '2024-02-31', 0, 0, -1, 1.0005, 7, NULL),
    (5, 'b', '0000-00-00', 3, '2024-03-31 02:30:00', 1, 9999.999, 0, 0)"""


def images(server: MariaDbServer, table: str) -> list[dict[int, dict[str, Any]]]:
    """Rows by id, of the INSERTs into a table and of each snapshot of it."""
    found: dict[str, dict[int, dict[str, Any]]] = {}
    for group in logged_groups(server.binlog_directory):
        for op, name, _, after in group.changes:
            if op == "insert" and after is not None and (group.mark is not None or name == f"shop.{table}"):
                found.setdefault(name, {})[after["id"]] = after
    return list(found.values())


def take(server: MariaDbServer, table: str) -> None:
    with session_on(server) as session:
        for engine in ShadowEngine:
            write_all(TableSnapshot.start(session, read_table(session, "shop", table), Purpose.COMPLETE, engine), 15)


@pytest.fixture
def server(shared_server: MariaDbServer) -> MariaDbServer:
    run_sql(shared_server, ["DROP DATABASE IF EXISTS binlog_stream", "CREATE OR REPLACE DATABASE shop", "RESET MASTER"])
    return shared_server


def test_values_of_all_types_are_those_of_the_log(server: MariaDbServer) -> None:
    fill_every_type(server, ROWS, seed=5)
    take(server, "every_type")
    inserted, *taken = images(server, "every_type")
    assert len(inserted) == ROWS
    assert taken == [inserted, inserted]


def test_odd_values_are_those_of_the_log(server: MariaDbServer) -> None:
    run_sql(server, [CREATE_ODD, ODD_MODE, ODD_ROWS])
    take(server, "odd")
    inserted, *taken = images(server, "odd")
    assert sorted(inserted) == [0, 5]
    assert taken == [inserted, inserted]
