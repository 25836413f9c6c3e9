"""The verdict itself: one wrong value, a row too many or too few, and an error without a name are found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from binlog_format.errors import UnsupportedError
from binlog_streaming.lake.commit_id import DROPPED_PROPERTY, SOURCE_PROPERTY
from tests.streaming.bad_days.scenario import Refused, Scenario
from tests.streaming.bad_days.verdicts import JobEnd, Kind, ServerTable, judge, read_targets

if TYPE_CHECKING:
    from pathlib import Path

COLUMNS: list[dict[str, str | None]] = [
    {"name": "id", "type": "int", "column_type": "int(11)", "charset": None},
    {"name": "Name", "type": "varchar", "column_type": "varchar(9)", "charset": "utf8mb4"},
]
SERVER = {"day.orders": ServerTable(COLUMNS, [["1", {"hex": "61"}], ["2", None]])}
ROWS: list[dict[str, Any]] = [{"id": 1, "name": "a"}, {"id": 2, "name": None}]
WENT_ON = JobEnd(None)
ERROR = UnsupportedError("STATEMENT_FORMAT", "day.orders: UPDATE orders SET amount = 0")


def write(sink: Path, rows: list[dict[str, Any]], **properties: str) -> None:
    """A target of day.orders."""
    schema = pa.schema([("id", pa.int32()), ("name", pa.string())])
    told = {SOURCE_PROPERTY: "day.orders", **{f"binlog-stream.{name}": text for name, text in properties.items()}}
    table = DeltaTable.create(
        sink / "day" / "orders", schema, mode="overwrite", configuration=told, raise_if_key_not_exists=False
    )
    write_deltalake(table, pa.Table.from_pylist(rows, schema), mode="append")


def kind(sink: Path, end: JobEnd = WENT_ON) -> Kind:
    """The verdict about day.orders."""
    return judge(end, SERVER, read_targets(sink))["day.orders"].kind


def test_equal_rows_in_any_order_are_equal(tmp_path: Path) -> None:
    write(tmp_path, ROWS[::-1])
    assert kind(tmp_path) is Kind.EQUAL


@pytest.mark.parametrize(
    "rows",
    [
        [ROWS[0]],
        [*ROWS, {"id": 3, "name": "c"}],
        [*ROWS, ROWS[0]],
        [{"id": 1, "name": "b"}, ROWS[1]],
        [ROWS[0], {"id": 2, "name": ""}],
        [],
    ],
    ids=["missing", "too many", "doubled", "other value", "empty for null", "empty"],
)
def test_planted_differences_are_found(tmp_path: Path, rows: list[dict[str, Any]]) -> None:
    write(tmp_path, rows)
    assert kind(tmp_path) is Kind.WRONG


def test_missing_targets_and_those_that_nobody_asked_for_are_wrong(tmp_path: Path) -> None:
    assert kind(tmp_path) is Kind.WRONG
    write(tmp_path, [])
    assert judge(WENT_ON, {}, read_targets(tmp_path))["day.orders"].kind is Kind.WRONG


def test_targets_of_dropped_tables_are_no_matter(tmp_path: Path) -> None:
    write(tmp_path, ROWS, **{DROPPED_PROPERTY.partition(".")[2]: "0:4"})
    assert judge(WENT_ON, {}, read_targets(tmp_path)) == {}
    assert kind(tmp_path) is Kind.WRONG  # the server has it


def test_only_errors_with_a_name_excuse_a_table(tmp_path: Path) -> None:
    write(tmp_path, [])
    assert kind(tmp_path, JobEnd(ERROR)) is Kind.REFUSED
    assert kind(tmp_path, JobEnd(KeyError("orders"))) is Kind.WRONG


def test_a_table_that_is_set_aside_is_named_by_a_warning_and_by_its_target(tmp_path: Path) -> None:
    told = JobEnd(None, (f"set aside: table=day.orders reason={ERROR}",))
    assert kind(tmp_path, told) is Kind.ASIDE  # it has no target yet
    write(tmp_path, ROWS[:1])
    assert kind(tmp_path, told) is Kind.WRONG
    assert kind(tmp_path, JobEnd(None, ("set aside: table=day.orders",))) is Kind.WRONG
    assert kind(tmp_path, JobEnd(None, (f"set aside: table=day.orders2 reason={str(ERROR)[:32]}",))) is Kind.WRONG


def test_targets_that_were_set_aside_without_a_word_are_wrong(tmp_path: Path) -> None:
    write(tmp_path, ROWS, setAside="0-1-5")
    assert kind(tmp_path) is Kind.WRONG
    assert kind(tmp_path, JobEnd(None, (f"set aside: table=day.orders reason={ERROR}",))) is Kind.ASIDE


def test_an_error_meets_what_was_expected_by_condition_and_all_names() -> None:
    expected = Refused("BINLOG_UNSUPPORTED.STATEMENT_FORMAT", ("day.orders", "UPDATE"))
    assert expected.is_met_by(str(ERROR))
    assert not expected.is_met_by(str(ERROR).replace("UPDATE", "DELETE"))
    assert not expected.is_met_by(str(ERROR).replace("STATEMENT_FORMAT", "EVENT_TYPE"))


def test_scripts_are_cut_at_statements_and_barriers() -> None:
    sql = "A;\nB\n, 'x;y';\n--! session two\nC;\n--! gtid here\n--! fails\nD other.t; E day.orders;"
    scenario = Scenario("s", sql)
    assert scenario.barriers == ("gtid here",)
    assert [[(step.text, step.is_command) for step in part] for part in scenario.parts] == [
        [("A", False), ("B\n, 'x;y'", False), ("session two", True), ("C", False)],
        [("fails", True), ("D other.t; E day.orders", False)],
    ]
    numbered = scenario.numbered(7)
    assert numbered.parts[1][1].text == "D other7.t; E day7.orders"
    assert numbered.select == r"(day7|other7)\..*"
