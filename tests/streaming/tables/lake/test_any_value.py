"""Whatever users of an application write: it goes into the table, as key, value or partition, and readers find it.

A reader passes over files and partitions by least and greatest values; a wrong one hides rows from those who filter.
"""

from __future__ import annotations

import datetime as dt
import tempfile
from contextlib import closing
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pyiceberg.expressions import EqualTo
from pyiceberg.io.pyarrow import compute_statistics_plan, parquet_path_to_id_mapping
from pyiceberg.schema import Schema
from pyiceberg.types import NestedField, StringType

from binlog_format.errors import TableError
from binlog_streaming.lake.change import Change
from binlog_streaming.lake.iceberg.partitions import file_facts, upper_text
from binlog_streaming.settings import Merge, TableFormat
from binlog_streaming.settings.choices import partition_rule
from tests.chance import examples
from tests.streaming.tables.iceberg.iceberg_cases import reader
from tests.streaming.tables.lake.sink_cases import MIRROR_COMMIT_ID, MIRROR_SINKS, Place, change_of, rows_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    import duckdb

    from tests.streaming.tables.modes.row_images import Row

SCHEMA = pa.schema([("id", pa.int32()), ("name", pa.string()), ("code", pa.binary()), ("amount", pa.decimal128(9, 2))])
KEYS = ("id", "name", "code", "amount")
RULES = {
    TableFormat.DELTA: ("", "name", "amount"),
    TableFormat.ICEBERG: (
        *("", "name", "truncate(5, name)", "bucket(4, name)"),
        *("code", "truncate(3, code)", "bucket(4, code)"),
        *("amount", "truncate(5, amount)", "truncate(700, amount)", "bucket(4, amount)"),
    ),
}
# As Place.content reads it: deltalake's way to a table of Arrow cannot read a partition of -0.01.
MERGES = {TableFormat.DELTA: Merge.MARK, TableFormat.ICEBERG: Merge.REWRITE}
LEAST = Decimal("-9999999.99")

# At the edges of what UTF-8 has, of what bounds keep, and of what names of folders may be.
ODD = st.sampled_from(
    ["\0", "\x7f", "\ud7ff", "\ue000", "\uffff", "\U0010ffff", "%", "/", "=", ":", "'", "\\", " ", "."]
)
PADDED = st.builds(lambda text, count, last: text + "a" * count + last, st.text(ODD), st.integers(0, 34), st.text(ODD))
TEXTS = (st.text(ODD, max_size=40) | st.text(max_size=40) | PADDED).filter(bool)
BYTES = st.binary(max_size=40) | st.builds(lambda count, end: b"\xff" * count + end, st.integers(0, 34), st.binary())
AMOUNTS = st.decimals(LEAST, -LEAST, places=2) | st.sampled_from([LEAST, -LEAST, Decimal("0.00"), Decimal("-0.01")])


@dataclass(frozen=True)
class Case:
    """A table: how it is partitioned, its key, and its rows; no two have the same value in any column."""

    rule: str
    key: str
    rows: list[Row]


@st.composite
def cases(draw: st.DrawFn, table_format: TableFormat) -> Case:
    drawn = [draw(st.lists(kind, min_size=4, max_size=4, unique=True)) for kind in (TEXTS, BYTES, AMOUNTS)]
    rows = list(zip(range(4), *drawn, strict=True))
    return Case(draw(st.sampled_from(RULES[table_format])), draw(st.sampled_from(KEYS)), rows)


def written(case: Case, table_format: TableFormat, directory: Path) -> tuple[Place, list[Row]]:
    """The table after two steps: rows come; the first one changes, and the second one goes."""
    place = Place(directory, table_format, merge_kind=MERGES[table_format])
    rules = (partition_rule(case.rule),) if case.rule else ()
    commit_id = replace(MIRROR_COMMIT_ID, keys=(case.key,), partition_by=rules)
    first, second, *others = case.rows
    changed = tuple(
        value if name == case.key else other
        for name, value, other in zip(SCHEMA.names, first, (77, "b", b"b", Decimal("7.77")), strict=True)
    )
    key = SCHEMA.names.index(case.key)
    keys = pa.schema([SCHEMA.field(key)])
    steps = (
        Change(rows_of(SCHEMA, case.rows), keys.empty_table()),
        Change(rows_of(SCHEMA, [changed]), rows_of(keys, [(second[key],)])),
    )
    for batch_id, change in enumerate(steps):
        own = replace(commit_id, batch_id=batch_id)
        place.step(own, lambda target, change=change, own=own: target.merge(change, own), SCHEMA)  # type: ignore[misc]
    return place, [changed, *others]


@pytest.mark.parametrize("table_format", MIRROR_SINKS, ids=str)
@settings(max_examples=examples(24))
@given(data=st.data())
def test_all_values_are_written_and_found(
    duck: duckdb.DuckDBPyConnection, table_format: TableFormat, data: st.DataObject
) -> None:
    check(duck, table_format, data.draw(cases(table_format)))


EDGES = [
    Case("", "id", [(0, "a" * 15 + "\ud7ffb", b"\xff" * 17, LEAST), (1, "\ud7ff" * 20, b"", -LEAST)]),
    Case("name", "name", [(0, "\ud7ff" * 20, b"\xff", LEAST), (1, "\U0010ffff" * 20, b"\xfe", -LEAST)]),
    Case("truncate(5, amount)", "amount", [(0, "a", b"\xff", LEAST), (1, "b", b"\xfe", -LEAST)]),
    Case("amount", "code", [(0, "a", b"\xff\xfe\0", LEAST), (1, "b", b"\xff\xfe", -LEAST)]),
]


@pytest.mark.parametrize("case", EDGES, ids=lambda case: case.rule or "plain")
@pytest.mark.parametrize("table_format", MIRROR_SINKS, ids=str)
def test_values_at_the_edge(duck: duckdb.DuckDBPyConnection, table_format: TableFormat, case: Case) -> None:
    rule = case.rule if case.rule in RULES[table_format] else ""
    check(duck, table_format, replace(case, rule=rule))


def check(duck: duckdb.DuckDBPyConnection, table_format: TableFormat, case: Case) -> None:
    with tempfile.TemporaryDirectory() as directory:
        place, expected = written(case, table_format, Path(directory))
        assert sorted((tuple(row.values()) for row in place.read().to_pylist()), key=repr) == sorted(expected, key=repr)
        assert place.sorted_rows() == sorted(expected, key=repr)
        if table_format is TableFormat.DELTA:
            source = f"delta_scan('{place.uri}')"
        else:
            with reader(place) as table:
                source = f"iceberg_scan('{table.metadata_location}')"
                for name, value, held in searches(expected):
                    found = table.scan(row_filter=EqualTo(name, value)).to_arrow().to_pylist()  # type: ignore[call-arg,arg-type]
                    assert sorted((tuple(row.values()) for row in found), key=repr) == held, (name, value)
        assert sorted(duck.sql(f"FROM {source}").fetchall(), key=repr) == sorted(expected, key=repr)
        for name, value, held in searches(expected):
            assert sorted(found_by_duck(duck, source, name, value), key=repr) == held, (name, value)


def searches(rows: list[Row]) -> Iterator[tuple[str, object, list[Row]]]:
    """Columns, values of them, and the rows that have these."""
    for place, name in enumerate(SCHEMA.names):
        for value in {row[place] for row in rows}:
            yield name, value, sorted((row for row in rows if row[place] == value), key=repr)


def found_by_duck(duck: duckdb.DuckDBPyConnection, source: str, name: str, value: object) -> list[Row]:
    from duckdb import ColumnExpression, ConstantExpression

    # As constants: by a parameter DuckDB does not pass over files.
    return duck.sql(f"FROM {source}").filter(ColumnExpression(name) == ConstantExpression(value)).fetchall()


@example(text="a" * 15 + "\ud7ffb", length=16)
@example(text="\U0010ffff" * 17, length=16)
@given(
    text=st.text(st.sampled_from("ab\ud7ff\ue000\U0010ffff") | st.characters(), max_size=20), length=st.integers(1, 18)
)
def test_upper_bound_is_a_text_that_is_no_less(text: str, length: int) -> None:
    bound = upper_text(text, length)
    if bound is None:
        assert set(text[:length]) == {"\U0010ffff"}
        return
    assert len(bound) <= length
    assert text.encode() <= bound.encode()  # no surrogate: these have no UTF-8


def test_bounds_are_those_of_all_parts_of_a_file(tmp_path: Path) -> None:
    """Parquet has no range of a part with a long value: the others' range is not the file's."""
    schema = Schema(NestedField(1, "name", StringType(), required=False))
    path = tmp_path / "file.parquet"
    parts = [pa.table({"name": ["b", None]}), pa.table({"name": ["z" * 10_000]}), pa.table({"name": [None]})]
    facts = []
    for rows in (parts[:2], [parts[0], parts[2].cast(pa.schema([("name", pa.string())]))]):
        with pq.ParquetWriter(path, pa.schema([("name", pa.string())])) as writer:
            for part in rows:
                writer.write_table(part)
        plan, columns = compute_statistics_plan(schema, {}), parquet_path_to_id_mapping(schema)
        facts.append(file_facts(pq.read_metadata(path), plan, columns))
    long, short = facts
    assert (long["lower_bounds"], long["upper_bounds"]) == ({}, {})
    assert (short["lower_bounds"], short["upper_bounds"]) == ({1: b"b"}, {1: b"b"})


def test_a_partition_that_some_values_cannot_have_is_refused(tmp_path: Path) -> None:
    """Before anything is written: any user could stop the table otherwise."""
    narrow = pa.schema([("id", pa.int32()), ("code", pa.binary()), ("digit", pa.decimal128(2, 0))])
    for table_format, rule, why in (
        (TableFormat.DELTA, "code", "no text for bytes"),
        (TableFormat.ICEBERG, "truncate(90, digit)", "no multiple of 90"),
    ):
        place = Place(tmp_path / table_format, table_format)
        with closing(place.target()) as target, pytest.raises(TableError, match=why) as refused:
            target.create(narrow, replace(MIRROR_COMMIT_ID, partition_by=(partition_rule(rule),)))
        assert refused.value.subclass == "PARTITION_VALUE"
        with closing(place.target()) as target:
            assert target.properties() is None


POINT = pa.struct([("srid", pa.int32()), ("wkb", pa.binary())])


def test_a_column_may_be_called_like_a_part_of_another(duck: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int32()), ("g", POINT), ("g.srid", pa.int32())])
    rows: list[Row] = [(1, {"srid": 4326, "wkb": b"\x01"}, 7), (2, None, None)]
    place = Place(tmp_path, TableFormat.DELTA)
    place.step(MIRROR_COMMIT_ID, lambda target: target.merge(change_of(rows, schema=schema), MIRROR_COMMIT_ID), schema)
    assert place.sorted_rows() == rows
    assert duck.sql(f"FROM delta_scan('{place.uri}') ORDER BY id").fetchall() == rows
    assert duck.sql(f"""FROM delta_scan('{place.uri}') WHERE "g.srid" = 7""").fetchall() == rows[:1]


def test_iceberg_has_no_column_called_like_a_part_of_another(tmp_path: Path) -> None:
    schemas = [[("g", POINT), ("g.srid", pa.int32())], [("v.element", pa.int32()), ("v", pa.list_(pa.float32()))]]
    for columns in schemas:
        with closing(Place(tmp_path, TableFormat.ICEBERG).target()) as target:
            with pytest.raises(TableError, match="a part of column") as refused:
                target.create(pa.schema(columns), MIRROR_COMMIT_ID)
            assert refused.value.subclass == "COLUMN_NAME"


# What servers take: the first 65,536 characters but NUL.
NAMES = st.text(
    st.characters(min_codepoint=1, max_codepoint=0xFFFF, exclude_categories=["Cs"]), min_size=1, max_size=20
)
ODD_NAMES = ["a.b", "a_x2Eb", "1", "_1", "_1_2", "a b", "t\tn\n", ",;{}()=", "`", '"', "'", "/", "..", "%41", "_row_id"]


@pytest.mark.parametrize("table_format", MIRROR_SINKS, ids=str)
@example(names=ODD_NAMES)
@settings(max_examples=examples(24))
@given(names=st.lists(NAMES | st.sampled_from(ODD_NAMES), min_size=1, max_size=6, unique_by=str.casefold))
def test_columns_have_any_names(table_format: TableFormat, names: list[str]) -> None:
    """In files names are plain ones, and no two alike."""
    schema = pa.schema([("key", pa.int32()), *((f"{name}", pa.string()) for name in names if name.casefold() != "key")])
    rows: list[Row] = [(number, *(f"{name}{number}" for name in schema.names[1:])) for number in range(3)]
    later: Row = (1, *("later" for _ in schema.names[1:]))
    with tempfile.TemporaryDirectory() as directory:
        place = Place(Path(directory), table_format)
        for batch_id, some in enumerate((rows, [later])):
            own = replace(MIRROR_COMMIT_ID, keys=("key",), batch_id=batch_id)
            change = Change(rows_of(schema, some), schema.empty_table().select(["key"]))
            place.step(own, lambda target, change=change, own=own: target.merge(change, own), schema)  # type: ignore[misc]
        assert place.sorted_rows() == [rows[0], later, rows[2]]
        assert sorted(tuple(row.values()) for row in place.read().to_pylist()) == [rows[0], later, rows[2]]


def test_a_partition_may_be_called_like_a_column(tmp_path: Path) -> None:
    """`day(at)` is `at_day` in Iceberg, unless the table has such a column."""
    place = Place(tmp_path, TableFormat.ICEBERG)
    schema = pa.schema([("id", pa.int32()), ("at", pa.date32()), ("AT_DAY", pa.string())])
    own = replace(MIRROR_COMMIT_ID, partition_by=tuple(map(partition_rule, ("day(at)", "bucket(4, id)"))))
    rows: list[Row] = [(1, dt.date(2026, 1, 1), "a"), (2, dt.date(2026, 1, 2), "b")]
    place.step(own, lambda target: target.merge(change_of(rows, schema=schema), own), schema)
    with reader(place) as table:
        assert [field.name for field in table.spec().fields] == ["at_day_2", "id_bucket"]
        found = table.scan(row_filter=EqualTo("at", "2026-01-02")).to_arrow().to_pylist()  # type: ignore[call-arg,arg-type]
    assert [tuple(row.values()) for row in found] == rows[1:]
