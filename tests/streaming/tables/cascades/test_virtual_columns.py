"""Virtual columns of rows that foreign keys change: they stay unless the foreign key changes what they are over."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from binlog_format.errors import UnsupportedError
from binlog_lab.event_encoding.table_encoding import ColumnSpec
from tests.servers import ServerKind, server_in
from tests.streaming.replay_runs import run
from tests.streaming.snapshot.live import run_sql
from tests.streaming.tables.jobs.test_admission import job, log, rows
from tests.streaming.tables.statements.statement_stories import ID, wanted

if TYPE_CHECKING:
    from pathlib import Path

    from tests.streaming.tables.shop import ShopLog

PARENT = wanted("parent", ID)
CHILD = wanted("child", ID, *(ColumnSpec(name, "int", nullable=True) for name in ("p", "n", "v", "w")))


def story(writer: ShopLog, w: str) -> None:
    writer.statement("CREATE TABLE parent (id INT PRIMARY KEY)")
    writer.statement(
        f"CREATE TABLE child (id INT PRIMARY KEY, p INT, n INT, v INT AS (n + 1) VIRTUAL, w INT AS ({w}) VIRTUAL,"
        " FOREIGN KEY (p) REFERENCES parent (id) ON UPDATE CASCADE)"
    )
    writer.insert(PARENT, (1,))
    writer.insert(CHILD, (11, 1, 5, 6, 7))
    writer.update(PARENT, ((1,), (4,)))


def test_virtual_columns_over_other_columns_keep_their_values(tmp_path: Path) -> None:
    log(tmp_path, lambda writer: story(writer, "v + 1"))
    run(job(tmp_path, foreign_keys="apply"))
    assert rows(tmp_path, "child") == [(11, 4, 5, 6, 7)]


def test_virtual_column_over_a_column_of_the_key_is_not_known(tmp_path: Path) -> None:
    log(tmp_path, lambda writer: story(writer, "v + p"))
    with pytest.raises(UnsupportedError, match=r"ROW_IMAGE\] shop\.child: w: generated columns"):
        run(job(tmp_path, foreign_keys="apply"))
    run(job(tmp_path, foreign_keys="apply", generated="null"))
    assert rows(tmp_path, "child") == [(11, 4, 5, 6, None)]


def live_log(folder: Path, child: str, change: str) -> str:
    """The log of MariaDB 11.8, whose update of `child` leaves its generated column out; then *change* of its parent."""
    with server_in(ServerKind.NEW_MARIADB, folder) as server:
        run_sql(
            server,
            [
                "CREATE DATABASE shop",
                "CREATE TABLE shop.parent (id INT PRIMARY KEY)",
                f"CREATE TABLE shop.child (id INT PRIMARY KEY, p INT, n INT, {child})",
                "INSERT INTO shop.parent VALUES (1)",
                "INSERT INTO shop.child (id, p, n) VALUES (11, 1, 5)",
                "UPDATE shop.child SET n = 8",
                change,
            ],
        )
        return str(server.binlog_directory)


@pytest.mark.server
@pytest.mark.parametrize("kind", ["VIRTUAL", "STORED"])
def test_generated_column_that_an_update_before_left_out_is_null(tmp_path: Path, kind: str) -> None:
    child = f"g INT AS (n ^ 1) {kind}, FOREIGN KEY (p) REFERENCES shop.parent (id) ON UPDATE CASCADE"
    source = {"path": live_log(tmp_path / "server", child, "UPDATE shop.parent SET id = 4")}
    with pytest.raises(UnsupportedError, match=r"child: g: missing from row images; .* computed") as raised:
        run(job(tmp_path / "changes", source=source, mode="changelog", foreign_keys="apply", generated="null"))
    assert 'generated = "null" for the table' in str(raised.value.hint)
    run(job(tmp_path, source=source, foreign_keys="apply", generated="null"))
    assert rows(tmp_path, "child") == [(11, 4, 8, None)]


@pytest.mark.server
@pytest.mark.parametrize("largest_batch", ["1", "512m"])
def test_foreign_key_over_a_generated_column_that_may_be_null_is_refused(tmp_path: Path, largest_batch: str) -> None:
    child = "g INT AS (p + 0) STORED, FOREIGN KEY (g) REFERENCES shop.parent (id) ON DELETE CASCADE"
    path = live_log(tmp_path / "server", child, "DELETE FROM shop.parent")
    source = {"path": path, "maxBytesPerTrigger": largest_batch}
    with pytest.raises(UnsupportedError, match=r"FOREIGN_KEY_CASCADE\] shop\.child: g: a foreign key needs this"):
        run(job(tmp_path, source=source, foreign_keys="apply", generated="null"))
