"""What a process knows of tables does not outlive statements that were purged before it read them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from binlog_connector.following.watched import WatchedLog
from binlog_connector.schema.definitions import TableName
from binlog_streaming.tables.statements.log_facts import LogFacts
from tests.streaming.tables.shop import ShopLog

if TYPE_CHECKING:
    from pathlib import Path

NAME = TableName("shop", "orders")


def columns(folder: Path) -> list[str] | None:
    """Names of the columns at the end of the log; None: not known."""
    with WatchedLog(str(folder), None) as watched:
        found = LogFacts(watched.log).definition_at(NAME, watched.log.end_position())
    return None if found is None else [column.name for column in found.columns or ()]


def test_a_definition_is_forgotten_where_files_after_it_were_purged_unread(tmp_path: Path) -> None:
    with ShopLog(tmp_path) as log:
        log.statement("CREATE TABLE orders (id INT)")
        assert columns(tmp_path) == ["id"]
        log.flush()
        log.statement("ALTER TABLE orders ADD note TEXT")
        assert columns(tmp_path) == ["id", "note"]
        for number in range(3):
            log.flush()
            log.statement(f"ALTER TABLE orders ADD n{number} INT")
        for _ in range(2):  # a file that may be in use stays
            log.flush()
        log.purge(before=4)
        assert columns(tmp_path) is None
