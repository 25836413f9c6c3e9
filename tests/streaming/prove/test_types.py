"""Every type of column is compared: equal where it is, and found where one value of it is another one.

JSON that is kept as variant, against live servers: MySQL's is proved equal, MariaDB's is named.
"""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from msgspec import structs

from binlog_connector.rules.row_rule import GeneratedColumns
from binlog_format.rows.decoding import TimeType, ZeroDates
from binlog_format.rows.json.variant_layout import VARIANT
from binlog_streaming.lake.delta.target import DeltaTarget
from binlog_streaming.lake.evolution import with_texts
from binlog_streaming.lake.row_values import comparable_table, equal_rows, one_array
from binlog_streaming.prove.comparison import DifferenceKind, ProofOutcome
from binlog_streaming.settings import Job, Json, Sink, Source, TableFormat, TableRule
from tests.servers import ServerKind, server_in
from tests.streaming.prove.proofs import held, job_on, overwrite, place, prove
from tests.streaming.replay_runs import run
from tests.streaming.snapshot.live import run_sql
from tests.streaming.snapshot.reading.readings import job_in, read_tables, server_rows
from tests.truth.live.tables import COLUMNS, fill_every_type

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_lab.demo.mariadb.server import MariaDbServer


pytestmark = pytest.mark.server

TABLE = "shop.every_type"
ROWS = 90
ODD = """CREATE TABLE shop.odd (id INT UNSIGNED ZEROFILL PRIMARY KEY, e ENUM('a','b') NOT NULL, d DATE, da DATETIME(2),
    z DECIMAL(9,3) ZEROFILL, f FLOAT, g DOUBLE, c CHAR(9) CHARACTER SET ucs2 COLLATE ucs2_bin, y YEAR, ti TIME(1))"""
ODD_ROWS = """INSERT INTO shop.odd VALUES
    (0, 'x', '2024-02-31', '2023-02-29 10:00:00', 0.5, -0.0, -0.0, 'a  ', 0, '-00:00:00.1'),
    (1, 'b', '0000-00-00', '0000-00-00 00:00:00', 0, 1e-38, 4.9e-324, '', 1901, '00:00:00'),
    (2, 'a', '2024-00-10', '2024-01-00 00:00:00', 99, 3.4e38, 1.7976931348623157e308, NULL, NULL, '-838:59:59'),
    (3, 'a', '2023-04-31', '2024-04-30 23:59:59.99', 1.001, 0.1, 0.1, 'ä', 2155, '838:59:59.9'),
    (4, 'a', '0001-01-01', '0001-01-01 00:00:00', NULL, 16777216, 1e15, '漢字', 2000, '01:02:03'),
    (5, '', '2024-02-29', '2024-02-30 00:00:00', 1, 123456.78, 1e16, ' ', 2000, NULL),
    (6, 'b', '1900-02-29', '9999-12-31 23:59:59.99', 7, -1, 1e-5, 'x', 1999, '10:00:00')"""


@dataclass(frozen=True)
class Loaded:
    """A server with a row of values for each column, and none of them NULL; and a job that has read its log."""

    server: MariaDbServer
    job: Job


@pytest.fixture(scope="module")
def loaded(shared_server: MariaDbServer, tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    run_sql(shared_server, ["SET GLOBAL binlog_row_metadata = FULL", "CREATE OR REPLACE DATABASE shop", "RESET MASTER"])
    fill_every_type(shared_server, ROWS, seed=11)
    with shared_server.connect(database="shop") as connection, connection.cursor() as cursor:
        cursor.execute("SET SESSION sql_mode = 'ALLOW_INVALID_DATES,NO_AUTO_VALUE_ON_ZERO'")
        cursor.execute(ODD)
        cursor.execute(ODD_ROWS)
    job = job_on(shared_server, tmp_path_factory.mktemp("job"))
    run(job)
    return Loaded(shared_server, job)


def test_values_of_all_types_are_equal(loaded: Loaded) -> None:
    found = prove(loaded.server, loaded.job)
    assert found["shop.odd", "mirror"].differences == ()
    assert {key: (one.outcome, one.rows) for key, one in found.items()} == {
        (TABLE, "mirror"): (ProofOutcome.EQUAL, ROWS),
        ("shop.odd", "mirror"): (ProofOutcome.EQUAL, 7),
    }
    forms = found[TABLE, "mirror"].forms
    assert forms is not None
    assert (forms.missing, forms.hidden, forms.unknown) == ((), (), ())
    assert {form.name for form in forms.columns} == {"id", "gv", "gs", *(column.name for column in COLUMNS)}


def test_generated_columns_that_targets_do_not_have_are_not_compared(loaded: Loaded, tmp_path: Path) -> None:
    rule = TableRule(select=re.escape(TABLE), generated=GeneratedColumns.DROP)
    job = job_on(loaded.server, tmp_path, rule)
    run(job)
    result = prove(loaded.server, job)[TABLE, "mirror"]
    assert (result.outcome, result.rows) == (ProofOutcome.EQUAL, ROWS)
    assert result.forms is not None
    assert (result.forms.missing, set(result.forms.hidden)) == ((), {"gv", "gs"})


@pytest.mark.parametrize("table_format", [TableFormat.ICEBERG], ids=str)
def test_other_types_of_targets_are_equal(loaded: Loaded, table_format: TableFormat, tmp_path: Path) -> None:
    """Iceberg has other types of integers; TIME as a number of microseconds is of the reader's choice."""
    source = Source(path=str(loaded.server.binlog_directory), time_type=TimeType.MICROS)
    job = job_on(loaded.server, tmp_path, table_format=table_format)
    job = Job(source=source, sink=job.sink, checkpoint=job.checkpoint, tables=job.tables)
    run(job)
    found = prove(loaded.server, job)
    assert {one.outcome for one in found.values()} == {ProofOutcome.EQUAL}, found


@pytest.mark.parametrize("table_format", [TableFormat.DELTA, TableFormat.ICEBERG], ids=str)
def test_dates_that_are_texts_are_equal(loaded: Loaded, table_format: TableFormat, tmp_path: Path) -> None:
    source = Source(path=str(loaded.server.binlog_directory), zero_dates=ZeroDates.TEXT)
    job = job_on(loaded.server, tmp_path, table_format=table_format)
    job = Job(source=source, sink=job.sink, checkpoint=job.checkpoint, tables=job.tables)
    run(job)
    found = prove(loaded.server, job)
    assert {one.outcome for one in found.values()} == {ProofOutcome.EQUAL}, found
    if table_format is TableFormat.ICEBERG:
        return
    odd = held(job, "shop.odd").sort_by("id")
    dates = ["2024-02-31", "0000-00-00", "2024-00-10", "2023-04-31", "0001-01-01", "2024-02-29", "1900-02-29"]
    assert odd["d"].to_pylist() == dates
    assert odd["da"].to_pylist()[:4] == [
        "2023-02-29 10:00:00.00",
        "0000-00-00 00:00:00.00",
        "2024-01-00 00:00:00.00",
        "2024-04-30 23:59:59.99",
    ]
    place = odd.column_names.index("d")
    other = pa.array(["0000-00-01", *dates[1:]], odd.schema.field("d").type)
    overwrite(job, "shop.odd", odd.set_column(place, odd.schema.field(place), other))
    assert prove(loaded.server, job)["shop.odd", "mirror"].outcome is ProofOutcome.DIFFERENT


def test_each_column_that_differs_is_found(loaded: Loaded) -> None:
    """Row n gets another value in column n alone, and once more each row a NULL, or a value in the place of one."""
    rows = held(loaded.job, TABLE).sort_by("id")
    columns = [name for name in rows.column_names if name != "id"]
    assert len(columns) < ROWS
    for chosen in ("other value", "null"):
        changed, expected = changed_rows(rows, columns, to_null=chosen == "null")
        overwrite(loaded.job, TABLE, changed)
        found = prove(loaded.server, loaded.job, r"shop\.every_type")[TABLE, "mirror"]
        overwrite(loaded.job, TABLE, rows)
        assert found.outcome is ProofOutcome.DIFFERENT
        assert {one.key: (one.kind, one.columns) for one in found.differences} == expected
    assert prove(loaded.server, loaded.job)[TABLE, "mirror"].outcome is ProofOutcome.EQUAL


def changed_rows(
    rows: pa.Table, columns: list[str], *, to_null: bool
) -> tuple[pa.Table, dict[bytes, tuple[DifferenceKind, tuple[str, ...]]]]:
    """Rows with another value in one column each, and by the messages of their keys what a proof is to find."""
    changed, expected = rows, dict[bytes, tuple[DifferenceKind, tuple[str, ...]]]()
    for number, name in enumerate(columns):
        values = one_array(rows.column(name))
        value = values.slice(number, 1)
        if to_null and value.null_count == 0:
            other = pa.nulls(1, values.type)
        else:
            other = next(one for one in map(values.slice, range(len(values)), [1] * len(values)) if differs(value, one))
        parts = [values.slice(0, number), other, values.slice(number + 1)]
        place = rows.column_names.index(name)
        changed = changed.set_column(place, rows.schema.field(name), pa.concat_arrays(parts))
        key = str(number).encode()
        expected[b"%d:%s" % (len(key), key)] = (DifferenceKind.DIFFERENT, (name,))
    return changed, expected


def differs(one: pa.Array, other: pa.Array) -> bool:
    return not equal_rows(comparable_table([one]), comparable_table([other]))[0]


DOCUMENTS = [
    '{"b": 1, "aa": [1.50, -0.0, 1e300, true, null], "é": "\\\\u0001\\\\"x\\\\""}',
    "[18446744073709551615, -9223372036854775808, 0.1, 123456.789, 1e-7, 1.5e15, 1e16]",
    '"text"',
    "null",
    "{}",
    '{"nested": {"zz": [], "z": [{}, [[]]]}, "long key of an object": 12345678901234567890}',
]


@pytest.mark.parametrize("kind", [ServerKind.MYSQL, ServerKind.MARIADB], ids=str)
def test_documents_of_a_server(kind: ServerKind, tmp_path: Path) -> None:
    with server_in(kind, tmp_path / "server") as server:
        rows = ", ".join(f"({number}, '{text}')" for number, text in enumerate(DOCUMENTS))
        run_sql(
            server,
            [
                "CREATE DATABASE shop",
                "CREATE TABLE shop.orders (id INT PRIMARY KEY, doc JSON)",
                f"INSERT INTO shop.orders VALUES {rows}, (100, NULL)",
                "UPDATE shop.orders SET doc = JSON_SET(doc, '$.aa[0]', 1.25, '$.new', 'x') WHERE id = 0",
            ],
        )
        if kind is ServerKind.MYSQL:
            scalars = "JSON_OBJECT('d', DATE'2024-01-31', 'n', 1.10, 'f', 1e0, 'u', 18446744073709551615)"
            run_sql(server, [f"INSERT INTO shop.orders VALUES (200, {scalars})"])
        job = job_on(server, tmp_path)
        job = structs.replace(job, sink=structs.replace(job.sink, json=Json.VARIANT))
        run(job)
        with closing(DeltaTarget.at(job.sink, place(job, "shop.orders"))) as target:
            assert target.schema().field("doc").type.equals(VARIANT)
        found = prove(server, job)["shop.orders", "mirror"]
        assert found.forms is not None
        if kind is not ServerKind.MYSQL:
            assert found.forms.unknown == ("doc",)
            return
        assert (found.outcome, found.rows, found.forms.unknown) == (ProofOutcome.EQUAL, len(DOCUMENTS) + 2, ())
        rows = with_texts(held(job, "shop.orders")).sort_by("id")
        assert rows.column("doc").to_pylist() == [row[1] for row in server_rows(server, "shop.orders")]
        sink = Sink(directory=str(tmp_path / "read" / "tables"), json=Json.VARIANT)
        other = job_in(tmp_path / "read", server.binlog_directory, sink=sink)
        read_tables(server, other)
        assert with_texts(held(other, "shop.orders")).sort_by("id").equals(rows)
        run_sql(server, ["SET SESSION sql_log_bin = 0", "UPDATE shop.orders SET doc = '[]' WHERE id = 4"])
        found = prove(server, job)["shop.orders", "mirror"]
        assert found.outcome is ProofOutcome.DIFFERENT
        assert [(one.key, one.columns) for one in found.differences] == [(b"1:4", ("doc",))]
