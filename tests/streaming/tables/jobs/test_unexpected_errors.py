"""Errors that nobody foresaw, out of a library or of this program: named once, with their table, which is set aside."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from binlog_format import open_log
from binlog_format.errors import OptionError, TableError
from binlog_lab.event_encoding.table_encoding import ColumnSpec
from binlog_streaming.job_state.progress import Outcome
from binlog_streaming.lake.commit_id import SET_ASIDE_PROPERTY
from binlog_streaming.lake.delta import data_files as delta_files
from binlog_streaming.lake.iceberg import data_files as iceberg_files
from binlog_streaming.settings import OnError, TableFormat, TableRule
from binlog_streaming.tables.apply import apply_component
from tests.streaming.tables.batches import cut, plan, run, write
from tests.streaming.tables.lake.sink_cases import MIRROR_SINKS, Place
from tests.streaming.tables.shop import ShopLog
from tests.streaming.tables.statements.statement_stories import ID, NAME, ORDERS, wanted

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from binlog_format.log.log import Log
    from binlog_streaming.job_state.progress import TableProgress

pytestmark = pytest.mark.usefixtures("shown_values")

ITEMS = wanted("items", ID, NAME)
ERRORS = (ValueError("no such\nplace"), AssertionError(), KeyError("x"), pa.ArrowInvalid("Invalid UTF8 payload"))
FILES: dict[TableFormat, Any] = {
    TableFormat.DELTA: delta_files.DeltaDataFiles,
    TableFormat.ICEBERG: iceberg_files.IcebergDataFiles,
}


@pytest.fixture
def log_path(tmp_path: Path) -> Path:
    with ShopLog(tmp_path / "log") as log:
        log.insert(ORDERS, (1, "a"))
        log.insert(ITEMS, (1, "a"))
        log.insert(ORDERS, (2, "bad"))
        log.insert(ITEMS, (2, "b"))
    return tmp_path / "log"


def failing(write: Callable[..., None], error: BaseException) -> Callable[..., None]:
    """*write*, but for rows with a name that is "bad"."""

    def fail(self: object, rows: pa.Table) -> None:
        if "bad" in rows.column("name").to_pylist():
            raise error
        write(self, rows)

    return fail


def set_aside(log: Log, place: Place) -> dict[str, TableProgress]:
    """Both batches, by a job that goes on without a table; what became of each table in the second one."""
    progress = {}
    for batch_id, batch in enumerate(cut(log, 2)):
        planned = plan(log, batch)
        assert planned.end is not None
        of_all = replace(run(place.directory, batch_id, planned.end, sink=place.sink), on_error=OnError.SET_ASIDE)
        for component in planned.components:
            progress.update({one.source_table: one for one in apply_component(of_all, component, log)})
    return progress


@pytest.mark.parametrize("error", ERRORS, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("table_format", MIRROR_SINKS, ids=str)
def test_error_is_named_with_its_table_and_the_step_goes_again(
    log_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_format: TableFormat, error: Exception
) -> None:
    place = Place(tmp_path / "tables", table_format)
    with open_log(str(log_path)) as log:
        first, second = cut(log, 2)
        write(log, first, place.directory, 0, sink=place.sink)
        with monkeypatch.context() as patch:
            patch.setattr(FILES[table_format], "write", failing(FILES[table_format].write, error))
            with pytest.raises(TableError, match=r"UNEXPECTED_ERROR\] shop\.orders: ") as caught:
                write(log, second, place.directory, 1, sink=place.sink)
        assert caught.value.__cause__ is error
        text = str(caught.value)
        assert f"{place.uri}, step at 0:" in text
        assert type(error).__name__ in text
        assert "test_unexpected_errors.py:" in text
        assert "\n" not in text
        assert place.rows() == [(1, "a")]
        write(log, second, place.directory, 1, sink=place.sink)
    assert place.sorted_rows() == [(1, "a"), (2, "bad")]


@pytest.mark.parametrize("table_format", MIRROR_SINKS, ids=str)
def test_table_is_set_aside_and_others_go_on(
    log_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_format: TableFormat
) -> None:
    place = Place(tmp_path / "tables", table_format)
    monkeypatch.setattr(FILES[table_format], "write", failing(FILES[table_format].write, ERRORS[0]))
    with open_log(str(log_path)) as log:
        progress = set_aside(log, place)
    assert progress["shop.orders"].outcome is Outcome.SET_ASIDE
    assert progress["shop.items"].outcome is Outcome.WRITTEN
    assert replace(place, name="shop/items").sorted_rows() == [(1, "a"), (2, "b")]
    assert place.rows() == [(1, "a")]
    with closing(place.target()) as target:
        assert "UNEXPECTED_ERROR" in (target.properties() or {})[SET_ASIDE_PROPERTY]


@pytest.mark.parametrize(
    "error", [MemoryError(), KeyboardInterrupt(), SystemExit(1)], ids=lambda one: type(one).__name__
)
@pytest.mark.parametrize("table_format", MIRROR_SINKS, ids=str)
def test_what_is_no_error_of_the_table_sets_nothing_aside(
    log_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, table_format: TableFormat, error: BaseException
) -> None:
    place = Place(tmp_path / "tables", table_format)
    monkeypatch.setattr(FILES[table_format], "write", failing(FILES[table_format].write, error))
    with open_log(str(log_path)) as log, pytest.raises(type(error)) as caught:
        set_aside(log, place)
    assert caught.value is error


def test_error_of_decoding_names_the_table(log_path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes before there is a look at a target."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError("of nothing")

    monkeypatch.setattr("binlog_streaming.tables.step_rows.part_row_batches", fail)
    with (
        open_log(str(log_path)) as log,
        pytest.raises(TableError, match=r"UNEXPECTED_ERROR\] shop\.\w+: Zero.*nothing"),
    ):
        write(log, cut(log, 1)[0], tmp_path / "tables")


@pytest.mark.parametrize("table_format", MIRROR_SINKS, ids=str)
def test_a_table_without_the_column_to_partition_by_stops_no_other(tmp_path: Path, table_format: TableFormat) -> None:
    """Whoever makes a table in the application need not know by what the job partitions its tables."""
    price = wanted("items", ID, NAME, ColumnSpec("price", "int"))
    with ShopLog(tmp_path / "log") as log:
        log.insert(ORDERS, (1, "a"))
        log.insert(price, (1, "a", 3))
    place = Place(tmp_path / "tables", table_format)
    rules = (TableRule(partition_by=("price",)),)
    with open_log(str(tmp_path / "log")) as log:
        (batch,) = cut(log, 1)
        planned = plan(log, batch, rules)
        assert planned.end is not None
        of_all = replace(run(place.directory, 0, planned.end, sink=place.sink), on_error=OnError.SET_ASIDE)
        progress = [one for component in planned.components for one in apply_component(of_all, component, log)]
        with pytest.raises(OptionError, match=r"shop\.orders: price: there is no such column"):
            write(log, batch, place.directory, 0, rules, sink=place.sink)
    assert {one.source_table: one.outcome for one in progress} == {
        "shop.orders": Outcome.SET_ASIDE,
        "shop.items": Outcome.WRITTEN,
    }
    assert replace(place, name="shop/items").rows() == [(1, "a", 3)]
