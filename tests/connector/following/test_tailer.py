"""Follows a log."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import shutil
import signal
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from binlog_connector.following.offsets import SourceOffset
from binlog_connector.following.starts import Edge
from binlog_connector.following.tailer import FollowOptions, Tailer
from binlog_format import open_log
from binlog_format.errors import CorruptError, DataLossError, StartError
from binlog_format.gtids.gtid_set import parse_gtids
from binlog_format.position import Position
from binlog_format.views.changes import ChangesView
from binlog_lab.innodb_writer import files
from binlog_lab.innodb_writer.options import WriterOptions
from tests.connector.shop import FIRST_SECOND, Shop
from tests.corpus import SERVER_CASES
from tests.faults.clock import FakeClock
from tests.faults.writer_os import SlowOs
from tests.format.innodb.writer.sessions import Driver
from tests.format.innodb.writer.test_live import _random_operation, _random_options

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from binlog_connector.following.steps import Step
    from binlog_connector.following.tailer import Start

LONG = 60.0
SMALL_FILES = 4 * 16384
PAGE = 16384
FAST = FollowOptions(poll_interval=0.01)
Row = tuple[str, int, int]


def rows_of(step: Step) -> list[Row]:
    """The changes of a step: their GTIDs and numbers."""
    batches = ChangesView(groups=step.groups).batches(step.blocks())
    return [
        (row["gtid"], row["event_no"], row["row_no"])
        for batch in batches
        for row in batch.select(["gtid", "event_no", "row_no"]).to_pylist()
    ]


def rows_in(directory: Path) -> list[Row]:
    """All changes of a log."""
    with open_log(str(directory)) as log:
        return [(row["gtid"], row["event_no"], row["row_no"]) for batch in log.changes() for row in batch.to_pylist()]


def taken(tailer: Tailer) -> list[Row]:
    """What is there now."""
    rows: list[Row] = []
    while (step := tailer.step(0)) is not None:
        rows += rows_of(step)
    return rows


@contextlib.contextmanager
def tail(directory: Path, start: Start = Edge.EARLIEST, how: FollowOptions = FAST, **more: object) -> Iterator[Tailer]:
    with Tailer(str(directory), start, how=how, **more) as tailer:  # type: ignore[arg-type]
        yield tailer


def test_only_what_is_new_is_given(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.sell(3)
        with tail(tmp_path) as tailer, tail(tmp_path, Edge.LATEST) as latest:
            first = taken(tailer)
            assert first == rows_in(tmp_path)
            assert taken(tailer) == []
            assert tailer.step(0.05) is None
            shop.sell(2)
            rows = taken(tailer)
            assert first + rows == rows_in(tmp_path)
            assert {gtid for gtid, _, _ in rows} == {"0-11-4", "0-11-5"}
            assert taken(latest) == rows
            assert str(tailer.offset.gtid) == "0-11-5"


def test_starts_are_those_of_the_source(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.sell(6)
        with tail(tmp_path) as tailer:
            step = tailer.step(0)
            assert step is not None
            offset = step.end
        shop.sell(2)
    later = datetime.fromtimestamp(FIRST_SECOND, UTC) + timedelta(seconds=7)
    starts: list[Start] = [offset, SourceOffset(offset.position), parse_gtids("0-11-6"), later]
    for start in starts:
        with tail(tmp_path, start) as tailer:
            assert {gtid for gtid, _, _ in taken(tailer)} == {"0-11-7", "0-11-8"}
    with pytest.raises(StartError, match="POSITION_NOT_FOUND"):
        Tailer(str(tmp_path), SourceOffset(Position(0, 40, 0)))
    with pytest.raises(StartError, match="PATH_NOT_FOUND"):
        Tailer(str(tmp_path / "nowhere"))


def test_steps_are_bounded_and_say_beforehand_where_they_end(tmp_path: Path) -> None:
    with Shop(tmp_path, files_of=SMALL_FILES) as shop:
        shop.sell(400)
    size_max = 20_000
    rows: list[Row] = []
    sizes: list[int] = []
    with tail(tmp_path, how=FollowOptions(step_size_max=size_max)) as tailer:
        reached = tailer.offset
        while (step := tailer.step(0)) is not None:
            assert step.start == reached
            assert tailer.offset == step.start, "a step is done when the next one is asked for"
            found = rows_of(step)
            # The first group of the log is the server's own description: it has no rows.
            assert len({gtid for gtid, _, _ in found}) == step.group_count - (not rows)
            assert rows_of(step) == found, "it can be read again"
            rows += found
            sizes.append(step.size)
            reached = step.end
    assert rows == rows_in(tmp_path)
    assert max(sizes) <= size_max
    assert len(sizes) == 10


def test_step_that_was_not_committed_comes_again_to_the_next_tailer(tmp_path: Path) -> None:
    with Shop(tmp_path, files_of=SMALL_FILES) as shop:
        shop.sell(100)
        saved: SourceOffset | None = None
        rows: list[Row] = []
        how = FollowOptions(step_size_max=5000)
        for number in itertools.count():
            with tail(tmp_path, Edge.EARLIEST, how, saved=saved) as tailer:
                step = tailer.step(0)
                if step is None:
                    break
                found = rows_of(step)
                if number % 2:  # every other consumer dies before its commit
                    saved = SourceOffset.from_json(json.loads(json.dumps(step.end.to_json())))
                    rows += found
    assert rows == rows_in(tmp_path)


@pytest.mark.parametrize("by_signal", [False, True])
def test_stop_ends_a_wait(tmp_path: Path, by_signal: bool) -> None:
    with Shop(tmp_path) as shop:
        shop.sell()
        with tail(tmp_path) as tailer:
            assert tailer.step(0) is not None
            before = signal.signal(signal.SIGUSR1, lambda *_: tailer.stop())
            timer = threading.Timer(0.05, os.kill, (os.getpid(), signal.SIGUSR1)) if by_signal else None
            timer = timer or threading.Timer(0.05, tailer.stop)
            timer.start()
            assert tailer.step() is None
            timer.join()
            signal.signal(signal.SIGUSR1, before)
            assert tailer.is_ended
            shop.sell()
            assert tailer.step(LONG) is None


def test_wait_ends_when_something_is_committed(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.sell()
        with tail(tmp_path, Edge.LATEST) as tailer:
            timer = threading.Timer(0.05, shop.sell)
            timer.start()
            step = tailer.step(LONG)
            timer.join()
            assert step is not None
            assert len(rows_of(step)) == 3


def test_page_that_changes_without_a_trace_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No event of the operating system, the same size, the same times: as over a network, or through a mapping."""

    def refuse(*_: object, **__: object) -> None:
        raise OSError(24, "inotify instance limit reached")

    monkeypatch.setattr("binlog_connector.following.watch.Observer.start", refuse)
    monkeypatch.setattr("binlog_connector.following.watch.DirectoryWatch._look", lambda _: frozenset())
    with Shop(tmp_path) as shop:
        shop.sell()
        with tail(tmp_path, Edge.LATEST) as tailer:
            assert tailer.step(0.05) is None
            shop.sell()
            step = tailer.step(LONG)
            assert step is not None
            assert len(rows_of(step)) == 3


def test_fixed_end_is_not_passed(tmp_path: Path) -> None:
    with Shop(tmp_path, files_of=SMALL_FILES) as shop:
        shop.sell(150)
        there = rows_in(tmp_path)
        with tail(tmp_path, how=FollowOptions(ends=True, step_size_max=30_000)) as tailer:
            rows = []
            for step in tailer.steps():
                shop.sell(3)
                rows += rows_of(step)
            assert rows == there
            assert tailer.is_ended
            assert str(tailer.offset.gtid) == "0-11-150"
        with tail(tmp_path, how=FollowOptions(ends=True), saved=tailer.offset) as again:
            assert [row for step in again.steps() for row in rows_of(step)] == rows_in(tmp_path)[len(there) :]


def test_a_fixed_end_is_reached_whatever_lies_before_it(tmp_path: Path) -> None:
    """Also where the last records are no groups, and no step has them."""
    source = random.Random(2)
    driver = Driver(tmp_path, WriterOptions(page_size=4096, max_binlog_size=8 * 4096, cache_size=1000, sync=False))
    names = ["event"] * 8 + ["commit"] * 5 + ["group"] * 6 + ["flush", "checkpoint", "restart"]
    saved, without_step = None, 0
    for _ in range(70):
        name, size = source.choice(names), source.randint(1, 3000)
        first, second = {"event": (0, size), "group": (size, 0)}.get(name, (0, 0))
        driver.do((name, source.randrange(3), first, second))
        with tail(tmp_path, how=FollowOptions(ends=True), saved=saved) as tailer:
            steps = list(tailer.steps())
            assert tailer.is_ended
            saved = tailer.offset
        without_step += not steps and end_position(tailer.path) > saved.position
    driver.writer.close()
    assert without_step > 0


def end_position(path: str) -> Position:
    with open_log(path) as log:
        return log.end_position()


def test_files_restarts_and_purges_change_nothing(tmp_path: Path) -> None:
    rows = []
    with Shop(tmp_path, files_of=SMALL_FILES) as shop:
        shop.sell()
        with tail(tmp_path) as tailer:
            everything: list[Row] = []
            for number in range(12):
                shop.sell(40)
                if number % 3 == 0:
                    shop.writer.flush_logs()
                if number % 4 == 1:
                    shop.writer.restart()
                everything = rows_in(tmp_path) if number < 4 else everything
                rows += taken(tailer)
                if number == 4:
                    shop.writer.purge(tailer.offset.position.file_no)
            assert min(int(path.stem[7:]) for path in tmp_path.iterdir()) > 2
    assert rows[: len(everything)] == everything
    assert [gtid for gtid, event, row in rows if (event, row) == (2, 0)] == [f"0-11-{n}" for n in range(1, 482)]


@pytest.mark.parametrize("seed", range(6))
def test_long_busy_day_gives_every_group_once(seed: int, tmp_path: Path) -> None:
    """Pages of all sizes, transactions of all kinds, restarts, tiny files; looked at after each operation."""
    random_source = random.Random(seed)
    driver = Driver(tmp_path, _random_options(random_source))
    given: list[bytes] = []
    with tail(tmp_path, how=FollowOptions(step_size_max=random_source.choice([500, 30_000]))) as tailer:
        for _ in range(200):
            operation = _random_operation(random_source)
            if operation[0] != "kill":
                driver.do(operation)
            for step in iter(lambda: tailer.step(0), None):
                given += _group_data(step)
            assert given == driver.committed[: len(given)]
            assert len(given) >= driver.durable
        driver.writer.close()
        for step in iter(lambda: tailer.step(0), None):
            given += _group_data(step)
    assert given == driver.committed


def _group_data(step: Step) -> list[bytes]:
    groups = []
    for block in step.watched.log.blocks(step.start.position, step.end.position):
        for group in block.groups:
            first = int(group["first_event"])
            events = block.events[first : first + int(group["event_count"])]
            groups.append(block.data[int(events["start"][0]) : int(events["start"][-1] + events["size"][-1])].tobytes())
    return groups


def test_data_of_an_open_transaction_are_passed_once(tmp_path: Path) -> None:
    """Out-of-band data lie in the log long before their transaction ends; each look begins after those seen."""
    driver = Driver(tmp_path, WriterOptions(max_binlog_size=1 << 20, sync=False))
    driver.do(("group", 0, 40, 0))
    driver.writer.checkpoint()
    with tail(tmp_path) as tailer:
        assert tailer.step(0) is not None
        before = tailer.step(0)
        for _ in range(30):
            driver.do(("event", 1, 0, 20_000))
        driver.writer.checkpoint()
        start = tailer.offset.position
        assert before is None
        assert tailer.step(0) is None
        assert tailer.offset.position.page > start.page + 20
        driver.do(("commit", 1, 0, 0))
        driver.writer.checkpoint()
        step = tailer.step(0)
        assert step is not None
        assert _group_data(step) == driver.committed[1:]
    driver.writer.close()


@pytest.mark.parametrize("seed", range(3))
def test_half_written_pages_are_waited_for(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    random_source = random.Random(seed)
    options = WriterOptions(page_size=4096, max_binlog_size=1 << 16, state_interval=1 << 14, sync=False)
    driver = Driver(tmp_path, options)
    given: list[bytes] = []
    looks = 0
    with tail(tmp_path, how=FollowOptions(poll_interval=0.01)) as tailer:

        def look() -> None:
            nonlocal looks
            looks += 1
            for step in iter(lambda: tailer.step(0), None):
                given.extend(_group_data(step))
            assert given == driver.committed[: len(given)]

        monkeypatch.setattr(files, "os", SlowOs(look, sectors=(1, 5, 7)))
        for _ in range(100):
            operation = _random_operation(random_source)
            if operation[0] != "kill":
                driver.do(operation)
        driver.writer.close()
        look()
    assert given == driver.committed
    assert looks > 30


def damage(path: Path, byte: int) -> None:
    """Flip a bit; again: flip it back."""
    with path.open("r+b") as file:
        file.seek(byte)
        value = file.read(1)[0]
        file.seek(byte)
        file.write(bytes([value ^ 0x10]))


def test_last_page_that_stays_torn_is_damage(tmp_path: Path) -> None:
    clock = FakeClock()
    with Shop(tmp_path) as shop:
        shop.sell(3)
        with tail(tmp_path, how=FollowOptions(grace=30), clock=clock) as tailer:
            assert len(taken(tailer)) == 9
            shop.sell(3)
            file = tmp_path / "binlog-000000.ibb"
            byte = 2 * PAGE - 3  # in the page's checksum
            damage(file, byte)
            assert tailer.step(0) is None
            clock.now += 29
            assert tailer.step(0) is None
            damage(file, byte)
            assert len(taken(tailer)) == 9, "it has become whole"
            damage(file, byte)
            assert tailer.step(0) is None
            clock.now += 29
            damage(file, byte + 1)  # somebody writes: the time begins anew
            assert tailer.step(0) is None
            clock.now += 29
            assert tailer.step(0) is None
            clock.now += 2
            with pytest.raises(CorruptError, match=r"binlog-000000\.ibb: page 1, .*wrong for 31 s") as raised:
                tailer.step(0)
    assert raised.value.condition == "BINLOG_CORRUPT.PAGE_CHECKSUM"


def test_torn_page_after_which_the_log_goes_on_is_damage(tmp_path: Path) -> None:
    with Shop(tmp_path) as shop:
        shop.sell(3)
        with tail(tmp_path) as tailer:
            rows = taken(tailer)
            shop.sell(300)
            damage(tmp_path / "binlog-000000.ibb", 4 * PAGE + 100)
            damaged = r"binlog-000000\.ibb: page 4, .* was written after it"
            with pytest.raises(CorruptError, match=damaged):  # noqa: PT012
                for step in tailer.steps():
                    rows += rows_of(step)
    whole: list[str] = []
    with open_log(str(tmp_path)) as log, contextlib.suppress(CorruptError):
        for batch in log.changes():
            whole += batch["gtid"].to_pylist()
    assert [gtid for gtid, _, _ in rows] == whole, "everything before the damage was given"
    assert len(rows) > 30


def test_reset_is_a_loss_and_can_be_gone_on_after(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Shop(tmp_path) as shop:
        shop.sell(3)
        skipping = FollowOptions(poll_interval=0.01, fail_on_data_loss=False)
        with tail(tmp_path) as strict, tail(tmp_path, how=skipping) as lax:
            assert len(taken(strict)) == len(taken(lax)) == 9
            shop.writer.reset_master()
            shop.seqnos.clear()
            shop.sell(2)
            with pytest.raises(DataLossError, match="LOG_RESET"):
                strict.step(LONG)
            step = lax.step(LONG)
            assert step is not None
            assert step.loss is not None
            assert step.loss.subclass == "LOG_RESET"
            assert rows_of(step) == rows_in(tmp_path)
            shop.sell()
            after = lax.step(LONG)
            assert after is not None
            assert after.loss is None
    assert "going on at 0:1:0 after data loss: [BINLOG_DATA_LOSS.LOG_RESET]" in caplog.text


def test_files_purged_before_they_were_read_are_a_loss(tmp_path: Path) -> None:
    with Shop(tmp_path, files_of=SMALL_FILES) as shop:
        shop.sell(3)
        skipping = FollowOptions(poll_interval=0.01, fail_on_data_loss=False)
        with tail(tmp_path) as strict, tail(tmp_path, how=skipping) as lax:
            assert len(taken(strict)) == len(taken(lax)) == 9
            saved = strict.offset
            shop.sell(400)
            shop.writer.purge(2)
            with pytest.raises(DataLossError, match=r"FILE_PURGED.*after GTID 0-11-3 up to 0-11-\d+ are missing"):
                strict.step(LONG)
            step = lax.step(LONG)
            assert step is not None
            assert (step.loss is not None, step.start.position.file_no) == (True, 2)
            assert rows_of(step) == rows_in(tmp_path)
        with pytest.raises(DataLossError, match="FILE_PURGED"):
            Tailer(str(tmp_path), saved=saved)


def test_transactions_that_a_crash_took_back_are_a_loss(tmp_path: Path) -> None:
    log, before = tmp_path / "log", tmp_path / "before"
    skipping = FollowOptions(poll_interval=0.01, fail_on_data_loss=False)
    with Shop(log) as shop:
        shop.sell(3)
        shutil.copytree(log, before)
        shop.sell(2, note="lost in the crash")
    with tail(log) as strict, tail(log, how=skipping) as lax:
        assert len(taken(strict)) == len(taken(lax)) == 15
        shutil.copytree(before, log, dirs_exist_ok=True)
        with Shop(log) as shop:
            shop.sell(5, note="written after the crash, with the same GTIDs")
            with pytest.raises(DataLossError, match="PAGE_REWRITTEN"):
                strict.step(LONG)
            step = lax.step(LONG)
            assert step is not None
            assert step.loss is not None
            # GTIDs given out twice: what was read of the old ones is not given again.
            assert {gtid for gtid, _, _ in rows_of(step)} == {"0-11-6", "0-11-7", "0-11-8"}


def test_directory_without_files_is_waited_for_a_while(tmp_path: Path) -> None:
    log, away = tmp_path / "log", tmp_path / "away"
    log.mkdir()
    away.mkdir()
    clock = FakeClock()
    with Shop(log) as shop:
        shop.sell(3)
    with tail(log, how=FollowOptions(grace=30), clock=clock) as tailer:
        assert len(taken(tailer)) == 9
        for path in log.iterdir():
            path.rename(away / path.name)
        for _ in range(5):
            assert tailer.step(0) is None
        for path in away.iterdir():
            path.rename(log / path.name)
        with Shop(log) as shop:
            shop.sell()
        assert len(taken(tailer)) == 3
        shutil.rmtree(log)
        assert tailer.step(0) is None
        clock.now += 31
        with pytest.raises(StartError, match="BINLOG_START"):
            tailer.step(0)


CLASSIC_CASE = SERVER_CASES / "mariadb-10.11" / "oltp_small"


def test_classic_file_that_grows_byte_by_byte(tmp_path: Path) -> None:
    (source,) = (path for path in CLASSIC_CASE.iterdir() if path.name == "mysql-bin.000001")
    data = source.read_bytes()
    log = tmp_path / "log"
    log.mkdir()
    target = log / source.name
    target.write_bytes(data[:700])
    rows, steps = [], 0
    random_source = random.Random(1)
    with tail(log) as tailer, target.open("ab", buffering=0) as file:
        size = 700
        while size < len(data):
            part = data[size : size + random_source.choice([1, 19, 300, 5000, 40_000])]
            file.write(part)
            size += len(part)
            found = taken(tailer)
            rows += found
            steps += bool(found)
    assert rows == rows_in(log)
    assert steps > 20


def test_bytes_that_are_mended_while_they_are_read_again_are_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A classic file over a network may show zeros before the data."""
    log = tmp_path / "log"
    shutil.copytree(CLASSIC_CASE, log)
    target = log / "mysql-bin.000001"
    expected = rows_in(log)
    with open_log(str(log)) as opened:
        block = next(opened.blocks())
        largest = block.events[block.events["size"].argmax()]
        byte = int(block.extents["file_offset"][0] + largest["start"] + largest["size"]) - 1
    with tail(log) as tailer:
        damage(target, byte)
        monkeypatch.setattr(Tailer, "_pause", lambda _: damage(target, byte))
        assert taken(tailer) == expected
    with tail(log) as tailer:
        damage(target, byte)
        monkeypatch.setattr(Tailer, "_pause", lambda _: None)
        with pytest.raises(CorruptError, match="EVENT_CHECKSUM"):
            taken(tailer)
