"""Under a storm of changes: a chunk has the rows that the table has at the chunk's place in the log.

What the table has there is known from the log itself, which has everything since the table was created. And the rule
by which a reader joins chunks with changes gives the table.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

from binlog_connector.schema.snapshot_marks import Purpose
from binlog_streaming.snapshot.run import Pace
from binlog_streaming.snapshot.shadow import ShadowEngine
from binlog_streaming.snapshot.source_table import read_table
from binlog_streaming.snapshot.table_snapshot import RowsLockedError, TableSnapshot
from tests.streaming.snapshot.live import BLACKHOLE, logged_groups, run_sql, session_on
from tests.streaming.snapshot.storm import TABLES, storm

if TYPE_CHECKING:
    from binlog_lab.demo.mariadb.server import MariaDbServer
    from binlog_streaming.server.session import ServerSession
    from tests.streaming.snapshot.live import LoggedGroup

    Row = tuple[tuple[str, Any], ...]

pytestmark = pytest.mark.server

CHUNKS_MIN = 10
ROUNDS_MAX = 50
ROW_SIZE = 64
WITHOUT_ROW_LOCKS = ("MyISAM", "Aria", "MEMORY")


def take(session: ServerSession, table: str, engine: ShadowEngine) -> Counter[str]:
    """Take a table in small chunks, as its rows' locks let; how many chunks there were, and how often they did not."""
    snapshot = TableSnapshot.start(session, read_table(session, "shop", table), Purpose.COMPLETE, engine)
    pace, counts = Pace(row_size=ROW_SIZE), Counter[str]()
    while not snapshot.is_complete:
        bounds = snapshot.next_bounds(pace.size)
        try:
            chunk = snapshot.write(bounds, is_waiting=pace.is_waiting)
            pace.wrote(chunk.row_count, chunk.lock_seconds)
            counts["chunks"] += 1
        except RowsLockedError:
            pace.refused()
            counts["refusals"] += 1
    snapshot.end()
    return counts


def replayed(groups: list[LoggedGroup]) -> tuple[dict[str, Counter[Row]], Counter[str]]:
    """The tables that the log makes, every chunk compared with them on the way; and what was compared."""
    tables: dict[str, Counter[Row]] = {"shop.items": Counter(), "shop.notes": Counter()}
    mirrors: dict[str, dict[int, Row]] = {}
    checked: Counter[str] = Counter()
    for group in groups:
        if group.mark is None:
            apply(group, tables, mirrors)
            continue
        name, kind = f"{group.mark['source_schema']}.{group.mark['source_table']}", group.mark["kind"]
        rows = [as_row(after) for _, _, _, after in group.changes]
        assert len(rows) == (group.mark["row_count"] if kind == "chunk" else 0)
        if kind == "begin":
            mirrors[name] = {}
        elif name == "shop.notes" and kind == "chunk":
            assert Counter(rows) == tables[name], "the only chunk of a table without a key has other rows"
        elif kind == "chunk":
            assert Counter(rows) <= tables[name], "a chunk has rows that the table does not have at its place"
            for row in rows:
                mirrors[name].setdefault(dict(row)["id"], row)
        elif name == "shop.items":
            assert Counter(mirrors[name].values()) == tables[name], "chunks and changes do not make the table"
        checked[kind] += 1
    return tables, checked


def apply(group: LoggedGroup, tables: dict[str, Counter[Row]], mirrors: dict[str, dict[int, Row]]) -> None:
    for _, name, before, after in group.changes:
        if before is not None:
            tables[name] -= Counter([as_row(before)])
        if after is not None:
            tables[name][as_row(after)] += 1
        if name == "shop.items" and name in mirrors:
            if before is not None:
                mirrors[name].pop(before["id"], None)
            if after is not None:
                mirrors[name][after["id"]] = as_row(after)


def as_row(image: dict[str, Any] | None) -> Row:
    assert image is not None
    return tuple(image.items())


@pytest.mark.thorough_where("InnoDB")
@pytest.mark.parametrize(
    ("engine", "source"),
    [*((engine, "InnoDB") for engine in ShadowEngine), *((ShadowEngine.BLACKHOLE, name) for name in WITHOUT_ROW_LOCKS)],
)
def test_chunks_have_the_rows_of_their_place_in_the_log(
    mariadb_server: MariaDbServer, engine: ShadowEngine, source: str
) -> None:
    run_sql(mariadb_server, [BLACKHOLE, *TABLES])
    if source != "InnoDB":
        run_sql(mariadb_server, [f"ALTER TABLE shop.{name} ENGINE={source}" for name in ("items", "notes")])
    taken = Counter[str]()
    with storm(mariadb_server) as counts, session_on(mariadb_server) as session:
        while not all(counts):
            taken += take(session, "notes", engine)
        for _ in range(ROUNDS_MAX):
            taken += take(session, "items", engine)
            taken += take(session, "notes", engine)
            taken["rounds"] += 1
            # How many chunks a table makes, and which meet a lock, are up to the machine's load.
            if taken["chunks"] > CHUNKS_MIN and (taken["refusals"] or source != "InnoDB") and taken["rounds"] > 1:
                break
    assert taken["refusals"] or source != "InnoDB", "no chunk ever met a lock: the storm is too calm to prove anything"

    tables, checked = replayed(logged_groups(mariadb_server.binlog_directory))
    assert checked["chunk"] == taken["chunks"] > CHUNKS_MIN
    assert checked["begin"] == checked["end"] >= 3
    with mariadb_server.connect() as connection, connection.cursor() as cursor:
        for name, rows in tables.items():
            cursor.execute(f"SELECT * FROM {name}")
            columns = [column[0] for column in cursor.description]
            assert Counter(tuple(zip(columns, row, strict=True)) for row in cursor.fetchall()) == rows
