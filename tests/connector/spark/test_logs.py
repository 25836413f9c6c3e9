"""View `logs`, read in this process as Spark's driver and workers read it."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from binlog_connector.options.source_options import View
from binlog_connector.spark.batch_reader import wanted_by
from binlog_connector.spark.source import BinlogDataSource
from binlog_connector.spark.spark_api import EqualTo, GreaterThanOrEqual, In, LessThan
from binlog_format import open_log
from binlog_format.errors import CorruptError, OptionError, SchemaError
from binlog_format.structured.event_filter import ALL_EVENTS
from binlog_format.structured.layout import Severity
from binlog_format.structured.view import LOGS_SCHEMA, LogsView
from binlog_lab.simulator.structured.program import FIRST_NS, STEP_NS, LoggingProgram
from tests.connector.damaged_program import NOISE, damaged_before_first_event, damaged_log
from tests.connector.shop import Shop

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from binlog_connector.spark.batch_reader import BinlogBatchReader
    from binlog_connector.spark.stream_reader import BinlogStreamReader
    from binlog_format.structured.event_filter import EventFilter

Row = dict[str, object]


def batch_reader(directory: Path, **options: str) -> BinlogBatchReader:
    source = BinlogDataSource({"path": str(directory), **options})
    return source.reader(source.schema())


def read_all(reader: BinlogBatchReader | BinlogStreamReader, partitions: object) -> list[Row]:
    rows: list[Row] = []
    for partition in partitions:  # type: ignore[attr-defined]
        worker = pickle.loads(pickle.dumps(reader))
        rows += [row for batch in worker.read(pickle.loads(pickle.dumps(partition))) for row in batch.to_pylist()]
    return rows


def batch(directory: Path, **options: str) -> list[Row]:
    reader = batch_reader(directory, **options)
    return read_all(reader, reader.partitions())


def direct(directory: Path) -> list[Row]:
    return whole(directory).to_pylist()  # type: ignore[no-any-return]


def whole(directory: Path, wanted: EventFilter = ALL_EVENTS) -> pa.Table:
    """What the view gives without Spark."""
    with open_log(str(directory)) as log:
        assert log.events is not None
        return pa.Table.from_batches(LogsView(wanted).batches(log.events.entries()), LOGS_SCHEMA)


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("log")
    with LoggingProgram(directory) as program:
        for _ in range(3):
            program.log(100)
            program.rotate()
        program.log(100)
    return directory


def test_batch_is_the_log(log: Path) -> None:
    """The default view; in one partition or in several."""
    expected = direct(log)
    assert len(expected) == 400
    assert batch(log) == expected
    assert batch(log, view="logs", minPartitions="7") == expected
    assert len(batch_reader(log, minPartitions="7").partitions()) > 4


def test_stream_gives_each_event_once(tmp_path: Path) -> None:
    """Every micro-batch is read twice, and the second reader goes on from a checkpoint."""
    rows: list[Row] = []
    offset = None
    with LoggingProgram(tmp_path) as program:
        for turn in range(6):
            program.log(30)
            if turn % 2:
                program.rotate()
            source = BinlogDataSource({"path": str(tmp_path), "maxBytesPerTrigger": "1k", "minPartitions": "2"})
            reader = source.streamReader(source.schema())
            offset = offset or reader.initialOffset()
            while (end := json.loads(json.dumps(reader.latestOffset(offset, reader.getDefaultReadLimit())))) != offset:
                found = read_all(reader, reader.partitions(offset, end))
                assert found == read_all(reader, reader.partitions(offset, end))
                rows += found
                offset = end
    assert rows == direct(tmp_path)
    assert len(rows) == 180


def of_numbers(rows: list[Row]) -> list[int]:
    return sorted(json.loads(str(row["args"]))[0] for row in rows)


def test_damage_is_skipped_in_batches(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    given = damaged_log(tmp_path)
    with pytest.raises(CorruptError, match="BAD_ENTRY"):
        batch(tmp_path)
    for options in ({}, {"minPartitions": "3"}):
        caplog.clear()
        assert of_numbers(batch(tmp_path, skipDamaged="true", **options)) == given
        assert len([line for line in caplog.messages if line.startswith("left out: ")]) >= 3
    found = batch(tmp_path, skipDamaged="true", source="src/shop.cpp:10")
    assert [row["_0" if "_0" in row else "args"] is not None for row in found]
    assert len(found) == 27


def damaged_at_start(directory: Path) -> list[int]:
    return damaged_before_first_event(directory, NOISE["zeros"], instead_of_start=True)


@pytest.mark.parametrize("damaged", [damaged_log, damaged_at_start])
@pytest.mark.parametrize("size", ["64", "1k", "1m"])
def test_damage_is_skipped_in_streams(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, size: str, damaged: Callable[[Path], list[int]]
) -> None:
    """Each batch is read twice; a new reader plans each, as after a restart; Trigger.AvailableNow comes to the end."""
    given = damaged(tmp_path)
    source = BinlogDataSource({"path": str(tmp_path), "maxBytesPerTrigger": size, "skipDamaged": "true"})
    rows: list[Row] = []
    reader = source.streamReader(source.schema())
    offset = reader.initialOffset()
    while True:
        reader = source.streamReader(source.schema())
        reader.prepareForTriggerAvailableNow()
        end = json.loads(json.dumps(reader.latestOffset(offset, reader.getDefaultReadLimit())))
        if end == offset:
            break
        found = read_all(reader, reader.partitions(offset, end))
        assert found == read_all(reader, reader.partitions(offset, end))
        rows += found
        offset = end
    assert of_numbers(rows) == given
    assert "left out: [BINLOG_CORRUPT.BAD_ENTRY]" in caplog.text
    reader = BinlogDataSource({"path": str(tmp_path)}).streamReader(source.schema())
    with pytest.raises(CorruptError, match="BAD_ENTRY"):
        reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())


@pytest.mark.parametrize(
    ("options", "count"),
    [
        ({"minSeverity": "error"}, 40),
        ({"minSeverity": "129"}, 40),
        ({"categories": "sho.*,other"}, 360),
        ({"sourceFiles": r".*net\.cpp"}, 40),
        ({"formats": "item .*"}, 360),
        ({"minSeverity": "ERROR", "categories": "shop"}, 0),
        ({"endingTimestamp": "2026-01-01T00:00:00Z"}, 0),
        ({"endingTimestamp": "2026-01-01T00:00:01Z", "startingTimestamp": "2026-01-01T00:00:00Z"}, 400),
    ],
)
def test_options_choose_events(log: Path, options: dict[str, str], count: int) -> None:
    rows = batch(log, **options)
    assert len(rows) == count
    assert [row for row in direct(log) if row in rows] == rows


@pytest.mark.parametrize(
    ("filters", "condition"),
    [
        ([EqualTo(("severity",), "error")], pc.field("severity") == "error"),
        ([In(("category",), ("net", "x"))], pc.field("category") == "net"),
        ([GreaterThanOrEqual(("severity_no",), 200)], pc.field("severity_no") >= 200),
        ([LessThan(("ns",), FIRST_NS + 50 * STEP_NS)], pc.field("ns") < FIRST_NS + 50 * STEP_NS),
        ([EqualTo(("time",), datetime.fromtimestamp(FIRST_NS // 10**9, UTC))], pc.field("ns") == FIRST_NS),
        ([EqualTo(("file",), "src/net.cpp"), EqualTo(("format",), "item {} of {}")], pc.field("line") == -1),
    ],
)
def test_filters_of_spark_leave_out_what_spark_would(
    log: Path, filters: list[object], condition: pc.Expression
) -> None:
    wanted = wanted_by(filters, View.LOGS)  # type: ignore[arg-type]
    found = whole(log, wanted.events)
    assert found.equals(whole(log).filter(condition))
    assert len(found) < 400


def test_arguments_of_a_source_are_columns(log: Path) -> None:
    for source in ("2", "net.cpp:20", "src/net.cpp:20", "failed: code={}"):
        rows = batch(log, source=source)
        assert {row["code"] for row in rows} == set(range(9, 400, 10))
        assert len(rows) == 40
    with pytest.raises(OptionError, match=r"option source: .*no source of the log is named by 'et.cpp:20'"):
        batch(log, source="et.cpp:20")


def test_sources_of_one_selector_must_agree(tmp_path: Path) -> None:
    with LoggingProgram(tmp_path) as program:
        program.session.add_source("x {}", "i", file="a.cpp", line=1, severity=Severity.INFO)
        program.session.add_source("y {} {}", "ii", file="b/a.cpp", line=1, severity=Severity.INFO)
        program.log(1)
    with pytest.raises(SchemaError, match=r"COLUMN_MISMATCH.*source 3 .*source 4"):
        batch_reader(tmp_path, source="a.cpp:1")


def test_source_that_gets_other_arguments_ends_the_query(tmp_path: Path) -> None:
    with LoggingProgram(tmp_path) as program:
        program.log(10)
        reader = batch_reader(tmp_path, source="net.cpp:20")
        writer_source = program.session.add_source("failed: code={} in {}", "i[c", file="src/net.cpp", line=20)
        program.failure = writer_source
        with pytest.raises(SchemaError, match=r"SCHEMA_CHANGED.*arg1"):
            _log_other(program, reader)


def _log_other(program: LoggingProgram, reader: BinlogBatchReader) -> None:
    from binlog_format.structured.writing import SessionWriter

    SessionWriter(program.session, id=5).add_event(program.failure, 1, 5, "x")
    program.log(0)
    read_all(reader, reader.partitions())


def test_rows_are_sorted_within_a_window(log: Path) -> None:
    order = [FIRST_NS + number * STEP_NS for number in range(400)]
    assert [row["ns"] for row in direct(log)] != order
    rows = batch(log, sortWindow="1s")
    assert [row["ns"] for row in rows] == order
    key = json.dumps
    assert sorted(key(row, default=str) for row in rows) == sorted(key(row, default=str) for row in direct(log))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"view": "changes"}, "option view: changes is no view of"),
        ({"table": "a.b"}, "option table: it has no effect on"),
        ({"startingGtid": "0-1-1"}, "option startingGtid: it has no effect on"),
        ({"minSeverity": "loud"}, 'option minSeverity: "loud": expected trace'),
        ({"categories": "("}, r'option categories: "\("'),
        ({"sortWindow": "5"}, "option sortWindow: expected a duration"),
    ],
)
def test_wrong_options_are_named(log: Path, options: dict[str, str], message: str) -> None:
    with pytest.raises(OptionError, match=message):
        batch_reader(log, **options)


def test_other_logs_have_no_view_logs(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.sell(1)
    with pytest.raises(OptionError, match="option view: logs is no view of"):
        batch_reader(tmp_path, view="logs")
    with pytest.raises(OptionError, match="option minSeverity: it has no effect on"):
        batch_reader(tmp_path, minSeverity="info")
