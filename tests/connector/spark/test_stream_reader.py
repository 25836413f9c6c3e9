"""The stream reader as Spark drives it, but in this process: each test is a driver and its workers."""

from __future__ import annotations

import json
import pickle
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from binlog_connector.following.offsets import SourceOffset
from binlog_connector.spark.reading import BATCH_ROWS_MAX, BATCH_ROWS_MIN, sized_batches
from binlog_connector.spark.source import BinlogDataSource
from binlog_connector.spark.spark_api import ReadAllAvailable, ReadMaxBytes
from binlog_format import open_log
from binlog_format.errors import BinlogError, DataLossError, OptionError
from binlog_format.position import Position
from binlog_lab.event_encoding.table_encoding import ColumnSpec
from tests.connector.shop import ORDERS, Shop

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_connector.spark.stream_reader import BinlogStreamReader

Row = dict[str, object]
Offset = dict[str, int | str]


def reader(directory: Path, **options: str) -> BinlogStreamReader:
    source = BinlogDataSource({"path": str(directory), **options})
    return source.streamReader(source.schema())


def again(value: Offset) -> Offset:
    """*value* as a checkpoint gives it back."""
    result: Offset = json.loads(json.dumps(value))
    return result


def read(reader: BinlogStreamReader, start: Offset, end: Offset) -> list[Row]:
    rows: list[Row] = []
    for partition in reader.partitions(start, end):
        worker = pickle.loads(pickle.dumps(reader))
        for batch in worker.read(pickle.loads(pickle.dumps(partition))):
            rows += batch.to_pylist()
    return rows


def drain(reader: BinlogStreamReader, start: Offset | None = None) -> tuple[list[list[Row]], Offset]:
    """The rows of each micro-batch until nothing is new, and the last offset."""
    start = again(start or reader.initialOffset())
    batches = []
    while (end := again(reader.latestOffset(start, reader.getDefaultReadLimit()))) != start:
        batches.append(read(reader, start, end))
        start = end
    return batches, start


def orders(rows: list[Row]) -> list[object]:
    return [row["after"] for row in rows if row["table"] == "orders"]


def all_changes(directory: Path) -> list[Row]:
    with open_log(str(directory)) as log:
        return [row for batch in log.changes() for row in batch.to_pylist()]


def test_small_batches_are_the_whole_log_in_order(tmp_path: Path) -> None:
    with Shop(tmp_path, files_of=4 * 16384) as shop:
        shop.sell(200)
        shop.sell(2, rows=3000)
        shop.sell(200)
    expected = all_changes(tmp_path)
    assert len(expected) == 400 * 3 + 2 * 3002
    batches, _ = drain(reader(tmp_path, maxBytesPerTrigger="20k", minPartitions="3"))
    assert len(batches) > 5
    assert [row for batch in batches for row in batch] == expected
    whole, _ = drain(reader(tmp_path))
    assert whole == [expected]


def test_growing_log_gives_each_change_once(tmp_path: Path) -> None:
    watching = None
    rows: list[Row] = []
    offset = None
    with Shop(tmp_path, files_of=4 * 16384) as shop:
        for count in (1, 1, 40, 0, 150, 3):
            shop.sell(count) if count else None
            watching = watching or reader(tmp_path)
            batches, offset = drain(watching, offset)
            assert len(batches) <= 1
            assert (len(batches) == 0) == (count == 0)
            rows += [row for batch in batches for row in batch]
    assert rows == all_changes(tmp_path)


def test_idle_log_gives_back_the_same_offset(tmp_path: Path) -> None:
    """Equal JSON tells Spark that there is no batch to run."""
    with Shop(tmp_path) as shop:
        shop.sell(3)
        watching = reader(tmp_path)
        _, offset = drain(watching)
        assert json.dumps(watching.latestOffset(offset, ReadAllAvailable())) == json.dumps(offset)
        shop.writer.flush_logs()
        _, after = drain(watching, offset)
        assert json.dumps(watching.latestOffset(after, ReadAllAvailable())) == json.dumps(after)


def test_limit_of_the_engine_wins_over_the_option(tmp_path: Path) -> None:
    """Trigger.Once asks for everything, whatever the option sets."""
    with Shop(tmp_path) as shop:
        shop.sell(100)
    limited = reader(tmp_path, maxBytesPerTrigger="4k")
    start = limited.initialOffset()
    assert limited.getDefaultReadLimit() == ReadMaxBytes(4096)
    assert len(read(limited, start, limited.latestOffset(start, ReadAllAvailable()))) == 300
    assert 0 < len(read(limited, start, limited.latestOffset(start, ReadMaxBytes(4096)))) < 100
    assert reader(tmp_path).getDefaultReadLimit() == ReadAllAvailable()


def test_available_now_ends_where_the_log_ended_when_it_began(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.sell(50)
        limited = reader(tmp_path, maxBytesPerTrigger="4k")
        limited.prepareForTriggerAvailableNow()
        shop.sell(50)
        batches, offset = drain(limited)
        assert sum(map(len, batches)) == 150
        assert len(batches) > 1
        next_run = reader(tmp_path, maxBytesPerTrigger="4k")
        next_run.prepareForTriggerAvailableNow()
        later, _ = drain(next_run, offset)
        assert sum(map(len, later)) == 150
        assert [row for batch in [*batches, *later] for row in batch] == all_changes(tmp_path)


def test_older_pyspark_gives_no_start_and_no_limit(tmp_path: Path) -> None:
    """4.0 and 4.1 call `latestOffset()`; the option's limit counts from where the batch before ended."""
    with Shop(tmp_path) as shop:
        shop.sell(100)
    limited = reader(tmp_path, maxBytesPerTrigger="8k")
    start = limited.initialOffset()
    rows: list[Row] = []
    while (end := limited.latestOffset()) != start:
        rows += read(limited, start, end)
        start = end
    assert rows == all_changes(tmp_path)
    restarted = reader(tmp_path, maxBytesPerTrigger="8k")
    assert restarted.latestOffset() == start


def test_latest_begins_after_everything(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.sell(20)
        watching = reader(tmp_path, startingOffsets="latest")
        start = watching.initialOffset()
        assert start["gtid"] == "0-11-20"
        shop.sell(1)
        batches, _ = drain(watching, start)
    assert [row["gtid"] for batch in batches for row in batch] == ["0-11-21"] * 3


def test_progress_of_a_query_can_be_the_start_of_another(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.sell(20)
        _, offset = drain(reader(tmp_path))
        shop.sell(2)
    batches, _ = drain(reader(tmp_path, startingOffsets=json.dumps(offset)))
    assert {row["gtid"] for batch in batches for row in batch} == {"0-11-21", "0-11-22"}


def test_reported_end_is_not_before_the_offset(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.sell(200)
        watching = reader(tmp_path)
        _, offset = drain(watching)
        reported = watching.reportLatestOffset()
    assert reported is not None
    ends, stands = (SourceOffset.from_json(one).position for one in (reported, offset))
    assert Position(stands.file_no, stands.page, 0) < ends <= Position(stands.file_no, stands.page + 1, 0)


def test_starting_gtid_begins_after_it(tmp_path: Path) -> None:
    with Shop(tmp_path, files_of=4 * 16384) as shop:
        shop.sell(300)
    batches, _ = drain(reader(tmp_path, startingGtid="0-11-250"))
    assert [row for batch in batches for row in batch] == all_changes(tmp_path)[250 * 3 :]


def test_starting_gtid_of_two_domains_leaves_out_what_each_has(tmp_path: Path) -> None:
    """Domain 1 is further than domain 0: its transactions after the start are left out until it is passed."""
    with Shop(tmp_path) as shop:
        for _ in range(10):
            shop.domain = 0
            shop.sell(2)
            shop.domain = 1
            shop.sell(2)
    watching = reader(tmp_path, startingGtid="0-11-5,1-11-16", maxBytesPerTrigger="1k")
    batches, offset = drain(watching)
    gtids = [str(row["gtid"]) for batch in batches for row in batch]
    assert len(batches) > 2
    expected = [row for row in all_changes(tmp_path) if is_after(str(row["gtid"]), {"0": 5, "1": 16})]
    assert [row for batch in batches for row in batch] == expected
    assert {gtid.partition("-")[0] for gtid in gtids} == {"0", "1"}
    assert "skip_gtid" in watching.initialOffset()
    assert "skip_gtid" not in offset


def is_after(gtid: str, position: dict[str, int]) -> bool:
    domain, _, seqno = gtid.split("-")
    return int(seqno) > position[domain]


def test_starting_gtid_that_the_log_has_not_reached(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.sell(3)
    with pytest.raises(BinlogError, match=r"GTID_NOT_FOUND.*startingGtid: 0-11-9 has .* last GTIDs are 0-11-3"):
        reader(tmp_path, startingGtid="0-11-9").initialOffset()


def test_starting_gtid_in_a_purged_file(tmp_path: Path) -> None:
    with Shop(tmp_path, files_of=4 * 16384) as shop:
        shop.sell(500)
        shop.writer.purge(2)
    with pytest.raises(DataLossError, match=r"GTID_PURGED.*between 0-11-3 and that have been purged"):
        reader(tmp_path, startingGtid="0-11-3").initialOffset()


def test_starting_position_after_the_end(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.sell(3)
    with pytest.raises(BinlogError, match=r"POSITION_NOT_FOUND.*startingOffsets: the log ends at 0:1:5, before 0:40:0"):
        reader(tmp_path, startingOffsets='{"file_no":0,"page":40,"chunk":0}').initialOffset()


def test_loss_ends_the_query_or_is_passed_over(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Shop(tmp_path, files_of=4 * 16384) as shop:
        shop.sell(3)
        strict = reader(tmp_path)
        _, offset = drain(strict)
        shop.sell(500)
        shop.writer.purge(2)
        with pytest.raises(DataLossError, match=r"\[BINLOG_DATA_LOSS.FILE_PURGED\]"):
            strict.latestOffset(offset, ReadAllAvailable())
        with pytest.raises(DataLossError):
            strict.partitions(offset, offset)
        batches, _ = drain(reader(tmp_path, failOnDataLoss="false"), offset)
    rows = [row for batch in batches for row in batch]
    assert rows == all_changes(tmp_path)
    assert "BINLOG_DATA_LOSS.FILE_PURGED" in caplog.text


def test_reset_log_is_read_from_its_start_when_losses_are_accepted(tmp_path: Path) -> None:
    with Shop(tmp_path, files_of=4 * 16384) as shop:
        shop.sell(300)
        patient = reader(tmp_path, failOnDataLoss="false")
        _, offset = drain(patient)
        shop.writer.reset_master()
        shop.seqnos.clear()
        shop.sell(5)
        batches, _ = drain(patient, offset)
    assert [row for batch in batches for row in batch] == all_changes(tmp_path)


def test_checkpoint_of_another_source_is_refused(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.sell()
    with pytest.raises(OptionError, match="checkpoint: offset: unknown field partition-1"):
        reader(tmp_path).latestOffset({"partition-1": 3}, ReadAllAvailable())


@pytest.mark.parametrize("view", ["changes", "changefeed"])
def test_table_is_typed_by_the_log(tmp_path: Path, view: str) -> None:
    with Shop(tmp_path) as shop:
        shop.sell(2, rows=3)
    source = BinlogDataSource({"path": str(tmp_path), "table": "shop.orders", "view": view})
    schema = source.schema()
    text = "id:bigint,customer:string,amount:decimal(10,2),note:string"
    assert text in schema.simpleString()
    batches, _ = drain(source.streamReader(schema))
    assert len(batches[0]) == 2 * (4 if view == "changes" else 5)


@pytest.mark.parametrize("rows_before", [0, 2])
def test_table_that_gets_a_column_ends_a_typed_query(tmp_path: Path, rows_before: int) -> None:
    """Whether the old columns are still to be read in the same batch, or all that is new has the new ones."""
    with Shop(tmp_path) as shop:
        shop.sell(2)
        typed = reader(tmp_path, table="shop.orders")
        _, offset = drain(typed)
        if rows_before:
            shop.sell(rows_before)
    wider = replace(ORDERS, columns=(*ORDERS.columns, ColumnSpec("paid", "date", nullable=True)))
    with Shop(tmp_path, orders=wider) as shop:
        shop.sell(2)
    with pytest.raises(BinlogError, match=r"\[BINLOG_SCHEMA.SCHEMA_CHANGED\] .*paid"):
        drain(typed, offset)


def test_typed_query_goes_on_with_the_columns_of_a_later_start(tmp_path: Path) -> None:
    """Its checkpoint has its place; the options tell the columns."""
    with Shop(tmp_path) as shop:
        shop.sell(2)
        _, offset = drain(reader(tmp_path, table="shop.orders"))
    wider = replace(ORDERS, columns=(*ORDERS.columns, ColumnSpec("paid", "date", nullable=True)))
    with Shop(tmp_path, orders=wider) as shop:
        shop.sell(3)
    source = BinlogDataSource({"path": str(tmp_path), "table": "shop.orders"})
    with pytest.raises(BinlogError, match=r"SCHEMA_CHANGED\] .*paid.*give startingOffsets = latest"):
        drain(source.streamReader(source.schema()), offset)
    batches, _ = drain(reader(tmp_path, table="shop.orders", startingOffsets="latest"), offset)
    images = [row["after"] for batch in batches for row in batch if isinstance(row["after"], dict)]
    assert len(images) >= 3
    assert all("paid" in image for image in images)


def test_small_arrow_batches_are_joined_and_large_ones_cut() -> None:
    parts = [pa.RecordBatch.from_pydict({"n": [n] * count}) for n, count in enumerate((3, 20_000, 5, 200_000, 1))]
    sized = list(sized_batches(parts))
    assert pa.Table.from_batches(sized).equals(pa.Table.from_batches(parts).combine_chunks())
    assert max(batch.num_rows for batch in sized) <= BATCH_ROWS_MAX
    assert sum(batch.num_rows < BATCH_ROWS_MIN for batch in sized) <= 2
    assert list(sized_batches([])) == []


def test_unknown_table_lists_those_that_are_there(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.sell(2)
    with pytest.raises(
        BinlogError, match=r"TABLE_NOT_FOUND.*no rows of table shop.order\. .*: shop.items, shop.orders"
    ):
        BinlogDataSource({"path": str(tmp_path), "table": "shop.order"}).schema()


def test_latest_takes_the_columns_of_the_last_rows_before(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.sell(2)
    options = {"path": str(tmp_path), "table": "shop.items", "startingOffsets": "latest"}
    assert "before:struct<id:bigint,name:string>" in BinlogDataSource(options).schema().simpleString()


@pytest.mark.parametrize("format_name", ["innodb", "classic"])
def test_format_that_is_not_there_is_said(tmp_path: Path, format_name: str) -> None:
    if format_name == "classic":
        with Shop(tmp_path) as shop:
            shop.sell()
    with pytest.raises(BinlogError, match=r"NO_LOG_FILES"):
        BinlogDataSource({"path": str(tmp_path), "format": format_name}).schema()
