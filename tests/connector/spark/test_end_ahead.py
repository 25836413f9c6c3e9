"""The end of the next micro-batch is looked for while one is read; what comes out is the same."""

from __future__ import annotations

import functools
import threading
from typing import TYPE_CHECKING, Any

import pytest

from binlog_connector.following import starts
from binlog_connector.spark import stream_reader
from binlog_connector.spark.source import BinlogDataSource
from binlog_connector.spark.spark_api import ReadAllAvailable
from binlog_format.errors import CorruptError, DataLossError
from tests.connector.shop import Shop

if TYPE_CHECKING:
    from pathlib import Path

    from binlog_connector.following.starts import Advance
    from binlog_connector.spark.stream_reader import BinlogStreamReader

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
