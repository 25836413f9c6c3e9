"""A live MariaDB under random rows and statements: tables equal SELECT, in every mode, whatever is cut off."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, cast

import pytest

from binlog_connector.crash_points import watched
from binlog_format import open_log
from binlog_streaming.settings import Deletes, Mode, Sink, TableFormat, TableRule
from tests.faults.processes import Cut, CutOff
from tests.streaming.tables.batches import cut, plan, write, written_behind
from tests.streaming.tables.lake.sink_cases import Place
from tests.streaming.tables.statements.ddl_histories import ModelServer

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    import pymysql

    from binlog_format.log.log import Log
    from binlog_lab.demo.mariadb.server import MariaDbServer
    from binlog_lab.event_encoding.table_encoding import TableSpec
    from binlog_streaming.plan.job_state import Written
    from tests.streaming.tables.shop import Row, ShopLog

pytestmark = [pytest.mark.server, pytest.mark.slow]

BATCHES = 5
MODES = ((Mode.MIRROR, Deletes.REMOVE), (Mode.MIRROR, Deletes.MARK), (Mode.SCD2, Deletes.REMOVE))


class LiveShop:
    """What `ShopLog` writes itself, a server does: the same calls are its statements."""

    def __init__(self, connection: pymysql.connections.Connection, chance: random.Random) -> None:
        self._connection = connection
        self._chance = chance

    def insert(self, spec: TableSpec, *rows: Row) -> None:
        """One INSERT; null, or the default of the server."""
        for row in rows:
            values = zip((column.name for column in spec.columns), row, strict=True)
            given = {name: value for name, value in values if value is not None or self._chance.random() < 0.5}
            names = ", ".join(f"`{name}`" for name in given)
            self._run(f"INSERT INTO `{spec.table}` ({names}) VALUES ({', '.join(['%s'] * len(given))})", given.values())

    def update(self, spec: TableSpec, *pairs: tuple[Row, Row]) -> None:
        """One UPDATE by the key."""
        columns = ", ".join(f"`{column.name}` = %s" for column in spec.columns)
        for before, after in pairs:
            self._run(f"UPDATE `{spec.table}` SET {columns} WHERE id = %s", (*after, before[0]))

    def delete(self, spec: TableSpec, *rows: Row) -> None:
        """One DELETE by the key."""
        for row in rows:
            self._run(f"DELETE FROM `{spec.table}` WHERE id = %s", row[:1])

    def statement(self, text: str) -> None:
        """As it is."""
        self._run(text)

    def rows(self, table: str) -> list[dict[str, object]]:
        """SELECT, by key."""
        with self._connection.cursor() as cursor:
            cursor.execute(f"SELECT * FROM `{table}` ORDER BY id")
            names = [one[0] for one in cursor.description or ()]
            return [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]

    def _run(self, text: str, values: Iterable[object] | None = None) -> None:
        with self._connection.cursor() as cursor:
            cursor.execute(text, None if values is None else tuple(values))


@pytest.mark.thorough_where("MINIMAL|NOBLOB|iceberg")
@pytest.mark.parametrize(
    ("seed", "image", "table_format"),
    [
        (1, "FULL", TableFormat.DELTA),
        (2, "FULL", TableFormat.ICEBERG),
        (3, "MINIMAL", TableFormat.DELTA),
        (4, "MINIMAL", TableFormat.ICEBERG),
        (5, "NOBLOB", TableFormat.DELTA),
    ],
)
def test_tables_equal_select(
    mariadb_server: MariaDbServer, tmp_path: Path, seed: int, image: str, table_format: TableFormat
) -> None:
    chance = random.Random(seed)
    with mariadb_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE shop")
        cursor.execute("USE shop")
        cursor.execute("SET SESSION binlog_row_image = %s", (image,))
        shop = LiveShop(connection, chance)
        server = ModelServer(cast("ShopLog", shop), chance)
        server.create()
        server.create()
        server.live(60)
        truth = {name: shop.rows(name) for name in server.tables}
    for mode, deletes in MODES if image == "FULL" else MODES[:2]:
        rule = TableRule(select=r"shop\.(orders|items)", mode=mode, deletes=deletes)
        directory = tmp_path / f"{mode}-{deletes}"
        with open_log(str(mariadb_server.binlog_directory)) as log:
            write_with_faults(log, Sink(directory=str(directory), format=table_format), chance, (rule,))
        for name, rows in truth.items():
            found = Place(directory, table_format, f"shop/{name}").content().sort_by("id").to_pylist()
            columns = [column.name for column in server.tables[name][0].columns]
            there = [row for row in found if row.get("_is_current", True) and not row.get("_deleted")]
            assert [{column: row[column] for column in columns} for row in there] == rows, (name, mode, deletes)


def write_with_faults(
    log: Log, sink: Sink, chance: random.Random, rules: Sequence[TableRule], batches: int = BATCHES
) -> None:
    """Write *log* in batches; some are cut off somewhere before they are done as a whole."""
    written: Written = {}
    for batch_id, batch in enumerate(cut(log, batches)):
        for _ in range(chance.randrange(2)):
            try:
                with watched(CutOff(chance.randint(1, 12))):
                    write(log, batch, sink.directory, batch_id, rules, sink=sink, written=written)
            except Cut:
                continue
        tables = write(log, batch, sink.directory, batch_id, rules, sink=sink, written=written)
        written = written_behind(written, plan(log, batch, rules, written=written), tables)
