"""Generated columns of Delta tables: made as Spark makes them, or refused by name with the expression."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from deltalake import DeltaTable
from msgspec.structs import replace as with_fields

from binlog_format.errors import TableError
from binlog_streaming.lake.change import Patches
from binlog_streaming.lake.delta import log as log_module
from binlog_streaming.lake.delta.features import FEED, with_properties
from binlog_streaming.lake.delta.generated import GENERATION
from binlog_streaming.lake.delta.target import DeltaTarget
from binlog_streaming.lake.evolution import SchemaChange
from binlog_streaming.settings import Merge, Sink
from binlog_streaming.settings.choices import partition_rule
from tests.streaming.tables.lake.sink_cases import MIRROR_COMMIT_ID, change_of, rows_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from binlog_streaming.lake.commit_id import CommitId

SOURCE = pa.schema([("id", pa.int32()), ("day", pa.date32()), ("at", pa.timestamp("us")), ("name", pa.string())])
ZONED = pa.field("zoned", pa.timestamp("us", "UTC"))
"""Columns that rows bring."""
ADDED = {
    "year": ("YEAR(day)", pa.int32()),
    "month": ("month( `day` )", pa.int32()),
    "dom": ("DAY(at)", pa.int32()),
    "hour": ("hour(AT)", pa.int32()),
    "date": ("CAST(at AS DATE)", pa.date32()),
    "head": ("SUBSTRING(name, 2, 2)", pa.string()),
    "copy": ("name", pa.string()),
}
OLD = dt.datetime(1969, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001
NEW = dt.datetime(2026, 2, 28, 7)  # noqa: DTZ001


def find(path: Path, merge: Merge = Merge.AUTO) -> DeltaTarget:
    return DeltaTarget.at(Sink(directory="", merge=merge), str(path))


def made(path: Path, columns: dict[str, tuple[str, pa.DataType]], partition_by: str = "", feed: str = "false") -> None:
    """A table with generated columns, and without rows."""
    schema = pa.schema([*SOURCE, ZONED, *((name, kind) for name, (_, kind) in columns.items())])
    rules = (partition_rule(partition_by),) if partition_by else ()
    target = find(path)
    target.create(schema, replace(MIRROR_COMMIT_ID, partition_by=rules))
    log = target.log
    assert log is not None
    fields = json.loads(log.metadata.schema_string)
    for field in fields["fields"]:
        if field["name"] in columns:
            field["metadata"][GENERATION] = columns[field["name"]][0]
    metadata = with_fields(with_properties(log.metadata, {FEED: feed}), schema_string=json.dumps(fields))
    log_module.make_commit(target.store, log, "REPLACE TABLE", [("metaData", metadata)])


def rows(path: Path) -> list[dict[str, object]]:
    return find(path).read().read_all().sort_by("id").to_pylist()  # type: ignore[no-any-return]


def expected(key: int, day: dt.date | None, at: dt.datetime | None, name: str | None) -> dict[str, object]:
    return {
        "id": key,
        "day": day,
        "at": at,
        "name": name,
        "zoned": None,
        "year": day and day.year,
        "month": day and day.month,
        "dom": at and at.day,
        "hour": None if at is None else at.hour,
        "date": at and at.date(),
        "head": None if name is None else name[1:3],
        "copy": name,
    }


@pytest.mark.parametrize("merge", [Merge.REWRITE, Merge.MARK])
@pytest.mark.parametrize("partition_by", ["", "year", "head"])
def test_values_are_made_for_every_kind_of_step(tmp_path: Path, merge: Merge, partition_by: str) -> None:
    made(tmp_path, ADDED, partition_by)
    day = dt.date(1582, 10, 14)
    model = {
        1: (day, OLD, "aäöü"),
        2: (None, None, None),
        3: (dt.date(9999, 12, 31), NEW, "xyz"),
        4: (day, NEW, "four"),
    }
    brought = rows_of(SOURCE, [(key, *values) for key, values in model.items()])
    find(tmp_path, merge).append(brought.to_reader(), MIRROR_COMMIT_ID)
    assert rows(tmp_path) == [expected(key, *values) for key, values in model.items()]
    # Whole rows, rows that keep columns of before, and patches.
    change = change_of([(1, dt.date(2020, 1, 2), NEW, "new"), (5, day, OLD, "five")], [2], schema=SOURCE)
    find(tmp_path, merge).merge(change, replace(MIRROR_COMMIT_ID, batch_id=1))
    model |= {1: (dt.date(2020, 1, 2), NEW, "new"), 5: (day, OLD, "five")}
    model.pop(2)
    few = pa.schema([SOURCE.field("id"), SOURCE.field("day")])
    patched = rows_of(few, [(4, dt.date(2021, 3, 4)), (77, day)])
    change = change_of([(3, None)], schema=few, patches=Patches(patched, pa.table({"none": [True, True]}).select([])))
    find(tmp_path, merge).merge(change, replace(MIRROR_COMMIT_ID, batch_id=2))
    model |= {3: (None, *model[3][1:]), 4: (dt.date(2021, 3, 4), *model[4][1:])}
    find(tmp_path, merge).evolve(
        SchemaChange(filled={"at": pa.scalar(OLD, pa.timestamp("us"))}), replace(MIRROR_COMMIT_ID, batch_id=3)
    )
    model = {key: (day, OLD, name) for key, (day, _, name) in model.items()}
    assert rows(tmp_path) == [expected(key, *values) for key, values in sorted(model.items())]
    find(tmp_path).replace(find(tmp_path).read(), replace(MIRROR_COMMIT_ID, batch_id=4))
    assert rows(tmp_path) == [expected(key, *values) for key, values in sorted(model.items())]
    files = pa.table(DeltaTable(str(tmp_path)).get_add_actions(flatten=True))
    if partition_by == "year":
        assert set(files.column("partition.year").to_pylist()) == {2020, 2021, 1582, None}


def test_the_feed_has_values_of_now(tmp_path: Path) -> None:
    made(tmp_path, ADDED, feed="true")
    find(tmp_path).append(rows_of(SOURCE, [(1, None, OLD, "old")]).to_reader(), MIRROR_COMMIT_ID)
    version = DeltaTable(str(tmp_path)).version()
    few = pa.schema([SOURCE.field("id"), SOURCE.field("at")])
    find(tmp_path).merge(change_of([(1, NEW)], schema=few), replace(MIRROR_COMMIT_ID, batch_id=1))
    feed = pa.table(DeltaTable(str(tmp_path)).load_cdf(starting_version=version + 1, columns=None).read_all())
    assert sorted((row["_change_type"], row["dom"], row["hour"]) for row in feed.to_pylist()) == [
        ("update_postimage", 28, 7),
        ("update_preimage", 31, 23),
    ]


@pytest.mark.parametrize(
    ("expression", "kind", "told"),
    [
        ("id * 2", pa.int32(), "at character 4 (* 2): names, numbers"),
        ("DATE_FORMAT(day, 'yyyy-MM')", pa.string(), "a number expected, got 'yyyy-MM'"),
        ("YEAR(zoned)", pa.int32(), "zoned is a TIMESTAMP: its YEAR depends on the time zone of a session"),
        ("CAST(zoned AS DATE)", pa.date32(), "depends on the time zone"),
        ("CAST(name AS INT)", pa.int32(), "AS DATE expected"),
        ("YEAR(name)", pa.int32(), "this function is not known for string to integer"),
        ("YEAR(day)", pa.int64(), "this function is not known for date to long"),
        ("HOUR(day)", pa.int32(), "this function is not known"),
        ("SUBSTRING(name, 0, 2)", pa.string(), "this function is not known"),
        ("SUBSTRING(name, -2, 2)", pa.string(), "a number expected"),
        ("SUBSTRING(name, 2)", pa.string(), "this function is not known"),
        ("YEAR(day) + 1", pa.int32(), "names, numbers"),
        ("YEAR(day) - 1", pa.int32(), "the end expected"),
        ("`year`(day)", pa.int32(), "the end expected"),
        ("YEAR(nobody)", pa.int32(), "a column that is not generated expected"),
        ("YEAR(made)", pa.int32(), "a column that is not generated expected"),
        ("1", pa.int32(), "a name expected"),
    ],
)
def test_what_may_have_another_value_in_spark_is_refused(
    tmp_path: Path, expression: str, kind: pa.DataType, told: str
) -> None:
    made(tmp_path, {"made": (expression, kind)})
    with pytest.raises(TableError) as refused:
        find(tmp_path)
    assert refused.value.subclass == "TABLE_FEATURE"
    assert f"only Spark writes correctly: generatedColumns (column made: {expression}, " in str(refused.value)
    assert told in str(refused.value)


def test_rows_that_bring_the_column_are_refused(tmp_path: Path) -> None:
    made(tmp_path, ADDED)
    schema = pa.schema([*SOURCE, pa.field("year", pa.int32())])
    row = (1, dt.date(2020, 1, 1), OLD, "x", 2020)
    steps: list[Callable[[DeltaTarget, CommitId], object]] = [
        lambda target, commit_id: target.append(rows_of(schema, [row]).to_reader(), commit_id),
        lambda target, commit_id: target.merge(change_of([row], schema=schema), commit_id),
    ]
    for step in steps:
        with pytest.raises(TableError, match=r"TABLE_FEATURE\] new rows have a column year \(generatedColumns\)"):
            step(find(tmp_path), MIRROR_COMMIT_ID)
    find(tmp_path).append(rows_of(SOURCE, [row[:4]]).to_reader(), MIRROR_COMMIT_ID)
    with pytest.raises(
        TableError, match=r"a row has \(hidden\) in column year, and the table makes its values by YEAR"
    ):
        find(tmp_path).evolve(
            SchemaChange(filled={"year": pa.scalar(7, pa.int32())}), replace(MIRROR_COMMIT_ID, batch_id=1)
        )
    assert rows(tmp_path) == [expected(*row[:4])]


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (SchemaChange(renamed={"day": "date_of"}), r"column year: YEAR\(day\)"),
        (SchemaChange(renamed={"hour": "hours"}), r"\(column hour: hour\(AT\)\), renamed"),
        (SchemaChange(retyped={"at": pa.string()}), r"\(column hour: hour\(AT\), .*not known for string to integer"),
    ],
)
def test_columns_of_which_others_are_made_stay_what_they_are(tmp_path: Path, change: SchemaChange, told: str) -> None:
    made(tmp_path, ADDED)
    version = find(tmp_path).version()
    with pytest.raises(TableError, match=rf"TABLE_FEATURE\] .*generatedColumns .*{told}"):
        find(tmp_path).evolve(change, replace(MIRROR_COMMIT_ID, batch_id=1))
    assert find(tmp_path).version() == version
