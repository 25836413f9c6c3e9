"""Chunks in the log of a live server: one event group each, with the rows that the table has there."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_connector.schema.snapshot_marks import Purpose
from binlog_streaming.snapshot.marks import MarksTable
from binlog_streaming.snapshot.shadow import ShadowEngine
from binlog_streaming.snapshot.source_table import read_table
from binlog_streaming.snapshot.table_snapshot import TableSnapshot
from tests.streaming.snapshot.live import BLACKHOLE, logged_groups, run_sql, session_on, write_all

if TYPE_CHECKING:
    from binlog_lab.demo.mariadb.server import MariaDbServer

pytestmark = pytest.mark.server

TABLE = """CREATE TABLE shop.items (
    a INT, b VARCHAR(20) CHARACTER SET latin1 COLLATE latin1_german2_ci, v INT, g INT AS (v + 1), i INT INVISIBLE,
    PRIMARY KEY (a, b))"""
ROWS = (
    "INSERT INTO shop.items (a, b, v, i) SELECT seq DIV 100, CONCAT('x', seq, 'ä'), seq, -seq FROM shop.seq_1_to_1000"
)


@pytest.mark.parametrize("engine", list(ShadowEngine))
def test_a_snapshot_is_begin_chunks_and_end_in_the_log(mariadb_server: MariaDbServer, engine: ShadowEngine) -> None:
    run_sql(mariadb_server, [BLACKHOLE, "CREATE DATABASE shop", TABLE, "SET sql_log_bin = 0", ROWS])
    with session_on(mariadb_server) as session:
        snapshot = TableSnapshot.start(session, read_table(session, "shop", "items"), Purpose.RESYNC, engine)
        write_all(snapshot, 300)
        assert MarksTable(session).last_begin("shop", "items") is None
        assert session.rows("SHOW TABLES IN binlog_stream") == [("snapshot_marks",)]

    groups = logged_groups(mariadb_server.binlog_directory)
    marks = [group.mark for group in groups]
    assert [mark and (mark["kind"], mark["chunk"], mark["row_count"]) for mark in marks] == [
        ("begin", -1, 0),
        *(("chunk", number, rows) for number, rows in enumerate((300, 300, 300, 100))),
        ("end", -1, 1000),
    ]
    begin, *chunks, end = (mark["detail"] for mark in marks if mark is not None)
    assert begin["purpose"] == "resync"
    assert begin["key"] == ["a", "b"]
    assert begin["columns"][:2] == [["a", "int(11)", None], ["b", "varchar(20)", "latin1_german2_ci"]]
    assert [chunk["from"] for chunk in chunks] == [None, *(chunk["through"] for chunk in chunks[:-1])]
    assert chunks[0]["through"] == ["3", "x300ä".encode("latin1").hex().upper()]
    assert chunks[-1]["through"] is None
    assert end == {"chunks": 4, "rows": 1000}
    rows = [after for group in groups for op, _, _, after in group.changes if op == "insert"]
    assert sorted((row["v"], row["g"], row["i"]) for row in rows if row) == [(n, n + 1, -n) for n in range(1, 1001)]
    assert {table for group in groups for _, table, _, _ in group.changes} == {
        f"binlog_stream.{snapshot_shadow(marks)}"
    }


def snapshot_shadow(marks: list[dict[str, object] | None]) -> str:
    (shadow,) = {str(mark["shadow"]) for mark in marks if mark is not None}
    return shadow
