"""Rules of Delta tables for their rows: kept as Spark keeps them, or refused by name with the expression."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import replace
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest
from msgspec.structs import replace as with_fields

from binlog_format.errors import TableError
from binlog_format.messages import SHOW_VALUES
from binlog_streaming.lake.delta import log as log_module
from binlog_streaming.lake.delta.features import with_properties
from binlog_streaming.lake.delta.row_checks import CONSTRAINT
from binlog_streaming.lake.delta.target import DeltaTarget
from binlog_streaming.lake.evolution import SchemaChange
from binlog_streaming.settings import Merge, Sink
from tests.streaming.tables.lake.sink_cases import MIRROR_COMMIT_ID, change_of

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from binlog_streaming.lake.commit_id import CommitId

COLUMNS = {
    "id": pa.array([1], pa.int32()),
    "value": pa.array(["a"]),
    "price": pa.array([Decimal("1.50")], pa.decimal128(8, 2)),
    "ratio": pa.array([0.5], pa.float32()),
    "day": pa.array([dt.date(2026, 1, 1)]),
    "paid": pa.array([True]),
    "at": pa.array([dt.datetime(2026, 1, 1, tzinfo=dt.UTC)], pa.timestamp("us", "UTC")),
    "wide": pa.array([Decimal(7)], pa.decimal128(38, 20)),
    "body": pa.array([b"a"]),
}
ROW = pa.table(COLUMNS)


def find(path: Path, merge: Merge = Merge.AUTO) -> DeltaTarget:
    return DeltaTarget.at(Sink(directory="", merge=merge), str(path))


def with_rules(path: Path, *expressions: str) -> None:
    """A table with one row and these CHECK constraints: r0, r1 ..."""
    target = find(path)
    target.create(ROW.schema, MIRROR_COMMIT_ID)
    target.append(ROW.to_reader(), MIRROR_COMMIT_ID)
    log = target.log
    assert log is not None
    rules = {f"{CONSTRAINT}r{number}": expression for number, expression in enumerate(expressions)}
    log_module.make_commit(target.store, log, "ADD CONSTRAINT", [("metaData", with_properties(log.metadata, rules))])


def row_with(**values: object) -> pa.Table:
    """The row of the table with other values."""
    row = ROW
    for name, value in values.items():
        field = row.schema.field(name)
        row = row.set_column(row.schema.get_field_index(name), field, pa.array([value], field.type))
    return row


@pytest.mark.parametrize(
    ("expression", "kept", "broken"),
    [
        ("id > 0", {"id": 1}, {"id": 0}),
        ("id > 0", {"id": 1}, {"id": None}),
        ("ID IN (1, 2.5) OR `id` BETWEEN 7 AND 8", {"id": 8}, {"id": 3}),
        ("price >= 0.05 AND price <> 1", {"price": Decimal("0.05")}, {"price": Decimal("1.00")}),
        ("ratio < 2", {"ratio": -5.0}, {"ratio": float("nan")}),
        ("NOT ratio > 0.5", {"ratio": 0.5}, {"ratio": float("nan")}),
        ("day > '1900-01-01'", {"day": dt.date(1900, 1, 2)}, {"day": dt.date(1900, 1, 1)}),
        ("value IN ('a', 'ä')", {"value": "ä"}, {"value": "A"}),
        ("paid = true", {"paid": True}, {"paid": False}),
        ("at IS NOT NULL", {"at": dt.datetime(1970, 1, 1, tzinfo=dt.UTC)}, {"at": None}),
        ("body IS NULL OR id = 1", {"id": 1}, {"id": 2}),
        ("value >= `VALUE` OR id <> id", {"value": "a"}, {"value": None}),
    ],
)
def test_rows_that_keep_a_rule_are_written_and_others_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expression: str, kept: dict[str, object], broken: dict[str, object]
) -> None:
    with_rules(tmp_path, expression)
    find(tmp_path).append(row_with(**kept).to_reader(), replace(MIRROR_COMMIT_ID, batch_id=1))
    before = find(tmp_path).read().read_all()
    assert before.num_rows == 2
    rows = pa.concat_tables([row_with(**kept), row_with(**broken)])
    with pytest.raises(TableError) as hidden:
        find(tmp_path).append(rows.to_reader(), replace(MIRROR_COMMIT_ID, batch_id=2))
    assert f"a row breaks a rule of the table, checkConstraints (r0: {expression}): id = (hidden)" in str(hidden.value)
    monkeypatch.setenv(SHOW_VALUES, "1")
    with pytest.raises(TableError) as shown:
        find(tmp_path).append(rows.to_reader(), replace(MIRROR_COMMIT_ID, batch_id=2))
    (name, value) = next(iter(broken.items()))
    assert f"{name} = {value!r}" in str(shown.value)
    assert find(tmp_path).read().read_all().equals(before)
    assert len([*tmp_path.glob("*.parquet")]) == 2


@pytest.mark.parametrize(
    ("expression", "told"),
    [
        ("id % 2 = 0", "at character 4 (% 2 = 0): names, numbers"),
        ("length(value) > 1", "at character 7 ((value) > 1)"),
        ("id > price", "at character 6 (price): columns of one type expected; column id is"),
        ("id > body AND id > 1", "columns of one type expected"),
        ("id > nobody", "at character 6 (nobody): there is no column nobody"),
        ("ratio = ratio", "columns of whole numbers, DECIMAL, STRING or DATE expected"),
        ("at = at", "columns of whole numbers, DECIMAL, STRING or DATE expected"),
        ("paid < paid", "= or <> expected"),
        ("id BETWEEN id AND 5", "at character 12 (id AND 5): a text in quotes, a number"),
        ("id > 1L", "at character 6 (1L)"),
        ("id = 1e0", "at character 6"),
        (r"value = 'a\n'", "without"),
        ("value = 'it''s'", "at character 9"),
        ('value = "a"', "at character 9"),
        ("value LIKE 'a%'", "a comparison, IN, BETWEEN or IS NULL expected"),
        ("value = 1", "a text in quotes expected"),
        ("id = '1'", "a number expected"),
        ("id = 1 -- or not", "at character 8"),
        ("id = 1 /* or not */", "at character 8"),
        ("nobody = 1", "there is no column nobody"),
        ("at > '2026-01-01'", "only IS NULL and IS NOT NULL"),
        ("body = 'a'", "only IS NULL and IS NOT NULL"),
        ("day > '2026-1-1'", "a date such as"),
        ("paid = 1", "TRUE or FALSE expected"),
        ("paid < TRUE", "= or <> expected"),
        ("ratio = 16777217", "a number that a FLOAT holds"),
        ("ratio IN (1, 2)", "a comparison with one value expected"),
        ("id = 1234567890123456789", "a number of up to 18 digits"),
        ("wide > 3000000000", "numbers of up to 38 digits in all expected"),
    ],
)
def test_a_rule_that_may_mean_something_else_to_spark_is_refused(tmp_path: Path, expression: str, told: str) -> None:
    with_rules(tmp_path, "id > 0", expression)
    with pytest.raises(TableError) as refused:
        find(tmp_path)
    assert refused.value.subclass == "TABLE_FEATURE"
    assert f"only Spark writes correctly: checkConstraints (r1: {expression}, " in str(refused.value)
    assert told in str(refused.value)


@pytest.mark.parametrize("merge", [Merge.REWRITE, Merge.MARK])
def test_a_merge_that_breaks_a_rule_changes_nothing(tmp_path: Path, merge: Merge) -> None:
    with_rules(tmp_path, "value <> 'b'", "value <> 'c'")
    before = find(tmp_path).read().read_all()
    schema = pa.schema([("id", pa.int32()), ("value", pa.string())])
    with pytest.raises(TableError, match=r"checkConstraints \(r1: value <> 'c'\)"):
        find(tmp_path, merge).merge(change_of([(1, "c")], schema=schema), replace(MIRROR_COMMIT_ID, batch_id=1))
    assert find(tmp_path).read().read_all().equals(before)
    find(tmp_path, merge).merge(change_of([(1, "d")], schema=schema), replace(MIRROR_COMMIT_ID, batch_id=1))
    assert find(tmp_path).read().read_all().column("value").to_pylist() == ["d"]


def test_an_invariant_of_a_column_is_kept(tmp_path: Path) -> None:
    with_rules(tmp_path)
    target = find(tmp_path)
    log = target.log
    assert log is not None
    schema = json.loads(log.metadata.schema_string)
    schema["fields"][0]["metadata"]["delta.invariants"] = '{"expression":{"expression":"id < 3"}}'
    metadata = with_fields(log.metadata, schema_string=json.dumps(schema))
    log_module.make_commit(target.store, log, "SET TBLPROPERTIES", [("metaData", metadata)])
    find(tmp_path).append(row_with(id=2).to_reader(), replace(MIRROR_COMMIT_ID, batch_id=1))
    with pytest.raises(TableError, match=r"invariants \(column id: id < 3\)"):
        find(tmp_path).append(row_with(id=3).to_reader(), replace(MIRROR_COMMIT_ID, batch_id=2))


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (SchemaChange(renamed={"value": "name"}), r"\(r0: value <> 'b'.*\) of a column that is renamed"),
        (
            SchemaChange(renamed={"value": "name"}, added=pa.schema([("value", pa.string())])),
            r"\(r0: value <> 'b'\) of a column that is renamed",
        ),
        (SchemaChange(retyped={"price": pa.decimal128(38, 20)}), r"\(r1: price > 2147483648 .*38 digits in all"),
    ],
)
def test_a_column_of_a_rule_stays_what_it_is(tmp_path: Path, change: SchemaChange, told: str) -> None:
    with_rules(tmp_path, "value <> 'b'", "price > 2147483648 OR id = 1")
    version = find(tmp_path).version()
    with pytest.raises(TableError, match=rf"TABLE_FEATURE\] .*checkConstraints .*{told}"):
        find(tmp_path).evolve(change, replace(MIRROR_COMMIT_ID, batch_id=1))
    assert find(tmp_path).version() == version


def test_rules_hold_for_columns_that_change_as_they_may(tmp_path: Path) -> None:
    with_rules(tmp_path, "value <> 'b'", "id < 3")
    steps: list[Callable[[DeltaTarget, CommitId], object]] = [
        lambda target, commit_id: target.evolve(SchemaChange(renamed={"value": "VALUE"}), commit_id),
        lambda target, commit_id: target.evolve(SchemaChange(retyped={"id": pa.int64()}), commit_id),
        lambda target, commit_id: target.evolve(SchemaChange(renamed={"paid": "settled"}), commit_id),
    ]
    for number, step in enumerate(steps):
        step(find(tmp_path), replace(MIRROR_COMMIT_ID, batch_id=1, step=number))
    with pytest.raises(TableError, match=r"\(r0: value <> 'b'\)"):
        find(tmp_path).append(row_with(value="b").to_reader(), replace(MIRROR_COMMIT_ID, batch_id=2))
    with pytest.raises(TableError, match=r"\(r1: id < 3\)"):
        find(tmp_path).append(row_with(id=3).to_reader(), replace(MIRROR_COMMIT_ID, batch_id=2))
