"""The statements of the server corpus in a live server, in each binlog format: no table is silently wrong."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

import pymysql
import pytest

from tests.streaming.bad_days.verdicts import Kind, judge, read_targets
from tests.streaming.bad_days.week import forget, run_job, server_tables
from tests.streaming.tables.statements import live_statements
from tests.truth.truth_case import case

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from binlog_lab.demo.mariadb.server import MariaDbServer
    from tests.streaming.bad_days.verdicts import JobEnd, ServerTable

pytestmark = [pytest.mark.server, pytest.mark.spark, pytest.mark.slow]

FORMATS = ("ROW", "MIXED", "STATEMENT")
OPERATIONS = "mariadb-10.11/ops"
ADMINISTRATION = "administration"
CASES = {
    OPERATIONS: (),
    "mariadb-10.11/types_full": (),
    "mariadb-10.11/types_oldtemporal": ("mysql56_temporal_format = OFF",),
    "mariadb-10.11/rotation": (),
    ADMINISTRATION: (),
}
"""Cases whose statements differ (others have the same ones under other options), and the server's settings."""

LOADED = '5001,"loaded"\n5002,plain\n'
LOADED_FROM = "/opt/bt-run/mariadb-10.11/ops/tmp/load.csv"
DEFAULTS = ("mysql56_temporal_format = ON", "max_binlog_size = 1073741824")


def statements(name: str) -> list[str]:
    """Those of a case, but for changes of the format."""
    if name == ADMINISTRATION:
        lines = Path(live_statements.__file__).with_suffix(".sql").read_text().splitlines()
        texts = ["CREATE DATABASE shop CHARACTER SET utf8mb4", "USE shop", *lines]
    else:
        texts = [str(step["sql"]) for step in case(name).steps]
    return [text for text in texts if text and not text.startswith("--") and "binlog_format" not in text]


@contextlib.contextmanager
def settings(server: MariaDbServer, *wanted: str) -> Iterator[None]:
    """Global ones, as long as this holds."""
    with server.connect() as connection, connection.cursor() as cursor:
        try:
            for setting in wanted:
                cursor.execute(f"SET GLOBAL {setting}")
            yield
        finally:
            for setting in DEFAULTS:
                cursor.execute(f"SET GLOBAL {setting}")


def live(server: MariaDbServer, folder: Path, name: str, binlog_format: str) -> dict[str, ServerTable]:
    """Do the statements of a case; the log is copied into *folder*.

    What a server refuses (in another format, or because of what it refused before) changes nothing in it.
    """
    forget(server)
    (folder / "load.csv").write_text(LOADED)
    done = 0
    with settings(server, *CASES[name]), server.connect() as connection, connection.cursor() as cursor:
        cursor.execute(f"SET SESSION binlog_format = {binlog_format}, time_zone = '+00:00', sql_mode = ''")
        wanted = statements(name)
        for text in wanted:
            with contextlib.suppress(pymysql.err.MySQLError):
                cursor.execute(text.replace(LOADED_FROM, str(folder / "load.csv")))
                done += 1
        assert done > len(wanted) * 0.8
        shutil.copytree(server.binlog_directory, folder / "log")
        return server_tables(cursor)


def run(spark: SparkSession, folder: Path, name: str, **more: object) -> JobEnd:
    """The job over the log in *folder*."""
    job = {
        "source": {"path": str(folder / "log")},
        "sink": {"directory": str(folder / name)},
        "checkpoint": str(folder / f"{name}-checkpoint"),
        "tables": [{"on_drop": "apply"}],  # tables that the server does not have in the end have no rows
        **more,
    }
    return run_job(job, folder, spark)


@pytest.mark.thorough_where("ROW|STATEMENT|types|rotation|ops")
@pytest.mark.parametrize("binlog_format", FORMATS)
@pytest.mark.parametrize("name", CASES)
def test_every_table_is_equal_or_named(
    shared_server: MariaDbServer, spark: SparkSession, tmp_path: Path, name: str, binlog_format: str
) -> None:
    server = live(shared_server, tmp_path, name, binlog_format)
    end = run(spark, tmp_path, "aside", on_error="set_aside")
    found = judge(end, server, read_targets(tmp_path / "aside"), is_declared=True)
    told = {table: f"{verdict.kind}: {verdict.why}" for table, verdict in found.items()}
    kinds = {verdict.kind for verdict in found.values()}
    assert kinds <= {Kind.EQUAL, Kind.ASIDE}, {one: why for one, why in told.items() if why.startswith("wrong")}
    statements_found = [table for table, verdict in found.items() if "STATEMENT_FORMAT" in verdict.why]
    if binlog_format == "ROW":
        assert Kind.EQUAL in kinds
        return
    assert statements_found, "a log of statements that nobody noticed"
    stopped = run(spark, tmp_path, "stopped").error
    assert stopped is not None
    assert any(table in str(stopped) for table, verdict in found.items() if verdict.kind is Kind.ASIDE), stopped
