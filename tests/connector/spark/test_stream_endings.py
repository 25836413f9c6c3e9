"""Streaming queries that end: at GTIDs, or before a position; also with several domains, and started again.

The end of the next micro-batch is looked for while one is read; what comes out is the same.
"""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any

import pytest

from binlog_connector.following import starts
from binlog_connector.following.offsets import SourceOffset
from binlog_connector.following.starts import Ending
from binlog_connector.options.source_options import SourceOptions
from binlog_connector.spark import stream_reader
from binlog_connector.spark.batch_reader import BinlogBatchReader
from binlog_connector.spark.partitions import RangePartition
from binlog_connector.spark.source import BinlogDataSource
from binlog_connector.spark.spark_api import ReadAllAvailable, ReadMaxBytes
from binlog_format.errors import BinlogError, CorruptError, DataLossError
from binlog_format.gtids.gtid import GtidPosition
from binlog_format.gtids.gtid_set import DomainStarts, GtidSet, parse_gtids
from binlog_format.position import Position
from tests.connector.shop import Shop

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_connector.following.starts import Advance
    from binlog_connector.spark.stream_reader import BinlogStreamReader
    from binlog_format.gtids.gtid_set import GtidPoint, Taken


def stream_of(directory: Path, **options: str) -> BinlogStreamReader:
    source = BinlogDataSource({"path": str(directory), **options})
    return source.streamReader(source.schema())


def rows_between(reader: BinlogStreamReader, begin: dict[str, int | str], end: dict[str, int | str]) -> list[int]:
    parts = [part for part in reader.partitions(begin, end) if isinstance(part, RangePartition)]
    rows = [row for part in parts for batch in reader.read(part) for row in batch.to_pylist()]
    return sorted({int(str(row["gtid"]).rpartition("-")[2]) for row in rows})


@pytest.mark.parametrize("available_now", [True, False])
def test_stream_ends_after_the_gtid_exactly_and_stays_there(small: Path, available_now: bool) -> None:
    options = {"startingGtid": "0-11-100", "endingGtid": "0-11-177"}
    reader = stream_of(small, **options)
    offset = begin = reader.initialOffset()
    if available_now:
        reader.prepareForTriggerAvailableNow()
    seen: list[int] = []
    while (end := reader.latestOffset(offset, ReadMaxBytes(5000))) != offset:
        seen += rows_between(reader, offset, end)
        offset = end
    assert seen == list(range(101, 178))
    assert offset["gtid"] == "0-11-177"
    whole = reader.latestOffset(begin, ReadAllAvailable())
    assert whole == offset
    # What follows comes right after it: nothing was passed over.
    after = stream_of(
        small, startingOffsets=f'{{"file_no":{end["file_no"]},"page":{end["page"]},"chunk":{end["chunk"]}}}'
    )
    first = after.initialOffset()
    assert rows_between(after, first, after.latestOffset(first)) == list(range(178, 301))
    # Started again in the middle, or at its end.
    again = stream_of(small, **options)
    assert again.latestOffset(begin, ReadAllAvailable()) == whole
    assert stream_of(small, **options).latestOffset(whole, ReadAllAvailable()) == whole
    # PySpark before 4.2 does not tell where a query is that is started again.
    assert stream_of(small, **options).latestOffset() == whole


def test_stream_ends_before_a_position(small: Path) -> None:
    until = stream_of(small, endingGtid="0-11-60")
    place = until.latestOffset(until.initialOffset())
    ending = f'{{"file_no":{place["file_no"]},"page":{place["page"]},"chunk":{place["chunk"]}}}'
    reader = stream_of(small, endingOffsets=ending)
    begin = reader.initialOffset()
    end = reader.latestOffset(begin)
    assert rows_between(reader, begin, end) == list(range(1, 61))
    assert (end, reader.latestOffset(end)) == (place, place)


@pytest.mark.parametrize(
    ("options", "condition"),
    [
        ({"endingGtid": "0-11-301"}, "BINLOG_START.GTID_NOT_FOUND"),
        ({"endingOffsets": '{"file_no": 900, "page": 1, "chunk": 0}'}, "BINLOG_START.POSITION_NOT_FOUND"),
        ({"endingOffsets": "latest"}, "BINLOG_OPTION.INVALID_VALUE"),
        ({"endingTimestamp": "2027-01-01"}, "BINLOG_OPTION.INVALID_VALUE"),
        ({"startingGtid": "0-11-50", "endingOffsets": '{"file_no": 0, "page": 1, "chunk": 0}'},
         "BINLOG_START.START_AFTER_END"),
    ],
)  # fmt: skip
def test_end_that_cannot_be_is_named(small: Path, options: dict[str, str], condition: str) -> None:
    with pytest.raises(BinlogError) as raised:
        stream_of(small, **options).initialOffset()
    assert raised.value.condition == condition


def test_batch_query_reads_no_further_than_its_last_gtid(small: Path) -> None:
    given = {"path": str(small), "endingGtid": "0-11-177"}
    reader = BinlogBatchReader(SourceOptions.parse(given), BinlogDataSource(given).schema())
    parts = [part for part in reader.partitions() if isinstance(part, RangePartition)]
    stream = stream_of(small, endingGtid="0-11-177")
    place = stream.latestOffset(stream.initialOffset())
    end = parts[-1].end
    assert (end.file_no, end.page, end.chunk) == (place["file_no"], place["page"], place["chunk"])


UUID = "3e11fa47-71ca-11e1-9e33-c80aa9429562"


@pytest.mark.parametrize(
    ("until", "before", "reached", "taken"),
    [
        ("0-1-50", "", "0-1-40", "0-1-40"),
        ("0-1-50", "", "0-1-60", "0-1-50"),
        ("0-1-50", "0-1-10", "0-1-60,1-2-7", "0-1-50"),
        ("0-1-50,1-2-7", "1-2-3", "0-1-60,1-2-5", "0-1-50,1-2-5"),
        ("0-1-50", "1-2-3", "0-1-60,1-2-5", "0-1-50,1-2-3"),
        ("0-1-50", "0-1-55", "0-1-60", "0-1-55"),
        ("0-1-50", "0-1-10", "", ""),
        (f"{UUID}:1-50", f"{UUID}:1-10", f"{UUID}:1-60", f"{UUID}:1-50"),
        (f"{UUID}:5-7:9", f"{UUID}:1-3", f"{UUID}:1-8", f"{UUID}:1-3:5-7"),
    ],
)
def test_what_was_taken_leaves_out_what_the_end_does_not_name(
    until: str, before: str, reached: str, taken: str
) -> None:
    """Position 5 has been reached from position 1 on; where the end of each domain is, its number says here."""
    ends, there = parse_gtids(until), parse_gtids(reached)
    start = SourceOffset(Position(0, 1, 0), gtid=parse_gtids(before))
    wanted: Taken = ends if isinstance(ends, GtidSet) else _starts(ends, start.gtid, there)
    assert str(Ending(None, ends, wanted).taken(start, there, Position(0, 5, 0))) == taken
    assert Ending().taken(start, there, Position(0, 5, 0)) == there


def _starts(ends: GtidPoint, before: GtidPoint, reached: GtidPoint) -> DomainStarts:
    assert isinstance(ends, GtidPosition)
    pages = {gtid: 1 if before.covers(gtid) else 3 if reached.covers(gtid) else 7 for gtid in ends.last.values()}
    return DomainStarts({gtid.domain: Position(0, page, 0) for gtid, page in pages.items()})


FILE_SIZE = 4 * 16384
Offset = dict[str, int | str]


def _stream(directory: Path, **options: str) -> BinlogStreamReader:
    source = BinlogDataSource({"path": str(directory), **options})
    return source.streamReader(source.schema())


def _read(reader: BinlogStreamReader, start: Offset, end: Offset) -> list[dict[str, object]]:
    batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
    return [row for batch in batches for row in batch.to_pylist()]


def _end(reader: BinlogStreamReader, start: Offset) -> Offset:
    return reader.latestOffset(start, reader.getDefaultReadLimit())


def _planned(directory: Path) -> tuple[BinlogStreamReader, Offset, Offset]:
    """A reader that has planned its first batch, and where that begins and ends."""
    reader = _stream(directory, maxBytesPerTrigger="100k")
    start = reader.initialOffset()
    end = _end(reader, start)
    reader.partitions(start, end)
    return reader, start, end


def _plan_all(reader: BinlogStreamReader, starts: list[Offset]) -> None:
    """Batch after batch; *starts* gets where each begins."""
    starts.append(reader.initialOffset())
    while (end := _end(reader, starts[-1])) != starts[-1]:
        reader.partitions(starts[-1], end)
        starts.append(end)


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of each look for an end the thread that has done it."""
    threads = []
    plain = starts.advance

    @functools.wraps(plain)
    def noted(*args: Any, **options: Any) -> Advance:
        threads.append(threading.current_thread().name.partition("_")[0])
        return plain(*args, **options)

    monkeypatch.setattr(stream_reader, "advance", noted)
    return threads


@pytest.mark.parametrize("option", [{"maxBytesPerTrigger": "100k"}, {"maxFilesPerTrigger": "2"}])
def test_backlog_has_the_same_batches(tmp_path: Path, option: dict[str, str], looks: list[str]) -> None:
    with Shop(tmp_path, files_of=FILE_SIZE) as shop:
        shop.sell(6000)
    reader = _stream(tmp_path, **option)
    start = reader.initialOffset()
    rows, count = 0, 0
    while (end := _end(reader, start)) != start:
        # One that has just been started looks for itself.
        assert end == _end(_stream(tmp_path, **option), start)
        rows += len(_read(reader, start, end))
        start, count = end, count + 1
    assert rows == len(_read(reader, reader.initialOffset(), start)) >= 6000
    own = looks.count("end-ahead")
    assert own >= count - 4 > 5
    # The first batch, those near the end, and all of the readers that have just been started.
    assert len(looks) - own <= count + 1 + 4


def test_what_is_committed_meanwhile_is_in_the_next_batch(tmp_path: Path, looks: list[str]) -> None:
    """Where the log goes on in no later file, nothing is looked for ahead."""
    with Shop(tmp_path) as shop:
        shop.sell(50)
        reader = _stream(tmp_path, maxBytesPerTrigger="4k")
        start = reader.initialOffset()
        end = _end(reader, start)
        assert _read(reader, start, end)
        reader = _stream(tmp_path, maxBytesPerTrigger="1m")
        first = _end(reader, end)
        assert _read(reader, end, first)
        shop.sell(50)
        later = _end(reader, first)
    assert len(_read(reader, first, later)) >= 50
    assert set(looks) == {"MainThread"}


def test_end_of_other_start_or_limit_is_not_taken(tmp_path: Path, looks: list[str]) -> None:
    with Shop(tmp_path, files_of=FILE_SIZE) as shop:
        shop.sell(3000)
    reader, start, end = _planned(tmp_path)
    assert _end(reader, start) == end
    reader.partitions(start, end)
    assert reader.latestOffset(end, ReadAllAvailable()) == _stream(tmp_path).latestOffset(end, ReadAllAvailable())
    assert looks.count("MainThread") == 4


def test_log_begun_anew_meanwhile_is_seen(tmp_path: Path) -> None:
    with Shop(tmp_path, files_of=FILE_SIZE) as shop:
        shop.sell(3000)
        reader, _, end = _planned(tmp_path)
        shop.writer.reset_master()
        shop.seqnos.clear()
        shop.sell(3000)
    with pytest.raises(DataLossError):
        _end(reader, end)


def test_damage_ahead_is_named_when_reading_comes_there(tmp_path: Path) -> None:
    with Shop(tmp_path, files_of=FILE_SIZE) as shop:
        shop.sell(3000)
    damaged = tmp_path / "binlog-000003.ibb"
    content = bytearray(damaged.read_bytes())
    content[2 * 16384 + 100] ^= 1
    damaged.write_bytes(content)
    starts: list[Offset] = []
    with pytest.raises(CorruptError, match=r"PAGE_CHECKSUM.*binlog-000003.ibb.*page 2") as raised:
        _plan_all(_stream(tmp_path, maxBytesPerTrigger="100k"), starts)
    with pytest.raises(CorruptError) as found_alone:
        _end(_stream(tmp_path, maxBytesPerTrigger="100k"), starts[-1])
    assert str(raised.value) == str(found_alone.value)
