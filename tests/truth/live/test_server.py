"""A MariaDB server under a mixed workload: what its log records, replayed, is what SELECT returns."""

from __future__ import annotations

import contextlib
import threading
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from binlog_format import open_log
from binlog_format.events.layout import EventType
from binlog_lab.innodb_writer.options import WriterOptions
from binlog_lab.repack.repacker import Repacker
from tests.format.classic.logs import open_classic
from tests.streaming.snapshot.storm import working
from tests.truth.live.tables import column_infos, true_rows
from tests.truth.live.workload import ALWAYS_FULL, DATABASE, UNDONE_IDS, Workload
from tests.truth.reading import decoding_of_log, json_changes, typed_changes
from tests.truth.replay import ANYTHING, apply, row_differences
from tests.truth.truth_values import json_difference, typed_difference

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import MariaDbServer
    from binlog_lab.repack.repacker import RepackProgress
    from tests.truth.live.workload import Ddl
    from tests.truth.reading import Change, Image

pytestmark = pytest.mark.server

TRANSACTIONS = 32
SMALL = WriterOptions(cache_size=8192, max_binlog_size=1 << 20, state_interval=64 << 10, sync=False)
WAIT_SECONDS = 300.0
NAMED: tuple[str, ...] = ()
NAMELESS = ("binlog_row_metadata = NO_LOG", "mysql56_temporal_format = OFF")
"""What the columns are is in the DDL of the log alone, and times are stored in the old format."""
ROWS = (EventType.WRITE_ROWS_V1, EventType.WRITE_ROWS_COMPRESSED_V1, EventType.UPDATE_ROWS_COMPRESSED_V1)
VIRTUAL = {"gv"}
"""Computed columns that the server leaves out of partial images though they changed with the column they come from."""


class Reached:
    """How far the repacked log has come."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._gtids = ""

    def tell(self, progress: RepackProgress) -> None:
        with self._changed:
            self._gtids = str(progress.gtids)
            self._changed.notify_all()

    def wait_for(self, gtids: str) -> None:
        with self._changed:
            came = self._changed.wait_for(lambda: self._gtids == gtids, WAIT_SECONDS)
            assert came, f"the repacked log came to {self._gtids}, not to {gtids}"


@contextlib.contextmanager
def following(source: Path, target: Path, reached: Reached) -> Iterator[None]:
    """Repack *source* into *target* beside the workload."""
    stop = threading.Event()

    def run(_: int) -> None:
        log = open_classic(source)
        with log, Repacker(log, target, SMALL, on_progress=reached.tell) as repacker:
            repacker.run(stop, follow=True)

    with working(run, 1, stop):
        yield


def seqno(gtid: str | None) -> int:
    assert gtid is not None
    return int(gtid.rsplit("-", 1)[1])


def tables_after(changes: list[Change], ddl: list[Ddl]) -> dict[str, list[Image]]:
    """The tables that the changes make, beside what DDL does to rows without telling them."""
    tables: dict[str, list[Image]] = {}
    waiting = sorted(ddl, key=lambda statement: seqno(statement.gtid))
    for change in changes:
        while waiting and seqno(waiting[0].gtid) < seqno(change.gtid):
            statement = waiting.pop(0)
            rows = tables.pop(f"{DATABASE}.{statement.table}", [])
            if statement.what == "rename":
                tables[f"{DATABASE}.{statement.other}"] = rows
        rows = tables.setdefault(change.table, [])
        image = change.after or change.before
        assert image is not None
        if rows and change.op == "update" and not change.absent and list(rows[0]) != list(image):
            for row in rows:  # other columns since the last change of the table
                names = list(row)
                kept = {name: row.get(name, ANYTHING) for name in image}
                row.clear()
                row.update(kept)
                assert set(names) & set(row)
        row = apply(rows, change)
        if change.op == "insert":
            for name in rows[0]:
                row.setdefault(name, ANYTHING)
        for name in VIRTUAL & set(change.absent):
            row[name] = ANYTHING
    return tables


def check_tables(
    server: MariaDbServer,
    tables: dict[str, list[Image]],
    *,
    difference: Callable[..., str] = json_difference,
    declared: bool,
) -> int:
    """Compare *tables* with SELECT; how many rows that were."""
    wrong = []
    compared = 0
    with server.connect(database=DATABASE) as connection, connection.cursor() as cursor:
        for name, rows in tables.items():
            table = name.removeprefix(f"{DATABASE}.")
            columns = column_infos(cursor, table)
            if not columns and not rows:
                continue
            wanted = true_rows(cursor, table, columns)
            unknown = Counter(column for row in rows for column, value in row.items() if value is ANYTHING)
            for column in VIRTUAL:
                del unknown[column]
            assert not unknown, f"{name}: the log never tells {unknown}"
            wrong += row_differences(name, rows, wanted, columns, difference=difference, declared=declared)
            compared += len(wanted)
    assert wrong == []
    return compared


def tables_with_rows(server: MariaDbServer) -> set[str]:
    """`database.table` of all that the workload has left."""
    with server.connect(database=DATABASE) as connection, connection.cursor() as cursor:
        cursor.execute("SHOW TABLES")
        tables = [name for (name,) in cursor.fetchall()]
        counts = {}
        for table in tables:
            cursor.execute(f"SELECT COUNT(*) FROM `{table}`")
            counts[f"{DATABASE}.{table}"] = cursor.fetchone()[0]
    return {table for table, count in counts.items() if count}


def work(server: MariaDbServer, settings: Sequence[str]) -> tuple[Workload, str]:
    """Run the workload; the last GTID is that of its end."""
    with server.connect() as connection, connection.cursor() as cursor:
        for setting in settings:
            cursor.execute(f"SET GLOBAL {setting}")
        workload = Workload(server)
        workload.run(TRANSACTIONS)
        cursor.execute("SET GLOBAL log_bin_compress_min_len = 10")
        cursor.execute("SET GLOBAL log_bin_compress = 1")
        cursor.execute("FLUSH BINARY LOGS")
        workload.run(TRANSACTIONS)
        cursor.execute("SET GLOBAL log_bin_compress = 0")
        workload.run(TRANSACTIONS // 2)
        workload.close()
    return workload, server.gtid_position()


def check_content(log_path: Path) -> None:
    """See that the workload has put everything into the log that the test is about."""
    with open_log(str(log_path)) as log:
        types = Counter(int(code) for block in log.blocks() for code in block.events["type"])
        texts = b"".join(bytes(block.data) for block in log.blocks())
        assert len(log.files()) > 1
    assert set(ROWS) <= set(types), types
    assert types[EventType.XA_PREPARE] > 3
    for text in (b"ROLLBACK TO `a b`", b"XA ROLLBACK", b"XA COMMIT", b"ALTER TABLE evolving", b"RENAME TABLE"):
        assert text in texts, text


@pytest.mark.parametrize("settings", [NAMED, NAMELESS], ids=["named", "nameless"])
def test_log_of_a_mixed_workload_says_what_select_says(
    mariadb_server: MariaDbServer, tmp_path: Path, settings: Sequence[str]
) -> None:
    source, target = mariadb_server.binlog_directory, tmp_path / "ibb"
    declared = settings is NAMELESS
    reached = Reached()
    with following(source, target, reached):
        workload, end = work(mariadb_server, settings)
        reached.wait_for(end)
    assert set(workload.actions) == {"statement", "transaction", "savepoint", "rollback", "xa", "mixed"}
    check_content(source)
    with open_log(str(source)) as log:
        assert str(log.span(log.start_position()).gtids) == end

    said = []
    for path in (source, target):
        decoding = decoding_of_log(path) if declared else None
        changes = json_changes(path, decoding=decoding)
        ids = [image.get("id", 0) for change in changes for image in (change.before, change.after) if image]
        assert max(ids) < UNDONE_IDS, "rows that were rolled back are given"
        assert {change.op for change in changes} == {"insert", "update", "delete"}
        assert any(change.absent for change in changes)
        tables = tables_after(changes, workload.ddl)
        assert {table for table, rows in tables.items() if rows} == tables_with_rows(mariadb_server)
        assert check_tables(mariadb_server, tables, declared=declared) > 200
        said.append([(c.gtid, c.op, c.table, c.before, c.after, c.absent) for c in changes])

        table = f"{DATABASE}.{ALWAYS_FULL.name}"
        typed = typed_changes(path, table, decoding=decoding)
        assert len(typed) == len([change for change in changes if change.table == table])
        rows = tables_after(typed, [])
        assert check_tables(mariadb_server, rows, difference=typed_difference, declared=declared) > 5
    assert said[0] == said[1]
