"""A live MariaDB under random rows and statements: mirrors equal SELECT, in random batches, whatever is cut off."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, cast

import pytest
from deltalake import DeltaTable

from binlog_format import open_log
from binlog_streaming.settings import TableRule
from binlog_streaming.tables.steps import watched
from tests.streaming.tables.batches import cut, write
from tests.streaming.tables.ddl_histories import ModelServer
from tests.streaming.tables.test_ddl_histories import CutOff, CutOffError

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    import pymysql

    from binlog_format.events.table_encoding import TableSpec
    from binlog_format.log import Log
    from binlog_streaming.demo.mariadb_server import MariaDbServer
    from tests.streaming.tables.shop import Row, ShopLog

pytestmark = [pytest.mark.server, pytest.mark.slow]

RULE = TableRule(select=r"shop\.(orders|items)")


class LiveShop:
    """What `ShopLog` writes itself, a server does: the same calls are its statements."""

    def __init__(self, connection: pymysql.connections.Connection) -> None:
        self._connection = connection

    def insert(self, spec: TableSpec, *rows: Row) -> None:
        """One INSERT."""
        for row in rows:
            self._run(f"INSERT INTO `{spec.table}` VALUES ({', '.join(['%s'] * len(row))})", row)

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


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_mirrors_equal_select(mariadb_server: MariaDbServer, tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    with mariadb_server.connect() as connection, connection.cursor() as cursor:
        cursor.execute("CREATE DATABASE shop")
        cursor.execute("USE shop")
        shop = LiveShop(connection)
        server = ModelServer(cast("ShopLog", shop), chance)
        server.create()
        server.create()
        server.live(60)
        truth = {name: shop.rows(name) for name in server.tables}
    with open_log(str(mariadb_server.binlog_directory)) as log:
        write_with_faults(log, tmp_path / "tables", chance)
    for name, rows in truth.items():
        path = tmp_path / "tables" / "shop" / name
        found = DeltaTable(str(path)).to_pyarrow_table().sort_by("id").to_pylist()
        columns = [column.name for column in server.tables[name][0].columns]
        assert [{column: row[column] for column in columns} for row in found] == rows, name


def write_with_faults(log: Log, directory: Path, chance: random.Random) -> None:
    for batch_id, batch in enumerate(cut(log, 5)):
        for _ in range(chance.randrange(2)):
            try:
                with watched(CutOff(chance.randint(1, 12))):
                    write(log, batch, directory, batch_id, (RULE,))
            except CutOffError:
                continue
        write(log, batch, directory, batch_id, (RULE,))
