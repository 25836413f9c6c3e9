"""Delta tables as DuckDB reads them, with a Delta library of others: all rows, and those that a filter asks for.

A reader passes over files by their statistics: a wrong one hides rows, and only from those who filter.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from binlog_format import open_log
from binlog_streaming.settings import Merge, Mode, Sink, TableFormat, TableRule
from tests.streaming.tables.batches import cut, write
from tests.streaming.tables.oltp import IMAGES, OLTP, TABLES, play, truth
from tests.streaming.tables.sink_cases import (
    ALL_COLUMNS,
    MIRROR_TICKET,
    Variant,
    all_types,
    change_of,
    numbers,
    rows_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import duckdb

    from tests.streaming.tables.sink_cases import Place


@pytest.fixture(scope="module")
def duck() -> Iterator[duckdb.DuckDBPyConnection]:
    try:
        import duckdb
        import duckdb_ext
    except ModuleNotFoundError:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip("DuckDB and its extension for Delta come as packages on x86-64 Linux alone")
    with duckdb_ext.init(duckdb.connect()) as connection:
        connection.execute("SET TimeZone = 'UTC'")
        yield connection


@pytest.fixture(params=[Merge.REWRITE, Merge.MARK], ids=str)
def sink(request: pytest.FixtureRequest, tmp_path: Path) -> Sink:
    return Sink(directory=str(tmp_path), format=TableFormat.DELTA, merge=request.param)


@pytest.fixture(params=[Variant.DELTA, Variant.VECTORS], ids=str)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    return Variant(request.param).place(tmp_path)


def read(duck: duckdb.DuckDBPyConnection, path: str, **equal: object) -> pa.Table:
    """Rows of the table at *path*; *equal*: where these columns have these values."""
    from duckdb import ColumnExpression, ConstantExpression

    # As constants: by a parameter DuckDB does not pass over files.
    rows = duck.sql(f"FROM delta_scan('{path}')")
    for name, value in equal.items():
        column = ColumnExpression(name)
        rows = rows.filter(column.isnull() if value is None else column == ConstantExpression(value))
    return rows.fetch_arrow_table()


@pytest.mark.parametrize("mode", [Mode.MIRROR, Mode.SCD2, Mode.CHANGELOG], ids=str)
def test_tables_of_a_job_equal_the_server(duck: duckdb.DuckDBPyConnection, sink: Sink, mode: Mode) -> None:
    """In three batches, so that rows are marked where the sink marks them."""
    with open_log(str(OLTP)) as log:
        for batch_id, batch in enumerate(cut(log, 3)):
            write(log, batch, sink.directory, batch_id, (TableRule(mode=mode),), sink=sink)
    images = 0
    for name in TABLES:
        path = f"{sink.directory}/sb/{name}"
        if mode is Mode.CHANGELOG:
            rows = read(duck, path)
            images += rows.num_rows
            assert play(rows)[0] == truth(name)
            continue
        current: dict[str, object] = {"_is_current": True} if mode is Mode.SCD2 else {}
        columns = ["id", "k", "c", "pad"]
        rows = read(duck, path, **current).select(columns).sort_by("id")
        assert [tuple(row.values()) for row in rows.to_pylist()] == truth(name)
        one = truth(name)[40]
        rows = read(duck, path, id=one[0], c=one[2], **current).select(columns)
        assert [tuple(row.values()) for row in rows.to_pylist()] == [one]
    assert mode is not Mode.CHANGELOG or images == IMAGES


def test_marked_rows_are_in_no_answer(duck: duckdb.DuckDBPyConnection, place: Place) -> None:
    """Least and greatest values of a file may be those of marked rows."""
    place.append(0, numbers(*range(1000)), MIRROR_TICKET)
    place.bring(change_of([(500, "y"), (2000, "z")], [0, 1, 999]))
    place.bring(change_of([(2, "w")], [2000]), batch_id=2)
    held = dict.fromkeys(range(3, 999), "x") | {500: "y", 2: "w"}
    assert {row["id"]: row["value"] for row in read(duck, place.uri).to_pylist()} == held
    for number in (0, 1, 2, 3, 500, 998, 999, 2000):
        answer = read(duck, place.uri, id=number).to_pylist()
        assert answer == ([{"id": number, "value": held[number]}] if number in held else [])
    assert read(duck, place.uri, value="z").num_rows == 0


@pytest.mark.parametrize("kind", ALL_COLUMNS)
def test_every_value_is_read_and_found(duck: duckdb.DuckDBPyConnection, place: Place, kind: str) -> None:
    """In files that a merge has written."""
    column = all_types().column(kind)
    values = column.to_pylist()
    schema = pa.schema([("id", pa.int32()), ("value", column.type)])
    place.append(0, rows_of(schema, [(number, None) for number in range(len(values))]), MIRROR_TICKET)
    assert place.merge(1, [((number, None), (number, value)) for number, value in enumerate(values)], schema)
    assert read(duck, place.uri).sort_by("id").column("value").to_pylist() == values
    if pa.types.is_nested(column.type):
        return
    for number, value in enumerate(values):
        assert read(duck, place.uri, value=value).column("id").to_pylist() == [number], value
