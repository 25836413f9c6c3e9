"""A live MariaDB under rows of all types and statements of all kinds: tables in every format equal SELECT."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import pytest

from binlog_format import open_log
from binlog_streaming.settings import (
    Deletes,
    Job,
    Mode,
    OnStatement,
    Sink,
    Source,
    TableFormat,
    TableRule,
    UnknownValues,
)
from binlog_streaming.tables.job import TablesJob
from tests.servers import mariadb_server_in
from tests.streaming.tables.batches import cut
from tests.streaming.tables.lake.sink_cases import MIRROR_SINKS, Place
from tests.streaming.tables.statements.live_statements import DATABASE as SHOP
from tests.streaming.tables.statements.live_statements import WITHOUT_KEY, WITHOUT_WHOLE_ROWS, run_statements
from tests.streaming.tables.statements.test_live_ddl import write_with_faults
from tests.truth.live.tables import column_infos, true_rows
from tests.truth.live.workload import DATABASE, Workload
from tests.truth.replay import ANYTHING, row_differences
from tests.truth.truth_values import typed_difference

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from pyspark.sql import SparkSession

    Row = dict[str, Any]

pytestmark = [pytest.mark.server, pytest.mark.slow]

TRANSACTIONS = 12
VIRTUAL = "gv"
"""A computed column that the server leaves out of partial images, though it changes with the column it comes from."""
FULL_IMAGES = f"{DATABASE}.always_full"

# Computed columns that partial images leave out are in no log.
MIRROR = TableRule(on_drop=OnStatement.APPLY, unknown_values=UnknownValues.NULL)
_NO_HISTORY = "|".join((*WITHOUT_KEY, *WITHOUT_WHOLE_ROWS))
HISTORY = (
    TableRule(select=rf"shop\.(?!(?:{_NO_HISTORY})$).*", mode=Mode.SCD2, on_drop=OnStatement.APPLY),
    TableRule(select=r"other\..*", mode=Mode.SCD2, on_drop=OnStatement.APPLY),
)
MARKED = (
    TableRule(select=rf"shop\.(?!(?:{'|'.join(WITHOUT_KEY)})$).*", deletes=Deletes.MARK, on_drop=OnStatement.APPLY),
    TableRule(select=r"other\..*", deletes=Deletes.MARK, on_drop=OnStatement.APPLY),
)


@dataclass(frozen=True)
class Live:
    """What a server logged, and what its tables hold in the end.

    Attributes:
        tables: By `database.table`: columns, rows.
        is_declared: Targets have the types that statements declare, as those of new jobs have.
    """

    log: Path
    tables: dict[str, tuple[list[dict[str, str | None]], list[list[Any]]]]
    is_declared: bool = False

    def differences(
        self, directory: Path, table_format: TableFormat, name: str, rows: Callable[[Row], bool]
    ) -> list[str]:
        """Where the target is not what SELECT says, in words."""
        columns, wanted = self.tables[name]
        place = Place(directory, table_format, name.replace(".", "/"))
        held = [row for row in place.content().to_pylist() if rows(row)]
        for row in held:
            if name != FULL_IMAGES and VIRTUAL in row:
                row[VIRTUAL] = ANYTHING
        spelled = {str(column["name"]).casefold(): str(column["name"]) for column in columns}
        held = [{spelled.get(key.casefold(), key): value for key, value in row.items()} for row in held]
        return row_differences(name, held, wanted, columns, difference=typed_difference, declared=self.is_declared)

    def check(
        self,
        directory: Path,
        table_format: TableFormat,
        names: Sequence[str] | None = None,
        rows: Callable[[Row], bool] = lambda _: True,
    ) -> None:
        """All targets (or those of *names*) are what SELECT says."""
        names = list(self.tables) if names is None else names
        assert [wrong for name in names for wrong in self.differences(directory, table_format, name, rows)] == []
        assert sum(len(self.tables[name][1]) for name in names) > 20


@pytest.fixture(scope="module")
def live(tmp_path_factory: pytest.TempPathFactory) -> Live:
    server = mariadb_server_in(tmp_path_factory.mktemp("live") / "server")
    with server:
        workload = Workload(server)
        workload.run(TRANSACTIONS)
        workload.close()
        with server.connect() as connection, connection.cursor() as cursor:
            run_statements(cursor)
            tables = {}
            for database in (DATABASE, SHOP):
                cursor.execute(f"USE {database}")
                cursor.execute("SHOW TABLES")
                for (table,) in cursor.fetchall():
                    columns = column_infos(cursor, table)
                    tables[f"{database}.{table}"] = (columns, true_rows(cursor, table, columns))
    return Live(server.binlog_directory, tables)


@pytest.mark.thorough_where("iceberg")
@pytest.mark.parametrize("table_format", MIRROR_SINKS, ids=str)
def test_mirrors_equal_select(live: Live, tmp_path: Path, table_format: TableFormat) -> None:
    """Batches are cut off somewhere and done again."""
    with open_log(str(live.log)) as log:
        write_with_faults(log, Sink(directory=str(tmp_path), format=table_format), random.Random(4), (MIRROR,))
    live.check(tmp_path, table_format)


@pytest.mark.thorough_where("iceberg")
@pytest.mark.parametrize("table_format", MIRROR_SINKS, ids=str)
def test_current_versions_and_unmarked_rows_equal_select(live: Live, tmp_path: Path, table_format: TableFormat) -> None:
    for name, rules, without in (
        ("scd2", HISTORY, (*WITHOUT_KEY, *WITHOUT_WHOLE_ROWS)),
        ("mark", MARKED, WITHOUT_KEY),
    ):
        directory = tmp_path / name
        with open_log(str(live.log)) as log:
            write_with_faults(log, Sink(directory=str(directory), format=table_format), random.Random(5), rules)
        left_out = {f"{SHOP}.{table}" for table in without}
        kept = [table for table in live.tables if table.startswith(SHOP) and table not in left_out]
        live.check(directory, table_format, kept, is_there)


def is_there(row: Row) -> bool:
    """Whether the source table has the row now."""
    return bool(row.get("_is_current", True)) and not row.get("_deleted")


@pytest.mark.thorough_where("iceberg")
@pytest.mark.spark
@pytest.mark.parametrize("table_format", MIRROR_SINKS, ids=str)
def test_job_equals_select(spark: SparkSession, live: Live, tmp_path: Path, table_format: TableFormat) -> None:
    job = Job(
        source=Source(path=str(live.log), max_bytes_per_trigger="800k"),
        sink=Sink(directory=str(tmp_path / "tables"), format=table_format),
        checkpoint=str(tmp_path / "checkpoint"),
        tables=(MIRROR,),
    )
    running = TablesJob(job, session=spark, once=True)
    running.run()
    assert running.progress.batches > 1
    replace(live, is_declared=True).check(tmp_path / "tables", table_format)


@pytest.mark.thorough
def test_batches_of_one_statement_each_do_the_same(live: Live, tmp_path: Path) -> None:
    sink = Sink(directory=str(tmp_path))
    rule = TableRule(select=r"(shop|other)\..*", on_drop=OnStatement.APPLY)
    with open_log(str(live.log)) as log:
        batches = len(cut(log, 10**6))
        assert batches > 150
        write_with_faults(log, sink, random.Random(6), (rule,), batches)
    live.check(tmp_path, TableFormat.DELTA, [name for name in live.tables if name.startswith(SHOP)])
