"""How far behind a consumer is, against what can be counted."""

from __future__ import annotations

import itertools
import random
import shutil
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from binlog_connector.following.log_end import end_of_log, start_of_log
from binlog_connector.following.starts import Edge
from binlog_connector.following.tailer import FollowOptions, Tailer
from binlog_connector.following.watched import WatchedLog
from binlog_connector.metrics.lag import Consumed, Lag, LagMeter, transactions_between
from binlog_format import open_log
from binlog_format.errors import DataLossError
from binlog_format.gtids.gtid_set import parse_gtids
from binlog_format.innodb.reader import InnodbLog
from binlog_format.position import Position
from tests.connector.shop import FIRST_SECOND, Shop
from tests.corpus import SERVER_CASES

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from binlog_connector.following.offsets import SourceOffset
    from binlog_format.log_format import Span

SMALL_FILES = 4 * 16384
PAGE = 16384
CLASSIC_CASE = SERVER_CASES / "mariadb-10.11" / "oltp_small"


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Shop]:
    with Shop(tmp_path, files_of=SMALL_FILES) as shop:
        yield shop


def lag(meter: LagMeter, offset: SourceOffset, timestamp: int | None = None) -> Lag:
    return meter.lag(lambda: Consumed(offset, timestamp))


def starts(directory: Path) -> list[tuple[SourceOffset, int]]:
    """Offsets after each transaction, and when it was committed."""
    found = []
    with Tailer(str(directory), Edge.EARLIEST, how=FollowOptions(step_size_max=1)) as tailer:
        while (step := tailer.step(0)) is not None:
            if step.end.gtid:
                assert step.last_timestamp is not None
                found.append((step.end, step.last_timestamp))
    return found


def byte_distance(directory: Path, start: Position, end: Position) -> int:
    """What lies between two positions, by the files' sizes and the commit records' own places."""
    places: dict[Position, int] = {}
    with open_log(str(directory)) as log:
        for block in log.blocks():
            for group in block.groups:
                position = Position(int(group["file_no"]), int(group["page"]), int(group["chunk"]))
                places[position] = int(group["file_offset"])
        sizes = {file.file_no: file.size for file in log.files()}
    assert end in places
    before = sum(sizes[number] for number in range(start.file_no, end.file_no))
    return before + places[end] - places[start]


def test_lag_is_what_lies_behind(shop: Shop) -> None:
    shop.sell(150)
    offsets = starts(shop.directory)
    assert len(offsets) == 150
    end, newest = offsets[-1]
    for number in (0, 3, 80, 148):
        meter = LagMeter(str(shop.directory))
        offset, timestamp = offsets[number]
        found = lag(meter, offset, timestamp)
        assert found.transactions == 149 - number
        assert found.seconds == newest - timestamp == 149 - number
        assert (found.gtid, found.end) == (end.gtid, end.position)
        assert found.oldest_file_no == offset.position.file_no
        # Up to the last transaction; after it lies that one itself.
        last = offsets[-2][0].position
        expected = byte_distance(shop.directory, offset.position, last)
        assert 0 < found.size - expected < 2000
        assert found.pages >= found.size // PAGE
        assert found.pages <= found.size // PAGE + 1 + (end.position.file_no - offset.position.file_no) + 1
        assert found.waiting_since == offsets[number + 1][1]
        assert lag(meter, offset) == replace(found, seconds=found.seconds - 1), (
            "without the time of the last one taken, the first one waiting counts"
        )
        meter.close()


def test_lag_is_nothing_when_all_is_taken(shop: Shop) -> None:
    meter = LagMeter(str(shop.directory))
    with Tailer(str(shop.directory), Edge.EARLIEST, how=FollowOptions(poll_interval=0.01)) as tailer:
        for _ in range(20):
            before = tailer.offset
            shop.sell(7)
            waiting = lag(meter, before)
            assert waiting.transactions == 7
            assert waiting.size > 0
            for step in iter(lambda: tailer.step(0), None):
                assert lag(meter, step.start).transactions > 0
            now = lag(meter, tailer.offset)
            assert (now.size, now.pages, now.transactions, now.seconds) == (0, 0, 0, 0)
            assert now.gtid == tailer.offset.gtid
    meter.close()


def test_log_is_measured_once(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    """However often somebody asks, whoever is behind, and wherever the consumer has come to."""
    shop.sell(150)
    spans: list[tuple[Position, Position, int]] = []
    real = InnodbLog.span

    def span(log: InnodbLog, start: Position, *, size_max: int | None = None) -> Span:
        found = real(log, start, size_max=size_max)
        if size_max is None:
            spans.append((start, found.end, found.groups))
        return found

    offsets = starts(shop.directory)
    monkeypatch.setattr(InnodbLog, "span", span)
    meter = LagMeter(str(shop.directory))
    random_source = random.Random(1)
    taken = 0
    for _ in range(50):
        taken = min(taken + random_source.randint(0, 6), 149)
        lag(meter, *offsets[taken])
    # The first measurement takes the last file alone; those that follow find nothing.
    assert spans[0][0] == Position(offsets[-1][0].position.file_no, 0, 0)
    assert sum(groups for _, _, groups in spans) == spans[0][2] < 150
    shop.sell(5)
    lag(meter, *offsets[taken])
    assert sum(groups for _, _, groups in spans) == spans[0][2] + 5
    for (_, end, _), (start, _, _) in itertools.pairwise(spans):
        assert start == end
    meter.close()


def test_reset_begins_anew(shop: Shop) -> None:
    shop.sell(60)
    meter = LagMeter(str(shop.directory))
    offset = starts(shop.directory)[3][0]
    assert lag(meter, offset).transactions == 56
    shop.writer.reset_master()
    shop.seqnos.clear()
    shop.sell(4)
    with WatchedLog(str(shop.directory)) as watched:
        assert lag(meter, start_of_log(watched)).transactions == 4
        assert lag(meter, end_of_log(watched)).transactions == 0
    meter.close()


def test_consumer_whose_file_was_purged_has_no_lag(shop: Shop) -> None:
    shop.sell(200)
    meter = LagMeter(str(shop.directory))
    offset = starts(shop.directory)[3][0]
    shop.writer.purge(2)
    with pytest.raises(DataLossError, match="FILE_PURGED"):
        lag(meter, offset)
    meter.close()


def test_consumer_goes_on_while_the_log_is_measured(shop: Shop) -> None:
    shop.sell(10)
    offsets = starts(shop.directory)
    meter = LagMeter(str(shop.directory))
    asked = iter([Consumed(*offsets[2]), Consumed(*offsets[9])])
    assert meter.lag(lambda: next(asked)).transactions == 0
    meter.close()


def test_rolled_out_data_of_an_old_file_keep_it(tmp_path: Path) -> None:
    """Commit records refer to out-of-band data in files before theirs."""
    from binlog_lab.innodb_writer.options import WriterOptions
    from tests.format.innodb.writer.sessions import Driver

    driver = Driver(tmp_path, WriterOptions(max_binlog_size=SMALL_FILES, sync=False))
    for _ in range(3):
        driver.do(("event", 1, 0, 20_000))
    while driver.writer.position.file_no < 3:
        driver.do(("group", 0, 5000, 0))
    driver.writer.checkpoint()
    with WatchedLog(str(tmp_path)) as watched:
        end = end_of_log(watched)
    assert end.position.file_no == 3
    meter = LagMeter(str(tmp_path))
    assert lag(meter, end).oldest_file_no == 0
    meter.close()
    driver.writer.close()


def test_classic_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    shutil.copytree(CLASSIC_CASE, log)
    size = max(path.stat().st_size for path in log.iterdir())
    offsets = starts(log)
    end, newest = offsets[-1]
    offset, timestamp = offsets[4]
    meter = LagMeter(str(log))
    found = lag(meter, offset, timestamp)
    start = offset.position.page * PAGE + offset.position.chunk
    assert found.size == size - start
    assert found.pages == -(-size // PAGE) - start // PAGE
    last = end.position.page * PAGE + end.position.chunk
    assert found.transactions == len(offsets) - 5
    assert found.seconds == newest - timestamp
    assert lag(meter, end, newest) == Lag(0, 0, 0, 0, found.end, end.gtid, end.position.file_no)
    assert meter.size_between(offset.position, end.position) == last - start
    assert meter.size_between(end.position, offset.position) == 0
    meter.close()


def test_prepared_transactions_keep_their_files(tmp_path: Path) -> None:
    from dataclasses import replace

    from binlog_format.transactions.xa import PreparedXa, XaId

    log = tmp_path / "log"
    shutil.copytree(CLASSIC_CASE, log)
    end = starts(log)[-1][0]
    waiting = replace(end, prepared_xa=(PreparedXa(XaId(b"a", b"", 1), Position(0, 3, 17)),))
    meter = LagMeter(str(log))
    assert lag(meter, waiting).oldest_file_no == 0
    meter.close()


@pytest.mark.parametrize(
    ("taken", "end", "count"),
    [
        ("0-1-5", "0-1-9", 4),
        ("0-1-5", "0-2-9", 4),
        ("0-1-5,1-1-3", "0-1-5,1-1-4,2-1-10", 11),
        ("", "0-1-9", 9),
        ("0-1-9", "0-1-9", 0),
        ("0-1-9", "0-1-7", 0),
        ("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-77", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-80:90", 4),
        ("", "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-80:90", 81),
    ],
)
def test_transactions_are_counted_by_their_numbers(taken: str, end: str, count: int) -> None:
    assert transactions_between(parse_gtids(taken), parse_gtids(end)) == count


def test_first_seconds_of_the_shop_are_its_clock(shop: Shop) -> None:
    shop.sell(3)
    assert [timestamp for _, timestamp in starts(shop.directory)] == [FIRST_SECOND + n for n in (1, 2, 3)]


def test_lag_is_known_when_what_waits_was_removed(tmp_path: Path) -> None:
    with Shop(tmp_path / "log", files_of=1 << 17) as shop:
        shop.sell(1_000)
    (first, timestamp), *_ = starts(shop.directory)
    meter = LagMeter(str(shop.directory))
    before = lag(meter, first, timestamp)
    sorted(shop.directory.glob("*.ibb"))[0].unlink()
    after = lag(LagMeter(str(shop.directory)), first, timestamp)
    assert (after.transactions, after.seconds) == (before.transactions, before.seconds)
    assert (before.waiting_since, after.waiting_since) == (timestamp + 1, None)
    with pytest.raises(DataLossError):
        lag(LagMeter(str(shop.directory)), first)
