"""Values of all types, odd ones too: a row that is read has what the log's decoder makes of its INSERT.

`tests/streaming/snapshot/test_types.py` says the same of rows that come through the log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import msgspec
import pytest

from binlog_connector.following.watched import WatchedLog
from binlog_connector.given_definitions import GivenDefinitions
from binlog_connector.log_definitions import RangeSchemas, SchemaFile
from binlog_format import open_log
from binlog_format.errors import ServerError
from binlog_format.events.table_map import Column, TableLayout
from binlog_format.events.table_map_layout import ColumnType
from binlog_format.rows.decoding import Decoding
from binlog_streaming.snapshot.reading.wire_columns import wire_table
from tests.streaming.snapshot.live import run_sql
from tests.streaming.snapshot.reading.readings import job_in, left_out, read_tables, target_rows
from tests.streaming.snapshot.test_types import CREATE_ODD, ODD_MODE, ODD_ROWS
from tests.truth.live.tables import EVERY_TYPE, fill_every_type

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import MariaDbServer
    from binlog_streaming.settings import Job

pytestmark = pytest.mark.server

ROWS = 120
LARGE = (1, 250, 251, 65535, 65536, (1 << 24) - 12, (1 << 24) - 11, (1 << 24) - 10, 1 << 24, 34_000_000)
"""Sizes around those at which a size is written in more bytes, or a row needs one more packet, be that empty."""


@pytest.fixture
def server(shared_server: MariaDbServer) -> MariaDbServer:
    run_sql(shared_server, ["CREATE OR REPLACE DATABASE shop", "RESET MASTER"])
    return shared_server


def logged_rows(job: Job, table: str) -> dict[int, dict[str, Any]]:
    """Rows of INSERTs in the log, by id."""
    schema = None if job.source.schema_file is None else SchemaFile.read(job.source.schema_file)
    with WatchedLog(job.source.path) as watched:
        schemas = RangeSchemas(watched, watched.log.end_position(), GivenDefinitions(schema))
    with open_log(job.source.path) as log:
        batches = log.changes(table=table, decoding=Decoding(schemas=schemas))
        return {row["after"]["id"]: row["after"] for batch in batches for row in batch.to_pylist()}


def test_values_of_all_types_are_those_of_the_log(server: MariaDbServer, tmp_path: Path) -> None:
    fill_every_type(server, ROWS, seed=5)
    schema = tmp_path / "schema.sql"
    schema.write_text(f"USE shop;\n{EVERY_TYPE.create};\n")
    job = job_in(tmp_path, server.binlog_directory, schema_file=str(schema))
    logged = logged_rows(job, "shop.every_type")
    assert read_tables(server, job).rows == ROWS
    read = {row["id"]: row for row in target_rows(job, "shop/every_type")}
    assert len(read) == ROWS
    for number, expected in logged.items():
        assert read[number] == expected


def test_odd_values_are_those_of_the_log(server: MariaDbServer, tmp_path: Path) -> None:
    run_sql(server, [CREATE_ODD, ODD_MODE, ODD_ROWS])
    job = job_in(tmp_path, server.binlog_directory)
    read_tables(server, job)
    read = {row["id"]: row for row in target_rows(job, "shop/odd")}
    assert read == logged_rows(job, "shop.odd")
    assert sorted(read) == [0, 5]


def test_rows_of_any_size_are_whole(server: MariaDbServer, tmp_path: Path) -> None:
    with server.connect(database="shop") as connection, connection.cursor() as cursor:
        cursor.execute("SET GLOBAL max_allowed_packet = 1 << 26")
    with server.connect(database="shop") as connection, connection.cursor() as cursor:
        cursor.execute("CREATE TABLE large (id INT PRIMARY KEY, b LONGBLOB)")
        for number, size in enumerate(LARGE):
            cursor.execute("INSERT INTO large SELECT %s, REPEAT(CHAR(%s), %s)", (number, 65 + number, size))
        cursor.execute("INSERT INTO large SELECT seq, 'small' FROM seq_100_to_3000")
    job = job_in(tmp_path, server.binlog_directory)
    assert read_tables(server, job, sessions=1).rows == len(LARGE) + 2901
    read = {row["id"]: row["b"] for row in target_rows(job, "shop/large")}
    assert {number: (len(read[number]), set(read[number])) for number in range(len(LARGE))} == {
        number: (size, {65 + number}) for number, size in enumerate(LARGE)
    }
    assert all(read[number] == b"small" for number in range(100, 3001))


def test_a_uuid_that_the_log_does_not_declare_is_refused(server: MariaDbServer, tmp_path: Path) -> None:
    run_sql(server, ["CREATE TABLE shop.named (id INT PRIMARY KEY, u UUID)"])
    told = left_out(server, job_in(tmp_path, server.binlog_directory))
    assert any(text.startswith("shop.named: the log does not record that u is uuid") for text in told)


def test_a_uuid_that_a_statement_in_the_log_declares_is_read_as_rows_have_it(
    server: MariaDbServer, tmp_path: Path
) -> None:
    value = "123e4567-e89b-12d3-a456-426655440000"
    run_sql(
        server,
        [
            "CREATE TABLE shop.named (id INT PRIMARY KEY, u UUID, i INET6)",
            f"INSERT INTO shop.named VALUES (1, '{value}', '::1')",
        ],
    )
    job = job_in(tmp_path, server.binlog_directory)
    job = msgspec.structs.replace(job, source=msgspec.structs.replace(job.source, declared_types=True))
    assert read_tables(server, job).rows == 1
    assert target_rows(job, "shop/named") == [{"id": 1, "u": value, "i": "::1"}]


def test_a_year_of_two_digits_is_refused(server: MariaDbServer, tmp_path: Path) -> None:
    run_sql(
        server, ["CREATE TABLE shop.years (id INT PRIMARY KEY, y YEAR(2))", "INSERT INTO shop.years VALUES (1, 24)"]
    )
    (failed,) = read_tables(server, job_in(tmp_path, server.binlog_directory)).failed
    assert "TABLE_REFUSED" in str(failed)
    assert "y: the server sends" in str(failed)


def test_values_in_a_form_that_is_not_known_refuse_their_table() -> None:
    layout = TableLayout("shop", "orders", (Column("a", ColumnType.LONG, 0, nullable=True),), (), "", b"")
    with pytest.raises(ServerError, match=r"TABLE_REFUSED.*sends type 252 for LONG.*--method log"):
        wire_table(layout, [252])
