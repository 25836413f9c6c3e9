"""What planning reads: of finished files nothing, of what is before a start nothing."""

from __future__ import annotations

import shutil
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from binlog_connector.following.starts import Edge
from binlog_connector.following.watched import WatchedLog
from binlog_connector.options.source_options import SourceOptions
from binlog_connector.spark.batch_reader import BinlogBatchReader
from binlog_connector.spark.partitions import RangePartition
from binlog_connector.spark.schema import find_layout
from binlog_connector.spark.source import BinlogDataSource
from binlog_connector.spark.spark_api import ReadAllAvailable, ReadMaxFiles
from binlog_format.errors import BinlogError, DataLossError, StartError
from binlog_format.position import Position
from binlog_format.source_file import LocalFile
from tests.connector.shop import FIRST_SECOND, Shop
from tests.corpus import SERVER_CASES

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_connector.spark.stream_reader import BinlogStreamReader
    from binlog_format.kernels import Bytes

FILES = 400


class Reads:
    """Which bytes of which files are read."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.bytes_of: dict[str, int] = {}
        plain = LocalFile.read_into

        def counted(file: LocalFile, offset: int, buffer: Bytes) -> int:
            size = plain(file, offset, buffer)
            self.bytes_of[file.name] = self.bytes_of.get(file.name, 0) + size
            return size

        monkeypatch.setattr(LocalFile, "read_into", counted)

    def numbers(self) -> set[int]:
        return {int(name[len("binlog-") : -len(".ibb")]) for name in self.bytes_of}


@pytest.fixture(scope="module")
def many(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log of many files."""
    directory = tmp_path_factory.mktemp("many")
    with Shop(directory, files_of=4 * 16384) as shop:
        while len(list(directory.iterdir())) < FILES:
            shop.sell(500)
    return directory


def stream_of(directory: Path, **options: str) -> BinlogStreamReader:
    source = BinlogDataSource({"path": str(directory), **options})
    return source.streamReader(source.schema())


def test_idle_log_costs_a_look_at_its_last_file(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = stream_of(many, startingOffsets="latest")
    offset = reader.initialOffset()
    assert reader.latestOffset(offset) == offset
    reads = Reads(monkeypatch)
    assert reader.latestOffset(offset) == offset
    reader.reportLatestOffset()
    last = int(offset["file_no"])
    assert reads.numbers() <= {last, last + 1}


def test_gtid_start_reads_no_file_before_it(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """But for the headers and state records that lead to it."""
    options = {"path": str(many), "startingGtid": "0-11-16000", "maxFilesPerTrigger": "1"}
    source = BinlogDataSource(options)
    schema = source.schema()
    reads = Reads(monkeypatch)
    reader = source.streamReader(schema)
    begin = reader.initialOffset()
    end = reader.latestOffset(begin)
    (part, *_) = reader.partitions(begin, end)
    first = next(reader.read(part)).slice(0, 1).to_pylist()[0]
    assert first["gtid"] == "0-11-16001"
    file_no = int(begin["file_no"])
    assert 100 < file_no < FILES - 100
    before = {number for number in reads.numbers() if number < file_no}
    assert len(before) <= 12, "halving"
    page = 16384
    # The GTID itself may be in the file before.
    assert all(reads.bytes_of[f"binlog-{number:06}.ibb"] <= 6 * page for number in before - {file_no - 1})


def test_files_of_a_trigger_are_limited(many: Path) -> None:
    reader = stream_of(many, maxFilesPerTrigger="3")
    assert reader.getDefaultReadLimit() == ReadMaxFiles(3)
    offset = reader.initialOffset()
    ends = []
    for _ in range(3):
        offset = reader.latestOffset(offset, ReadMaxFiles(3))
        ends.append(int(offset["file_no"]))
    assert all(later - earlier <= 3 for earlier, later in zip([0, *ends], ends, strict=False))
    assert ends == sorted(set(ends))
    everything = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert int(everything["file_no"]) >= FILES - 5


def test_both_limits_are_kept(many: Path) -> None:
    reader = stream_of(many, maxFilesPerTrigger="2", maxBytesPerTrigger="20k")
    begin = reader.initialOffset()
    end = reader.latestOffset(begin, reader.getDefaultReadLimit())
    assert (int(end["file_no"]), int(end["page"]) <= 3) == (0, True)


def test_transaction_through_more_files_than_a_trigger_may_read_is_taken_whole(tmp_path: Path) -> None:
    with Shop(tmp_path, files_of=4 * 16384) as shop:
        shop.sell(1, rows=8000)
        shop.sell(3)
    reader = stream_of(tmp_path, maxFilesPerTrigger="1")
    begin = reader.initialOffset()
    counts = []
    while (end := reader.latestOffset(begin)) != begin:
        counts.append(sum(batch.num_rows for part in reader.partitions(begin, end) for batch in reader.read(part)))
        begin = end
    assert sum(counts) == 8002 + 9
    assert max(counts) >= 8002


def test_layout_of_a_table_is_found_in_the_first_file(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reads = Reads(monkeypatch)
    with WatchedLog(str(many)) as watched:
        assert find_layout(watched, "shop.orders", Edge.EARLIEST).full_name == "shop.orders"
    assert len(reads.numbers()) < FILES // 2, "what a block takes, and what is read ahead"


def test_end_of_available_now_is_found_from_the_end(many: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    reader = stream_of(many)
    begin = reader.initialOffset()
    reads = Reads(monkeypatch)
    reader.prepareForTriggerAvailableNow()
    assert len(reads.numbers()) < 5
    end = reader.latestOffset(begin)
    assert reader.latestOffset(end) == end


PLANNED = """
import json, sys
from binlog_connector.spark.source import BinlogDataSource
from pyspark.sql.types import StructType

reader = BinlogDataSource({"path": sys.argv[1]}).streamReader(StructType([]))
start = reader.initialOffset()
end = reader.latestOffset(start, reader.getDefaultReadLimit())
for part in reader.partitions(start, end):
    print(part)
print(json.dumps(end))
print("numba" in sys.modules, "binlog_connector.schema.definitions" in sys.modules)
"""

OFTEN = """
from binlog_format.kernels import interpreted_if_small
for _ in range(64):
    with interpreted_if_small(lambda: 0):
        pass
"""


def planned(directory: Path, *, before: str = "") -> list[str]:
    """What a new process plans; at last, if it has loaded the compiler, and what only readers of rows need."""
    command = [sys.executable, "-c", before + PLANNED, str(directory)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.mark.parametrize("log", ["innodb", "classic"])
def test_small_log_is_planned_as_any_other_without_the_compiler(log: str, tmp_path: Path) -> None:
    if log == "innodb":
        with Shop(tmp_path, files_of=4 * 16384) as shop:
            shop.sell(300)
    else:
        shutil.copytree(SERVER_CASES / "mariadb-10.11" / "ops", tmp_path, dirs_exist_ok=True)
    *small, loaded = planned(tmp_path)
    assert loaded == "False False"
    *large, loaded = planned(tmp_path, before="import binlog_format.kernels\nbinlog_format.kernels.SMALL_WORK_MAX = 0")
    assert loaded == "True False"
    assert small == large
    assert len(small) > 1


def test_process_that_plans_on_and_on_loads_the_compiler(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.sell(3)
    *_, loaded = planned(tmp_path, before=OFTEN)
    assert loaded == "True False"


def plan(directory: Path, **options: str) -> tuple[list[dict[str, object]], list[RangePartition]]:
    given = {"path": str(directory), **options}
    reader = BinlogBatchReader(SourceOptions.parse(given), BinlogDataSource(given).schema())
    parts = [part for part in reader.partitions() if isinstance(part, RangePartition)]
    return [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()], parts


def seqnos(rows: list[dict[str, object]]) -> list[int]:
    return sorted({int(str(row["gtid"]).rpartition("-")[2]) for row in rows})


@pytest.mark.parametrize(
    ("options", "first", "last"),
    [
        ({"startingTimestamp": str(FIRST_SECOND + 100)}, 100, 300),
        ({"startingTimestamp": "2026-01-01T00:01:40Z"}, 100, 300),
        ({"startingTimestamp": "2026-01-01 01:01:39.5+01:00"}, 100, 300),
        ({"endingTimestamp": str(FIRST_SECOND + 100)}, 1, 99),
        ({"endingTimestamp": "2027-01-01"}, 1, 300),
        ({"startingGtid": "0-11-10", "endingGtid": "0-11-20"}, 11, 20),
        ({"endingGtid": "0-11-300"}, 1, 300),
        ({"endingOffsets": "latest"}, 1, 300),
        ({"ignoreServerIds": "7,8"}, 1, 300),
        ({"bound": "visible"}, 1, 300),
    ],
)
def test_starts_and_ends(small: Path, options: dict[str, str], first: int, last: int) -> None:
    rows, _ = plan(small, minPartitions="3", **options)
    assert seqnos(rows) == list(range(first, last + 1))
    assert len(rows) == 3 * (last - first + 1)


def test_ending_offsets_are_exclusive(small: Path) -> None:
    rows, parts = plan(small, minPartitions="3")
    cut = parts[1].start
    offset = f'{{"file_no": {cut.file_no}, "page": {cut.page}, "chunk": {cut.chunk}}}'
    before, _ = plan(small, endingOffsets=offset)
    after, _ = plan(small, startingOffsets=offset)
    assert before + after == rows
    assert before
    assert after


@pytest.mark.parametrize("options", [{"ignoreDomainIds": "0,9"}, {"ignoreServerIds": "11"}])
def test_ignored_origins_are_left_out(small: Path, options: dict[str, str]) -> None:
    assert plan(small, **options)[0] == []


def test_sealed_files_alone(small: Path) -> None:
    rows, parts = plan(small, bound="sealed")
    last = max(int(path.stem[-6:]) for path in small.iterdir())
    assert parts[-1].end <= Position(last - 1, 2, 0)
    assert 0 < len(rows) < 900


@pytest.mark.parametrize(
    ("options", "condition"),
    [
        ({"startingTimestamp": "2027-01-01"}, "BINLOG_START.TIMESTAMP_NOT_FOUND"),
        ({"startingTimestamp": "2026-01-01T00:02:00Z", "endingTimestamp": "2026-01-01T00:01:00Z"},
         "BINLOG_START.START_AFTER_END"),
        ({"endingGtid": "0-11-301"}, "BINLOG_START.GTID_NOT_FOUND"),
        ({"endingOffsets": '{"file_no": 900, "page": 1, "chunk": 0}'}, "BINLOG_START.POSITION_NOT_FOUND"),
        ({"endingOffsets": "earliest"}, "BINLOG_OPTION.INVALID_VALUE"),
        ({"bound": "sealed", "format": "classic"}, "BINLOG_OPTION.INVALID_VALUE"),
    ],
)  # fmt: skip
def test_edge_that_is_not_there_is_named(small: Path, options: dict[str, str], condition: str) -> None:
    with pytest.raises(BinlogError) as raised:
        plan(small, **options)
    assert raised.value.condition == condition


def test_time_after_the_end_is_an_error_in_a_stream_too(small: Path) -> None:
    with pytest.raises(StartError, match="startingOffsets=latest waits for what comes next"):
        stream_of(small, startingTimestamp="2027-01-01").initialOffset()


@pytest.mark.parametrize("view", ["events", "changes"])
def test_purged_gtids_are_a_row_of_events_for_who_accepts_losses(tmp_path: Path, view: str) -> None:
    with Shop(tmp_path, files_of=8 * 16384) as shop:
        shop.sell(300)
        shop.writer.purge(2)
    options = {"startingGtid": "0-11-5", "view": view}
    with pytest.raises(BinlogError) as raised:
        stream_of(tmp_path, **options).initialOffset()
    assert raised.value.condition == "BINLOG_DATA_LOSS.GTID_PURGED"
    reader = stream_of(tmp_path, failOnDataLoss="false", **options)
    begin = reader.initialOffset()
    end = reader.latestOffset(begin)
    rows = [row for part in reader.partitions(begin, end) for batch in reader.read(part) for row in batch.to_pylist()]
    gaps = [row for row in rows if row.get("type") == "gap"]
    assert len(gaps) == (view == "events")
    assert seqnos([row for row in rows if row["gtid"]])[-1] == 300
    for gap in gaps:
        assert "[BINLOG_DATA_LOSS.GTID_PURGED]" in gap["text"]
    batch, _ = plan(tmp_path, failOnDataLoss="false", **options)
    assert batch == rows


def test_first_batch_that_was_begun_in_purged_files_is_a_loss(tmp_path: Path) -> None:
    with Shop(tmp_path, files_of=4 * 16384) as shop:
        while len(list(tmp_path.iterdir())) < 6:
            shop.sell(50)
    limits = {"maxFilesPerTrigger": "1"}
    reader = stream_of(tmp_path, **limits)
    end = reader.latestOffset(reader.initialOffset(), reader.getDefaultReadLimit())
    for path in sorted(tmp_path.iterdir())[:3]:
        path.unlink()
    again = stream_of(tmp_path, **limits)
    with pytest.raises(DataLossError, match=r"FILE_PURGED\] .*the first batch was to end at 1:0:0, .* begins at 3:"):
        again.partitions(again.initialOffset(), end)
    going_on = stream_of(tmp_path, **limits, failOnDataLoss="false")
    assert not [batch for part in going_on.partitions(going_on.initialOffset(), end) for batch in going_on.read(part)]
